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


def phi(t: Tensor, c: float | Tensor | None) -> Tensor:
    """Return φ(t): √(t² + c), or t where there is no c."""
    return t if c is None else (t.square() + c).sqrt()


@dataclass(frozen=True)
class CutProblem:
    """Hold B small problems: a_k·α ≤ t for every cut, φ(t) + Σ d_j α_j² to be minimised."""

    a: Tensor  # (B, K, J)
    d: Tensor  # (B, J), not negative
    c: float | Tensor | None  # of φ, a number or (B, 1)

    def value(self, alpha: Tensor) -> Tensor:
        """Return the objective at α (B, J): (B,)."""
        return self.at((self.a @ alpha[..., None]).amax(-2), alpha)

    def at(self, t: Tensor, alpha: Tensor) -> Tensor:
        """Return φ(t) + Σ d_j α_j² for t (B, 1) and α (B, J): (B,)."""
        return phi(t, self.c)[:, 0] + (self.d * alpha.square()).sum(-1)

    def derivatives(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Return φ'(t) and φ''(t), each (B, 1)."""
        if self.c is None:
            return torch.ones_like(t), torch.zeros_like(t)
        root = phi(t, self.c)
        return t / root, self.c / root**3

    def lower_bound(self, multipliers: Tensor) -> Tensor:
        """Return a bound (B,) that no α of the simplex goes below, from any λ ≥ 0 (B, K).

        φ(t) ≥ u·t − φ*(u) for every slope u, and the largest of a_k·α is at least their average.
        """
        total = multipliers.sum(-1, keepdim=True).clamp(min=1e-300)
        slope = torch.ones_like(total) if self.c is None else total.clamp(max=1.0)
        b = ((multipliers * (slope / total))[:, None] @ self.a)[:, 0]  # (B, J)
        _, least = least_on_simplex(b, self.d)
        return least if self.c is None else least + (self.c * (1.0 - slope**2)).sqrt()[:, 0]

    def of(self, some: Tensor) -> CutProblem:
        """Return some of the problems."""
        c = self.c[some] if isinstance(self.c, Tensor) else self.c
        return CutProblem(self.a[some], self.d[some], c)

    def scaled(self) -> CutProblem:
        """Return the problems in units of their largest number; the best α stays the same."""
        largest = self.a.abs().amax((-1, -2))[:, None]  # (B, 1)
        unit = torch.maximum(largest, phi(torch.zeros_like(largest), self.c))
        unit = torch.where(unit > 0, unit, 1.0)
        c = None if self.c is None else self.c / unit**2
        return CutProblem(self.a / unit[..., None], self.d / unit, c)


def least_on_simplex(b: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
    """Return the α (B, J) of the simplex with the least bᵀα + Σ d_j α_j², and that value (B,).

    α_j = max(0, ν − b_j)/(2d_j), where ν makes them sum to 1: sorted by b, the positive ones come
    first. A d_j of 0 is taken as a tiny number, by which the value may be too large.
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


def solve(
    problem: CutProblem, start: Tensor, accuracy: Tensor | float = ACCURACY
) -> tuple[Tensor, Tensor]:
    """Return the best α (B, J) and proven lower bounds (B,) on the least value.

    `start` (B, J) on the simplex is where the method begins; `accuracy`, a number or (B, 1), is the
    share of the value within which it may stop.
    """
    scaled = problem.scaled()
    K, J = scaled.a.shape[1:]
    alpha = 0.9 * start + 0.1 / J
    reach = (scaled.a @ alpha[..., None])[..., 0]
    t = reach.amax(-1, keepdim=True) + 0.1
    mu = 0.1 * scaled.at(t, alpha)[:, None] / (J + K)
    state: State = (alpha, t, mu / (t - reach), mu / alpha)
    enough = torch.as_tensor(accuracy, dtype=t.dtype, device=t.device).expand(len(t), 1)
    running = torch.arange(len(t), device=t.device)
    best = state
    for _ in range(ITERATIONS):
        state, done = _step(scaled, state, enough)
        best = tuple(x.index_copy(0, running, now) for x, now in zip(best, state, strict=True))
        stay = (~done[:, 0]).nonzero()[:, 0]
        if len(stay) == 0:
            break
        if len(stay) < len(running):
            scaled, enough, running = scaled.of(stay), enough[stay], running[stay]
            state = tuple(x[stay] for x in state)
    alpha, _, multipliers, _ = best
    return alpha / alpha.sum(-1, keepdim=True), problem.lower_bound(multipliers)


State = tuple[Tensor, ...]  # α (B, J), t (B, 1), λ (B, K), y (B, J)


def _step(problem: CutProblem, state: State, accuracy: Tensor) -> tuple[State, Tensor]:
    """Return the state after a Newton step on the conditions of optimality, and who is done (B, 1).

    The step is linear in the barrier μ, so one system with two right sides gives it for μ = 0,
    which says how far μ may be lowered, and for the μ then chosen.
    """
    alpha, t, multipliers, y = state
    s = (t - (problem.a @ alpha[..., None])[..., 0]).clamp(min=LEAST)
    J, K = alpha.shape[-1], s.shape[-1]
    complementary = ((s * multipliers).sum(-1) + (alpha * y).sum(-1))[:, None]
    system = _by_cuts if K < J else _by_weights
    for_zero, per_mu = system(problem, state, s)
    changes = _changes(state, for_zero, torch.zeros_like(t))
    keep = (1.0 - _room(problem, state, s, changes)) ** 3  # σ: the share of μ that remains
    mu = keep * complementary / (J + K)
    d_alpha, d_t, new = (a + mu * b for a, b in zip(for_zero, per_mu, strict=True))
    changes = _changes(state, (d_alpha, d_t, new), mu)
    length = STEP * _room(problem, state, s, changes)
    sane = torch.stack([dx.isfinite().all(-1, keepdim=True) for dx in changes]).all(0)
    length = torch.where(sane, length, 0.0)
    alpha, t, multipliers, y = (
        (x + length * dx.nan_to_num(0.0)).clamp(min=LEAST)
        for x, dx in zip(state, changes, strict=True)
    )
    value = problem.at(state[1], state[0])[:, None]
    return (alpha, t, multipliers, y), (complementary <= accuracy * value) | ~sane


Direction = tuple[Tensor, Tensor, Tensor]  # of α (B, J) and t (B, 1), and the new λ (B, K)


def _changes(state: State, direction: Direction, mu: Tensor) -> State:
    """Return what a full step adds to the state; y follows from α and μ (B, 1)."""
    alpha, _, multipliers, y = state
    d_alpha, d_t, new = direction
    return d_alpha, d_t, new - multipliers, mu / alpha - y - y / alpha * d_alpha


def _room(problem: CutProblem, state: State, s: Tensor, changes: State) -> Tensor:
    """Return how far (B, 1), at most 1, one may go before some α, slack or multiplier is 0."""
    alpha, _, multipliers, y = state
    d_alpha, d_t, d_multipliers, d_y = changes
    d_s = d_t - (problem.a @ d_alpha[..., None])[..., 0]
    pairs = ((alpha, d_alpha), (s, d_s), (multipliers, d_multipliers), (y, d_y))
    limits = [torch.where(dx < 0, -x / dx, torch.inf).amin(-1, keepdim=True) for x, dx in pairs]
    return torch.stack(limits).amin(0).clamp(max=1.0)


def _by_cuts(problem: CutProblem, state: State, s: Tensor) -> tuple[Direction, Direction]:
    """Return the Newton direction for μ = 0, and what each unit of μ adds to it.

    The unknowns of the system are the new multipliers, t and that of Σα = 1.
    """
    a, multipliers, K = problem.a, state[2], s.shape[-1]
    slope, curvature = problem.derivatives(state[1])
    diagonal, r = _of_weights(problem, state)
    a_over = a / diagonal[:, None]
    system = a.new_zeros(len(a), K + 2, K + 2)
    system[:, :K, :K] = a_over @ a.mT
    system[:, :K, :K].diagonal(dim1=-2, dim2=-1).add_(s / multipliers)
    system[:, :K, K] = system[:, K, :K] = 1.0
    system[:, :K, K + 1] = system[:, K + 1, :K] = a_over.sum(-1)
    system[:, K, K] = -curvature[:, 0]
    system[:, K + 1, K + 1] = (1.0 / diagonal).sum(-1)
    right = a.new_zeros(len(a), K + 2, 2)
    right[:, :K] = a_over @ r
    right[:, :K, 1] += 1.0 / multipliers
    right[:, K, 0] = slope[:, 0]
    right[:, K + 1] = (r / diagonal[..., None]).sum(1)
    x = torch.linalg.solve_ex(system, right)[0]
    new, d_t, nu = x[:, :K], x[:, K : K + 1], x[:, K + 1 :]
    return _both((r - a.mT @ new - nu) / diagonal[..., None], d_t, new)


def _by_weights(problem: CutProblem, state: State, s: Tensor) -> tuple[Direction, Direction]:
    """Return the same from a system whose unknowns are α, t and the multiplier of Σα = 1."""
    a, J = problem.a, problem.a.shape[-1]
    slope, curvature = problem.derivatives(state[1])
    diagonal, r = _of_weights(problem, state)
    W = state[2] / s
    weighted = a * W[..., None]  # (B, K, J)
    system = a.new_zeros(len(a), J + 2, J + 2)
    system[:, :J, :J] = a.mT @ weighted
    system[:, :J, :J].diagonal(dim1=-2, dim2=-1).add_(diagonal)
    system[:, :J, J] = system[:, J, :J] = -weighted.sum(1)
    system[:, J, J] = curvature[:, 0] + W.sum(-1)
    system[:, :J, J + 1] = system[:, J + 1, :J] = 1.0
    right = a.new_zeros(len(a), J + 2, 2)
    right[:, :J] = r
    right[:, :J, 1] -= (a.mT @ (1.0 / s)[..., None])[..., 0]
    right[:, J, 0] = -slope[:, 0]
    right[:, J, 1] = (1.0 / s).sum(-1)
    x = torch.linalg.solve_ex(system, right)[0]
    d_alpha, d_t = x[:, :J], x[:, J : J + 1]
    new = -W[..., None] * (d_t - a @ d_alpha)  # (B, K, 2)
    new[..., 1] += 1.0 / s
    return _both(d_alpha, d_t, new)


def _of_weights(problem: CutProblem, state: State) -> tuple[Tensor, Tensor]:
    """Return the diagonal (B, J) of α's part of the system, and its right sides (B, J, 2)."""
    alpha, _, _, y = state
    right = torch.stack([-2.0 * problem.d * alpha, 1.0 / alpha], -1)
    return 2.0 * problem.d + y / alpha, right


def _both(d_alpha: Tensor, d_t: Tensor, new: Tensor) -> tuple[Direction, Direction]:
    """Return the directions of the two right sides, which stand along the last axis."""
    return (d_alpha[..., 0], d_t[..., 0], new[..., 0]), (d_alpha[..., 1], d_t[..., 1], new[..., 1])
