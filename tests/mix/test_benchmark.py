"""What `cuvee bench mix` makes of its cells, and how good surfaces are on swarms of known truth."""

import importlib

import numpy as np
import pytest

bench = pytest.importorskip("benchmarks.mix", reason="run from the repository's root")
swarms = importlib.import_module("benchmarks.swarms")


def scores(rank, regret, **more):
    return {"rank correlation": rank, "regret": regret, "single regret": regret, **more}


def test_a_summary_has_means_places_and_paired_differences():
    table = [
        [scores(0.9, 0.1, coverage=0.9, width=0.2), scores(0.8, 0.3)],
        [scores(0.7, 0.2, coverage=0.8, width=0.4), scores(0.8, 0.2)],
        [scores(0.8, 0.3, coverage=1.0, width=0.3), scores(0.5, 0.7)],
    ]
    got = bench.summary(["ours", "LightGBM"], table)
    assert got["coverage"] == {"ours": 0.9} and got["width"] == {"ours": 0.3}
    assert got["regret"] == {"ours": 0.2, "LightGBM": 0.4}
    assert got["mean rank by regret"] == {"ours": 1.17, "LightGBM": 1.83}  # one tie of three
    assert got["mean rank by rank correlation"] == {"ours": 1.33, "LightGBM": 1.67}
    middle, low, high = got["regret, ours less LightGBM"]
    assert middle == -0.2 and low == pytest.approx(-0.2 - 4.3027 * 0.2 / 3**0.5, abs=1e-3)
    assert high == pytest.approx(-0.2 + 4.3027 * 0.2 / 3**0.5, abs=1e-3)


def test_families_without_a_truth_have_no_regret():
    got = bench.summary(["ours"], [[{"rank correlation": 0.9}], [{"rank correlation": 0.7}]])
    assert got["rank correlation"] == {"ours": 0.8} and got["regret"] == {}
    assert not any("rank by regret" in name for name in got)


def test_the_share_of_runs_is_the_least_that_is_as_good():
    curves = [
        {"chosen 32": 0.5, "chosen 64": 0.2, "random 64": 0.4, "random 128": 0.3},
        {"chosen 32": 0.7, "chosen 64": 0.3, "random 64": 0.5, "random 128": 0.3},
    ]
    got = bench.followed(curves)
    assert got["chosen 64"] == 0.25 and got["random 128"] == 0.3
    assert got["share of runs to reach random 128"] == 0.5
    assert got["chosen 64 less random 128"][0] == pytest.approx(-0.05)
    worse = [{**curve, "chosen 64": 0.6} for curve in curves]
    assert bench.followed(worse)["share of runs to reach random 128"] is None


@pytest.mark.slow  # eight fits; seeds that nothing is reported on
@pytest.mark.parametrize(
    ("family", "rank", "regret"), [("log-linear", 0.985, 0.4), ("saturation", 0.97, 0.15)]
)
def test_surfaces_are_calibrated_and_proposals_near_the_best(family, rank, regret):
    cells = [bench.cell((family, 64, seed, "ours")) for seed in range(4)]
    mean = {name: np.mean([cell[name] for cell in cells]) for name in cells[0]}
    assert 0.86 <= mean["coverage"] <= 0.95
    assert mean["rank correlation"] >= rank
    assert mean["regret"] <= regret  # the uniform mixture: 2.1 and 0.8
