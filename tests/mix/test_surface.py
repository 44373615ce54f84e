"""A surface predicts, proposes, and says what it does not know."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import cuvee
from cuvee.mix import InfeasibleError, registry
from hypothesis import given, settings
from hypothesis import strategies as st
from mix_builders import law, mixtures, noisy

DOMAINS, METRICS = ["web", "code", "books", "talk"], ["reading", "maths"]
ALPHA = mixtures(36, 4)
Y = noisy(ALPHA)


def frames():
    names = [f"r{i}" for i in range(len(ALPHA))]
    ratios = pd.DataFrame(ALPHA, columns=DOMAINS).assign(run=names)
    metrics = pd.DataFrame(Y, columns=METRICS).assign(run=names)
    return ratios, metrics


@pytest.fixture(scope="module")
def surface():
    ratios, metrics = frames()
    return cuvee.fit_surface(ratios, metrics.sample(frac=1.0, random_state=1))


def test_rows_are_joined_by_name(surface):
    assert surface.domains == tuple(DOMAINS) and surface.metrics == tuple(METRICS)
    np.testing.assert_allclose(surface.runs.metrics, Y)


def test_predictions_are_near_the_truth_with_intervals_around_them(surface):
    fresh = mixtures(100, 4, seed=5)
    p, truth = surface.predict(fresh), law(fresh)
    assert np.abs(p.mean - truth).mean() < 0.1 * Y.std(0).mean()
    assert (p.low < p.mean_low).all() and (p.mean_low < p.mean).all()
    assert (p.mean < p.mean_high).all() and (p.mean_high < p.high).all()
    assert p.to_frame().shape == (200, 7)


def test_a_mixture_may_be_given_by_name_in_any_order(surface):
    row = {"books": 0.25, "web": 0.75}
    by_name = surface.predict(row).mean
    np.testing.assert_array_equal(by_name, surface.predict([0.75, 0.0, 0.25, 0.0]).mean)
    frame = pd.DataFrame([[0.0, 0.25, 0.0, 0.75]], columns=["talk", "books", "code", "web"])
    np.testing.assert_array_equal(by_name, surface.predict(frame).mean)
    with pytest.raises(cuvee.InputError, match="names the domain 'wiki', which is not one of web"):
        surface.predict({"wiki": 1.0})


def test_the_proposal_is_truly_better_than_uniform_and_any_run(surface):
    proposal = surface.best()
    truth = law(proposal.alpha[None]).mean()
    assert truth < law(np.full((1, 4), 0.25)).mean()
    assert truth < law(ALPHA).mean(1).min() + 0.01
    assert proposal.value < proposal.high and proposal.disappointment >= 0
    assert set(proposal.compared) == {"uniform", "best run"}
    assert "disappointment" in str(proposal)


def test_metrics_to_maximise_are_maximised():
    ratios, metrics = frames()
    surface = cuvee.fit_surface(ratios, metrics, candidates=["law"])
    flipped = metrics.assign(reading=-metrics["reading"])
    turned = cuvee.fit_surface(ratios, flipped, maximise=["reading"], candidates=["law"])
    np.testing.assert_allclose(
        turned.predict(ALPHA).mean, surface.predict(ALPHA).mean * [-1, 1], atol=1e-6
    )
    one, other = (s.best(minimise="reading").alpha for s in (turned, surface))
    np.testing.assert_allclose(one, other, atol=1e-3)


shares = st.floats(0.0, 0.24).map(lambda x: round(x, 3))


@settings(max_examples=8, deadline=None)
@given(shares, shares, st.floats(0.3, 1.0), st.booleans(), st.sampled_from([0.0, 1.0]))
def test_a_proposal_keeps_all_constraints(least, fixed, most, worst, risk):
    surface = test_a_proposal_keeps_all_constraints.surface
    limits = cuvee.Constraints(
        minimum={"web": least},
        fixed={"code": fixed},
        maximum={"books": most},
        groups={"quiet": (("books", "talk"), 0.3, 0.9)},
        budget=10.0,
        tokens={"talk": 2.0},
        repeat=2.5,
    )
    quick = replace(surface, halves=())
    alpha = quick.best(constraints=limits, worst=worst, risk=risk, prior=[0.25] * 4, pull=0.1).alpha
    assert abs(alpha.sum() - 1) <= 1e-9 and (alpha >= 0).all()
    assert alpha[0] >= least - 1e-9 and abs(alpha[1] - fixed) <= 1e-9
    assert alpha[2] <= most + 1e-9 and 0.3 - 1e-9 <= alpha[2:].sum() <= 0.9 + 1e-9
    assert alpha[3] <= 0.5 + 1e-9


@pytest.fixture(autouse=True)
def _for_the_property(surface):
    test_a_proposal_keeps_all_constraints.surface = surface


def test_repetitions_are_reported(surface):
    limits = cuvee.Constraints(budget=10, tokens={"web": 4, "code": 100}, repeat=4)
    proposal = replace(surface, halves=()).best(constraints=limits)
    assert proposal.repeats["web"] == pytest.approx(proposal.weights["web"] * 10 / 4)


def test_guard_rails_hold_at_the_end_of_the_interval_or_are_named(surface):
    quick = replace(surface, halves=())
    free = quick.best(minimise="reading", risk=1).prediction
    bound = float(free.mean_high[0, 1]) - 0.05 * Y.std(0)[1]
    kept = quick.best(minimise="reading", keep={"maths": bound}, risk=1).prediction
    assert kept.mean_high[0, 1] <= bound + 2e-3 * Y.std(0)[1]
    with pytest.raises(InfeasibleError, match="keeps 'maths' within its bound") as error:
        quick.best(minimise="reading", keep={"maths": -5.0})
    assert error.value.clash == ("bound of 'maths'",)


def test_a_strong_pull_ends_at_the_prior(surface):
    prior = np.array([0.4, 0.3, 0.2, 0.1])
    alpha = replace(surface, halves=()).best(prior=prior, pull=200.0).alpha
    np.testing.assert_allclose(alpha, prior, atol=0.02)


def test_sensitivities_have_the_sign_of_the_truth(surface):
    centre = np.full(4, 0.25)
    s = surface.sensitivity(centre)
    moved = 0.95 * centre + 0.05 * np.eye(4)
    true = law(moved) - law(centre[None])
    sure = (s.low > 0) | (s.high < 0)
    assert sure.any() and (np.sign(s.change) == np.sign(true))[sure].all()
    assert ((s.low <= true) & (true <= s.high)).mean() >= 0.75


def test_no_point_of_the_front_beats_another(surface):
    front = surface.front(METRICS, points=6)
    means = front.prediction.mean
    assert len(means) >= 2 and (np.diff(means[:, 0]) > 0).all() and (np.diff(means[:, 1]) < 0).all()
    assert list(front.to_frame().columns) == DOMAINS + METRICS


def test_next_runs_differ_and_say_why(surface):
    plan = surface.next_runs(4, constraints=cuvee.Constraints(maximum=0.7))
    assert plan.alpha.shape == (4, 4) and (plan.alpha <= 0.7 + 1e-9).all()
    np.testing.assert_allclose(plan.alpha.sum(1), 1)
    assert len(np.unique(plan.alpha.round(6), axis=0)) == 4
    assert all(reason.endswith(".") for reason in plan.reasons)
    assert list(plan.to_frame().columns) == ["run", *DOMAINS, "reason"]


def test_next_runs_differ_where_the_proposal_is_a_corner():
    alpha = mixtures(40, 4)
    y = 2 + np.exp(-2 * alpha[:, :1]) + 0.01 * np.random.default_rng(0).normal(size=(40, 1))
    surface = cuvee.fit_surface(alpha, y, candidates=["law", "quadratic"])
    assert surface.best().alpha[0] > 0.99
    chosen = surface.next_runs(12).alpha
    apart = np.abs(chosen[:, None] - chosen).sum(2) / 2 + np.eye(12)
    assert apart.min() >= 0.02 - 1e-9


def test_next_runs_keep_guard_rails(surface):
    first = METRICS[0]
    bound = float(np.quantile(surface.runs.metrics[:, 0], 0.4))
    wishes = {"minimise": METRICS[1], "keep": {first: bound}, "risk": 0.0}
    alpha = surface.next_runs(6, **wishes).alpha
    np.testing.assert_allclose(alpha[0], surface.best(**wishes).alpha, atol=1e-6)
    free = surface.next_runs(6, minimise=METRICS[1], risk=0.0).alpha
    assert surface.predict(alpha).mean[:, 0].max() <= bound + 1e-3 * surface.spreads()[0]
    assert surface.predict(free).mean[:, 0].max() > bound


def test_next_runs_come_again_where_only_one_mixture_is_allowed(surface):
    fixed = dict(zip(DOMAINS, [0.4, 0.3, 0.2, 0.1], strict=True))
    plan = surface.next_runs(3, constraints=cuvee.Constraints(fixed=fixed))
    np.testing.assert_allclose(plan.alpha, np.tile(list(fixed.values()), (3, 1)), atol=1e-9)
    assert "repeat" in plan.reasons[1] and len(plan) == 3


def test_a_domain_is_dropped_without_another_fit(surface):
    less = surface.without("web")
    assert less.domains == ("code", "books", "talk")
    row = [0.5, 0.3, 0.2]
    np.testing.assert_array_equal(less.predict(row).mean, surface.predict([0.0, *row]).mean)
    quick = replace(less, halves=())
    alpha = quick.best(constraints=cuvee.Constraints(minimum=0.1, maximum=0.6)).alpha
    assert alpha.shape == (3,) and abs(alpha.sum() - 1) < 1e-9 and alpha.min() >= 0.1 - 1e-9
    assert less.with_domain("web").domains == surface.domains


@pytest.mark.slow
def test_a_new_domain_is_unknown_until_runs_have_it(surface):
    more = surface.with_domain("wiki")
    assert more.domains[-1] == "wiki" and any("No run has any of wiki" in n for n in more.notes)
    known, new = more.predict([[0.25] * 4 + [0.0], [0.0] * 4 + [1.0]]).mean_high - (
        more.predict([[0.25] * 4 + [0.0], [0.0] * 4 + [1.0]]).mean
    )
    assert (new > 3 * known).all()


def test_failed_runs_are_said_and_left_out():
    ratios, metrics = frames()
    metrics.loc[3, "maths"] = np.nan
    surface = cuvee.fit_surface(ratios, metrics, candidates=["law"])
    assert len(surface.runs) == 35
    assert any(
        note == "Run 'r3' has no value of 'maths' and is left out." for note in surface.notes
    )


@pytest.mark.slow
def test_thirty_runs_of_forty_domains_are_wide_and_said_so():
    alpha = mixtures(30, 40, zeros=0.5)
    y = noisy(alpha, K=2, noise=0.2)
    surface = cuvee.fit_surface(alpha, y, candidates=["law", "bent_law"])
    assert any("30 runs for 40 domains" in note for note in surface.notes)
    p = surface.predict(mixtures(50, 40, seed=3, zeros=0.5))
    assert np.isfinite(p.mean).all() and ((p.high - p.low).mean(0) > y.std(0)).all()
    alpha = replace(surface, halves=()).best().alpha
    assert abs(alpha.sum() - 1) < 1e-9 and (alpha >= 0).all()


def test_repeated_mixtures_and_a_constant_metric_are_no_trouble():
    alpha = np.repeat(mixtures(12, 3), 2, axis=0)
    y = np.column_stack([noisy(alpha, K=1)[:, 0], np.full(24, 2.5)])
    surface = cuvee.fit_surface(alpha, y, candidates=["law", "gaussian"])
    p = surface.predict(alpha)
    np.testing.assert_allclose(p.mean[:, 1], 2.5, atol=1e-3)
    assert np.isfinite(p.high).all()


def test_a_metric_may_be_named_like_its_domain():
    ratios, metrics = frames()
    named = metrics.rename(columns={"reading": "web"})
    surface = cuvee.fit_surface(ratios, named, candidates=["law"])
    frame = surface.front(["web", "maths"], points=3).to_frame()
    assert list(frame.columns) == [*DOMAINS, "web (metric)", "maths"]


def test_a_surface_prints_as_one_line_of_words(surface):
    text = str(surface)
    assert text.startswith("Surface of 36 runs and 4 domains") and len(text) < 300


@pytest.mark.slow
def test_trees_join_by_name_and_come_back_from_a_file(tmp_path):
    both = cuvee.fit_surface(ALPHA, Y[:, :1], candidates=["law", "trees"])
    both.save(tmp_path / "s")
    again = cuvee.load_surface(tmp_path / "s")
    np.testing.assert_allclose(again.predict(ALPHA).mean, both.predict(ALPHA).mean, atol=1e-9)
    assert all(method.name != "trees" for method in registry.chosen(None))
    assert replace(both, halves=()).best().alpha.sum() == pytest.approx(1)


@pytest.mark.slow
def test_the_same_call_gives_the_same_surface():
    few = ["law", "bent_law"]
    one, two = (cuvee.fit_surface(ALPHA[:12], Y[:12], candidates=few) for _ in range(2))
    np.testing.assert_array_equal(one.predict(ALPHA).high, two.predict(ALPHA).high)
    np.testing.assert_array_equal(one.best().alpha, two.best().alpha)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda s: s.best(minimise="speed"),
            r"--minimise \(minimise=\) names the metric 'speed', which is not",
        ),
        (lambda s: s.best(risk=-1), r"--risk \(risk=\) must be a finite number at least 0"),
        (lambda s: s.best(pull=1.0), r"--pull \(pull=\) draws the mixture to --prior \(prior=\)"),
        (lambda s: s.front(["reading"]), "a front needs two or more metrics"),
        (lambda s: s.next_runs(0), "k must be a whole number of at least 1"),
        (lambda s: s.predict([0.5, 0.5, 0.5, 0.5]), "does not sum to 1"),
        (lambda s: s.predict(ALPHA, scale="7B"), r"--scale \(scale=\) must be one of"),
        (lambda s: s.without("wiki"), "name must be one of 'web'"),
    ],
)
def test_wrong_calls_are_refused_in_words(surface, call, words):
    with pytest.raises(cuvee.InputError, match=words):
        call(surface)


@pytest.mark.slow
def test_ninety_percent_intervals_hold_ninety_percent_of_new_runs():
    inside = []
    for seed in range(12):
        alpha, fresh = mixtures(64, 8, seed), mixtures(400, 8, seed + 100)
        y = noisy(np.concatenate([alpha, fresh]), K=5, seed=seed, noise=0.2)
        p = cuvee.fit_surface(alpha, y[:64]).predict(fresh)
        inside.append(((p.low <= y[64:]) & (y[64:] <= p.high)).mean())
    assert 0.88 <= np.mean(inside) <= 0.93


@pytest.mark.parametrize("scales", [None, ["1M"] * 22 + ["10M"] * 14])
def test_nothing_hangs_on_the_unit_of_a_metric(scales):
    plain = cuvee.fit_surface(ALPHA, Y, scale=scales)
    chosen, plan = plain.best(), plain.next_runs(3)
    front = plain.front(plain.metrics, points=4)
    for unit in (2.0**-43, 2.0**-66, 2.0**-300, 2.0**60):  # exact, so that nothing is rounded anew
        other = cuvee.fit_surface(ALPHA, unit * Y, scale=scales)
        assert all(fit.varies for fit in other.fits)
        proposal = other.best()
        np.testing.assert_allclose(proposal.alpha, chosen.alpha, atol=1e-6)
        np.testing.assert_allclose(
            [proposal.value, proposal.high, proposal.disappointment],
            unit * np.array([chosen.value, chosen.high, chosen.disappointment]),
            rtol=1e-6,
        )
        for field in ("mean", "low", "high", "mean_low", "mean_high"):
            np.testing.assert_allclose(
                getattr(proposal.prediction, field),
                unit * getattr(chosen.prediction, field),
                rtol=1e-6,
            )
        there = other.next_runs(3)
        np.testing.assert_allclose(there.alpha, plan.alpha, atol=1e-6)
        np.testing.assert_allclose(there.gains, unit * plan.gains, rtol=1e-6)
        traced = other.front(other.metrics, points=4)
        np.testing.assert_allclose(traced.alpha, front.alpha, atol=1e-6)


def test_a_metric_too_small_to_compute_with_is_refused():
    with pytest.raises(cuvee.InputError, match=r"'metric 1' is .* at most, too small"):
        cuvee.fit_surface(ALPHA, 1e-150 * Y)
