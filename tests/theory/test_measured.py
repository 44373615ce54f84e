"""Measured G_f, L_f, μ_f, κ* and complexities are bounds for the rows in hand."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
import torch

import cuvee
from cuvee import theory
from cuvee.components import LocalComponents
from cuvee.data.synthetic import shifted_sources
from cuvee.simplex import sample
from cuvee.theory.row_constants import rademacher_of
from hypothesis import given, settings
from hypothesis import strategies as st

KINDS = ["ridge", "logistic", "softmax"]
CASES = {
    "kind": st.sampled_from(KINDS),
    "intercept": st.booleans(),
    "seed": st.integers(0, 30),
    "l2": st.sampled_from([0.01, 0.3]),
}


def sources_of(kind, seed, N=3, rows=25, features=3):
    domains = shifted_sources(N, rows, features, seed=seed, quantity=kind == "ridge")
    if kind == "softmax":
        rng = np.random.default_rng(seed)
        labels = [np.r_[0, 1, 2, rng.integers(0, 3, rows - 3)] for _ in domains]
        domains = [cuvee.Domain(d.name, d.X, y) for d, y in zip(domains, labels, strict=True)]
    return domains


def hypothesis_of(kind, l2, intercept, radius=None):
    cls = cuvee.Ridge if kind == "ridge" else cuvee.Logistic
    return cls(l2=l2, intercept=intercept, radius=radius)


def in_ball(n, P, radius, seed):
    rng = np.random.default_rng([9, seed])
    u = rng.normal(size=(n, P))
    u *= radius * rng.random((n, 1)) ** 0.3 / np.linalg.norm(u, axis=1, keepdims=True)
    return torch.as_tensor(u)


def risks(sources, hypothesis, w):
    """f_j(w) of every source with its penalty, w (n, P) -> (N, n), by the space's own losses."""
    space = hypothesis.bind(cuvee.Problem(sources).facts)
    penalty = 0.5 * space.l2 * (space.penalised * w.square()).sum(-1)
    each = []
    for d in sources:
        y = torch.as_tensor(space.encode(d.y, d.name))
        losses = space.trained(space.scores(w, space.prepare(torch.as_tensor(d.X))), y)
        each.append(losses.mean(-1) + penalty)
    return torch.stack(each)


def derivatives(of, w):
    """Gradients (n, P) and Hessians (n, P, P) of functions (k, P) -> (n, k), by differences."""
    P, h = len(w), 1e-4
    e = torch.eye(P, dtype=w.dtype)
    slopes = (of(w + 1e-6 * e) - of(w - 1e-6 * e)) / 2e-6
    corners = [(s, t) for s in (1, -1) for t in (1, -1)]
    points = [(s * e[:, None] + t * e[None]).reshape(-1, P) for s, t in corners]
    each = [s * t * of(w + h * at) for (s, t), at in zip(corners, points, strict=True)]
    return slopes, (sum(each) / (4 * h * h)).view(-1, P, P)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(**CASES)
def test_risk_constants_bound_gradients_and_curvatures_all_over_W(kind, intercept, seed, l2):
    sources, hypothesis = sources_of(kind, seed), hypothesis_of(kind, l2, intercept)
    k = theory.risk_constants(sources, hypothesis, radius=1.5)
    P = hypothesis.bind(cuvee.Problem(sources).facts).n_params
    for w in in_ball(3, P, 1.5, seed):
        gradients, curvatures = derivatives(lambda v: risks(sources, hypothesis, v), w)
        assert float(torch.linalg.vector_norm(gradients, dim=-1).max()) <= k.G_f * (1 + 1e-6)
        eigen = torch.linalg.eigvalsh(curvatures)
        assert k.mu_f - 1e-5 <= float(eigen.min()) and float(eigen.max()) <= k.L_f * (1 + 1e-5)
    assert k.kappa >= 1.0 and (k.mu_f > 0) == (k.kappa_star < inf)
    assert k.mu_f >= l2 - 1e-12 or intercept
    if kind == "softmax" and intercept:
        assert k.mu_f == 0.0  # all classes' intercepts together move nothing


