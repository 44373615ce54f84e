"""Answer for a linear hypothesis on a wide table in the coordinates that its rows span.

Where own samples joined, targets are taken a few at a time, so that their rows do not fill the
space they share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cuvee.components import rows_space
from cuvee.components.protocol import Reference
from cuvee.components.rows_space import RowsSpace
from cuvee.erm.certificate import EPS
from cuvee.erm.ridge import around
from cuvee.oracle import Bounds, Oracle, Outcome, Progress, sphere
from cuvee.problem import Array, Problem
from cuvee.results import Status

Make = Callable[[Problem, Any, int], Oracle]
"""(problem, space, roundings that each number of its rows carries) -> the family that does the
work.
"""


@dataclass(frozen=True)
class Part:
    """Hold a slice of models, the coordinates that their rows span, and the family that answers."""

    models: slice
    rows: RowsSpace
    family: Oracle


class WideFamily:
    """Answer like the family it is made of, for w in all columns."""

    def __init__(
        self, problem: Problem, space: Any, make: Make, *, own: bool, device: str, memory: int
    ) -> None:
        self._space, self._make, self._device, self._memory = space, make, device, memory
        self._problems = [(slice(None), problem.without_targets())]
        if own:
            size, targets = rows_space.targets_at_a_time(problem, space), problem.targets
            chunks = [slice(low, low + size) for low in range(0, len(targets), size)]
            self._problems = [(c, problem.with_targets(targets[c])) for c in chunks]
        self._first = self._part(*self._problems[0])

    def _part(self, models: slice, problem: Problem) -> Part:
        rows = rows_space.of(problem, self._space)
        family = self._make(rows.problem, rows.space, rows.roundings)
        near = rows.around
        if near is not None:
            near = Reference(near.row.to(self._device), near.label.to(self._device))
        rows = replace(rows, basis=rows.basis.to(self._device), around=near)
        return Part(models, rows, family)

    def _parts(self) -> Iterator[Part]:
        """Yield one part after another.

        The first is kept; the others are made again each time, so that only one is held at a time.
        """
        yield self._first
        for models, problem in self._problems[1:]:
            yield self._part(models, problem)

    @property
    def rests_on(self) -> str:
        return self._first.family.rests_on

    def solve(
        self,
        alpha: Tensor,
        *,
        tol: float,
        start: Tensor | None = None,
        progress: Progress | None = None,
    ) -> Outcome:
        outcomes = []
        for part in self._parts():
            near = None if start is None else self._split(part.rows, start[part.models])[0]
            # ‖∇‖∞ in the columns is at most ‖∇‖₂ in the coordinates, and that √P times ‖∇‖∞ there.
            enough = tol / part.rows.space.n_params**0.5
            solved = part.family.solve(alpha[part.models], tol=enough, start=near)
            outcome = self._handed_out(part, alpha[part.models], solved, tol)
            outcomes.append(outcome)
            if progress is not None:
                progress(sum(len(o.w) for o in outcomes), len(alpha))
        return _joined(outcomes)

    def certify(self, alpha: Tensor, w: Tensor, *, tol: float) -> Outcome:
        return _joined(
            [self._looked_at(p, alpha[p.models], w[p.models], tol) for p in self._parts()]
        )

    def _split(self, rows: RowsSpace, w: Tensor) -> tuple[Tensor, Tensor]:
        """Return coordinates of models w (M, P), and the part of these that no row sees."""
        return rows.split(around.shift(w, rows.around, 1.0, self._memory)[0])

    def _looked_at(self, part: Part, alpha: Tensor, w: Tensor, tol: float) -> Outcome:
        """Return what can be proven of w by one pass over the rows of this part."""
        canonical = self._space.canonical(w, features=False)
        inside = self._space.project(canonical)
        u, unseen = self._split(part.rows, inside)
        outcome = part.family.certify(alpha, u, tol=tol)
        outcome = self._expanded(part.rows, outcome, inside, unseen)
        status = outcome.status.copy()
        status[(status == Status.SOLVED) & ~_within(outcome, tol)] = Status.ITERATION_LIMIT
        return replace(outcome, status=status).moved_from(canonical)

    def _handed_out(self, part: Part, alpha: Tensor, solved: Outcome, tol: float) -> Outcome:
        """Return the outcome of solved models as they are in all columns.

        Expanding w rounds it once more, which a column with a large mean feels: gradient and bounds
        are those of the rounded w, and no other w in float64 is much better.
        """
        rows = part.rows
        w = around.shift(rows.expand(solved.w), rows.around, -1.0, self._memory)[0]
        outcome = self._expanded(rows, solved, w, torch.zeros_like(w))
        looked = self._looked_at(part, alpha, w, tol)
        status, within = outcome.status.copy(), _within(looked, tol)
        # a model that missed the stricter tolerance may still meet the one asked for, and one that
        # met it miss this one after rounding
        late = (status == Status.ITERATION_LIMIT) | (status == Status.ROUNDED)
        if not self._space.quadratic:
            late |= status == Status.ILL_CONDITIONED
        status[late & within] = Status.SOLVED
        status[(status == Status.SOLVED) & ~within] = Status.ROUNDED
        # intercepts of absent classes are fixed far out, and have no part in the gradient
        free = torch.as_tensor(status != Status.ABSENT_CLASS, device=alpha.device)
        return _chosen(free, looked, replace(outcome, status=status))

    def _expanded(self, rows: RowsSpace, seen: Outcome, w: Tensor, unseen: Tensor) -> Outcome:
        """Return the outcome of w (M, P) from that of its coordinates and what no row sees of it.

        That part is bounded by λ alone. Where a reference x0 was taken off the rows, the intercept
        makes up for what w does to x0, be it the part that no row sees, or its rounding.
        """
        norm, l2 = torch.linalg.vector_norm, self._space.l2
        size = norm(unseen, dim=-1)
        rounded = rows.roundings * EPS * (norm(seen.w, dim=-1) + size)
        distance = torch.hypot(seen.bounds.distance, size) + rounded
        if rows.around is not None:
            x0 = rows.around.row
            distance = distance + (unseen @ x0).abs() + rounded * norm(x0)
        excess = seen.bounds.excess + 0.5 * l2 * size.square()
        vector = around.by_model(rows.expand(seen.vector) + l2 * unseen, rows.around)
        nu = sphere(w, vector, self._space.radius)
        gradient = (vector + nu[:, None] * w).abs().amax(-1)
        return replace(seen, w=w, gradient=gradient, vector=vector, bounds=Bounds(distance, excess))

    def gradient(self, alpha: Tensor, w: Tensor) -> Tensor:
        gradients = []
        for part in self._parts():
            rows = part.rows
            u, unseen = self._split(rows, w[part.models])
            inside = rows.expand(part.family.gradient(alpha[part.models], u))
            gradients.append(around.by_model(inside + self._space.l2 * unseen, rows.around))
        return torch.cat(gradients)

    def sensitivity(self, alpha: Tensor, w: Tensor) -> Tensor:
        changes = []
        for p in self._parts():
            u = self._split(p.rows, w[p.models])[0]
            inside = p.rows.expand(p.family.sensitivity(alpha[p.models], u))
            changes.append(around.moved(inside, p.rows.around))
        return torch.cat(changes)

    def hessian_solve(self, alpha: Tensor, w: Tensor, stack: Tensor) -> Tensor:
        solved = []
        for p in self._parts():
            rows = p.rows
            coordinates, unseen = rows.split(around.by_model(stack[p.models], rows.around, -1.0))
            u = self._split(rows, w[p.models])[0]
            inside = rows.expand(p.family.hessian_solve(alpha[p.models], u, coordinates))
            change = inside + self._space.canonical(unseen) / self._space.l2
            solved.append(around.moved(change, rows.around))
        return torch.cat(solved)

    def without_minimiser(self, alpha: Tensor) -> Tensor:
        return torch.cat([p.family.without_minimiser(alpha[p.models]) for p in self._parts()])

    def component_gradients(self, w: Tensor, *, rough: bool = False) -> Tensor:
        rows, family = self._first.rows, self._first.family
        inside = family.component_gradients(self._split(rows, w)[0], rough=rough)
        return around.by_model(rows.expand(inside), rows.around)

    def component_hessians(self, w: Tensor, *, rough: bool = False) -> Tensor:
        u = self._split(self._first.rows, w[None])[0][0]
        return self._both_sides(self._first.family.component_hessians(u, rough=rough))

    @property
    def flat(self) -> Tensor:
        flat = self._first.family.flat
        return flat if flat.ndim == 0 else self._both_sides(flat)

    def _both_sides(self, H: Tensor) -> Tensor:
        """Return symmetric (..., r, r) of the coordinates as (..., P, P) of the columns."""
        rows = self._first.rows

        def one_side(H: Tensor) -> Tensor:
            return around.by_model(rows.expand(H), rows.around)

        return one_side(one_side(H).transpose(-1, -2))


def _within(outcome: Outcome, tol: float) -> Array:
    """Return (M,) whose gradient is within the tolerance."""
    return np.asarray((outcome.gradient <= tol).cpu())


def _chosen(first: Tensor, a: Outcome, b: Outcome) -> Outcome:
    """Return b, with the gradients and bounds of `a` for the models `first` (M,)."""

    def of(x: Tensor, y: Tensor) -> Tensor:
        return torch.where(first.view(-1, *[1] * (x.ndim - 1)), x, y)

    bounds = Bounds(of(a.bounds.distance, b.bounds.distance), of(a.bounds.excess, b.bounds.excess))
    gradient, vector = of(a.gradient, b.gradient), of(a.vector, b.vector)
    return replace(b, gradient=gradient, vector=vector, bounds=bounds)


def _joined(outcomes: list[Outcome]) -> Outcome:
    """Return the outcomes of successive models as one."""
    if len(outcomes) == 1:
        return outcomes[0]

    def of(name: str) -> Tensor:
        return torch.cat([getattr(o, name) for o in outcomes])

    bounds = Bounds(
        torch.cat([o.bounds.distance for o in outcomes]),
        torch.cat([o.bounds.excess for o in outcomes]),
    )
    status = np.concatenate([o.status for o in outcomes])
    return Outcome(of("w"), of("gradient"), of("vector"), bounds, status, of("passes"))
