"""The small problem on cuts: its answers against sampled weights, its bound against its answers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cuvee.mixture import cut_problem
from cuvee.mixture.cut_problem import CutProblem, least_on_simplex
from hypothesis import given, settings
from hypothesis import strategies as st


def problems(seed, B, K, J, scale, penalty, smooth):
    rng = np.random.default_rng(seed)
    a = scale * rng.normal(size=(B, K, J))
    if smooth:
        a = np.concatenate([a, -a], 1)
        a[..., -1] = 0.0  # the own sample
    d = penalty * scale * rng.random((B, J))
    c = (0.1 * scale) ** 2 if smooth else None
    return CutProblem(torch.as_tensor(np.abs(a) if not smooth else a), torch.as_tensor(d), c)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    K=st.integers(1, 30),
    J=st.integers(1, 12),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
    penalty=st.sampled_from([0.0, 1e-4, 1e-2, 1.0, 100.0]),
    smooth=st.booleans(),
)
def test_no_weights_are_better_and_the_bound_is_below_all(seed, K, J, scale, penalty, smooth):
    problem = problems(seed, 4, K, J, scale, penalty, smooth)
    start = torch.full((4, J), 1.0 / J, dtype=torch.float64)
    alpha, lower = cut_problem.solve(problem, start)
    assert (alpha >= 0).all()
    torch.testing.assert_close(alpha.sum(-1), torch.ones(4, dtype=torch.float64))
    value = problem.value(alpha)
    unit = problem.a.abs().amax((-1, -2))
    assert (value - lower <= 3e-3 * value + 1e-9 * unit).all()
    rng = np.random.default_rng(seed + 1)
    for concentration in (0.1, 1.0):
        others = rng.dirichlet(np.full(J, concentration), size=(200, 4))
        for other in torch.as_tensor(others):
            assert (problem.value(other) >= lower - 1e-9 * unit).all()


@settings(derandomize=True, deadline=None, max_examples=60)
@given(seed=st.integers(0, 10_000), J=st.integers(1, 9), zeros=st.booleans())
def test_the_least_on_the_simplex_is_below_every_sampled_point(seed, J, zeros):
    rng = np.random.default_rng(seed)
    b, d = rng.normal(size=(3, J)), rng.random((3, J)) * 10.0 ** rng.integers(-3, 3)
    if zeros:
        d[:, 0] = 0.0
    b, d = torch.as_tensor(b), torch.as_tensor(d)
    alpha, least = least_on_simplex(b, d)
    torch.testing.assert_close(alpha.sum(-1), torch.ones(3, dtype=torch.float64))
    for other in torch.as_tensor(rng.dirichlet(np.full(J, 0.5), size=(300, 3))):
        assert ((b * other + d * other**2).sum(-1) >= least - 1e-9).all()


def test_few_cuts_and_many_cuts_take_different_systems_to_the_same_answer():
    """The unknowns are the cuts or the weights, whichever are fewer."""
    few = problems(0, 3, 4, 9, 1.0, 1e-2, True)
    repeated = CutProblem(few.a.repeat(1, 4, 1), few.d, few.c)  # the same cuts, four times
    start = torch.full((3, 9), 1.0 / 9, dtype=torch.float64)
    (one, _), (two, _) = (cut_problem.solve(p, start) for p in (few, repeated))
    assert few.a.shape[1] < 9 < repeated.a.shape[1]
    torch.testing.assert_close(few.value(one), few.value(two), rtol=3e-3, atol=0)


def test_any_multipliers_give_a_bound():
    problem = problems(1, 2, 6, 5, 1.0, 0.1, True)
    _, best = cut_problem.solve(problem, torch.full((2, 5), 0.2, dtype=torch.float64))
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 1e3):
        for multipliers in torch.as_tensor(scale * rng.random((50, 2, 12))):
            assert (problem.lower_bound(multipliers) <= best * (1 + 3e-3)).all()


@pytest.mark.parametrize("smooth", [True, False])
def test_a_single_source_has_a_single_answer(smooth):
    problem = problems(0, 2, 3, 1, 1.0, 0.1, smooth)
    alpha, lower = cut_problem.solve(problem, torch.ones(2, 1, dtype=torch.float64))
    assert (alpha == 1).all()
    torch.testing.assert_close(problem.value(alpha), lower, rtol=3e-3, atol=1e-9)
