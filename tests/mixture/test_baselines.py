"""Closed-form mixtures and the Konstantinov–Lampert estimator."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import cuvee
from cuvee.components import QuadraticComponents
from cuvee.data.synthetic import grouped_classes, squared_loss_instance
from cuvee.mixture import konstantinov_lampert
from cuvee.mixture.exact import Quadratics
from cuvee.mixture.players import Settings
from hypothesis import given, settings
from hypothesis import strategies as st


def two_sizes():
    rng = np.random.default_rng(0)

    def domain(name, n):
        return cuvee.Domain(name, rng.normal(size=(n, 2)), rng.normal(size=n))

    return cuvee.Problem([domain("small", 10), domain("large", 30)], [domain("t", 20)])


@pytest.mark.parametrize(
    ("method", "own", "wanted"),
    [
        ("uniform", False, [0.5, 0.5]),
        ("uniform", True, [0.5, 0.5, 0.0]),
        ("pooled", False, [0.25, 0.75]),
        ("pooled", True, [0.25, 0.75, 0.0]),
        ("pooled_own", True, [1 / 6, 1 / 2, 1 / 3]),
        ("target_only", True, [0, 0, 1]),
    ],
)
def test_simple_mixtures(method, own, wanted):
    mix = cuvee.estimate(two_sizes(), cuvee.Ridge(), method=method, own=own)
    np.testing.assert_allclose(mix.alpha, [wanted])
    assert mix.status[0] is cuvee.Status.CLOSED_FORM and mix.status[0].ok
    assert mix.trace is None and np.isnan(mix.gap).all()


@settings(derandomize=True, deadline=None, max_examples=40)
@given(n=st.integers(1, 6), seed=st.integers(0, 999), C=st.floats(0.01, 100))
def test_konstantinov_lampert_weights_minimise_their_quadratic(n, seed, C):
    rng = np.random.default_rng(seed)
    disc, inverse = rng.exponential(size=(1, n)), 1 / rng.integers(5, 200, size=n)

    def value(alpha):
        return disc[0] @ alpha + C * inverse @ alpha**2

    alpha = konstantinov_lampert.weigh(disc, inverse, C)[0]
    assert alpha.min() >= 0 and alpha.sum() == pytest.approx(1)
    constraint = {"type": "eq", "fun": lambda a: a.sum() - 1}
    found = minimize(
        value, np.full(n, 1 / n), bounds=[(0, 1)] * n, constraints=[constraint], tol=1e-12
    )
    assert value(alpha) <= found.fun + 1e-7


def test_konstantinov_lampert_discrepancies_are_the_oracles():
    """max_w |f_T − f_j| over a ball, source by source, by the trust-region oracle."""
    problem = squared_loss_instance(2)
    components = QuadraticComponents(
        problem, cuvee.Ridge(l2=0.0, intercept=False, radius=3.0).bind(problem.facts)
    )
    got = konstantinov_lampert.discrepancies(components, Settings(steps=400))[0].numpy()
    oracle = Quadratics.of(components, 0.0, "mixture")
    wanted = [oracle.worst(np.eye(problem.n_sources)[j])[0] for j in range(problem.n_sources)]
    np.testing.assert_allclose(got, wanted, rtol=0.03)
    assert (got <= np.array(wanted) * (1 + 1e-9)).all()


def test_konstantinov_lampert_finds_the_group():
    problem = grouped_classes(0, target_rows=60)
    mix = cuvee.estimate(problem, cuvee.Logistic(), method="konstantinov_lampert", C=5.0)
    for i in range(3):
        assert mix.alpha[i].reshape(3, 3).sum(1).argmax() == i
