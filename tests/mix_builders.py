"""Small swarms with a known truth, for the tests of cuvee.mix."""

from __future__ import annotations

import numpy as np
import torch

from cuvee.mix.candidate import ShapedRuns


def mixtures(n, N, seed=0, zeros=0.3):
    """n mixtures of N domains, some weights exactly zero."""
    rng = np.random.default_rng(seed)
    alpha = rng.dirichlet(np.ones(N), n)
    alpha[rng.random(alpha.shape) < zeros] = 0.0
    alpha[np.arange(n), rng.integers(N, size=n)] += 0.1
    return alpha / alpha.sum(1, keepdims=True)


def law(alpha, K=2, seed=0):
    """A log-linear truth (n, K) of mixtures (n, N)."""
    t = np.random.default_rng([seed, 7]).normal(size=(K, alpha.shape[1]))
    return 1.0 + np.exp(0.3 + alpha @ t.T)


def noisy(alpha, K=2, seed=0, noise=0.05):
    y = law(alpha, K, seed)
    return y + noise * y.std(0) * np.random.default_rng([seed, 8]).normal(size=y.shape)


def standard(alpha, y):
    """The swarm as candidates see it."""
    y = (y - y.mean(0)) / y.std(0)
    ones = torch.ones(len(alpha), dtype=torch.float64)
    return ShapedRuns(torch.as_tensor(alpha), torch.as_tensor(y), ones)
