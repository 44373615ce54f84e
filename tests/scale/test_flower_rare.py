"""Rows that stand out from a value that all others share take no part, as rare values do not."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from cuvee.scale.flower_table import SiteConfig, SiteTable, common
from cuvee.scale.flower_wire import unpacked
from flower_builders import FAST, pooled, run, tables, written

MANY = np.arange(60.0)


def left_out(column, label=None, **others):
    frame = pd.DataFrame({"column": column, **others})
    return np.flatnonzero(~common(frame, 5, label)).tolist()


def mostly(value, at):
    column = np.full(60, value)
    column[list(at)] = list(at.values())
    return column


@pytest.mark.parametrize(
    ("column", "rows"),
    [
        (mostly(0.0, {17: 500.0, 55: 0.5}), [17, 55]),
        (mostly(3.0, {1: 2.0, 5: 4.0, 6: 4.5, 9: 9.0}), [1, 5, 6, 9]),
        (mostly(0.0, {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0, 5: 5.0}), []),  # five are enough
        (mostly(0.0, {17: 500.0, 20: np.nan, 55: 0.5}), [17, 20, 55]),
        (mostly(0.0, {20: np.nan}), [20]),
        (mostly(0.0, {17: 8.0, 18: 9.0, **dict.fromkeys(range(20, 26), np.nan)}), [17, 18]),
        (mostly(0.0, {}), []),
        (mostly(np.nan, {}), []),
        (MANY, []),
        (np.arange(60) % 7 + 0.5, []),
    ],
)
def test_few_rows_off_the_usual_value_are_left_out(column, rows):
    assert left_out(column) == rows


def test_a_few_rows_that_are_all_different_have_no_usual_value():
    assert left_out(MANY[:6]) == []


def test_rows_left_out_may_make_others_rare():
    ward = np.array(["a", "b"] * 30)
    ward[[17, 18]] = "c"
    column = mostly(0.0, {17: 1.0, 30: 2.0, 31: 3.0, 32: 4.0, 33: 5.0})
    assert left_out(column, ward=ward) == [17, 18, 30, 31, 32, 33]


def test_a_rare_dose_is_in_no_sum(tmp_path):
    frames = tables()
    for frame in frames.values():
        frame["dose"] = frame["x"].round(1)
    frames["ash"]["dose"] = 0.0
    frames["ash"].loc[[17, 55], "dose"] = [500.0, 0.5]
    federation, _ = run(written(tmp_path, frames))
    assert federation.left_out == {}
    assert {n: s.left_out for n, s in federation.sites.items()} == {
        "ash": 2, "bay": 0, "elm": 0, "fig": 0,
    }  # fmt: skip
    frames["ash"] = frames["ash"].drop([17, 55])
    alpha, _ = pooled(frames, "ridge", 4)
    np.testing.assert_allclose(federation.mixtures.alpha, alpha, rtol=0, atol=1e-8)


def test_rare_counts_are_in_no_sum(tmp_path):
    frames = tables("poisson")
    frames["ash"]["cost"] = 0
    frames["ash"].loc[[17, 55], "cost"] = [3, 7]
    options = replace(FAST, task="counts")
    federation, transport = run(written(tmp_path, frames), options=options)
    assert federation.sites["ash"].left_out == 2
    sums = [
        answer
        for node, sent, reply in transport.messages
        if node == "node 0"
        for call, answer in zip(unpacked(sent)["calls"], unpacked(reply)["answers"], strict=True)
        if call[0] == "statistics"
    ]
    assert sums and not any(one.any() for one in sums)


def test_a_column_to_leave_out_may_hold_a_comma(tmp_path):
    rows = pd.DataFrame({"weight, kg": MANY, "age": MANY, "name": MANY, "cost": MANY})
    rows.to_csv(tmp_path / "ash.csv", index=False)
    config = SiteConfig(str(tmp_path / "ash.csv"), "ash", "cost", drop='name, "weight, kg"')
    assert [*SiteTable(config).greet().columns] == ["age"]


def test_an_index_without_a_name_is_no_column(tmp_path):
    frame = pd.DataFrame({"x": np.arange(20.0), "y": np.arange(20) % 2})
    frame.to_csv(tmp_path / "t.csv")
    site = SiteTable(SiteConfig(str(tmp_path / "t.csv"), "north", "y"))
    assert [*site.greet().columns] == ["x"]
