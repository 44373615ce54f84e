"""Damped Newton with values: slow and sure, for the few models that quasi-Newton steps did not
bring home.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from cuvee.erm.convex.lbfgs import Minimised
from cuvee.erm.convex.precondition import Factors, Task, add_diagonal

ARMIJO = 1e-4
HALVINGS = 30
ROUNDS = 100
IDLE = 3  # rounds in a row that gain less than rounding end a model


def minimise(task: Task, w: Tensor, *, tol: float) -> Minimised:
    """Minimise from w (M, Q, P), or from 0 where that is better.

    It ends when ‖∇‖∞ ≤ tol or no step helps any more.
    """
    if task.free is None:
        w = torch.where((value(task, w) <= value(task, torch.zeros_like(w)))[..., None], w, 0.0)
    f, g = value(task, w), task.gradient(w)
    idle = torch.zeros_like(f, dtype=torch.int64)
    result = Minimised(
        w.clone(), g.clone(), torch.full_like(idle, 4), torch.zeros_like(f, dtype=torch.bool)
    )
    targets = torch.arange(len(w), device=w.device)
    for _ in range(ROUNDS):
        running = ~(g.abs() <= tol).all(-1) & (idle < IDLE)
        keep = running.any(-1).nonzero()[:, 0]
        if len(keep) == 0:
            break
        if len(keep) < len(w):
            task, targets = task.narrow(keep), targets[keep]
            w, f, g, idle, running = (t[keep] for t in (w, f, g, idle, running))
        d = -_with_hessians(task, w).precondition(g)
        w, new_f, g, looks = _line_search(task, w, f, g, d, running)
        idle = torch.where(f - new_f > 1e-13 * f.abs(), 0, idle + 1)
        f = new_f
        result.w[targets], result.gradient[targets] = w, g
        result.passes[targets] += looks
        result.stuck[targets] = idle >= IDLE
    return result


def _line_search(
    task: Task, w: Tensor, f: Tensor, g: Tensor, d: Tensor, running: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Halve the step along d, model by model, until it gains enough.

    Return w, f and g where it ends, and the passes taken.
    """
    slope = (d * g).sum(-1)
    length, moved, looks = running.to(w), ~running, torch.zeros_like(f, dtype=torch.int64)
    size, start = g.abs().amax(-1), f
    for _ in range(HALVINGS):
        trial = w + length[..., None] * d
        new_f, new_g = value(task, trial), task.gradient(trial)
        looks += 2 * ~moved
        # At the end rounding hides what a step gains; then the gradient tells.
        less = new_f <= start + ARMIJO * length * slope
        calmer = (new_f <= start + 1e-13 * start.abs()) & (new_g.abs().amax(-1) <= 0.5 * size)
        better = ~moved & (less | calmer)
        w, g = torch.where(better[..., None], trial, w), torch.where(better[..., None], new_g, g)
        f, moved = torch.where(better, new_f, f), moved | better
        if bool(moved.all()):
            break
        # Those that have moved stand still from here on.
        length = torch.where(moved, 0.0, 0.5 * length)
    return w, f, g, looks


def value(task: Task, w: Tensor) -> Tensor:
    """Return Σ_j α_j f_j(w) + ½ Σ_p penalty_p w_p², (M, Q)."""
    losses = task.components.values(w, task.batch)
    mixed = torch.where(task.alpha > 0, task.alpha * losses, 0.0).sum(-1)
    return mixed + 0.5 * (task.penalty.to(w) * w.square()).sum(-1)


def _with_hessians(task: Task, w: Tensor) -> Task:
    """Return the task preconditioned by each model's own Hessian at w."""
    H = task.components.hessians(w, task.alpha, task.batch)
    return replace(task, preconditioner=Factors.of(add_diagonal(H, task.penalty)))