@settings(derandomize=True, deadline=None, max_examples=25)
@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 30), l2=st.sampled_from([0.03, 0.5]))
def test_kappa_star_bounds_how_fast_minimisers_move(kind, seed, l2):
    sources, hypothesis = sources_of(kind, seed), hypothesis_of(kind, l2, intercept=False)
    one = np.concatenate([sample(30, 3, seed), np.eye(3)])
    other = np.concatenate([sample(30, 3, seed + 99), np.roll(np.eye(3), 1, 0)])
    alpha = np.concatenate([one, other, np.eye(3)])
    w = cuvee.solve(sources, hypothesis, alpha, tol=1e-9).w
    k = theory.risk_constants(sources, hypothesis, w=w)
    moved = np.linalg.norm(w[: len(one)] - w[len(one) : 2 * len(one)], axis=1)
    ratio = moved / np.linalg.norm(one - other, axis=1)
    slopes = cuvee.sensitivity(sources, hypothesis, alpha[-20:], w[-20:])  # (20, N, P)
    slopes = np.linalg.svd(slopes - slopes.mean(1, keepdims=True), compute_uv=False)[:, 0]
    assert max(ratio.max(), slopes.max()) <= k.kappa_star_met <= k.kappa_star * (1 + 1e-9)
    assert pytest.approx(np.linalg.norm(w, axis=1).max()) == k.D
    everywhere = theory.risk_constants(sources, hypothesis)  # W where every minimiser must lie
    assert everywhere.D >= k.D and everywhere.G_f_met is None
    assert everywhere.kappa_star >= k.kappa_star * (1 - 1e-9)


def test_risk_constants_say_what_they_lack():
    sources = sources_of("ridge", 0)
    with pytest.raises(cuvee.OptionError, match="give radius= or w="):
        theory.risk_constants(sources, cuvee.Ridge(l2=0.1))  # nothing holds the intercept
    with pytest.raises(cuvee.OptionError, match="give radius= or w="):
        theory.risk_constants(sources, cuvee.Ridge(l2=0.0, intercept=False))
    with pytest.raises(cuvee.OptionError, match=r"shape \(n, 3\)"):
        theory.risk_constants(sources, cuvee.Ridge(intercept=False), w=np.zeros((2, 4)))
    with pytest.raises(cuvee.OptionError, match="no minimisers were given: pass them as w="):
        _ = theory.risk_constants(sources, cuvee.Ridge(intercept=False)).kappa_star_met
    with pytest.raises(cuvee.OptionError, match="only for Ridge and Logistic"):
        theory.risk_constants(sources_of("logistic", 0), cuvee.Network(torch.nn.Linear(3, 2)))


def test_repeating_rows_or_weighing_them_alike_changes_nothing():
    one = sources_of("logistic", 3)
    two = [cuvee.Domain(d.name, np.repeat(d.X, 2, 0), np.repeat(d.y, 2)) for d in one]
    weighed = [cuvee.Domain(d.name, d.X, d.y, np.full(d.n_rows, 7.0)) for d in one]
    hypothesis = cuvee.Logistic(l2=0.1, intercept=False)
    first, *others = (theory.risk_constants(s, hypothesis, radius=2.0) for s in (one, two, weighed))
    for k in others:
        assert (k.mu_f, k.L_f, k.G_f) == pytest.approx((first.mu_f, first.L_f, first.G_f))


