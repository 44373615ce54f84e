"""Which rows of a target are for scores: each class gives its share, a quantity none in particular."""

from __future__ import annotations

import numpy as np
import pytest

from cuvee.data.held_out import classes_tested, divided
from cuvee.data.options import Options
from cuvee.run import adapt, open_run
from cuvee.run.added import write
from cuvee.run.base import Base
from cuvee.run.new_targets import adapted, encode
from run_builders import options, table

RARE = {"no": 27, "yes": 3}


def labels(sizes, seed=0):
    """Labels with so many rows of each class, in any order."""
    y = np.repeat(np.array([*sizes], dtype=object), [*sizes.values()])
    return np.random.default_rng(seed).permutation(y)


def drawn_labels(y, **asked):
    """The labels of the test rows of a target with these labels."""
    asked = Options(label="y", **asked)
    learn, test = divided({"new": len(y)}, asked, {"new": y})["new"]
    drawn = divided({"new": len(y)}, asked)["new"]
    assert (len(learn), len(test)) == (len(drawn[0]), len(drawn[1]))
    assert sorted([*learn, *test]) == [*range(len(y))]
    return y[test].tolist()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        (RARE, {"no": 7, "yes": 1}),
        ({"no": 28, "yes": 2}, {"no": 7, "yes": 1}),
        ({"no": 29, "yes": 1}, {"no": 8, "yes": 0}),  # the only one is learnt from
        ({"no": 60, "yes": 40}, {"no": 15, "yes": 10}),
        ({"a": 2, "b": 2, "c": 4, "d": 400}, {"a": 1, "b": 1, "c": 1, "d": 99}),
        ({"a": 4, "b": 4}, {"a": 1, "b": 1}),
    ],
)
def test_each_class_gives_its_share(sizes, wanted, seed):
    tested = drawn_labels(labels(sizes, seed), seed=seed)
    assert {name: tested.count(name) for name in sizes} == wanted


def test_a_class_keeps_a_row_to_learn_from_as_long_as_others_have_some():
    tested = drawn_labels(labels(RARE), test=0.9)
    assert tested.count("yes") == 2 and len(tested) == 25  # five are learnt from
    assert len(drawn_labels(labels(dict.fromkeys("abcdefgh", 1)))) == 2


def test_the_seed_decides_which_rows():
    y = labels(RARE)
    draws = [divided({"new": 30}, Options(label="y", seed=s), {"new": y})["new"] for s in (0, 0, 1)]
    np.testing.assert_array_equal(draws[0][1], draws[1][1])
    assert draws[0][1].tolist() != draws[2][1].tolist()


def test_a_number_of_labelled_rows_is_drawn_without_a_look_at_the_labels():
    y, asked = labels(RARE), Options(label="y", labelled=20)
    known, drawn = divided({"new": 30}, asked, {"new": y}), divided({"new": 30}, asked)
    order = np.random.default_rng([0, 0]).permutation(30)
    np.testing.assert_array_equal(known["new"][0], np.sort(order[:20]))
    np.testing.assert_array_equal(known["new"][1], drawn["new"][1])


def test_a_quantity_is_drawn_as_it_was():
    order = np.random.default_rng([0, 0]).permutation(30)
    learn, test = divided({"new": 30}, Options(label="y"))["new"]
    np.testing.assert_array_equal(learn, np.sort(order[:22]))
    np.testing.assert_array_equal(test, np.sort(order[22:]))


def test_test_rows_are_counted_by_class():
    parts = {"new": (np.array([0, 1]), np.array([2, 3, 4]))}
    y = np.array([1.0, 0.0, 1.0, 1.0, 0.0])
    assert classes_tested({"new": y}, parts) == {"new": {"0": 1, "1": 2}}
    assert classes_tested(None, parts) == {}


def test_runs_and_targets_added_to_them_count_their_test_rows_by_class(tmp_path):
    frame = table(5, 30)
    frame["sick"] = np.where(np.arange(150) % 30 < 3, "yes", "no")
    new, frame = frame[frame.site == "site 4"], frame[frame.site != "site 4"]
    frame.to_csv(tmp_path / "known.csv", index=False)
    asked = options("sick", targets="site 2,site 3")
    run = adapt(tmp_path / "known.csv", tmp_path / "run", options=asked)
    assert run.findings.tested == {"no": 14, "yes": 2}
    assert run.described(0)["tested"] == {"no": 7, "yes": 1}
    base = Base.of(run)
    added = adapted(base, {"new": encode(base, "new", new)}, {"new": "k"}, lambda *_: None)
    assert write(tmp_path / "run", added) == []
    assert open_run(tmp_path / "run").findings.tested == {"no": 21, "yes": 3}
