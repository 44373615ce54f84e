"""Find α for a whole path of C at once from cuts.

F(α, w) is convex in α, and z(w) = f_T(w) − f_j(w) depends neither on α nor on C. So a pass over the
data at adversaries w gives *cuts*: F(α, w) is a lower bound on max_w F for every α and every C. All
cuts are kept. The best α for the cuts so far is a small problem without data
(`cuvee.mixture.cut_problem`), solved for all targets and all C together. Then each value of C sends
its adversaries, one per side, a step up its own F, and the next pass gives the next cuts.

What the panel's best F exceeds the value of the small problem by is a true *gap*: no α can have a
largest F below that value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cuvee.mixture import cut_problem
from cuvee.mixture.method import Progress
from cuvee.mixture.objective import Objective
from cuvee.mixture.panel import Panel
from cuvee.numerics.parallel import each

WORKING = 40  # cuts that a small problem looks at: those that come closest to being the largest
SOLVED = 0.5  # of the tolerance: points with a smaller gap are not solved again
COURSE = 64 * 2**20  # bytes of α kept of the rounds
CHUNK = 2**19  # numbers in the cuts of the small problems solved at a time


@dataclass(frozen=True)
class Points:
    """Hold the weights of M targets for G values of C each."""

    C: Tensor  # (M, G)
    alpha: Tensor  # (M, G, J)
    objective: Tensor  # (M, G) the largest F that the panel found at α
    lower: Tensor  # (M, G) no α has a largest F below this
    course: tuple[Points, ...] = ()  # what stood after each round, where there is room to keep it

    @classmethod
    def joined(cls, paths: Sequence[Points]) -> Points:
        """Return the points of several paths side by side; a path that ended early stands still."""
        fields = ("C", "alpha", "objective", "lower")
        side_by_side = (torch.cat([getattr(path, name) for path in paths], 1) for name in fields)
        C, alpha, objective, lower = side_by_side
        rounds = max(len(path.course) for path in paths) if all(p.course for p in paths) else 0
        course = (
            cls.joined([replace(p.course[min(t, len(p.course) - 1)], course=()) for p in paths])
            for t in range(rounds)
        )
        return cls(C, alpha, objective, lower, tuple(course))

    def of(self, targets: Tensor) -> Points:
        """Return the points of the given targets only."""
        fields = (self.C, self.alpha, self.objective, self.lower)
        C, alpha, objective, lower = (field[targets] for field in fields)
        return Points(C, alpha, objective, lower)

    def put(self, targets: Tensor, part: Points) -> Points:
        """Return these points with those of the given targets replaced."""
        alpha, objective, lower = (
            getattr(self, name).index_copy(0, targets, getattr(part, name))
            for name in ("alpha", "objective", "lower")
        )
        return replace(self, alpha=alpha, objective=objective, lower=lower)

    @property
    def gap(self) -> Tensor:
        return (self.objective - self.lower).clamp(min=0.0)

    def converged(self, tol: float) -> Tensor:
        """Return (M, G) where the gap is at most this share of F."""
        return self.gap <= tol * self.objective


def follow(
    panel: Panel,
    objective: Objective,
    C: Tensor,
    start: Tensor,
    *,
    rounds: int,
    tol: float,
    progress: Progress | None = None,
    what: str = "α along the path of C",
) -> Points:
    """Return the weights of every target for every C (M, G), from `start` (M, J) on.

    It ends after `rounds` rounds, or when a panel that has looked hard leaves every gap within
    `tol` of F.
    """
    M, G = C.shape
    alpha = start[:, None].expand(-1, G, -1).contiguous()
    best = everyone = Points(C, alpha, torch.full_like(C, torch.inf), torch.zeros_like(C))
    running = torch.arange(M, device=C.device)
    cuts = start.new_zeros(M, 0, start.shape[-1])
    course: list[Points] = []
    keep = 8 * rounds * alpha.numel() <= COURSE
    for t in range(rounds):
        cuts = torch.cat([cuts, cut_problem.rows(objective, panel.answer(alpha, t))], 1)
        best = _better(objective, best, alpha, cuts)
        alpha, lower = _solve(objective, best, cuts, alpha, ~best.converged(SOLVED * tol))
        best = replace(best, lower=torch.maximum(best.lower, lower))
        everyone = everyone.put(running, best)
        if keep:
            course.append(everyone)
        if progress:
            progress(what, t + 1, rounds)
        if panel.settled(t):  # targets that are done leave
            stay = (~best.converged(tol)).any(-1).nonzero()[:, 0]
            if len(stay) == 0:
                break
            if len(stay) < len(running):
                panel, objective, best = panel.narrow(stay), objective.narrow(stay), best.of(stay)
                cuts, alpha, running = cuts[stay], alpha[stay], running[stay]
    return replace(everyone, course=tuple(course))


def largest(objective: Objective, C: Tensor, alpha: Tensor, cuts: Tensor) -> Tensor:
    """Return the largest F of each α (M, G, J) over cuts (M, K, J): (M, G)."""
    penalty = (C[..., None] * objective.inverse_counts[:, None] * alpha.square()).sum(-1)
    return cut_problem.phi(objective, (alpha @ cuts.mT).amax(-1)) + penalty


def _solve(
    objective: Objective, best: Points, cuts: Tensor, alpha: Tensor, points: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the best weights for these cuts, and the lower bounds (M, G) that they prove.

    Only the marked points (M, G) are solved; the others keep their α (M, G, J) and have bound 0.
    """
    target = points.nonzero()[:, 0]
    inverse = objective.inverse_counts.expand(len(alpha), -1)
    C, start = best.C[points], alpha[points]

    def of(part: Tensor) -> tuple[Tensor, Tensor]:
        i = target[part]
        a, d = _working(start[part], cuts[i]), C[part, None] * inverse[i]
        problem = cut_problem.CutProblem(a, d, objective.smoothing)
        return cut_problem.solve(problem, start[part])

    size = max(1, CHUNK // max(1, cuts.shape[1] * cuts.shape[-1]))
    parts = torch.arange(len(target), device=C.device).split(size)
    solved = list(each(of, parts, C.device))
    if len(target) == 0:
        return alpha, torch.zeros_like(best.lower)
    weights, bounds = (torch.cat(part) for part in zip(*solved, strict=True))
    where = (points,)
    return alpha.index_put(where, weights), torch.zeros_like(best.lower).index_put(where, bounds)


def _working(alpha: Tensor, cuts: Tensor) -> Tensor:
    """Return the WORKING cuts (B, WORKING, J) that are largest at α (B, J)."""
    if cuts.shape[1] <= WORKING:
        return cuts
    chosen = (cuts @ alpha[..., None])[..., 0].topk(WORKING, dim=-1).indices
    return cuts.gather(1, chosen[..., None].expand(-1, -1, cuts.shape[-1]))


def _better(objective: Objective, best: Points, alpha: Tensor, cuts: Tensor) -> Points:
    """Return the better of the best weights so far and α (M, G, J), both judged by all cuts."""
    before, now = (largest(objective, best.C, a, cuts) for a in (best.alpha, alpha))
    better = now <= before
    return replace(
        best,
        alpha=torch.where(better[..., None], alpha, best.alpha),
        objective=torch.where(better, now, before),
    )
