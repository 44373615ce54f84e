"""Solve the small problem that cuts leave: the best α for the adversaries seen so far.

    min over α ∈ Δ of  φ(max_k a_k·α) + Σ_j d_j α_j²

In the "mixture" form the a_k are both signs of the cuts z_k and φ(t) = √(t² + c); in the "sum" form
they are g(z_k) and φ(t) = t. No data is needed. A batch of such problems is solved together by a
primal-dual interior-point method: the penalty is diagonal, so each step solves a system with as
many unknowns as there are weights or cuts, whichever are fewer.

Every answer comes with a lower bound that holds however far the method got: for any multipliers λ
the dual is one minimisation over the simplex, which sorting solves exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cuvee.mixture.objective import Objective

ITERATIONS = 40
ACCURACY = 1e-3  # of the value: where the method stops
STEP = 0.99  # of the way to the boundary
LEAST = 1e-14  # barrier terms are kept above this


def rows(objective: Objective, z: Tensor) -> Tensor:
    """Return cuts z (M, K, N) as the a_k of the small problem: (M, 2K or K, J)."""
    own = objective.inverse_counts.shape[-1] - z.shape[-1]
    if objective.discrepancy == "sum":
        return torch.nn.functional.pad(objective.g(z), (0, own), value=objective.c**0.5)
    return torch.nn.functional.pad(torch.cat([z, -z], 1), (0, own))


def phi(objective: Objective, t: Tensor) -> Tensor:
    """Return what F makes of the largest a_k·α."""
    return t if objective.discrepancy == "sum" else objective.g(t)


@dataclass(frozen=True)
class CutProblem:
    """Hold B small problems: a_k·α ≤ t for every cut, φ(t) + Σ d_j α_j² to be minimised."""

    a: Tensor  # (B, K, J)
    d: Tensor  # (B, J), not negative
    c: float | Tensor | None  # of φ(t) = √(t² + c); None for φ(t) = t

    def value(self, alpha: Tensor) -> Tensor:
        """Return the objective at α (B, J): (B,)."""
        t = (self.a @ alpha[..., None])[..., 0].amax(-1)
        return self.phi(t) + (self.d * alpha.square()).sum(-1)

    def phi(self, t: Tensor) -> Tensor:
        """Return φ(t), (B,)."""
        return t if self.c is None else (t.square() + self.c).sqrt()

    def derivatives(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Return φ'(t) and φ''(t), each (B,)."""
        if self.c is None:
            return torch.ones_like(t), torch.zeros_like(t)
        root = self.phi(t)
        return t / root, self.c / root**3

    def lower_bound(self, multipliers: Tensor) -> Tensor:
        """Return a bound (B,) that no α of the simplex goes below, from any λ ≥ 0 (B, K).

        φ(t) ≥ u·t − φ*(u) for every slope u, and the largest of a_k·α is at least their average.
        """
        total = multipliers.sum(-1, keepdim=True).clamp(min=1e-300)
        slope = torch.ones_like(total) if self.c is None else total.clamp(max=1.0)
        b = ((multipliers * (slope / total))[:, None] @ self.a)[:, 0]  # (B, J)
        _, least = least_on_simplex(b, self.d)
        return least if self.c is None else least + (self.c * (1.0 - slope[:, 0] ** 2)).sqrt()

    def scaled(self) -> CutProblem:
        """Return the problems in units of their largest number; the best α stays the same."""
        unit = torch.maximum(self.a.abs().amax((-1, -2)), self.phi(torch.zeros_like(self.d[:, 0])))
        unit = torch.where(unit > 0, unit, 1.0)
        c = None if self.c is None else self.c / unit**2
        return CutProblem(self.a / unit[:, None, None], self.d / unit[:, None], c)


