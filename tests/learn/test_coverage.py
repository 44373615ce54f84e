"""Calibrated bounds hold wherever mixtures are asked from, not only under the law learnt from."""

from __future__ import annotations

import pytest

bench = pytest.importorskip("benchmarks.coverage", reason="run from the repository's root")

SEED = 9500  # the benchmark's own start above it


@pytest.mark.parametrize("problem", ["logistic, 5 sources", "Poisson, 3 sources"])
def test_bounds_hold_under_laws_that_the_map_was_not_told(problem):
    """One map, 500 mixtures of each law: a group of 64 covers less than 90 % once in 800 draws."""
    cells = bench.of_map(*bench.PROBLEMS[problem](SEED), SEED)
    assert {law: holds for law, (holds, _, _) in cells.items() if holds < 0.9} == {}
    assert min(bounded for _, bounded, _ in cells.values()) > 0.9  # nor by giving none


@pytest.mark.slow
def test_coverage_in_every_cell_of_six_laws_and_five_problems():
    found = bench.run(quick=True)
    assert len(found["coverage"]) == 5 and all(len(row) == 6 for row in found["coverage"].values())
    assert found["met"] and found["least"] >= bench.WANTED, found["coverage"]
    assert min(min(row.values()) for row in found["bounded"].values()) > 0.9
