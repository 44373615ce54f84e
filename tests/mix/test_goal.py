"""The worst metric is measured from an ideal point, and the front reaches from end to end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cuvee
from cuvee.mix.search import with_ideal


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


def asked(surface, wanted):
    """The goal of `wanted` where the worst counts, and what is believed."""
    belief, polytope = surface._belief(None), surface._polytope(None)
    goal = surface._goal(wanted, True, None, 0.25, None, 0.0)
    return with_ideal(goal, belief, polytope, surface._starts(None), 0), belief


def test_what_is_said_of_the_worst_metric_is_what_its_metrics_say(surface):
    weights = {"metric 1": 2.0, "metric 3": 1.0}  # 4/3 and 2/3, relative to their mean
    made = surface.best(minimise=weights, worst=True)
    goal, _ = asked(surface, weights)
    share, places = np.array([4 / 3, 2 / 3]), [0, 2]
    ideal, spread = goal.ideal.numpy()[places], surface.spreads()[places]
    p = made.prediction
    at = (share * (p.mean[0, places] - ideal) / spread).max()
    end = (share * (p.mean_high[0, places] - ideal) / spread).max()
    assert made.value == pytest.approx(at) and made.high == pytest.approx(end)
    uniform = surface.predict(surface.uniform()).mean[0, places]
    away = (share * (uniform - ideal) / spread).max()
    assert made.compared["uniform"] == pytest.approx(away)


def test_metrics_that_do_not_count_change_no_number(surface):
    """Weights and noise are relative to the metrics that count, not to all."""
    even, _ = asked(surface, ["metric 1", "metric 2"])
    np.testing.assert_allclose(even.relative.numpy(), [1.0, 1.0, 0.0, 0.0])
    goal, belief = asked(surface, "metric 2")
    assert goal.noise(belief) == pytest.approx(float(belief.noise[1] / belief.unit[1]))


def test_it_is_said_where_more_runs_will_hardly_change_the_answer(surface):
    [note] = surface.next_runs(3, minimise="metric 1").notes
    assert note.startswith("More runs will hardly change the answer")
    rng = np.random.default_rng(0)
    alpha = rng.dirichlet(np.ones(4), 12)
    y = np.exp(-alpha[:, :1]) + 0.1 * rng.normal(size=(12, 1))
    unsure = cuvee.fit_surface(alpha, y, candidates=["law", "root_law"])
    assert unsure.next_runs(3).notes == ()


def test_no_disappointment_of_zero_is_told(surface):
    made = surface.best(minimise="metric 1")
    assert "disappointment" not in str(replace(made, disappointment=0.0))
    assert "disappointment 0.1" in str(replace(made, disappointment=0.1))
