"""Which rows of a target are for scores: each class gives its share, a quantity none in particular."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from cuvee.data.fingerprint import drawn, row_digests
from cuvee.data.held_out import classes_tested, divided
from cuvee.data.options import Options
from cuvee.data.prepare import prepare
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


def rows(n):
    """Digests of so many rows that differ."""
    return row_digests(pd.DataFrame({"x": np.arange(n, dtype=float)}))


def drawn_labels(y, **asked):
    """The labels of the test rows of a target with these labels."""
    asked = Options(label="y", **asked)
    learn, test = divided({"new": rows(len(y))}, asked, {"new": y})["new"]
    blind = divided({"new": rows(len(y))}, asked)["new"]
    assert (len(learn), len(test)) == (len(blind[0]), len(blind[1]))
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
    draws = [
        divided({"new": rows(30)}, Options(label="y", seed=s), {"new": y})["new"] for s in (0, 0, 1)
    ]
    np.testing.assert_array_equal(draws[0][1], draws[1][1])
    assert draws[0][1].tolist() != draws[2][1].tolist()


def test_a_number_of_labelled_rows_is_drawn_without_a_look_at_the_labels():
    y, asked = labels(RARE), Options(label="y", labelled=20)
    known, blind = divided({"new": rows(30)}, asked, {"new": y}), divided({"new": rows(30)}, asked)
    order = drawn(rows(30), seed=0)
    np.testing.assert_array_equal(known["new"][0], np.sort(order[:20]))
    np.testing.assert_array_equal(known["new"][1], blind["new"][1])


def test_a_quantity_is_drawn_without_a_look_at_it():
    order = drawn(rows(30), seed=0)
    learn, test = divided({"new": rows(30)}, Options(label="y"))["new"]
    np.testing.assert_array_equal(learn, np.sort(order[:22]))
    np.testing.assert_array_equal(test, np.sort(order[22:]))


def test_a_draw_is_one_of_all_orders_and_hangs_on_content_and_seed_alone():
    frame = pd.DataFrame({"a": np.arange(200) % 40 + 0.5, "b": ["x", "y"] * 100})  # five of each
    digests = row_digests(frame)
    orders = np.array([drawn(digests, seed) for seed in range(400)])
    assert all(sorted(order) == [*range(200)] for order in orders.tolist())
    first = np.sort(orders[:, :100])  # rows that differ or not: each is drawn half of the time
    often = np.bincount(first.ravel(), minlength=200) / 400
    assert abs(often.mean() - 0.5) < 1e-12 and np.abs(often - 0.5).max() < 0.12
    # of five equal rows two or three are drawn, and not all or none
    alike = np.array([(digests[rows] == digests[0]).sum() for rows in first])
    assert 2.2 < alike.mean() < 2.8 and 0.8 < alike.var() < 1.7
    moved = np.random.default_rng(0).permutation(200)
    other = frame.astype({"a": np.float32}).iloc[moved][["b", "a"]]
    for seed in range(5):
        held = drawn(row_digests(other), seed)[:30]
        assert sorted(digests[moved[held]]) == sorted(digests[drawn(digests, seed)[:30]])


def test_numbers_gaps_and_texts_have_the_same_digest_however_they_are_held():
    one = pd.DataFrame({"n": [0.0, 1.0, np.nan], "t": ["a", None, "b"], "y": [True, False, True]})
    two = pd.DataFrame({"t": pd.array(["a", pd.NA, "b"], "string"), "y": [1, 0, 1]})
    two["n"] = pd.array([-0.0, 1.0, None], "Float64")
    np.testing.assert_array_equal(row_digests(one), row_digests(two))
    assert len({*row_digests(one).tolist()}) == 3
    assert not (row_digests(one) == row_digests(one.rename(columns={"n": "m"}))).any()


FRAME = table(6, 30)
FRAME["row"] = np.arange(len(FRAME))  # by which the test knows them; nothing learns from it


@pytest.mark.parametrize("asked", [{}, {"labelled": 20}, {"seed": 3, "test": 0.5}])
@pytest.mark.parametrize("label", ["cost", "sick"])
def test_rows_are_the_same_whoever_else_is_asked_in_any_order_and_by_any_name(label, asked):
    drop = ("cost" if label == "sick" else "sick", "row")

    def held(frame, targets, name="site 3"):
        prepared = prepare(frame, options(label, **{**asked, "drop": drop, "targets": targets}))
        own = frame["row"][frame.site == name].to_numpy()
        return tuple({*own[part].tolist()} for part in prepared.divided[name])

    alone = held(FRAME, "site 3")
    for targets in ("site 1,site 3", "site 3,site 1", "site 0,site 1,site 3,site 5", "each"):
        assert held(FRAME, targets) == alone
    moved = FRAME.sample(frac=1.0, random_state=7)
    assert held(moved, "site 1,site 3") == alone
    assert held(moved[[*reversed(moved.columns)]], "site 3") == alone
    named = FRAME.assign(site=FRAME.site.replace({"site 3": "a", "site 0": "z"}))
    assert held(named, "a,z", "a") == alone


def test_rows_are_the_same_in_memory_and_in_a_stream(tmp_path):
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    asked = options(targets="site 1,site 3", drop=("sick", "row"))
    whole = prepare(tmp_path / "rows.csv", asked).divided
    streamed = prepare(tmp_path / "rows.csv", replace(asked, stream=True), tmp_path / "x").divided
    for name, parts in whole.items():
        for one, other in zip(parts, streamed[name], strict=True):
            np.testing.assert_array_equal(one, other)


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
