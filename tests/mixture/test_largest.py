"""The largest discrepancy of a given mixture, against the exact oracle and a crowd."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cuvee
from cuvee import erm
from cuvee.components import ALL
from cuvee.data.synthetic import grouped_classes, squared_loss_instance
from cuvee.mixture import largest
from cuvee.mixture.exact import Quadratics, largest_on_ball
from cuvee.mixture.objective import differences
from cuvee.mixture.players import Settings
from cuvee.simplex import sample
from hypothesis import given, settings
from hypothesis import strategies as st

PANEL = Settings(adversaries=8, steps=100)


def quadratic(seed):
    problem = squared_loss_instance(seed)
    space = cuvee.Ridge(l2=0.0, intercept=False, radius=3.0).bind(problem.facts)
    return problem, erm.components(problem, space, "trained")


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    d=st.integers(1, 5),
    sign=st.sampled_from([-1, 0, 1]),
    flat=st.booleans(),
)
def test_many_quadratics_at_once_have_the_maxima_of_one_by_one(seed, d, sign, flat):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(3, d, d))
    A = sign * A @ A.transpose(0, 2, 1) + (A + A.transpose(0, 2, 1) if sign == 0 else 0)
    b, r = rng.normal(size=(3, d)), rng.normal(size=3)
    if flat:
        b[0] = 0.0  # no slope at 0: the top eigenvector alone says where to go
    eigenvalues, V = torch.linalg.eigh(torch.as_tensor(A))
    beta = (V.mT @ torch.as_tensor(b)[..., None])[..., 0]
    maximum = largest.largest_quadratic(eigenvalues, beta, torch.as_tensor(r), 1.3)
    wanted = [largest_on_ball(A[i], b[i], r[i], 1.3)[0] for i in range(3)]
    np.testing.assert_allclose(maximum.numpy(), wanted, rtol=1e-7, atol=1e-9)


def test_the_hard_case_is_filled_up_along_the_top():
    eigenvalues, beta = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5, 0.0]])
    maximum = largest.largest_quadratic(eigenvalues, beta, torch.zeros(1), 2.0)
    assert float(maximum) == pytest.approx(0.5 * (2 * 3.75 + 0.25) + 0.25)


@pytest.mark.parametrize("own", [False, True])
def test_ridge_is_exact_and_a_panel_comes_close_from_below(own):
    for seed in range(6):
        problem, components = quadratic(seed)
        N = problem.n_sources
        alpha = torch.as_tensor(sample(1, N + own, seed=seed))
        maximum, exact = largest.largest_discrepancy(components, alpha, "mixture", PANEL)
        oracle, share = Quadratics.of(components, 1.0, "mixture"), float(alpha[0, :N].sum())
        even = (alpha[0, :N] / share).numpy()
        wanted = oracle.worst(even)[0] - float(oracle.inverse_counts @ even**2)
        assert exact and float(maximum) == pytest.approx(share * wanted)  # own rows cancel
        climbed = float(largest._climbed(components, alpha, "mixture", PANEL, True))
        assert 0.9 * float(maximum) <= climbed <= float(maximum) * (1 + 1e-9)


def test_the_sum_is_above_the_mixture_and_below_its_own_oracle():
    for seed in range(4):
        problem, components = quadratic(seed)
        alpha = torch.as_tensor(sample(1, problem.n_sources, seed=seed))
        of_sum, exact = largest.largest_discrepancy(components, alpha, "sum", PANEL)
        of_mixture, _ = largest.largest_discrepancy(components, alpha, "mixture", PANEL)
        oracle, a = Quadratics.of(components, 1.0, "sum"), alpha[0].numpy()
        wanted = oracle.worst(a)[0] - float(oracle.inverse_counts @ a**2)
        assert not exact and 0.9 * wanted <= float(of_sum) <= wanted * (1 + 1e-9)
        assert float(of_sum) >= 0.99 * float(of_mixture)


def test_a_panel_finds_what_a_crowd_finds_and_minibatches_come_close(monkeypatch):
    problem = grouped_classes(3, n_targets=2, rows=200, target_rows=80)
    space = cuvee.Logistic().bind(problem.facts, standardised=True)
    components = erm.components(problem, space, "bounded")
    alpha = torch.as_tensor(sample(2, problem.n_sources, seed=1))
    maximum, exact = largest.largest_discrepancy(components, alpha, "mixture", PANEL)
    crowd = space.start(4_000, 9) * torch.rand(4_000, 1, dtype=torch.float64) * 2
    z = differences(components.values(crowd.expand(2, -1, -1).contiguous(), ALL))
    sampled = (alpha[:, None] * z).sum(-1).abs().amax(-1)
    assert not exact and bool((maximum >= sampled).all()) and bool((maximum < 1.0).all())
    monkeypatch.setattr(largest, "CHEAP", 0)
    rough, _ = largest.largest_discrepancy(components, alpha, "mixture", PANEL)
    assert bool((rough >= 0.8 * maximum).all()) and bool((rough <= 1.05 * maximum).all())


def test_targets_do_not_see_each_other():
    problem = grouped_classes(5, n_targets=3)
    alpha = sample(3, problem.n_sources, seed=2)
    both = cuvee.risk_bound(problem, cuvee.Logistic(), alpha).printed
    for i in range(3):
        alone = cuvee.Problem(problem.sources, [problem.targets[i]])
        single = cuvee.risk_bound(alone, cuvee.Logistic(), alpha[i : i + 1]).printed
        assert single.excess[0] == pytest.approx(both.excess[i], rel=1e-6)