def least_on_simplex(b: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
    """Return the α (B, J) of the simplex with the least bᵀα + Σ d_j α_j², and that value (B,).

    α_j = max(0, ν − b_j)/(2d_j), where ν makes them sum to 1: sorted by b, the positive ones come
    first. Where some d_j is 0 it is taken as a tiny number, which lowers nothing by more than it.
    """
    tiny = 1e-12 * torch.maximum(d.amax(-1, keepdim=True), b.abs().amax(-1, keepdim=True))
    d = torch.maximum(d, tiny.clamp(min=1e-300))
    ordered, order = b.sort(dim=-1)
    share = 0.5 / d.gather(-1, order)
    total, weighted = share.cumsum(-1), (share * ordered).cumsum(-1)
    nu = (1.0 + weighted) / total  # if the first 1, 2, … are positive
    last = (nu > ordered).sum(-1, keepdim=True).clamp(min=1) - 1
    threshold = nu.gather(-1, last)
    alpha = 0.5 * (threshold - b).clamp(min=0.0) / d
    alpha = alpha / alpha.sum(-1, keepdim=True)
    return alpha, (b * alpha + d * alpha.square()).sum(-1)


def solve(problem: CutProblem, start: Tensor) -> tuple[Tensor, Tensor]:
    """Return the best α (B, J) and proven lower bounds (B,) on the least value.

    `start` (B, J) on the simplex is where the method begins.
    """
    scaled = problem.scaled()
    J, K = scaled.a.shape[-1], scaled.a.shape[-2]
    alpha = 0.9 * start + 0.1 / J
    reach = scaled.a @ alpha[..., None]
    t = reach.amax((-1, -2)) + 0.1
    first = scaled.phi(t) + (scaled.d * alpha.square()).sum(-1)
    mu = 0.1 * first / (J + K)
    s = t[:, None] - reach[..., 0]
    state = (alpha, t, mu[:, None] / s, mu[:, None] / alpha)
    running = torch.ones_like(t, dtype=torch.bool)
    for _ in range(ITERATIONS):
        state, done = _step(scaled, state, running)
        running = running & ~done
        if not bool(running.any()):
            break
    alpha, t, multipliers, _ = state
    alpha = alpha / alpha.sum(-1, keepdim=True)
    return alpha, problem.lower_bound(multipliers)


State = tuple[Tensor, Tensor, Tensor, Tensor]  # α (B, J), t (B,), λ (B, K), y (B, J)


def _step(problem: CutProblem, state: State, running: Tensor) -> tuple[State, Tensor]:
    """Return the state after a Newton step on the conditions of optimality, and who is done (B,).

    The step is linear in the barrier μ, so one system with two right sides gives it for μ = 0,
    which says how far μ may be lowered, and for the μ then chosen.
    """
    alpha, t, multipliers, y = state
    s = (t[:, None] - (problem.a @ alpha[..., None])[..., 0]).clamp(min=LEAST)
    J, K = alpha.shape[-1], s.shape[-1]
    mu = ((s * multipliers).sum(-1) + (alpha * y).sum(-1)) / (J + K)
    for_zero, for_mu = _directions(problem, state, s)
    reach = _boundary(problem, state, s, for_zero)
    after = (1.0 - reach).clamp(min=0.0) ** 3  # σ: how much of μ to keep
    target = (after * mu)[:, None]
    d_alpha, d_t, new_multipliers = (
        for_zero[i] + (target if for_zero[i].ndim == 2 else target[:, 0]) * for_mu[i]
        for i in range(3)
    )
    d_y = target / alpha - y - y / alpha * d_alpha
    step = (d_alpha, d_t, new_multipliers)
    length = STEP * _boundary(problem, state, s, step, d_y)
    ok = running & torch.isfinite(length) & torch.isfinite(d_t) & torch.isfinite(d_alpha).all(-1)
    length = torch.where(ok, length.clamp(max=1.0), 0.0)
    d_alpha, d_t = d_alpha.nan_to_num(0.0), d_t.nan_to_num(0.0)
    d_multipliers = (new_multipliers - multipliers).nan_to_num(0.0)
    by = length[:, None]
    moved = (
        (alpha + by * d_alpha).clamp(min=LEAST),
        t + length * d_t,
        (multipliers + by * d_multipliers).clamp(min=LEAST),
        (y + by * d_y.nan_to_num(0.0)).clamp(min=LEAST),
    )
    value = problem.phi(t) + (problem.d * alpha.square()).sum(-1)
    done = (mu * (J + K) <= ACCURACY * value) | ~ok
    return moved, done


def _boundary(
    problem: CutProblem,
    state: State,
    s: Tensor,
    step: tuple[Tensor, Tensor, Tensor],
    d_y: Tensor | None = None,
) -> Tensor:
    """Return how far (B,), at most 1, one may go before some α, slack or multiplier is 0."""
    alpha, _, multipliers, y = state
    d_alpha, d_t, new = step
    if d_y is None:
        d_y = -y - y / alpha * d_alpha
    d_s = d_t[:, None] - (problem.a @ d_alpha[..., None])[..., 0]
    pairs = ((alpha, d_alpha), (s, d_s), (multipliers, new - multipliers), (y, d_y))
    limits = [torch.where(dx < 0, -x / dx, torch.inf).amin(-1) for x, dx in pairs]
    return torch.stack(limits).amin(0).clamp(max=1.0)


Direction = tuple[Tensor, Tensor, Tensor]  # of α (B, J) and t (B,), and the new λ (B, K)


def _directions(problem: CutProblem, state: State, s: Tensor) -> tuple[Direction, Direction]:
    """Return the Newton direction for μ = 0, and what each unit of μ adds to it."""
    alpha, t, multipliers, y = state
    a, d = problem.a, problem.d
    slope, curvature = problem.derivatives(t)
    diagonal = 2.0 * d + y / alpha  # (B, J)
    B, K, J = a.shape
    # right sides for α: one for μ = 0, one per unit of μ, as columns
    r = torch.stack([-2.0 * d * alpha, 1.0 / alpha], -1)  # (B, J, 2)
    if K < J:
        system = a.new_zeros(B, K + 2, K + 2)
        a_over = a / diagonal[:, None]
        system[:, :K, :K] = a_over @ a.mT
        system[:, :K, :K].diagonal(dim1=-2, dim2=-1).add_(s / multipliers)
        system[:, :K, K] = system[:, K, :K] = 1.0
        system[:, :K, K + 1] = system[:, K + 1, :K] = a_over.sum(-1)
        system[:, K, K] = -curvature
        system[:, K + 1, K + 1] = (1.0 / diagonal).sum(-1)
        right = a.new_zeros(B, K + 2, 2)
        right[:, :K] = a_over @ r
        right[:, :K, 1] += 1.0 / multipliers
        right[:, K, 0] = slope
        right[:, K + 1] = (r / diagonal[..., None]).sum(1)
        x = torch.linalg.solve_ex(system, right)[0]
        new, d_t, nu = x[:, :K], x[:, K], x[:, K + 1]
        d_alpha = (r - a.mT @ new - nu[:, None]) / diagonal[..., None]
    else:
        W = multipliers / s
        weighted = a * W[..., None]  # (B, K, J)
        system = a.new_zeros(B, J + 2, J + 2)
        system[:, :J, :J] = a.mT @ weighted
        system[:, :J, :J].diagonal(dim1=-2, dim2=-1).add_(diagonal)
        system[:, :J, J] = system[:, J, :J] = -weighted.sum(1)
        system[:, J, J] = curvature + W.sum(-1)
        system[:, :J, J + 1] = system[:, J + 1, :J] = 1.0
        right = a.new_zeros(B, J + 2, 2)
        right[:, :J] = r
        right[:, :J, 1] -= (a.mT @ (1.0 / s)[..., None])[..., 0]
        right[:, J, 0] = -slope
        right[:, J, 1] = (1.0 / s).sum(-1)
        x = torch.linalg.solve_ex(system, right)[0]
        d_alpha, d_t = x[:, :J], x[:, J]
        d_s = d_t[:, None] - a @ d_alpha  # (B, K, 2)
        new = -W[..., None] * d_s
        new[..., 1] += 1.0 / s
    return (
        (d_alpha[..., 0], d_t[:, 0], new[..., 0]),
        (d_alpha[..., 1], d_t[:, 1], new[..., 1]),
    )
