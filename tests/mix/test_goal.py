"""The worst metric is measured from an ideal point, and the front reaches from end to end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cuvee


@pytest.fixture(scope="module")
def surface():
    """Four metrics, each helped by its own domain."""
    rng = np.random.default_rng(0)
    alpha = rng.dirichlet(np.full(4, 0.7), 60)
    y = 1 + np.exp(-3 * np.sqrt(alpha)) + 0.003 * rng.normal(size=(60, 4))
    fitted = cuvee.fit_surface(alpha, y, candidates=["law", "root_law"])
    return replace(fitted, halves=())


def test_a_larger_weight_makes_a_metric_better_where_the_worst_counts(surface):
    first = []
    for weight in (1 / 3, 1.0, 3.0):
        wanted = {"metric 1": weight, "metric 2": 1.0}
        first.append(surface.best(minimise=wanted, worst=True, risk=0).prediction.mean[0, :2])
    first = np.array(first) / surface.spreads()[:2]
    assert (np.diff(first[:, 0]) < -0.02).all() and (np.diff(first[:, 1]) > 0.02).all()


def test_the_best_mixture_for_the_worst_metric_uses_what_is_left_for_the_others(surface):
    """With a weight of 1e-9 a metric never is the worst, and the other is as good as alone."""
    wanted = {"metric 1": 1.0, "metric 2": 1e-9}
    made = surface.best(minimise=wanted, worst=True, risk=0).prediction.mean[0, 0]
    alone = surface.best(minimise="metric 1", risk=0).prediction.mean[0, 0]
    assert made <= alone + 0.02 * surface.spreads()[0]


@pytest.mark.parametrize("count", [2, 4])
def test_the_front_reaches_the_best_mixture_of_every_metric(surface, count):
    metrics = list(surface.metrics[:count])
    front = surface.front(metrics, points=8)
    for k, name in enumerate(metrics):
        alone = surface.best(minimise=name, risk=0)
        i = int(front.prediction.mean[:, k].argmin())
        np.testing.assert_allclose(front.alpha[i], alone.alpha, atol=1e-6)


def test_the_front_reaches_the_best_mixtures_that_are_allowed(surface):
    limits = cuvee.Constraints(maximum=0.4)
    front = surface.front(["metric 1", "metric 2"], points=5, constraints=limits)
    assert front.alpha[0, 0] == pytest.approx(0.4) and front.alpha[-1, 1] == pytest.approx(0.4)
