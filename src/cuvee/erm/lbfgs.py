"""L-BFGS on many convex problems at once, with gradients alone: every model has its own history, step and end.

One pass over the data serves every model that still runs: one that has found its point takes a new direction, one
that went too far tries a shorter step along the old one. Models that are done leave the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

MEMORY = 10
OVERSHOOT = 0.5  # a step is too long when it ends on a slope upwards of more than this share of the slope at its start
SHORTEST = 1e-9
LEAVE = 0.75  # those who are done leave once no more than this share of the batch is running

Pairs = list[tuple[Tensor, Tensor, Tensor]]  # (s, y, 1/sᵀy) with s, y (M, Q, P), latest last


class Task(Protocol):
    """M × Q minimisations."""

    def gradient(self, w: Tensor) -> Tensor:
        """(M, Q, P) -> (M, Q, P): one pass over the data."""
        ...

    def precondition(self, q: Tensor) -> Tensor:
        """An inverse Hessian's work on q (M, Q, P), as good as is cheap."""
        ...

    def narrow(self, targets: Tensor) -> Task:
        """The task of these targets alone."""
        ...


@dataclass(frozen=True)
class Minimised:
    """Where M × Q minimisations ended."""

    w: Tensor  # (M, Q, P)
    gradient: Tensor  # (M, Q, P), at w
    passes: Tensor  # (M, Q) over the data
    stuck: Tensor  # (M, Q) no shorter step helps: rounding has the last word


def minimise(
    task: Task,
    w: Tensor,
    *,
    tol: Tensor | float,
    max_passes: int,
    gradient: Tensor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Minimised:
    """From w (M, Q, P) until |∇| ≤ tol (a number, or (P,)) everywhere or `max_passes` gradients were taken."""
    g = task.gradient(w) if gradient is None else gradient
    result = Minimised(w.clone(), g.clone(), torch.zeros_like(w[..., 0], dtype=torch.int64), _no(w))
    targets = torch.arange(len(w), device=w.device)
    running = (g.abs() > tol).any(-1)
    pairs: Pairs = []
    length = torch.ones_like(w[..., :1])
    direction, slope = _descend(task, g, pairs)
    for _ in range(max_passes):
        targets_running = running.any(-1)
        left = int(targets_running.sum())
        if progress is not None:
            progress(len(result.w) - left, len(result.w))
        if left == 0:
            break
        if left <= LEAVE * len(w):
            keep = targets_running.nonzero()[:, 0]
            task, targets, running = task.narrow(keep), targets[keep], running[keep]
            w, g, direction, slope, length = (t[keep] for t in (w, g, direction, slope, length))
            pairs = [(s[keep], y[keep], rho[keep]) for s, y, rho in pairs]
        trial = w + length * direction
        new = task.gradient(trial)
        new_slope = (new * direction).sum(-1, keepdim=True)
        good = new_slope <= OVERSHOOT * -slope  # a NaN is no good
        arrived = running & ((new.abs() <= tol).all(-1) | good[..., 0])
        step = torch.where(arrived[..., None], trial - w, 0.0)
        change = torch.where(arrived[..., None], new - g, 0.0)
        w, g = w + step, torch.where(arrived[..., None], new, g)
        curvature = (step * change).sum(-1, keepdim=True)
        rho = torch.where(curvature > 0, 1.0 / curvature.clamp(min=torch.finfo(w.dtype).tiny), 0.0)
        pairs = [*pairs[1 - MEMORY :], (step, change, rho)]
        shorter = (-slope / (-slope + new_slope)).nan_to_num(0.0).clamp(0.1, 0.7)  # where the slope would be 0
        length = torch.where(arrived[..., None], 1.0, length * shorter)
        next_direction, next_slope = _descend(task, g, pairs)
        direction = torch.where(arrived[..., None], next_direction, direction)
        slope = torch.where(arrived[..., None], next_slope, slope)
        stuck = running & ((length[..., 0] < SHORTEST) | (slope[..., 0] >= 0))
        result.w[targets], result.gradient[targets] = w, g
        result.passes[targets] += running
        result.stuck[targets] |= stuck
        running = running & (g.abs() > tol).any(-1) & ~stuck
    return result


def _no(w: Tensor) -> Tensor:
    return torch.zeros_like(w[..., 0], dtype=torch.bool)


def _descend(task: Task, gradient: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor]:
    """−H∇ by the usual two loops around the preconditioner, and its slope; a pair with 1/sᵀy = 0 says nothing."""
    q, kept = gradient, []
    for s, y, rho in reversed(pairs):
        a = rho * (s * q).sum(-1, keepdim=True)
        q = q - a * y
        kept.append((s, y, rho, a))
    r = task.precondition(q)
    for s, y, rho, a in reversed(kept):
        b = rho * (y * r).sum(-1, keepdim=True)
        r = r + (a - b) * s
    return -r, -(r * gradient).sum(-1, keepdim=True)
