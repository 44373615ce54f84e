"""Intervals are wider where runs are few."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cuvee
from cuvee.mix.conformal import WIDER_MEAN, WIDER_RUN
from mix_builders import mixtures, noisy


def halves(surface, alpha):
    """Half the interval of a run, and of the mean."""
    p = surface.predict(alpha)
    return (p.high - p.low) / 2, (p.mean_high - p.mean_low) / 2


@pytest.mark.parametrize(("n", "few"), [(10, True), (9, True), (11, False)])
def test_intervals_are_widened_where_there_are_no_more_runs_than_domains(n, few):
    alpha = mixtures(n, 10)
    surface = cuvee.fit_surface(alpha, noisy(alpha), candidates=["law"])
    fresh = mixtures(20, 10, seed=3)
    run, mean = halves(surface, fresh)
    belief = replace(surface._belief(None), few=False)
    p = surface._predicted(fresh, belief)
    plain_run, plain_mean = (p.high - p.low) / 2, (p.mean_high - p.mean_low) / 2
    np.testing.assert_allclose(mean, plain_mean * (WIDER_MEAN if few else 1.0))
    widened = np.maximum(plain_run * WIDER_RUN, mean) if few else plain_run
    np.testing.assert_allclose(run, widened)


@pytest.mark.slow
def test_intervals_hold_where_there_are_fewer_runs_than_domains():
    runs, means = [], []
    for seed in range(10, 18):
        rng = np.random.default_rng(seed)
        alpha, effects = rng.dirichlet(np.full(40, 0.3), 30), rng.gamma(1.0, size=(40, 2))
        fresh = rng.dirichlet(np.full(40, 0.3), 400)
        y, truth = (2 + np.exp(-a @ effects) for a in (alpha, fresh))
        surface = cuvee.fit_surface(alpha, y + 0.02 * rng.normal(size=y.shape))
        p, new = surface.predict(fresh), truth + 0.02 * rng.normal(size=truth.shape)
        runs.append(((p.low <= new) & (new <= p.high)).mean())
        means.append(((p.mean_low <= truth) & (truth <= p.mean_high)).mean())
    assert 0.86 <= np.mean(runs) <= 0.97 and 0.86 <= np.mean(means) <= 0.97
