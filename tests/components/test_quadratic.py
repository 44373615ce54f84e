"""Gram matrices straight from the sources' arrays equal those of the table, and NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from builders import make_problem
from cuvee.components import QuadraticComponents, quadratic
from cuvee.hypothesis import Ridge
from cuvee.problem import Domain, Problem


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("standardised", [False, True])
@pytest.mark.parametrize("block", [3, 8192])
def test_streamed_grams_are_the_tables(weighted, intercept, standardised, block, monkeypatch):
    # sources of 7, 9, 2 and 30 rows: blocks that do and do not divide
    monkeypatch.setattr(quadratic, "BLOCK", block)
    problem = make_problem((7, 9, 2, 30), (), weighted=weighted)
    space = Ridge(intercept=intercept).bind(problem.facts, standardised=standardised)
    got = QuadraticComponents(problem, space).source_grams()
    for j, source in enumerate(problem.sources):
        X = np.asarray(space.prepare(torch.as_tensor(source.X)))
        y = space.encode(source.y, source.name)
        p = np.ones(len(y)) if source.weight is None else source.weight
        p = p / p.sum()
        np.testing.assert_allclose(got.A[j], (X * p[:, None]).T @ X, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(got.b[j], X.T @ (p * y), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(got.r[j], 0.5 * (p * y) @ y, rtol=1e-12)


def test_float32_rows_are_summed_in_float64():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3)).astype(np.float32)
    source = Domain("s", X, X[:, 0])
    space = Ridge().bind(Problem([source]).facts)
    A = QuadraticComponents(Problem([source]), space).source_grams().A[0, :3, :3]
    np.testing.assert_allclose(
        A, X.astype(float).T @ X.astype(float) / len(X), rtol=1e-12, atol=1e-14
    )
