"""Cuts against the exact oracles; panels against brute force; halves that share no row."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cuvee
from cuvee import erm
from cuvee.components import ALL, Batch, Half, QuadraticComponents, bind
from cuvee.components.rows import part_of
from cuvee.data.synthetic import grouped_classes, squared_loss_instance
from cuvee.mixture import cuts, panel
from cuvee.mixture.exact import Quadratics
from cuvee.mixture.largest import quadratic_maximisers
from cuvee.mixture.objective import Objective, differences, inverse_counts
from cuvee.mixture.players import Settings
from hypothesis import given, settings
from hypothesis import strategies as st

RIDGE = cuvee.Ridge(l2=0.0, intercept=False, radius=3.0)


def against_the_oracle(seed, form):
    """Return the true minimum's bracket, and what cuts say: the true F of their α, F, bound."""
    problem = squared_loss_instance(seed)
    mix = cuvee.estimate(problem, RIDGE, method="cuts", C=5.0, c=1e-12, discrepancy=form)
    components = QuadraticComponents(problem, RIDGE.bind(problem.facts))
    oracle = Quadratics.of(components, 5.0, form)
    value, _, bound = oracle.minimum(tol=1e-3)
    return value, bound, oracle.worst(mix.alpha[0])[0], mix


def check_against_the_oracle(seeds, form, within):
    near = []
    for seed in seeds:
        value, _, worst, mix = against_the_oracle(seed, form)
        lower = mix.objective[0] - mix.gap[0]
        assert lower <= value * (1 + 1e-6), seed  # the proven bound is below the true minimum
        if mix.status[0] is cuvee.Status.CONVERGED:
            assert mix.gap[0] <= 0.02 * mix.objective[0]
        near.append(worst <= 1.05 * value)
        if form == "mixture":  # exact adversaries: F is the true one, and the gap a proven one
            assert mix.status[0] is cuvee.Status.CONVERGED
            assert worst == pytest.approx(mix.objective[0], rel=1e-5)
    assert np.mean(near) >= within


@pytest.mark.parametrize("form", ["mixture", "sum"])
def test_cuts_find_the_minimum_and_prove_it(form):
    check_against_the_oracle(
        range(8 if form == "mixture" else 4), form, 1.0 if form == "mixture" else 0.75
    )


@pytest.mark.slow
@pytest.mark.parametrize("form", ["mixture", "sum"])
def test_no_proven_bound_is_above_the_true_minimum_on_two_hundred_instances(form):
    check_against_the_oracle(range(100, 200), form, 0.95)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(seed=st.integers(0, 500))
def test_exact_adversaries_beat_sampled_ones(seed):
    problem = squared_loss_instance(seed)
    components = QuadraticComponents(problem, RIDGE.bind(problem.facts))
    rng = np.random.default_rng(seed)
    N, P = problem.n_sources, components.space.n_params
    alpha = torch.as_tensor(rng.dirichlet(np.ones(N), size=(1, 3)))
    u = torch.stack([alpha, -alpha], 2).flatten(1, 2)
    w = quadratic_maximisers(components, u, "all")
    assert (w.norm(dim=-1) <= 3.0 * (1 + 1e-9)).all()
    tried = torch.as_tensor(rng.normal(size=(1, 3000, P)))
    tried = 3.0 * tried / tried.norm(dim=-1, keepdim=True) * torch.rand(1, 3000, 1)
    reached, sampled = (
        alpha @ differences(components.values(at.contiguous(), ALL)).mT for at in (w, tried)
    )
    for g in range(3):
        assert reached[0, g, 2 * g] >= sampled[0, g].max() - 1e-9
        assert reached[0, g, 2 * g + 1] <= sampled[0, g].min() + 1e-9


def test_every_cut_is_below_the_largest_f_for_every_alpha_and_c():
    """What makes them cuts: they come from one α and one C, and hold for all."""
    problem = squared_loss_instance(3)
    components = QuadraticComponents(problem, RIDGE.bind(problem.facts))
    objective = Objective("mixture", 1e-12, 0.0, inverse_counts(components)[:, :-1])
    rng = np.random.default_rng(0)
    at = torch.as_tensor(rng.dirichlet(np.ones(problem.n_sources), size=(1, 2)))
    z = panel.of(components, objective, Settings()).answer(at, 0).z
    for C in (0.1, 5.0, 100.0):
        oracle = Quadratics.of(components, C, "mixture")
        for alpha in rng.dirichlet(np.ones(problem.n_sources), size=10):
            weights = torch.as_tensor(alpha)[None, None]
            from_cuts = cuts.largest(
                objective, torch.tensor([[C]]).double(), weights, torch.cat([z, -z], 1)
            )
            assert float(from_cuts) <= oracle.worst(alpha)[0] + 1e-5


def test_climbing_adversaries_reach_nearly_as_high_as_exact_ones():
    ratios = []
    for seed in range(6):
        problem = squared_loss_instance(seed)
        components = QuadraticComponents(problem, RIDGE.bind(problem.facts))
        objective = Objective("mixture", 1e-12, 0.0, inverse_counts(components)[:, :-1])
        alpha = torch.full((1, 1, problem.n_sources), 1.0 / problem.n_sources).double()
        climbers = panel.Climbers(components, objective, Settings())
        z = torch.cat([climbers.answer(alpha, t).z for t in range(panel.SEASON)], 1)
        exact = panel.Exact(components, objective, Settings()).answer(alpha, 0).z
        ratios.append(float((alpha @ z.mT).abs().max() / (alpha @ exact.mT).abs().max()))
    assert max(ratios) <= 1 + 1e-9
    assert np.median(ratios) > 0.97 and min(ratios) > 0.8


