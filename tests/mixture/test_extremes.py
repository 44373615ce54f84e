"""Every method gives weights, or says which setting is out of range, however extreme it is."""

from __future__ import annotations

import numpy as np
import pytest

import cuvee
from cuvee import Domain, Logistic, OptionError, Problem, Ridge
from cuvee.mixture import konstantinov_lampert, registry

SIZES = (20, 25, 30)
EXTREME = (1e-300, 1e-40, 1e-15, 1e15, 1e40, 1e300)


def problem_of(hypothesis):
    rng = np.random.default_rng(0)

    def domain(name, rows):
        X = rng.normal(size=(rows, 3))
        y = X[:, 0] + rng.normal(size=rows)
        return Domain(name, X, y if hypothesis is Ridge else (y > 0).astype(int))

    sources = [domain(f"s{j}", rows) for j, rows in enumerate(SIZES)]
    return Problem(sources, [domain("t", 9), domain("u", 8)])


@pytest.mark.parametrize("hypothesis", [Ridge, Logistic])
@pytest.mark.parametrize("method", [m for m in registry.names() if "C" in registry.find(m).takes])
def test_weights_lie_on_the_simplex_for_any_C(method, hypothesis):
    for C in EXTREME:
        mix = cuvee.estimate(problem_of(hypothesis), hypothesis(), method=method, C=C, steps=3)
        assert (mix.alpha >= 0).all(), (C, mix)
        np.testing.assert_allclose(mix.alpha.sum(1), 1.0, atol=1e-9, err_msg=f"C = {C}")


@pytest.mark.parametrize("method", ["cuts", "konstantinov_lampert"])
def test_a_large_C_leaves_the_sizes_and_a_small_one_the_nearest_source(method):
    def weights(C):
        return cuvee.estimate(problem_of(Ridge), Ridge(), method=method, C=C).alpha

    np.testing.assert_allclose(weights(1e40), np.tile(np.array(SIZES) / 75, (2, 1)), atol=1e-6)
    if method == "konstantinov_lampert":  # which has no game: one source is nearest
        for C in (1e-15, 1e-300):
            assert (weights(C).max(1) == 1.0).all()


def test_discrepancies_that_differ_by_any_factor_are_weighed():
    disc = np.array([[1e300, 1e-300, 1.0], [1e20, 1e20 + 1e4, 2e20], [0.5, 0.5, 0.5]])
    for C in EXTREME:
        alpha = konstantinov_lampert.weigh(disc, np.array([0.1, 0.1, 0.1]), C)
        np.testing.assert_allclose(alpha.sum(1), 1.0)
        np.testing.assert_allclose(alpha[2], 1 / 3)


@pytest.mark.parametrize("radius", [1e-200, 1e60, 1e200])
@pytest.mark.parametrize("hypothesis", [Ridge, Logistic])
def test_a_ball_whose_losses_overflow_is_refused(hypothesis, radius):
    with pytest.raises(OptionError, match="radius must be a finite number at least"):
        hypothesis(radius=radius)
