"""`cuvee bench expected`: hidden labels are hidden, and the interval that `adapt` prints holds."""

from __future__ import annotations

import numpy as np
import pytest

bench = pytest.importorskip("benchmarks.expected", reason="run from the repository's root")


def test_no_label_of_a_hidden_target_is_in_the_table():
    case = bench.synthetic(0, 500)
    assert case.frame.label[case.frame.domain.isin(case.hidden)].isna().all()
    seen = case.frame[case.frame.domain.str.startswith("t ") & case.frame.label.notna()]
    assert seen.groupby("domain").size().tolist() == [bench.LABELLED] * bench.SEEN
    rows = {row.tobytes() for row in case.frame[["x0", "x1"]].to_numpy(float)}
    truth = case.truth[case.truth.domain.isin(case.hidden)][["x0", "x1"]].to_numpy(float)
    assert not rows & {row.tobytes() for row in truth}


def test_a_summary_counts_what_is_inside():
    of_seed = np.array([[0.8, 0.7, 0.6, 0.9], [0.5, 0.7, 0.6, 0.9]])
    found = bench.summary([of_seed] * 5)
    assert found["targets"] == 10 and found["inside"][0] == 0.5
    assert found["inside"][1] < 0.5 < found["inside"][2] and found["width"] == pytest.approx(0.3)


@pytest.mark.slow
def test_the_printed_interval_holds_the_truth():
    """Of 40 targets whose labels were hidden, nearly all have the score that was announced."""
    found = bench.summary([bench.of_case(bench.synthetic(0, seed), seed) for seed in range(10)])
    assert found["inside"][0] >= 0.85 and found["width"] < 0.7
    assert abs(found["truth"] - found["expected"]) < 0.05