@settings(derandomize=True, deadline=None, max_examples=20)
@given(**CASES, loss=st.sampled_from(["trained", "bounded"]))
def test_row_constants_bound_every_row_all_over_W(kind, intercept, seed, l2, loss):
    domains, radius = sources_of(kind, seed, N=3), 1.7
    problem, hypothesis = (
        cuvee.Problem(domains[:2], domains[2:]),
        hypothesis_of(kind, l2, intercept, radius),
    )
    k = theory.row_constants(problem, hypothesis, loss=loss)
    space = hypothesis.bind(problem.facts)
    X = space.prepare(torch.as_tensor(np.concatenate([d.X for d in domains])))
    y = torch.as_tensor(np.concatenate([space.encode(d.y, d.name) for d in domains]))

    def row_losses(w):  # (k, P) -> (rows, k)
        return space.loss(loss, space.scores(w, X), y).T

    for w in in_ball(4, space.n_params, radius, seed):
        J, H = derivatives(row_losses, w)
        assert float(torch.linalg.vector_norm(J, dim=-1).max()) <= k.G_f * (1 + 1e-6)
        assert float(torch.linalg.eigvalsh(H).abs().max()) <= k.L_f * (1 + 1e-5) + 1e-6
        losses = row_losses(w[None])
        assert float(losses.min()) >= 0 and float(losses.max()) <= k.largest_loss * (1 + 1e-9)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    kind=st.sampled_from(KINDS),
    loss=st.sampled_from(["trained", "bounded"]),
    seed=st.integers(0, 20),
)
def test_rademacher_is_above_what_chance_finds(kind, loss, seed):
    """E sup_w (1/m) Σ σ_i ℓ(w; i) from below: random signs, and a crowd instead of all of W."""
    domains, radius = sources_of(kind, seed, N=3, rows=12), 1.2
    problem, hypothesis = (
        cuvee.Problem(domains[:2], domains[2:]),
        hypothesis_of(kind, 0.1, True, radius),
    )
    sources, own = theory.rademacher(problem, hypothesis, loss=loss)
    assert sources.shape == (2,) and own.shape == (1,)
    space = hypothesis.bind(problem.facts)
    w = in_ball(300, space.n_params, radius, seed)
    signs = torch.as_tensor(np.random.default_rng(seed).choice([-1.0, 1.0], size=(300, 12)))
    for d, bound in zip(domains, [*sources, *own], strict=True):
        losses = space.loss(
            loss,
            space.scores(w, space.prepare(torch.as_tensor(d.X))),
            torch.as_tensor(space.encode(d.y, d.name)),
        )
        assert float((signs @ losses.T / 12).amax(1).mean()) <= bound


def test_rademacher_falls_with_rows_as_it_should_and_is_exact_where_it_can_be():
    """For linear losses over a ball the supremum is r‖Σσ_i x_i‖/m: Jensen is all that is lost."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    signs = rng.choice([-1.0, 1.0], size=(2_000, 400))
    exact = 0.25 * 3.0 * np.linalg.norm(signs @ X, axis=1).mean() / 400  # ¼: contraction of 1 − p_y
    d = cuvee.Domain("a", X, rng.integers(0, 2, 400))
    hypothesis = cuvee.Logistic(radius=3.0, intercept=False)
    (bound,), _ = theory.rademacher(cuvee.Problem([d]), hypothesis)
    assert exact <= bound <= 1.2 * exact
    quarter = cuvee.Domain("b", X[:100], d.y[:100])
    (more,), _ = theory.rademacher(cuvee.Problem([quarter]), hypothesis)
    assert more == pytest.approx(2 * bound, rel=0.1)


def test_without_a_radius_there_is_no_bound():
    problem = cuvee.Problem(sources_of("logistic", 0))
    for f in (theory.row_constants, theory.rademacher):
        with pytest.raises(cuvee.OptionError, match="give the hypothesis a radius"):
            f(problem, cuvee.Logistic(), loss="trained", standardised=False)
    assert theory.row_constants(problem, cuvee.Logistic()).largest_loss == 1.0  # W of estimate
    only_sources = cuvee.Problem(sources_of("ridge", 0))
    assert theory.rademacher(only_sources, cuvee.Ridge(radius=1.0))[1].shape == (0,)


def test_minimax_constants_are_those_of_the_rows():
    domains = sources_of("ridge", 5, rows=30)
    problem, hypothesis = cuvee.Problem(domains[:2], domains[2:]), cuvee.Ridge(radius=1.0)
    k, rows = (
        theory.minimax_constants(problem, hypothesis, C=3.0, c=0.04),
        theory.row_constants(problem, hypothesis),
    )
    assert (k.G_f, k.L_f, k.G_g, k.L_g, k.m_min, k.n_sources) == (
        rows.G_f,
        rows.L_f,
        1.0,
        5.0,
        30,
        2,
    )


def test_constants_of_bound_data_are_those_of_the_problem():
    domains = sources_of("softmax", 1)
    problem, hypothesis = cuvee.Problem(domains[:2], domains[2:]), cuvee.Logistic(radius=2.0)
    bound = LocalComponents(problem, hypothesis.bind(problem.facts), "bounded")
    assert bound.row_constants() == theory.row_constants(problem, hypothesis)
    np.testing.assert_allclose(rademacher_of(bound)[0], theory.rademacher(problem, hypothesis)[0])
