"""Run L-BFGS on many convex problems at once, with gradients alone.

Every model has its own history, step and end. One pass over the data serves every model that still
runs: one that accepted its step takes a new direction, one that went too far tries a shorter step
along the old one. Models that are done leave the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

MEMORY = 10
# A step is too long when the slope at its end is upwards and more than this share of the slope at
# its start.
OVERSHOOT = 0.5
# The gradient may not grow by more than this factor: far out, where losses are flat, slopes alone
# are unreliable.
WORSE = 4.0
SHORTEST = 1e-9
LEAVE = 0.75  # targets and models that are done leave once no more than this share of them runs

Pairs = list[tuple[Tensor, ...]]  # (s, y, 1/sᵀy) with s, y (M, Q, P), latest last


class Task(Protocol):
    """Describe M × Q minimisations."""

    @property
    def rescaled(self) -> bool:
        """Return whether the preconditioner is scaled anew by the curvature of every step.

        That helps where it was made far from the minimiser, and costs one more `precondition`.
        """
        ...

    def gradient(self, w: Tensor, running: Tensor | None = None) -> Tensor:
        """Return the gradients (M, Q, P) at w (M, Q, P), by one pass over the data.

        Where a model is not `running` (M, Q), its gradient may be anything.
        """
        ...

    def precondition(self, q: Tensor) -> Tensor:
        """Return an approximate inverse Hessian times q (M, Q, P)."""
        ...

    def narrow(self, targets: Tensor, models: Tensor | None = None) -> Task:
        """Return the task of these targets only, and of these of the Q models of each."""
        ...


@dataclass(frozen=True)
class Minimised:
    """Hold where M × Q minimisations ended."""

    w: Tensor  # (M, Q, P)
    gradient: Tensor  # (M, Q, P), at w
    passes: Tensor  # (M, Q) over the data
    stuck: Tensor  # (M, Q) no shorter step helps, because of rounding


def minimise(
    task: Task,
    w: Tensor,
    *,
    tol: Tensor | float,
    max_passes: int,
    gradient: Tensor | None = None,
    credit: float = 0.0,
    report: Callable[[int], None] = lambda done: None,
) -> Minimised:
    """Minimise from w (M, Q, P) until |∇| ≤ tol everywhere or `max_passes` are used up.

    `tol` is a number, or (P,). With `credit` c > 0, a model within tol/c whose last step cut its
    gradient to a share c takes its last step without computing the gradient there: for callers who
    compute it anyway. `report` is called after every pass with the number of targets that are done.
    """
    g = task.gradient(w) if gradient is None else gradient
    excess = (g.abs() / tol).amax(-1, keepdim=True)  # (M, Q, 1), ≤ 1 when done
    before = torch.full_like(excess, torch.inf)
    result = Minimised(w.clone(), g.clone(), torch.zeros_like(w[..., 0], dtype=torch.int64), _no(w))
    targets, models = (torch.arange(n, device=w.device) for n in w.shape[:2])
    running, arrived = excess > 1, torch.ones_like(excess, dtype=torch.bool)
    pairs: Pairs = []
    gamma = torch.ones_like(excess)
    length, direction, slope = (
        torch.ones_like(excess),
        torch.zeros_like(w),
        torch.zeros_like(excess),
    )
    for _ in range(max_passes):
        if not bool(running.any()):
            break
        fresh = _descend(task, g, pairs, gamma)
        direction = torch.where(arrived, fresh, direction)
        slope = torch.where(arrived, (fresh * g).sum(-1, keepdim=True), slope)
        if credit > 0:
            leap = running & arrived & (excess <= 1 / credit) & (excess <= credit * before)
            w, running = torch.where(leap, w + direction, w), running & ~leap
            result.w[targets[:, None], models] = w
        keep, still = (running[..., 0].any(axis).nonzero()[:, 0] for axis in (1, 0))
        report(len(result.w) - len(keep))
        if len(keep) * len(still) <= LEAVE * running.numel():
            if len(keep) == 0:
                break
            task, targets, models = task.narrow(keep, still), targets[keep], models[still]
            state = (w, g, excess, before, running, arrived, length, direction, slope, gamma)
            w, g, excess, before, running, arrived, length, direction, slope, gamma = (
                t[keep[:, None], still] for t in state
            )
            pairs = [tuple(t[keep[:, None], still] for t in pair) for pair in pairs]
        trial = w + length * direction
        new = task.gradient(trial, running[..., 0])
        new_slope = (new * direction).sum(-1, keepdim=True)
        new_excess = (new.abs() / tol).amax(-1, keepdim=True)
        good = (new_slope <= OVERSHOOT * -slope) & (new_excess <= WORSE * excess)  # a NaN is not
        arrived = running & (good | (new_excess <= 1))
        step, change = torch.where(arrived, trial - w, 0.0), torch.where(arrived, new - g, 0.0)
        curvature = (step * change).sum(-1, keepdim=True)
        rho = torch.where(curvature > 0, 1.0 / curvature.clamp(min=torch.finfo(w.dtype).tiny), 0.0)
        pairs = [*pairs[1 - MEMORY :], (step, change, rho)]
        if task.rescaled:
            held = (change * task.precondition(change)).sum(-1, keepdim=True)
            gamma = torch.where((curvature > 0) & (held > 0), curvature / held, gamma)
        w, g = torch.where(arrived, trial, w), torch.where(arrived, new, g)
        before, excess = (
            torch.where(arrived, excess, before),
            torch.where(arrived, new_excess, excess),
        )
        # where the slope would be 0
        shorter = (-slope / (-slope + new_slope)).nan_to_num(0.0).clamp(0.1, 0.7)
        length = torch.where(arrived, 1.0, length * shorter)
        stuck = running & ((length < SHORTEST) | (slope >= 0))
        place = targets[:, None], models
        result.w[place], result.gradient[place] = w, g
        result.passes[place] += running[..., 0]
        result.stuck[place] |= stuck[..., 0]
        running = running & (excess > 1) & ~stuck
    return result


def _no(w: Tensor) -> Tensor:
    return torch.zeros_like(w[..., 0], dtype=torch.bool)


def _descend(task: Task, gradient: Tensor, pairs: Pairs, gamma: Tensor) -> Tensor:
    """Return −H∇ by the usual two loops around γ times the preconditioner.

    Pairs with 1/sᵀy = 0 are skipped.
    """
    q, history = gradient, []
    for s, y, rho in reversed(pairs):
        a = rho * (s * q).sum(-1, keepdim=True)
        q = q - a * y
        history.append((s, y, rho, a))
    r = task.precondition(q)
    if task.rescaled:
        r = gamma * r
    for s, y, rho, a in reversed(history):
        b = rho * (y * r).sum(-1, keepdim=True)
        r = r + (a - b) * s
    return -r
