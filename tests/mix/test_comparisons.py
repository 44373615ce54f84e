"""What a proposal is compared with is the right mixture, allowed or marked, and in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import cuvee
from cuvee.mix import proposal
from cuvee.mix.search import with_ideal
from mix_builders import law, mixtures, noisy

DOMAINS = ("domain 1", "domain 2", "domain 3", "domain 4")
ALPHA = mixtures(36, 4)
Y = noisy(ALPHA)


@pytest.fixture(scope="module")
def surface():
    return replace(cuvee.fit_surface(ALPHA, Y, candidates=["law"]), halves=())


def best_run(surface, scale=None, **wanted):
    goal = surface._goal(wanted.get("minimise"), wanted.get("worst", False), None, 0.0, None, 0.0)
    y = torch.as_tensor(surface.runs.metrics) * surface._sign
    belief = surface._belief(scale)
    goal = with_ideal(goal, belief, surface._polytope(None), surface._starts(None), 0)
    return proposal.best_run(goal, belief, surface.runs, y, surface.domains)


def test_the_best_run_has_the_lowest_metrics(surface):
    np.testing.assert_allclose(best_run(surface), ALPHA[Y.mean(1).argmin()])


def test_the_best_run_is_compared_across_scales():
    y = Y.copy()
    y[24:] = 10 + y[24:]  # the level of the large scale is higher, its shape is the same
    truth = law(ALPHA).mean(1)
    large = 24 + int(truth[24:].argmin())
    y[large] = 9.0 + y[:24].min(0)  # the best of all, though at a higher level
    surface = cuvee.fit_surface(ALPHA, y, scale=[60] * 24 + [190] * 12, candidates=["law"])
    np.testing.assert_allclose(best_run(surface), ALPHA[large])


def test_the_best_run_of_the_worst_metric_is_meant():
    y = Y * [1.0, 20.0]  # the mean is the second metric, nearly
    surface = replace(cuvee.fit_surface(ALPHA, y, candidates=["law"]), halves=())
    lowest = [surface.best(minimise=name, risk=0).value for name in surface.metrics]
    i = int(((y - lowest) / y.std(0)).max(1).argmin())
    assert i != int(y.mean(1).argmin())
    np.testing.assert_array_equal(best_run(surface, worst=True), surface.runs.alpha[i])


def test_the_best_run_has_no_dropped_domain(surface):
    name = DOMAINS[int(ALPHA[Y.mean(1).argmin()].argmax())]
    less = surface.without(name)
    rows = ALPHA[:, DOMAINS.index(name)] == 0
    np.testing.assert_allclose(best_run(less), ALPHA[rows][Y[rows].mean(1).argmin()])


def test_without_a_run_that_is_offered_there_is_no_best_run():
    alpha = 0.2 + 0.2 * mixtures(20, 4)
    alpha /= alpha.sum(1, keepdims=True)
    surface = cuvee.fit_surface(alpha, noisy(alpha), candidates=["law"])
    compared = replace(surface, halves=()).without("domain 2").best().compared
    assert set(compared) == {"uniform"}


def test_what_the_constraints_forbid_is_marked(surface):
    made = surface.best(constraints=cuvee.Constraints(maximum=0.4), prior=[0.7, 0.1, 0.1, 0.1])
    assert "best run" in made.forbidden and "prior" in made.forbidden
    assert "uniform" not in made.forbidden
    assert "(not allowed)" in str(made)
    assert surface.best().forbidden == () and "allowed" not in str(surface.best())


def test_what_a_guard_rail_forbids_is_marked(surface):
    free = surface.best(minimise="metric 1").prediction.mean[0, 1]
    uniform = surface.predict(surface.uniform()).mean[0, 1]
    lower = surface.best(minimise="metric 2").prediction.mean[0, 1]
    bound = (lower + min(free, uniform)) / 2
    made = surface.best(minimise="metric 1", keep={"metric 2": bound}, risk=0)
    assert "uniform" in made.forbidden


@pytest.mark.parametrize(
    ("maximise", "wanted", "words"),
    [
        (
            [],
            {"minimise": "metric 1"},
            "for metric 1; the 90% interval for the mean of many such runs ends at",
        ),
        ([], {}, "for the mean of metric 1, metric 2; the 90% interval"),
        ([], {"minimise": {"metric 1": 2, "metric 2": 1}}, "for the weighted mean of metric 1, m"),
        (
            ["metric 1"],
            {"minimise": "metric 1"},
            "for metric 1; the 90% interval for the mean of many such runs begins at",
        ),
        (["metric 1"], {}, "for the mean of −metric 1, metric 2 (lower is better); the"),
        (["metric 1"], {"worst": True}, "the worst of −metric 1, metric 2 (spreads above i"),
    ],
)
def test_the_goal_is_said_in_the_direction_of_its_metrics(maximise, wanted, words):
    y = Y * [-1 if f"metric {k + 1}" in maximise else 1 for k in range(2)]
    fitted = cuvee.fit_surface(ALPHA, y, maximise=maximise, candidates=["law"])
    made = replace(fitted, halves=()).best(**wanted)
    assert words in str(made)
    if wanted == {"minimise": "metric 1"}:
        assert f"Expected {made.prediction.mean[0, 0]:.4g} for" in str(made)
        assert made.direction * made.compared["uniform"] == pytest.approx(
            fitted.predict(fitted.uniform()).mean[0, 0]
        )


def test_with_few_runs_nothing_is_said_of_disappointment():
    surface = cuvee.fit_surface(ALPHA[:7], Y[:7], candidates=["law"])
    text = str(surface.best())
    assert "nan" not in text and "disappointment" not in text


def test_next_runs_begin_with_the_proposal_that_was_chosen(surface):
    uniform = surface.predict(surface.uniform()).mean[0, 1]
    wanted = {
        "minimise": "metric 1", "keep": {"metric 2": float(uniform) + 1.0}, "risk": 0.5,
        "prior": [0.4, 0.3, 0.2, 0.1], "pull": 0.3,
    }  # fmt: skip
    for goal in ({}, wanted):
        first = surface.next_runs(2, **goal).alpha[0]
        np.testing.assert_array_equal(first, surface.best(**goal).alpha)


def test_a_dropped_domain_stays_dropped_when_runs_are_added(surface):
    less = surface.without("domain 2")
    for alpha in (ALPHA[:6], ALPHA[:6][:, [0, 2, 3]] / (1 - ALPHA[:6, 1:2])):
        assert less.with_runs(alpha, Y[:6]).domains == ("domain 1", "domain 3", "domain 4")
    grown = less.with_runs([[0.2, 0.3, 0.5]], Y[:1])  # the domains that are offered, in order
    np.testing.assert_allclose(grown.runs.alpha[-1], [0.2, 0.0, 0.3, 0.5])
    with pytest.raises(cuvee.InputError, match="alpha has 2 columns for the domains domain 1, dom"):
        less.with_runs([[0.5, 0.5]], Y[:1])


def test_one_new_run_is_enough(surface):
    assert len(surface.with_runs(ALPHA[:1], Y[:1]).runs) == 37


def test_a_front_names_a_metric_that_is_not_there(surface):
    with pytest.raises(cuvee.InputError, match="a metric of the front must be one of 'metric 1'"):
        surface.front(["metric 1", "speed"])


@pytest.mark.filterwarnings("error")
def test_all_shares_may_be_fixed(surface):
    fixed = dict(zip(DOMAINS, (0.1, 0.2, 0.3, 0.4), strict=True))
    made = surface.best(constraints=cuvee.Constraints(fixed=fixed))
    np.testing.assert_allclose(made.alpha, [0.1, 0.2, 0.3, 0.4])


def test_a_metric_that_never_varies_is_said():
    y = np.column_stack([Y, np.full(36, 2.5)])
    surface = cuvee.fit_surface(ALPHA, y, candidates=["law"])
    assert [fit.varies for fit in surface.fits] == [True, True, False]
    assert "metric 3 never varies" in str(surface)
    assert any(n.startswith("All runs have the same metric 3, within") for n in surface.notes)


def test_a_note_on_a_poor_fit_claims_no_cause():
    y = np.random.default_rng(0).normal(size=(6, 1))
    surface = cuvee.fit_surface(mixtures(6, 12), y, candidates=["law"])
    [note] = [n for n in surface.notes if "hardly explains" in n]
    assert "Noise may hide its effect, or the runs are too few" in note


def test_a_mean_of_metrics_in_different_units_is_said():
    y = Y * [1.0, 40.0 * Y[:, 0].std() / Y[:, 1].std()]
    fitted = replace(cuvee.fit_surface(ALPHA, y, candidates=["law"]), halves=())
    [note] = [note for note in fitted.best().notes if "own units" in note]
    assert "'metric 2' varies 40 times as much as 'metric 1'" in note
    for wanted in ({"minimise": ["metric 1", "metric 2"]}, {"worst": True}):
        assert not any("own units" in note for note in fitted.best(**wanted).notes)


@pytest.mark.parametrize(
    ("name", "said"), [("acc_maths", True), ("F1", True), ("accent", False), ("loss", False)]
)
def test_a_metric_that_may_be_better_when_larger_is_said(name, said):
    frames = pd.DataFrame(ALPHA, columns=DOMAINS), pd.DataFrame(Y[:, :1], columns=[name])
    words = f"Lower counts as better for {name}"
    fitted = cuvee.fit_surface(*frames, candidates=["law"])
    assert any(words in note for note in fitted.notes) == said
    turned = cuvee.fit_surface(*frames, candidates=["law"], maximise=[name])
    assert not any(words in note for note in turned.notes)


def test_a_mixture_that_is_compared_twice_is_said_once():
    alpha, uniform = mixtures(20, 4), np.full(4, 0.25)
    y = np.abs(np.concatenate([alpha, uniform[None]]) - uniform).sum(1)
    surface = cuvee.fit_surface(
        np.concatenate([alpha, uniform[None]]), y[:, None], candidates=["quadratic"]
    )
    made = replace(surface, halves=()).best()
    assert set(made.compared) == {"uniform", "best run"} and made.same == {"best run": "uniform"}
    assert made.others().startswith("uniform, which is also the best run, ")
    assert made.others().count("best run") == 1
    assert replace(surface, halves=()).best(prior=alpha[0]).same == {"best run": "uniform"}
