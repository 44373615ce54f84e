"""The batched solvers against scikit-learn, one mixture at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cuvee
from cuvee import erm
from cuvee.components import ALL, LocalComponents, QuadraticComponents
from hypothesis import given, settings
from hypothesis import strategies as st


def make(kind, rng, n_sources, n_targets, d):
    def domain(name, n):
        X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 1, size=d)
        score = X @ rng.normal(size=d) / np.linalg.norm(X, axis=0).mean() * np.sqrt(n)
        y = {"ridge": score, "binary": score > 0, "softmax": np.digitize(score, [-0.5, 0.5])}[kind]
        if kind != "ridge":
            y = y.astype(int)
            y[: 3 if kind == "softmax" else 2] = np.arange(3 if kind == "softmax" else 2)
        return cuvee.Domain(name, X, y)

    sources = [domain(f"s{j}", int(rng.integers(8, 30))) for j in range(n_sources)]
    return cuvee.Problem(
        sources, [domain(f"t{i}", int(rng.integers(5, 12))) for i in range(n_targets)]
    )


def with_sklearn(kind, problem, target, alpha, l2):
    """coef and intercept (outputs, d+1) of scikit-learn's weighted fit."""
    from sklearn.linear_model import LogisticRegression, Ridge

    parts = [*problem.sources, problem.targets[target]]
    weight = np.concatenate(
        [np.full(p.n_rows, a / p.n_rows) for p, a in zip(parts, alpha, strict=True)]
    )
    X, y = np.concatenate([p.X for p in parts]), np.concatenate([p.y for p in parts])
    seen = weight > 0
    model = (
        Ridge(alpha=l2)
        if kind == "ridge"
        else LogisticRegression(C=1 / l2, tol=1e-10, max_iter=20_000)
    )
    model.fit(X[seen], y[seen], sample_weight=weight[seen])
    return np.column_stack([np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)])


@pytest.mark.parametrize("kind", ["ridge", "binary", "softmax"])
@settings(derandomize=True, deadline=None, max_examples=6)
@given(
    seed=st.integers(0, 999),
    n_sources=st.integers(1, 4),
    n_targets=st.integers(1, 3),
    d=st.integers(1, 4),
)
def test_solutions_are_scikit_learns(kind, seed, n_sources, n_targets, d):
    rng = np.random.default_rng(seed)
    problem = make(kind, rng, n_sources, n_targets, d)
    l2 = 0.1
    hypothesis = cuvee.Ridge(l2) if kind == "ridge" else cuvee.Logistic(l2)
    space = hypothesis.bind(problem.facts)
    components = erm.components(problem, space)
    alpha = rng.dirichlet(np.ones(n_sources + 1), size=(n_targets, 2))
    alpha[0, 0] = np.eye(n_sources + 1)[0]  # a corner of the simplex
    w = erm.solve(components, ALL, torch.as_tensor(alpha), tol=1e-9)
    for i in range(n_targets):
        for q in range(2):
            wanted, got = (
                with_sklearn(kind, problem, i, alpha[i, q], l2),
                w[i, q].view(-1, d + 1).numpy(),
            )
            if kind == "softmax":  # only differences of unpenalised intercepts matter
                wanted[:, -1] -= wanted[:, -1].mean()
                got[:, -1] -= got[:, -1].mean()
            np.testing.assert_allclose(got, wanted, atol=1e-9 if kind == "ridge" else 2e-5)


def test_singular_ridge_gives_a_finite_minimiser():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 6))  # fewer rows than columns, λ = 0
    problem = cuvee.Problem(
        [cuvee.Domain("s", X, X @ np.ones(6))], [cuvee.Domain("t", X[:2] + 1, np.zeros(2))]
    )
    components = QuadraticComponents(problem, cuvee.Ridge(0.0).bind(problem.facts))
    alpha = torch.tensor([[[1.0, 0.0]]], dtype=torch.float64)
    w = erm.solve(components, ALL, alpha)
    losses, pullback = components.losses(w, ALL)
    assert losses[0, 0, 0] < 1e-12
    assert pullback(alpha).abs().max() < 1e-7


def test_networks_trained_together_learn_and_do_not_depend_on_company():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)  # no linear model can
    sources = [cuvee.Domain("a", X[:100], y[:100]), cuvee.Domain("b", X[100:200], y[100:200])]
    targets = [
        cuvee.Domain(f"t{i}", X[200 + 20 * i : 220 + 20 * i], y[200 + 20 * i : 220 + 20 * i])
        for i in range(2)
    ]
    problem = cuvee.Problem(sources, targets)
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 24), torch.nn.ReLU(), torch.nn.Linear(24, 2))
    space = cuvee.Network(module).bind(problem.facts)
    components = LocalComponents(problem, space)
    alpha = torch.tensor([[[0.4, 0.4, 0.2], [0.0, 0.5, 0.5]]] * 2)
    w = erm.solve(components, ALL, alpha)
    accuracy = [(space.predict(w[i, 0], X[240:]) == y[240:]).mean() for i in range(2)]
    assert min(accuracy) > 0.85
    alone = cuvee.Problem(sources, targets[:1])
    single = LocalComponents(alone, cuvee.Network(module).bind(alone.facts))
    again = erm.solve(single, ALL, alpha[:1, :1])
    torch.testing.assert_close(again[0, 0], w[0, 0], rtol=1e-3, atol=1e-3)


def test_no_mixtures_give_no_models():
    rng = np.random.default_rng(0)
    problem = make("ridge", rng, 2, 1, 3)
    components = QuadraticComponents(problem, cuvee.Ridge().bind(problem.facts))
    assert erm.solve(components, ALL, torch.zeros(0, 1, 3)).shape == (0, 1, 4)
