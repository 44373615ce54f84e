"""Damped Newton with values: slow and sure, for the few models that quasi-Newton steps did not bring home."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from cuvee.erm.lbfgs import Minimised
from cuvee.erm.precondition import Factors, Task, add_diagonal

ARMIJO = 1e-4
HALVINGS = 40
ROUNDS = 200


def minimise(task: Task, w: Tensor, *, tol: float) -> Minimised:
    """From w (M, Q, P), or from 0 where that is better, until ‖∇‖∞ ≤ tol or no step helps any more."""
    at_w, at_0 = value(task, w), value(task, torch.zeros_like(w))
    if task.free is None:
        w = torch.where((at_w <= at_0)[..., None], w, 0.0)
    g, f = task.gradient(w), value(task, w)
    passes, stuck = torch.full_like(f, 4, dtype=torch.int64), torch.zeros_like(f, dtype=torch.bool)
    for _ in range(ROUNDS):
        running = ~(g.abs() <= tol).all(-1) & ~stuck
        if not bool(running.any()):
            break
        d = -_with_hessians(task, w).precondition(g)
        slope = (d * g).sum(-1)
        length, moved = running.to(w), torch.zeros_like(running)
        for _ in range(HALVINGS):
            trial = w + length[..., None] * d
            new_f, new_g = value(task, trial), task.gradient(trial)
            passes += 2 * (running & ~moved)
            # At the end rounding hides what a step gains; then the gradient tells.
            less = new_f <= f + ARMIJO * length * slope
            calmer = (new_f <= f + 1e-13 * f.abs()) & (new_g.abs().amax(-1) <= 0.5 * g.abs().amax(-1))
            better = running & ~moved & (less | calmer)
            w, g = torch.where(better[..., None], trial, w), torch.where(better[..., None], new_g, g)
            f, moved = torch.where(better, new_f, f), moved | better
            if bool((moved | ~running).all()):
                break
            length = 0.5 * length
        stuck = stuck | (running & ~moved)
    return Minimised(w, g, passes, stuck)


def value(task: Task, w: Tensor) -> Tensor:
    """Σ_j α_j f_j(w) + ½ Σ_p penalty_p w_p², (M, Q)."""
    losses = task.components.values(w, task.rows)
    mixed = torch.where(task.alpha > 0, task.alpha * losses, 0.0).sum(-1)
    return mixed + 0.5 * (task.penalty.to(w) * w.square()).sum(-1)


def _with_hessians(task: Task, w: Tensor) -> Task:
    """The task preconditioned by each model's own Hessian at w."""
    H = task.components.hessians(w, task.alpha, task.rows)
    return replace(task, preconditioner=Factors.of(add_diagonal(H, task.penalty)))
