"""The law finds the truth where the truth is a law, and its argmin is the true one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cuvee
from cuvee.mix import laws
from mix_builders import law, mixtures, noisy, standard


def test_a_law_without_noise_is_found():
    alpha = mixtures(60, 5)
    y = law(alpha)
    fresh = mixtures(50, 5, seed=1)
    fitted = laws.fit(standard(alpha, y))
    predicted = fitted.mean(torch.as_tensor(fresh)).numpy() * y.std(0) + y.mean(0)
    assert np.abs(predicted - law(fresh)).max() < 0.02 * y.std(0).max()


def test_a_straight_line_is_fitted_too():
    alpha, fresh = mixtures(40, 5), mixtures(20, 5, seed=1)
    t = np.random.default_rng(3).normal(size=(5, 2))
    y = alpha @ t  # its c is at −∞
    predicted = laws.fit(standard(alpha, y)).mean(torch.as_tensor(fresh)).numpy()
    assert np.abs(predicted * y.std(0) + y.mean(0) - fresh @ t).max() < 0.02 * y.std(0).max()


def test_noise_does_not_send_c_far_away():
    alpha = mixtures(40, 5)
    for seed in range(5):
        fitted = laws.fit(standard(alpha, noisy(alpha, K=4, seed=seed, noise=0.3)))
        assert float(fitted.floor.min()) > -12.0  # spreads below the mean


def test_one_failed_run_hardly_moves_the_law():
    alpha = mixtures(40, 4)
    y = noisy(alpha)
    spoilt = y.copy()
    spoilt[3] += 20 * y.std(0)
    fresh = torch.as_tensor(mixtures(30, 4, seed=1))
    units = (spoilt - y.mean(0)) / y.std(0)
    swarm = standard(alpha, y)
    clean = laws.fit(swarm).mean(fresh)
    moved = laws.fit(type(swarm)(swarm.alpha, torch.as_tensor(units), swarm.precision)).mean(fresh)
    assert float((moved - clean).abs().max()) < 0.5


@pytest.mark.parametrize("shape", ["law", "root_law", "log_law"])
def test_mean_spread_and_joint_agree(shape):
    alpha = mixtures(30, 4)
    fitted = laws.fit(standard(alpha, noisy(alpha)), shape=shape)
    some = torch.as_tensor(mixtures(6, 4, seed=2))
    mean, spread = fitted(some)
    joint_mean, covariance = fitted.joint(some)
    torch.testing.assert_close(joint_mean, mean)
    torch.testing.assert_close(fitted.mean(some), mean)
    variance = covariance.diagonal(dim1=1, dim2=2).T
    torch.testing.assert_close(variance.sqrt(), spread, rtol=1e-6, atol=1e-7)


def test_best_is_the_argmin_of_the_law_on_a_fine_grid():
    alpha = mixtures(40, 3)
    surface = cuvee.fit_surface(alpha, noisy(alpha, noise=0.02), candidates=["law"])
    steps = np.linspace(0, 1, 101)
    grid = np.array([(a, b, 1 - a - b) for a in steps for b in steps if a + b <= 1 + 1e-12])
    grid = np.maximum(grid, 0) / np.maximum(grid, 0).sum(1, keepdims=True)
    means = surface.predict(grid).mean.mean(1)
    proposal = surface.best(risk=0)
    assert surface.predict(proposal.alpha).mean.mean() <= means.min() + 1e-6
    assert np.abs(proposal.alpha - grid[means.argmin()]).max() < 0.02
