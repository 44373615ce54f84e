"""Run damped Newton with values: slow and reliable, for models that L-BFGS did not solve.

A step solves (H + μD) d = −∇. μ is 0 as long as Newton steps gain; a round that gains nothing
raises it, until the step is a short one down the slope, and a full step lowers it again. So a model
also leaves places where its loss is nearly straight and H says nothing about the way.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from cuvee.components import Batch, Components
from cuvee.erm.convex.lbfgs import Minimised
from cuvee.erm.convex.precondition import Factors, Task, add_diagonal

ARMIJO = 1e-4
HALVINGS = 8
ROUNDS = 100
LEAST_DAMPING, MOST_DAMPING, HARDER = 1e-4, 1e6, 100.0  # μ, and its factor after a failed round
IDLE = 3  # a model ends after this many rounds in a row that gain less than rounding


def minimise(task: Task, w: Tensor, *, tol: Tensor | float) -> Minimised:
    """Minimise from w (M, Q, P), or from 0 if better, until ‖∇‖∞ ≤ tol or no step helps."""
    if task.free is None:
        at_w, at_zero = task.components.together(
            [partial(value, task, start) for start in (w, torch.zeros_like(w))]
        )
        w = torch.where((at_w <= at_zero)[..., None], w, 0.0)
    f, g = value(task, w), task.gradient(w)
    idle = torch.zeros_like(f, dtype=torch.int64)
    damping, scale = torch.zeros_like(f), torch.zeros_like(w)
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
            w, f, g, idle, running, damping, scale = (
                t[keep] for t in (w, f, g, idle, running, damping, scale)
            )
        H, known = hessians(task.components, task.batch, task.alpha, w)
        damping = torch.where(known, damping, damping.clamp(min=LEAST_DAMPING))
        add_diagonal(H, task.penalty)
        scale = torch.maximum(scale, H.diagonal(dim1=-2, dim2=-1).maximum(reached(f, g)))
        d = -_damped(task, H, damping, scale).precondition(g)
        w, new_f, g, looks, length = _line_search(task, w, f, g, d, running)
        gained = f - new_f > 1e-13 * f.abs()
        rested = running & (length == 0)
        idle = torch.where(gained, 0, torch.where(rested, idle, idle + 1))
        idle = torch.where(rested & (damping >= MOST_DAMPING), IDLE, idle)
        damping, f = _adapted(damping, length, rested), new_f
        result.w[targets], result.gradient[targets] = w, g
        result.passes[targets] += looks
        result.stuck[targets] = idle >= IDLE
    return result


def hessians(
    components: Components, batch: Batch, alpha: Tensor, w: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the Hessians (M, Q, P, P) of the data, and where they are known (M, Q).

    Where the derivatives of a hypothesis overflow, far out, the Hessian is 0 and not known.
    """
    H = components.hessians(w, alpha, batch)
    known = H.isfinite().flatten(-2).all(-1)
    if not bool(known.all()):
        H = torch.where(known[..., None, None], H, 0.0)
    return H, known


def reached(f: Tensor, g: Tensor) -> Tensor:
    """Return ‖g‖²/(2f), (M, Q, 1): a curvature that a risk f (M, Q) reaches on its way down.

    As no risk is below 0, it cannot be straight for ever, whatever its Hessian is here.
    """
    most = g.square().sum(-1) / (2.0 * f).clamp(min=torch.finfo(f.dtype).tiny)
    return most.nan_to_num(0.0)[..., None]


def _adapted(damping: Tensor, length: Tensor, rested: Tensor) -> Tensor:
    """Return μ (M, Q) of the next round: more where no step gained, less after a full step."""
    more = (HARDER * damping).clamp(LEAST_DAMPING, MOST_DAMPING)
    less = torch.where(damping > LEAST_DAMPING, 0.1 * damping, 0.0)
    return torch.where(rested, more, torch.where(length == 1, less, damping))


def _line_search(
    task: Task, w: Tensor, f: Tensor, g: Tensor, d: Tensor, running: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Halve the step along d, model by model, until it gains enough.

    Returns w, f and g at the end of the step, the passes taken, and the length of the step: 1 is
    all of d, 0 none.
    """
    slope = (d * g).sum(-1)
    length, moved, looks = running.to(w), ~running, torch.zeros_like(f, dtype=torch.int64)
    gone = torch.zeros_like(length)
    size, start = g.abs().amax(-1), f
    for _ in range(HALVINGS):
        trial = w + length[..., None] * d
        new_f, new_g = value(task, trial), task.gradient(trial)
        looks += 2 * ~moved
        # Near the minimum rounding hides the gain of a step; then the gradient decides.
        less = new_f <= start + ARMIJO * length * slope
        calmer = (new_f <= start + 1e-13 * start.abs()) & (new_g.abs().amax(-1) <= 0.5 * size)
        better = ~moved & (less | calmer)
        w, g = torch.where(better[..., None], trial, w), torch.where(better[..., None], new_g, g)
        f, moved = torch.where(better, new_f, f), moved | better
        gone = torch.where(better, length, gone)
        if bool(moved.all()):
            break
        # Models that have moved stay where they are.
        length = torch.where(moved, 0.0, 0.5 * length)
    return w, f, g, looks, gone


def value(task: Task, w: Tensor) -> Tensor:
    """Return Σ_j α_j f_j(w) + ½ Σ_p penalty_p w_p², (M, Q)."""
    losses = task.components.values(w, task.batch)
    mixed = torch.where(task.alpha > 0, task.alpha * losses, 0.0).sum(-1)
    return mixed + 0.5 * (task.penalty.to(w) * w.square()).sum(-1)


def _damped(task: Task, H: Tensor, damping: Tensor, scale: Tensor) -> Task:
    """Return the task preconditioned by each model's own H + μD, penalty included."""
    damped = add_diagonal(H, damping[..., None] * scale)
    return replace(task, preconditioner=Factors.of(damped))
