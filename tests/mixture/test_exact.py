"""The oracles themselves: against brute force, in the hard case, and their own proven gap."""

from __future__ import annotations

import numpy as np
import pytest

from cuvee.components import QuadraticComponents
from cuvee.data.synthetic import squared_loss_instance
from cuvee.errors import OptionError
from cuvee.hypothesis import Ridge
from cuvee.mixture.exact import Quadratics, largest_on_ball
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.sample(3)


def instance(seed, form, C=5.0):
    problem = squared_loss_instance(seed)
    space = Ridge(l2=0.0, intercept=False, radius=3.0).bind(problem.facts)
    return Quadratics.of(QuadraticComponents(problem, space), C, form)


def points_in_ball(rng, n, d, radius):
    w = rng.normal(size=(n, d))
    return radius * w * rng.random((n, 1)) ** (1 / d) / np.linalg.norm(w, axis=1, keepdims=True)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(seed=st.integers(0, 10_000), d=st.integers(1, 4), sign=st.sampled_from([-1, 0, 1]))
def test_trust_region_maximum_beats_every_sampled_point_and_is_attained(seed, d, sign):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(d, d))
    A = sign * A @ A.T + (A + A.T if sign == 0 else 0)
    b, radius = rng.normal(size=d), rng.uniform(0.1, 5)
    value, w = largest_on_ball(A, b, 0.7, radius)
    assert np.linalg.norm(w) <= radius * (1 + 1e-9)
    assert value == pytest.approx(0.5 * w @ A @ w - b @ w + 0.7, abs=1e-9)
    tried = points_in_ball(rng, 20_000, d, radius)
    sampled = 0.5 * np.einsum("ip,pq,iq->i", tried, A, tried) - tried @ b + 0.7
    assert value >= sampled.max() - 1e-9
    assert value <= sampled.max() + 0.25 * (abs(value) + 1)  # and is not above what is there


def test_hard_case_uses_the_top_eigenvector():
    value, w = largest_on_ball(np.diag([2.0, 1.0]), np.array([0.0, 0.5]), 0.0, 2.0)
    # b has no part along the first axis: w_2 = −0.5/(2 − 1), the rest of the radius goes to w_1.
    assert abs(w[1]) == pytest.approx(0.5)
    assert np.linalg.norm(w) == pytest.approx(2.0)
    assert value == pytest.approx(0.5 * (2 * 3.75 + 0.25) + 0.25)


@pytest.mark.parametrize("form", ["sum", "mixture"])
def test_worst_case_beats_sampled_adversaries(form):
    rng = np.random.default_rng(0)
    oracle = instance(3, form)
    for _ in range(5):
        alpha = rng.dirichlet(np.ones(len(oracle.A)))
        value, _ = oracle.worst(alpha)
        penalty = oracle.C * oracle.inverse_counts @ alpha**2
        for w in points_in_ball(rng, 2_000, 5, 3.0):
            z = oracle.z(w)
            F = np.abs(z) @ alpha if form == "sum" else abs(alpha @ z)
            assert value >= F + penalty - 1e-9


@pytest.mark.parametrize("form", ["sum", "mixture"])
@pytest.mark.parametrize("seed", [0, 1, 5])
def test_minimum_is_below_every_sampled_mixture_and_above_its_bound(form, seed):
    oracle = instance(seed, form)
    value, alpha, bound = oracle.minimum(tol=1e-3)
    assert bound <= value + 1e-9 and value - bound <= 2e-3 * value
    assert alpha.min() >= 0 and alpha.sum() == pytest.approx(1)
    for other in np.random.default_rng(1).dirichlet(np.full(len(alpha), 0.5), size=60):
        assert oracle.worst(other)[0] >= bound - 1e-6


def test_sign_patterns_stop_at_eight_sources():
    with pytest.raises(OptionError, match="takes at most 8 sources; this problem has 9"):
        Quadratics(np.zeros((9, 2, 2)), np.zeros((9, 2)), np.zeros(9), 1.0, 1.0, np.ones(9), "sum")
