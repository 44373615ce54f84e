"""Proofs of ridge on wide tables hold against rational arithmetic, whatever the columns' means."""

from __future__ import annotations

import numpy as np
import pytest
from rational import Rational

import cuvee
from cuvee import Domain, Problem, Ridge, erm
from cuvee.erm.wide_family import WideFamily

MEANS = (1.0, 1e2, 1e4, 1e6, 1e8)
ROWS = (2, 3, 5, 10, 50)
REPEATED = ("different", "equal", "nearly equal")
CELLS = [(mean, rows, repeated) for mean in MEANS for rows in ROWS for repeated in REPEATED]
ROUNDED = 1 + 1e-12  # of a bound that is computed in float64


def sample(rng, name, rows, d, mean, repeated):
    X = mean + rng.normal(size=(rows, d))
    if repeated != "different":
        apart = 10.0 ** rng.uniform(-12, -6) * mean if repeated == "nearly equal" else 0.0
        X[1] = X[0] + apart * rng.normal(size=d)
    return Domain(name, X, (X[:, :5] - mean).sum(1) + rng.normal(size=rows) + mean)


def measured(mean, rows, repeated, seed, intercept=True):
    """Return bound and truth of distance, excess and gradient, of a solved model and of another."""
    rng = np.random.default_rng([seed, rows, int(mean), REPEATED.index(repeated)])
    d, l2 = int(rng.integers(100, 140)), 10.0 ** rng.uniform(-4, 0)
    sizes = (rows,) if rows < 4 else (rows // 2, rows - rows // 2)
    sources = [sample(rng, f"s{j}", n, d, mean, repeated) for j, n in enumerate(sizes)]
    own = [sample(rng, "t", 3, d, mean, repeated)] if seed % 3 == 1 else []
    problem, alpha = Problem(sources, own), rng.dirichlet(np.ones(len(sources) + len(own)))
    hypothesis = Ridge(l2, intercept)
    solution = cuvee.solve(problem, hypothesis, [alpha])
    assert isinstance(
        erm.family(problem, solution.space, own=bool(own), device="cpu", memory=2**28), WideFamily
    )
    away = 10.0 ** rng.uniform(-12, 2) * rng.normal(size=solution.w.shape)  # also across the rows
    oracle = Rational([*sources, *own], alpha, l2, intercept)
    return [
        tuple(zip((proof.distance[0], proof.excess_risk[0], proof.gradient_norm[0]),
                  oracle.errors(w[0]), strict=True))
        for w, proof in (
            (solution.w, solution.certificate),
            (solution.w + away, cuvee.certify(problem, hypothesis, [alpha], solution.w + away)),
        )
    ]  # fmt: skip


def check(pairs):
    for (distance, error), (excess, risk), _ in pairs:
        assert error <= distance * ROUNDED and risk <= excess * ROUNDED


@pytest.mark.parametrize(("mean", "rows", "repeated"), CELLS)
def test_bounds_hold_against_rational_arithmetic(mean, rows, repeated):
    for seed in range(1 if rows == 50 else 2):
        (solved, other) = measured(mean, rows, repeated, seed)
        check([solved, other])
        # the gradient that is reported is that of the model, up to what sums of this size round to
        for reported, true in (solved[2], other[2]):
            assert abs(reported - true) <= 0.01 * true + 1e-12 * mean


@pytest.mark.parametrize("mean", MEANS)
def test_bounds_without_an_intercept_hold_too(mean):
    for rows in (2, 10):
        for repeated in REPEATED:
            check(measured(mean, rows, repeated, 0, intercept=False))


@pytest.mark.slow
def test_coverage_by_means_rows_and_repeated_rows(capsys):
    """The table of what holds, of 20 problems (50 rows: 6) and two models of each a cell.

    A bound counts every rounding at its worst, so it is far above the error of a solved model; it
    is no use only where it is large itself, beside the model and, in b, what w does to the means.
    """
    lines, lies = [], 0
    for mean, rows, repeated in CELLS:
        pairs = [measured(mean, rows, repeated, seed) for seed in range(6 if rows == 50 else 20)]
        held = [
            error <= bound * ROUNDED for both in pairs for of in both for bound, error in of[:2]
        ]
        lies += len(held) - sum(held)
        distance, excess, _ = np.array([solved for solved, _ in pairs]).transpose(1, 2, 0)
        with np.errstate(divide="ignore"):
            loose = [np.median(bound / error) for bound, error in (distance, excess)]
        lines.append(
            f"{mean:7.0e} {rows:4d} {repeated:12s} {np.mean(held):6.1%} {np.median(distance[0]):9.1e} "
            f"{np.median(distance[1]):9.1e} {loose[0]:10.1e} {loose[1]:10.1e}"
        )
    with capsys.disabled():
        print("\n  means rows repeated       held  distance     error  times error  (excess)")
        print("\n".join(lines))
    assert lies == 0
