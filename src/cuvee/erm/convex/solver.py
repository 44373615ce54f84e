"""Solve any smooth convex risk for many mixtures by quasi-Newton steps.

Newton steps follow for the few models that are not done. The hypothesis gives nothing but its
losses; derivatives come from the graph behind them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cuvee.components import ALL, Batch, Components
from cuvee.erm.convex import lbfgs, newton
from cuvee.erm.convex.precondition import Diagonal, Factors, Task, add_diagonal

DENSE_P = 256  # parameters up to which every model gets its own Hessian
MAX_PASSES = 1000
POWER_STEPS = 8
FLAT = 2.0  # as no risk is below 0, none can gain more than itself; beyond this, H is no guide


@dataclass(frozen=True)
class Solved:
    """Hold solved models; every field has a row per model."""

    w: Tensor  # (M, Q, P) float64
    gradient: Tensor  # (M, Q, P) float64, penalty included
    # (M, Q, K, K) the Hessian of the data in the intercepts, where it was asked for
    second: Tensor | None
    passes: Tensor  # (M, Q)
    stuck: Tensor  # (M, Q)


def solve(
    components: Components,
    batch: Batch,
    alpha: Tensor,
    *,
    tol: float,
    memory: int,
    extra: Tensor | None = None,
    start: Tensor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Solved:
    """Minimise Σ_j α_j f_j(w) + λ/2‖w‖² for α (M, Q, N or N+1) until ‖∇‖∞ ≤ tol.

    `extra` (M,) is added to every λ, and `start` (M, Q, P) is where to start instead of 0.
    """
    space, (M, Q, _) = components.space, alpha.shape
    P = space.n_params
    penalty = (space.l2 * space.penalised).to(alpha).view(1, 1, P)
    if extra is not None:
        penalty = penalty + extra.view(M, 1, 1)
    w = (
        alpha.new_zeros(M, Q, P, dtype=space.dtype)
        if start is None
        else start.to(space.dtype).clone()
    )
    gradient = torch.zeros_like(w)
    passes, stuck = (
        torch.zeros(M, Q, dtype=kind, device=w.device) for kind in (torch.int64, torch.bool)
    )
    for chunk in chunks(components, M, Q, memory):
        part = components if len(chunk) == M else components.narrow(chunk)
        chunk_penalty = penalty if len(penalty) == 1 else penalty[chunk]
        unit = Diagonal(alpha.new_ones(P))
        task = _preconditioned(
            Task(part, batch, alpha[chunk], chunk_penalty, unit, rescaled=True), w[chunk]
        )
        solved = lbfgs.minimise(task, w[chunk], tol=tol, max_passes=MAX_PASSES)
        w[chunk], gradient[chunk], passes[chunk], stuck[chunk] = (
            solved.w,
            solved.gradient,
            solved.passes,
            solved.stuck,
        )
        late = chunk[(~(solved.gradient.abs() <= tol)).any(-1).any(-1)]
        if len(late) and P <= DENSE_P:
            place = torch.isin(chunk, late).nonzero()[:, 0]
            last = newton.minimise(task.narrow(place), w[late], tol=tol)
            w[late], gradient[late], stuck[late] = last.w, last.gradient, last.stuck
            passes[late] += last.passes
        if progress is not None:
            progress(int(chunk[-1]) + 1, M)
    return Solved(w, gradient, None, passes, stuck)


def chunks(components: Components, M: int, Q: int, memory: int) -> tuple[Tensor, ...]:
    """Return the numbers of M targets in chunks whose graphs fit into `memory` bytes.

    Each target has Q models.
    """
    P = components.space.n_params
    rows = components.n_rows + components.own_rows
    per_target = Q * (
        4 * rows * components.bytes_per_row() + 8 * P * (4 * lbfgs.MEMORY + min(P, DENSE_P) + 24)
    )
    return torch.arange(M, device=components.counts.device).split(max(1, memory // per_target))


def _preconditioned(task: Task, w: Tensor) -> Task:
    """Return the task with every model's Hessian at w, or one over the largest curvature.

    Where a loss is nearly straight at w, its Hessian there says nothing about the way. Then one
    over a curvature that the risk must reach counts.
    """
    f, g = newton.value(task, w), task.gradient(w)
    reached = newton.reached(f, g)
    if w.shape[-1] <= DENSE_P:
        H, known = newton.hessians(task.components, task.batch, task.alpha, w)
        factors = Factors.of(add_diagonal(H, task.penalty))
        gain = 0.5 * (g * factors.apply(g)).sum(-1)  # of a Newton step, were the risk quadratic
        factors.take_one_curvature(~known | ~(gain <= FLAT * f), reached)
        return replace(task, preconditioner=factors)
    u = torch.ones_like(w)
    for _ in range(POWER_STEPS):
        u = u / torch.linalg.vector_norm(u, dim=-1, keepdim=True).clamp(min=1e-30)
        u = task.components.hessian_times(w, u, task.alpha, task.batch) + task.penalty * u
    bend = torch.linalg.vector_norm(u, dim=-1, keepdim=True).nan_to_num(0.0)
    largest = bend.maximum(reached).amax()
    return replace(
        task, preconditioner=Diagonal((1.0 / largest.clamp(min=1e-12)).expand(w.shape[-1]))
    )


def gradients(
    components: Components, w: Tensor, alpha: Tensor, penalty: Tensor, memory: int
) -> Tensor:
    """Return ∇f_α(w) (M, 1, P), penalty included, for w (M, 1, P) and α (M, 1, N or N+1)."""
    g = torch.zeros_like(w)
    for chunk in chunks(components, len(w), 1, memory):
        part = components if len(chunk) == len(w) else components.narrow(chunk)
        g[chunk] = part.pull(w[chunk], alpha[chunk], ALL) + penalty * w[chunk]
    return g
