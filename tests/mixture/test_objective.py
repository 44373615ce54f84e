"""The objective's values and gradients against autograd and the paper's formulas."""

from __future__ import annotations

import pytest
import torch

from cuvee.mixture.objective import Objective, differences

M, K, N = 3, 4, 5


@pytest.fixture(params=["sum", "mixture"])
def form(request):
    return request.param


@pytest.fixture(params=[N, N + 1], ids=["sources", "own joins"])
def case(request, form):
    generator = torch.Generator().manual_seed(0)
    J = request.param
    alpha = torch.rand(M, J, generator=generator, dtype=torch.float64)
    alpha /= alpha.sum(-1, keepdim=True)
    z = torch.randn(M, K, N, generator=generator, dtype=torch.float64)
    q = torch.rand(M, K, generator=generator, dtype=torch.float64)
    inverse = torch.rand(M, J, generator=generator, dtype=torch.float64)
    return Objective(form, 1e-3, 2.5, inverse), alpha, z, q / q.sum(-1, keepdim=True)


def test_value_is_the_papers_sum_by_hand(case, form):
    F, alpha, z, _ = case

    def g(x):
        return float(x * x + F.c) ** 0.5

    for i in range(M):
        for k in range(K):
            penalty = sum(
                F.C * F.inverse_counts[i, j] * alpha[i, j] ** 2 for j in range(alpha.shape[1])
            )
            if form == "sum":
                own = alpha[i, N] * g(0.0) if alpha.shape[1] > N else 0.0
                distance = sum(alpha[i, j] * g(z[i, k, j]) for j in range(N)) + own
            else:
                distance = g(sum(alpha[i, j] * z[i, k, j] for j in range(N)))
            assert F.value(alpha, z)[i, k] == pytest.approx(float(distance + penalty), rel=1e-12)


def test_alpha_gradient_is_autograds(case):
    F, alpha, z, q = case
    alpha = alpha.clone().requires_grad_()
    (wanted,) = torch.autograd.grad((q * F.value(alpha, z)).sum(), alpha)
    got = F.gradient_alpha(alpha.detach(), z, q)
    # Off the simplex the own sample's constant √c differs by a constant per row, which P_Δ forgets.
    centred = lambda v: v - v.mean(-1, keepdim=True)  # noqa: E731
    torch.testing.assert_close(centred(got), centred(wanted), rtol=1e-10, atol=1e-12)


def test_coefficients_pull_back_to_the_gradient_in_w(case):
    F, alpha, _, _ = case
    losses = torch.randn(M, K, N + 1, dtype=torch.float64, requires_grad=True)
    (wanted,) = torch.autograd.grad(F.value(alpha, differences(losses)).sum(), losses)
    got = F.coefficients(alpha, differences(losses.detach()))
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-12)


def test_one_adversary_climbs_the_papers_gradient_and_a_panel_takes_both_sides(case, form):
    F, alpha, z, _ = case
    one = z[:, :1]
    v, side = F.ascent(alpha, one)
    torch.testing.assert_close(side * v, F.coefficients(alpha, one))
    v, side = F.ascent(alpha, z)
    pulled = side * v
    if form == "mixture":
        torch.testing.assert_close(pulled[:, 0], -pulled[:, 1])
        assert (pulled[:, ::2, -1] > 0).all()
    else:
        torch.testing.assert_close(pulled, F.coefficients(alpha, z))


def test_mixture_form_is_zero_where_the_target_is_the_mixture():
    p = 0.3
    f_1, f_2 = 0.9, 0.2
    f_T = p * f_1 + (1 - p) * f_2
    losses = torch.tensor([[[f_1, f_2, f_T]]], dtype=torch.float64)
    alpha = torch.tensor([[p, 1 - p]], dtype=torch.float64)
    nothing = torch.zeros(1, 2, dtype=torch.float64)
    z = differences(losses)
    assert Objective("mixture", 1e-16, 1.0, nothing).value(alpha, z).item() < 1e-7
    assert Objective("sum", 1e-16, 1.0, nothing).value(alpha, z).item() > 0.2
