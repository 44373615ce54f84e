"""Levels of domains: found, shrunk, taken out and put back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cuvee
from cuvee.data import levels
from cuvee.facts import KnownFacts

SLOPE = np.array([1.0, -2.0, 0.5])


def problem_with(spread, *, noise=1.0, rows=50, target_rows=20, n_targets=3, seed=0):
    """Twelve sources and some targets with one slope and levels that vary by `spread`."""
    rng = np.random.default_rng(seed)

    def domain(name, n):
        X = rng.normal(size=(n, 3)) + rng.normal(size=3)  # rows lie elsewhere in every domain
        return cuvee.Domain(
            name, X, 7.0 + spread * rng.normal() + X @ SLOPE + noise * rng.normal(size=n)
        )

    sources = [domain(f"s{j}", rows) for j in range(12)]
    return cuvee.Problem(sources, [domain(f"t{i}", target_rows) for i in range(n_targets)])


def level(domain):
    return float((domain.y - domain.X @ SLOPE).mean())


def test_large_levels_are_taken_out_and_the_offset_puts_them_back():
    problem = problem_with(20.0)
    found = levels.take_out(problem, 1e-3)
    assert (found.believed > 0.99).all()
    after = [level(d) for d in (*found.problem.sources, *found.problem.targets)]
    assert np.ptp(after) < 1.0 < np.ptp([level(d) for d in problem.sources])
    for before, now, offset in zip(
        problem.targets, found.problem.targets, found.offset, strict=True
    ):
        np.testing.assert_allclose(now.y + offset, before.y)
        np.testing.assert_array_equal(now.X, before.X)


def test_one_level_for_all_stays_as_it_is():
    found = levels.take_out(problem_with(0.0, noise=3.0, seed=2), 1e-3)
    assert (found.believed < 0.3).all() and (np.abs(found.offset) < 0.3).all()


@pytest.mark.parametrize("sources", [1, 2])
def test_sources_that_say_nothing_about_levels_change_nothing(sources):
    problem = problem_with(5.0)
    alike = [
        cuvee.Domain(f"s{j}", problem.sources[0].X, problem.sources[0].y) for j in range(sources)
    ]
    found = levels.take_out(cuvee.Problem(alike, problem.targets), 1e-3)
    np.testing.assert_array_equal(found.offset, 0.0)
    np.testing.assert_array_equal(found.problem.sources[0].y, problem.sources[0].y)


def test_more_rows_of_a_target_are_believed_more_and_other_targets_have_no_say():
    few, many = problem_with(0.5, target_rows=5), problem_with(0.5, target_rows=50)
    assert (levels.take_out(few, 0.0).believed < levels.take_out(many, 0.0).believed).all()
    alone = levels.take_out(cuvee.Problem(few.sources, few.targets[1:2]), 0.0)
    np.testing.assert_allclose(alone.offset, levels.take_out(few, 0.0).offset[1:2])


def test_the_order_of_rows_does_not_change_a_bit():
    """Sums round otherwise in another order, as they do with more threads; maps know their sources
    by these labels.
    """
    problem = problem_with(20.0)
    turned = [cuvee.Domain(s.name, s.X[::-1], s.y[::-1]) for s in problem.sources]
    one, other = (
        levels.take_out(p, 1e-3) for p in (problem, cuvee.Problem(turned, problem.targets))
    )
    np.testing.assert_array_equal(one.levels, other.levels)
    np.testing.assert_array_equal(one.offset, other.offset)
    for source, same in zip(one.problem.sources, other.problem.sources, strict=True):
        np.testing.assert_array_equal(source.y, same.y[::-1])


def test_weights_stand_for_repeated_rows():
    problem = problem_with(2.0)
    first = problem.sources[0]
    weight = np.arange(first.n_rows) % 3
    keep = np.repeat(np.arange(first.n_rows), weight)
    offsets = [
        levels.take_out(cuvee.Problem([one, *problem.sources[1:]], problem.targets), 1e-2).offset
        for one in (
            cuvee.Domain("s0", first.X, first.y, weight=weight),
            cuvee.Domain("s0", first.X[keep], first.y[keep]),
        )
    ]
    np.testing.assert_allclose(*offsets, rtol=1e-2)  # they are not worth quite as many rows


def test_a_model_of_its_own_rows_alone_predicts_the_same():
    problem, ridge = problem_with(10.0), cuvee.Ridge(1e-2)
    found = levels.take_out(problem, ridge.l2)
    X = np.random.default_rng(1).normal(size=(5, 3))
    raw, moved = (
        cuvee.solve(p, ridge, cuvee.estimate(p, ridge, method="target_only")).predict(X)
        for p in (problem, found.problem)
    )
    np.testing.assert_allclose(moved + found.offset[:, None], raw, rtol=1e-8)


def test_classes_have_no_level():
    X = np.zeros((2, 1))
    with pytest.raises(cuvee.DomainError, match="not a number"):
        levels.take_out(cuvee.Problem([cuvee.Domain("s", X, ["a", "b"])]), 0.0)


def problem_of(rows, columns, seed=0):
    rng = np.random.default_rng(seed)

    def domain(name, n):
        X = rng.normal(size=(n, columns)) + rng.normal(size=columns)
        y = X[:, :3].sum(1) + rng.normal(size=n) + 5 * rng.normal()
        return cuvee.Domain(name, X, y, weight=rng.uniform(0.5, 2.0, n))

    sources = [domain(f"s{i}", rows) for i in range(4)]
    return cuvee.Problem(sources, [domain("t", rows)])


@pytest.mark.parametrize("l2", [1e-4, 1e-2, 1.0])
def test_a_wide_table_has_the_levels_that_its_columns_matrix_gives(l2, monkeypatch):
    by_rows = levels.take_out(problem_of(6, 60), l2)
    with monkeypatch.context() as patched:
        patched.setattr(levels, "LocalFacts", KnownFacts)  # so that no rows are at hand
        by_columns = levels.take_out(problem_of(6, 60), l2)
    for name in ("offset", "levels", "believed"):
        wanted = getattr(by_columns, name)
        np.testing.assert_allclose(getattr(by_rows, name), wanted, rtol=1e-5, atol=1e-5)
    assert (by_rows.believed > 0.3).all()


WIDE = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import cuvee
from cuvee.data import levels
from test_levels import problem_of
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
small = problem_of(6, 200)  # what is loaded once is loaded now
levels.take_out(small, 1e-2), cuvee.risk_bound(small, cuvee.Ridge(1e-2), np.full((1, 4), 0.25))
problem, before = problem_of(6, 4000), peak()
levels.take_out(problem, 1e-2)
after = peak()
cuvee.risk_bound(problem, cuvee.Ridge(1e-2), np.full((1, 4), 0.25))
print(after - before, peak() - before)
"""


def test_few_rows_of_many_columns_make_no_matrix_of_columns():
    """A matrix of 4,000 x 4,000 doubles takes 122 MiB."""
    words = [sys.executable, "-c", WIDE, str(Path(__file__).parent)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    of_levels, of_both = map(float, ended.stdout.split())
    assert of_levels < 60 and of_both < 60, ended.stdout
