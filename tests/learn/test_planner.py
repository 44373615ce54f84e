"""Solve or learn: the arithmetic of the two lines, and plans for small problems."""

from __future__ import annotations

import time
from math import inf, isinf

import numpy as np
import pytest
import torch

import cuvee
from builders import mlp
from cuvee.api import planning
from cuvee.data.synthetic import shifted_sources
from cuvee.learn.planner import Line, crossing, labels_needed, measured_line

SOURCES = shifted_sources(3, 60, 4)
LOGISTIC = cuvee.Logistic(0.1)


@pytest.mark.parametrize(
    ("solve", "learn", "wanted"),
    [
        (Line(0.0, 1.0), Line(10.0, 0.0), 10.0),
        (Line(1.0, 0.5), Line(3.0, 0.1), 5.0),
        (Line(5.0, 1.0), Line(3.0, 0.1), 0.0),  # learning is cheaper from the start
        (Line(0.0, 1.0), Line(10.0, 1.0), inf),  # it never gains anything
        (Line(0.0, 1.0), Line(inf, 0.1), inf),
    ],
)
def test_the_lines_cross_where_they_do(solve, learn, wanted):
    at = crossing(solve, learn)
    assert at == pytest.approx(wanted)
    if 0 < at < inf:
        assert solve(at) == pytest.approx(learn(at))


def test_labels_are_counted_along_the_line_of_errors():
    assert labels_needed([(64, 1e-2), (256, 1e-3)], 2e-3) == 256
    # tenfold for four times the labels
    assert labels_needed([(64, 1e-2), (256, 1e-3)], 1e-4) == pytest.approx(1024)
    assert isinf(labels_needed([(64, 1e-3), (256, 1e-3)], 1e-4))  # more labels do not help
    assert isinf(labels_needed([(64, 1e-3)], 1e-4))
    assert isinf(labels_needed([(64, inf), (256, inf)], 1e-4))


def test_a_line_is_measured_through_growing_batches():
    line = measured_line(lambda n: time.sleep(0.02 + 0.001 * n), most=10_000)
    assert line.fixed == pytest.approx(0.02, abs=0.015)
    assert line.each == pytest.approx(0.001, rel=0.2)


def test_a_plan_explains_itself_in_two_sentences_and_draws(tmp_path):
    plan = cuvee.plan(SOURCES, LOGISTIC, n_targets=100, tol=1e-3)
    words = str(plan)
    assert words.endswith(".") and words.count(". ") == 1
    assert plan.choice in ("solve", "learn")
    assert (plan.choice == "learn") == (plan.learn(100) < plan.solve(100))
    plan.draw(tmp_path / "plan.png", {"solve": [(10, 0.01), (100, 0.1)]})
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_ten_models_are_solved_and_many_are_learnt():
    assert cuvee.plan(SOURCES, LOGISTIC, n_targets=10, tol=1e-3).choice == "solve"
    plan = cuvee.plan(SOURCES, LOGISTIC, n_targets=10_000_000, tol=1e-2)
    assert plan.choice == "learn"
    assert plan.crossing < 10_000_000
    assert plan.atlas is not None
    assert plan.atlas(np.full((1, 3), 1 / 3)).status[0].ok


@pytest.mark.parametrize(
    "hypothesis", [cuvee.Ridge(0.1), cuvee.Logistic(0.0), cuvee.Logistic(0.1, radius=0.5)]
)
def test_every_convex_hypothesis_can_be_planned(hypothesis):
    sources = shifted_sources(3, 40, 3, quantity=isinstance(hypothesis, cuvee.Ridge))
    plan = cuvee.plan(sources, hypothesis, n_targets=1_000, tol=1e-4)
    assert np.isfinite(plan.solve(1_000)) and plan.solve.each > 0


def test_networks_are_not_trained_by_the_hundred_for_a_plan():
    torch.manual_seed(0)
    sources = shifted_sources(3, 40, 3)
    plan = cuvee.plan(sources, cuvee.Network(mlp(3, 2)), n_targets=10, tol=1e-3)
    assert plan.choice == "solve"


def test_given_mixtures_are_planned_with():
    alpha = cuvee.simplex.sample(300, 3, seed=3, concentration=5.0)
    plan = cuvee.plan(SOURCES, LOGISTIC, n_targets=50, tol=1e-3, mixtures=alpha)
    assert plan.n_targets == 50


def test_a_small_sample_of_mixtures_is_planned_with():
    plan = cuvee.plan(
        SOURCES, LOGISTIC, n_targets=100, tol=1e-3, mixtures=cuvee.simplex.sample(40, 3, seed=3)
    )
    assert plan.choice in ("solve", "learn")


def test_a_plan_judges_maps_on_mixtures_like_those_given():
    """Two far clusters: between them no map is trusted, and nobody will ask there."""
    rng = np.random.default_rng(0)
    corners = np.eye(3)[rng.integers(2, size=600)]
    alpha = 0.9 * corners + 0.1 * rng.dirichlet(np.ones(3), size=600)
    plan = cuvee.plan(SOURCES, LOGISTIC, n_targets=1_000_000, tol=1e-2, mixtures=alpha)
    assert plan.choice == "learn"
    assert plan.learn.each < 0.5 * plan.solve.each


def test_what_was_not_tried_never_decides_for_learning(monkeypatch):
    monkeypatch.setattr(planning, "DEAR", 0.0)
    monkeypatch.setattr(planning, "STAKE", inf)
    plan = cuvee.plan(SOURCES, LOGISTIC, n_targets=100_000_000, tol=1e-3)
    assert plan.at_best and plan.choice == "solve" and plan.atlas is None
    assert "at least" in str(plan)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_targets": -1}, "n_targets"),
        ({"n_targets": 1.5}, "n_targets"),
        ({"n_targets": 10, "tol": 0.0}, "tol"),
        ({"n_targets": 10, "mixtures": np.full((50, 3), 1 / 3)}, "equal"),
        ({"n_targets": 10, "mixtures": np.eye(4)}, "shape"),
        ({"n_targets": 10, "concentration": -1.0}, "concentration"),
    ],
)
def test_bad_plans(options, words):
    with pytest.raises(cuvee.CuveeError, match=words):
        cuvee.plan(SOURCES, LOGISTIC, **options)


def test_one_source_has_nothing_to_plan():
    with pytest.raises(cuvee.OptionError, match="N=1"):
        cuvee.plan(SOURCES[:1], LOGISTIC, n_targets=10)


def test_no_targets_at_all():
    assert cuvee.plan(SOURCES, LOGISTIC, n_targets=0).choice == "solve"
