"""Hold the weights along a path of C, how good they are, and how they came about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from cuvee.results import Floats, Status, Trace

TENSORS = ("C", "alpha", "objective", "lower", "noise")  # of `Points`


@dataclass(frozen=True)
class Points:
    """Hold the weights of M targets for G values of C each."""

    C: Tensor  # (M, G)
    alpha: Tensor  # (M, G, J)
    objective: Tensor  # (M, G) the largest F that adversaries found at α
    lower: Tensor  # (M, G) no α has a largest F below this
    noise: Tensor  # (M, G) twice the standard error of F, where rows were sampled
    course: tuple[Points, ...] = ()  # what stood after each round, where there is room to keep it

    @classmethod
    def joined(cls, paths: Sequence[Points]) -> Points:
        """Return the points of several paths side by side; a path that ended early stands still."""
        joined = {name: torch.cat([getattr(p, name) for p in paths], 1) for name in TENSORS}
        rounds = max(len(path.course) for path in paths) if all(p.course for p in paths) else 0
        course = (
            cls.joined([replace(p.course[min(t, len(p.course) - 1)], course=()) for p in paths])
            for t in range(rounds)
        )
        return cls(**joined, course=tuple(course))

    def of(self, targets: Tensor) -> Points:
        """Return the points of the given targets only, without their course."""
        return Points(**{name: getattr(self, name)[targets] for name in TENSORS})

    def put(self, targets: Tensor, part: Points) -> Points:
        """Return these points with those of the given targets replaced."""
        return replace(
            self,
            **{
                name: getattr(self, name).index_copy(0, targets, getattr(part, name))
                for name in TENSORS
            },
        )

    @property
    def gap(self) -> Tensor:
        """Return what F may at most be above its minimum, as far as adversaries saw: (M, G).

        Where rows were sampled, that includes what chance may hide.
        """
        return (self.objective - self.lower).clamp(min=0.0) + self.noise

    def converged(self, tol: float) -> Tensor:
        """Return (M, G) where the gap is at most this share of F."""
        return self.gap <= tol * self.objective

    def status(self, tol: float, counts: Tensor | None = None) -> tuple[Status, ...]:
        """Return for each target whether its points have converged, or only those that count."""
        matters = torch.ones_like(self.C, dtype=torch.bool) if counts is None else counts
        done = (self.converged(tol) | ~matters).all(-1).tolist()
        sane = (self.objective.isfinite() | ~matters).all(-1).tolist()
        return tuple(
            Status.DIVERGED if not finite else Status.CONVERGED if good else Status.STEP_LIMIT
            for finite, good in zip(sane, done, strict=True)
        )

    def averaged(self, weight: Floats) -> tuple[Floats, Floats, Floats]:
        """Return F (M,), gap (M,) and α (M, J), averaged over the points with weights (M, G)."""
        objective, gap = (
            (weight * part.cpu().numpy()).sum(-1) for part in (self.objective, self.gap)
        )
        return objective, gap, np.einsum("mg,mgj->mj", weight, self.alpha.cpu().numpy())

    def trace(self, weight: Floats) -> Trace | None:
        """Return the course of the rounds, averaged over the points with weights (M, G)."""
        if not self.course:
            return None
        parts = zip(*(then.averaged(weight) for then in self.course), strict=True)
        objective, gap, alpha = (np.stack(part) for part in parts)
        return Trace(np.arange(1, len(self.course) + 1), objective, gap, alpha)
