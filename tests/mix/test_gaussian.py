"""The Gaussian process agrees with scikit-learn's, and its slopes with differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, WhiteKernel

from cuvee.mix import gaussian, kernels
from mix_builders import mixtures, noisy, standard


class Ours(Kernel):
    """Our kernel of one metric, as scikit-learn asks for it."""

    def __init__(self, theta_):
        self.theta_ = theta_

    def __call__(self, X, Y=None, eval_gradient=False):
        a, b = (kernels.views(torch.as_tensor(x)) for x in (X, X if Y is None else Y))
        return kernels.gram(torch.as_tensor(self.theta_)[None], a, b)[0].numpy()

    def diag(self, X):
        return np.diag(self(X))

    def is_stationary(self):
        return False


def theta(N, seed=0):
    return torch.as_tensor(np.random.default_rng(seed).normal(-2, 1, (2, N + 10)))


def test_posterior_is_scikit_learns():
    alpha, new = mixtures(20, 4), mixtures(8, 4, seed=1)
    swarm, θ = standard(alpha, noisy(alpha)), theta(4)
    ones = torch.ones(2, 20, dtype=torch.float64)
    process = gaussian.Process(swarm.alpha, θ, swarm.y.T.contiguous(), ones)
    mean, spread = process(torch.as_tensor(new))
    for k in range(2):
        noise = float(θ[k, -1].exp()) + gaussian.JITTER
        theirs = GaussianProcessRegressor(Ours(θ[k, :-1].numpy()), alpha=noise, optimizer=None)
        theirs.fit(alpha, swarm.y[:, k].numpy())
        expected, deviation = theirs.predict(new, return_std=True)
        np.testing.assert_allclose(mean[:, k].numpy(), expected, atol=1e-7)
        np.testing.assert_allclose(spread[:, k].numpy(), deviation, atol=1e-6)


def test_the_bell_is_scikit_learns():
    alpha = torch.as_tensor(mixtures(10, 4))
    seen = kernels.views(alpha)
    bell = kernels.shared_grams(seen, seen)[kernels.SHARED.index("near")]
    theirs = RBF(kernels.LENGTHS[0])(kernels.root(alpha).numpy())
    np.testing.assert_allclose(bell.numpy(), theirs, atol=1e-12)


def test_evidence_is_scikit_learns():
    alpha = mixtures(15, 4)
    y = torch.as_tensor(np.random.default_rng(0).normal(size=(1, 15)))
    search = gaussian._Search(torch.as_tensor(alpha))
    near = 4 + kernels.SHARED.index("near")
    values = []
    for variance in (0.5, 2.0):
        θ = torch.full((1, 14), -60.0, dtype=torch.float64)
        θ[0, near], θ[0, -1] = np.log(variance), np.log(0.3)
        kernel = ConstantKernel(variance) * RBF(kernels.LENGTHS[0]) + WhiteKernel(0.3)
        theirs = GaussianProcessRegressor(kernel, alpha=gaussian.JITTER, optimizer=None)
        theirs.fit(kernels.root(torch.as_tensor(alpha)).numpy(), y[0].numpy())
        value, _ = search.negative_log_likelihood(θ, y, torch.ones(1, 15, dtype=torch.float64))
        prior = 0.5 * ((θ - search.mean) / search.deviation).square().sum()
        values.append(float(value - prior) + theirs.log_marginal_likelihood_value_)
    assert values[0] == pytest.approx(values[1], abs=1e-6)  # but for a constant they agree


def test_slopes_of_the_evidence_are_those_of_differences():
    search = gaussian._Search(torch.as_tensor(mixtures(12, 4)))
    rng = np.random.default_rng(0)
    θ, z = theta(4), torch.as_tensor(rng.normal(size=(2, 12)))
    precision = torch.as_tensor(rng.uniform(0.5, 2, (2, 12)))
    _, slope = search.negative_log_likelihood(θ, z, precision)
    for k, j in [(0, 0), (1, 3), (0, 5), (1, 9), (0, 12), (1, 13)]:
        step = torch.zeros_like(θ)
        step[k, j] = 1e-5
        up, down = (search.negative_log_likelihood(θ + s, z, precision)[0] for s in (step, -step))
        assert float(slope[k, j]) == pytest.approx(float(up - down) / 2e-5, abs=1e-5)


@pytest.mark.parametrize("fit", [gaussian.fit_plain, gaussian.fit_bent])
def test_mean_spread_and_joint_agree(fit):
    alpha = mixtures(24, 4)
    fitted = fit(standard(alpha, noisy(alpha)))
    some = torch.as_tensor(mixtures(6, 4, seed=2))
    mean, spread = fitted(some)
    joint_mean, covariance = fitted.joint(some)
    torch.testing.assert_close(joint_mean, mean)
    torch.testing.assert_close(fitted.mean(some), mean)
    variance = covariance.diagonal(dim1=1, dim2=2).T.clamp(min=0)
    torch.testing.assert_close(variance.sqrt(), spread, rtol=1e-4, atol=1e-5)


def test_the_kernels_diagonal_is_its_diagonal():
    seen = kernels.views(torch.as_tensor(mixtures(9, 4)))
    θ = theta(4)[:, :-1]
    whole = kernels.gram(θ, seen, seen).diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(kernels.diagonal(θ, seen), whole)


def test_a_saturating_domain_is_learnt_better_than_by_the_law():
    rng = np.random.default_rng(0)
    alpha, fresh = mixtures(60, 4), mixtures(200, 4, seed=1)

    def truth(a):
        return 1 + np.exp(-2 * (1 - np.exp(-a[:, :1] / 0.05)) - a[:, 1:2])

    y = truth(alpha) + 0.005 * rng.normal(size=(60, 1))
    swarm = standard(alpha, y)
    from cuvee.mix import laws

    target = (truth(fresh) - y.mean(0)) / y.std(0)
    bent, straight = (
        np.abs(fit(swarm).mean(torch.as_tensor(fresh)).numpy() - target).mean()
        for fit in (gaussian.fit_bent, laws.fit)
    )
    assert bent < straight / 3