def test_an_honest_panel_judges_on_rows_it_has_not_climbed_on():
    problem = grouped_classes(0, n_targets=2)
    components = bind(problem, cuvee.Logistic(1e-2).bind(problem.facts), "bounded")
    objective = Objective("mixture", 1e-4, 0.0, inverse_counts(components))
    seen = []

    class Watched:
        """The same components, which write down what they are asked."""

        def __getattr__(self, name):
            return getattr(components, name)

        def losses(self, w, batch):
            seen.append(("climb", batch))
            return components.losses(w, batch)

        def values(self, w, batch):
            seen.append(("judge", batch))
            return components.values(w, batch)

    one, other = Half(0, 0), Half(0, 1)
    alpha = torch.full((2, 1, problem.n_sources + 1), 1.0 / (problem.n_sources + 1)).double()
    z = panel.Climbers(Watched(), objective, Settings(), one, other).answer(alpha, 0).z
    assert {kind: batch.part for kind, batch in seen} == {"climb": one, "judge": other}
    # one cut for each adversary, from the last place it reached
    assert z.shape == (2, Settings().adversaries, problem.n_sources)


def test_cuts_from_a_sample_of_the_rows_know_their_error(monkeypatch):
    """About 95 % of Σ α_j z_j lie within two standard errors of what all rows say."""
    problem = grouped_classes(0, n_targets=2)
    components = bind(problem, cuvee.Logistic(1e-2).bind(problem.facts), "bounded")
    objective = Objective("mixture", 1e-4, 0.0, inverse_counts(components))
    monkeypatch.setattr(panel, "SAMPLED", components.n_rows // 3)
    alpha = torch.full((2, 1, problem.n_sources + 1), 1.0 / (problem.n_sources + 1)).double()
    off = []
    for t in range(0, 20 * panel.SEASON, panel.SEASON):
        climbers = panel.Climbers(components, objective, Settings())
        z, error = climbers.answer(alpha, t)
        whole = differences(components.values(climbers._w, ALL))
        assert error.shape == (2, problem.n_sources) and (error > 0).all()
        noise = cuts._noise(alpha, error)  # twice the standard error
        weights = alpha[:, :, : problem.n_sources]
        off.append(((weights @ (z - whole).mT).abs().mean(-1) / noise).flatten())
    # |N(0, 1)| has mean 0.8, of two standard errors 0.4
    assert 0.25 < torch.cat(off).mean() < 0.6


def test_sampled_cuts_find_about_the_same_weights_and_a_gap_with_the_error_in_it(monkeypatch):
    problem = grouped_classes(1, n_targets=2, rows=400)
    hypothesis = cuvee.Logistic(1e-2)
    whole = cuvee.estimate(problem, hypothesis, method="cuts")
    rows = sum(s.n_rows for s in problem.sources)
    monkeypatch.setattr(panel, "SAMPLED", rows // 2)
    sampled = cuvee.estimate(problem, hypothesis, method="cuts")
    groups = [mix.alpha.reshape(2, 3, 3).sum(2) for mix in (sampled, whole)]
    assert np.abs(groups[0] - groups[1]).max() < 0.15
    assert (np.abs(sampled.objective - whole.objective) < sampled.gap).all()
    assert (sampled.gap > whole.gap).all()


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    rows=st.integers(1, 40),
    classes=st.integers(1, 4),
    seed=st.integers(0, 99),
    role=st.sampled_from(["source", "target"]),
)
def test_halves_share_no_row_and_have_all_classes(rows, classes, seed, role):
    rng = np.random.default_rng(seed)
    domain = cuvee.Domain(
        "d", np.arange(rows)[:, None].astype(float), rng.integers(0, classes, rows)
    )
    halves = [part_of(role, domain, seed, Half(0, side)) for side in (0, 1)]
    numbers = [set(half.X[:, 0]) for half in halves]
    if rows < (3 if role == "source" else 5):
        assert numbers[0] == numbers[1] == set(range(rows))  # too few to be split
        return
    assert not numbers[0] & numbers[1] and numbers[0] | numbers[1] == set(range(rows))
    for k in range(classes):
        in_each = [int((half.y == k).sum()) for half in halves]
        assert abs(in_each[0] - in_each[1]) <= 1
    again = part_of(role, domain, seed, Half(0, 0))
    assert set(again.X[:, 0]) == numbers[0]


@pytest.mark.parametrize(
    "hypothesis", [cuvee.Ridge(1e-2), cuvee.Logistic(1e-2), cuvee.Poisson(1e-2)]
)
def test_losses_on_a_half_are_those_of_a_problem_of_that_half(hypothesis):
    problem = grouped_classes(0, n_targets=2)
    if isinstance(hypothesis, cuvee.Ridge):
        problem = cuvee.Problem(
            [cuvee.Domain(d.name, d.X, d.y + 0.5) for d in problem.sources],
            [cuvee.Domain(d.name, d.X, d.y + 0.5) for d in problem.targets],
        )
    space = hypothesis.bind(problem.facts)
    half = Half(0, 1)
    smaller = cuvee.Problem(
        [part_of("source", s, 0, half) for s in problem.sources],
        [part_of("target", t, 0, half) for t in problem.targets],
    )
    w = torch.as_tensor(np.random.default_rng(0).normal(size=(2, 3, space.n_params)))
    got = erm.components(problem, space).values(w, Batch(part=half))
    torch.testing.assert_close(got, erm.components(smaller, space).values(w, ALL))


def test_an_adversary_that_overflows_spoils_nobody():
    z = torch.tensor([[[1.0, 2.0], [torch.nan, 1.0]], [[torch.inf, 0.0], [torch.nan, 0.0]]])
    assert cuts._finite(z).tolist() == [[[1.0, 2.0], [1.0, 2.0]], [[0.0, 0.0], [0.0, 0.0]]]
