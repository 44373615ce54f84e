"""Answer as the `Oracle` of generalised linear models (logistic, softmax, Poisson).

Passes have closed forms, and bounds rest on self-concordance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from cuvee.components import ALL, LinearSums, bind
from cuvee.erm import certificate
from cuvee.erm.convex.family import ConvexFamily
from cuvee.erm.convex.precondition import rough_diagonal
from cuvee.erm.convex.solver import Solved
from cuvee.erm.linear import solver as generalised
from cuvee.erm.linear.row_spread import Spreads
from cuvee.erm.shared import not_penalised, statuses
from cuvee.hypothesis.generalised import GeneralisedSpace
from cuvee.oracle import Bounds, Outcome, Progress
from cuvee.problem import Problem
from cuvee.results import Status

FLOOR = 64.0  # roundings of a row that a gradient may be left with
NEVER = 40.0  # intercept of a kind of label that no row has: e^−40 is lost beside 1


class GeneralisedFamily(ConvexFamily):
    """Answer from passes over tiles of rows; certificates count every rounding."""

    space: GeneralisedSpace
    components: LinearSums

    def __init__(
        self, problem: Problem, space: GeneralisedSpace, *, roundings: int = 0, **options: Any
    ) -> None:
        super().__init__(problem, space, roundings=roundings, **options)
        components = self.components
        self._spreads = Spreads.of(components) if space.intercept else None
        self._summed = components.roundings + components.own_rows + space.n_params + roundings + 32

    def _bound(self, problem: Problem, device: str) -> LinearSums:
        bound: LinearSums = bind(problem, self.space, device=device, memory=self._memory)
        return bound

    @property
    def rests_on(self) -> str:
        if self.space.l2 == 0:
            return not_penalised(self.space)
        free = (
            "; in the unpenalised intercept, the mixture's own curvature there and self-concordance"
        )
        return (
            f"λ-strong convexity with λ = {self.space.l2:g}{free if self.space.intercept else ''}"
        )

    def solve(
        self,
        alpha: Tensor,
        *,
        tol: float,
        start: Tensor | None = None,
        progress: Progress | None = None,
    ) -> Outcome:
        absent = self._absent(alpha)  # (M, kinds)
        lacking = absent.any(1)
        if not bool(lacking.any()):
            return self._solve(alpha, self.components, tol, start, progress)
        complete, incomplete = (~lacking).nonzero()[:, 0], lacking.nonzero()[:, 0]
        return _merged(
            complete,
            self._solve(
                alpha[complete],
                self._of(complete),
                tol,
                None if start is None else start[complete],
                progress,
            ),
            incomplete,
            self._solve_without(absent[incomplete], alpha[incomplete], self._of(incomplete), tol),
        )

    def _minimise(
        self, components: LinearSums, alpha: Tensor, tol: float, **options: Any
    ) -> Solved:
        second = self.space.intercept or self.space.sharpness is None
        wanted = generalised.Wanted(tol, self._memory, second, **options)
        return generalised.solve(components, ALL, alpha, wanted)

    def _solve_without(
        self, absent: Tensor, alpha: Tensor, components: LinearSums, tol: float
    ) -> Outcome:
        """Solve mixtures that lack a kind of label.

        The intercept of that kind is fixed where it is never predicted.
        """
        space = self.space
        M, K, width = len(alpha), space.n_outputs, space.width
        start = alpha.new_zeros(M, K, width)
        fixed = absent
        if K == 1:  # one score: without the second kind it is −∞, without the first +∞
            start[:, 0, -1] = NEVER * (absent[:, 0].to(start) - absent[:, 1].to(start))
            fixed = absent.any(1, keepdim=True)
        else:
            start[..., -1] = torch.where(absent, -NEVER, 0.0)
        free = (~fixed).to(start)[..., None].expand(M, K, width).reshape(M, 1, -1)
        wanted = generalised.Wanted(tol, self._memory, start=start.view(M, 1, -1), free=free)
        solved = generalised.solve(components, ALL, alpha[:, None], wanted)
        w, g = solved.w[:, 0], solved.gradient[:, 0].abs().amax(-1)
        status = statuses(
            M,
            (g <= tol, Status.ABSENT_CLASS),
            (~(g <= tol), Status.ITERATION_LIMIT),
            (~g.isfinite(), Status.DIVERGED),
        )
        return Outcome(
            w, g, solved.gradient[:, 0], certificate.unknown(g), status, solved.passes[:, 0]
        )

    def _absent(self, alpha: Tensor) -> Tensor:
        """Return which kinds of labels (M, kinds) no row of a mixture has.

        Only kinds whose absence leaves no minimiser count.
        """
        N = len(self.components.counts)
        # a penalised or bounded intercept always has a minimiser
        if not self.space.intercept or self.space.radius is not None:
            return torch.zeros(
                len(alpha), self.space.n_kinds, dtype=torch.bool, device=alpha.device
            )
        n_rows = (alpha[:, :N] > 0).to(alpha) @ self.components.rows_of_kind.to(alpha)
        if alpha.shape[1] > N:
            n_rows = n_rows + self.components.own_rows_of_kind * (alpha[:, N:] > 0)
        return self.space.absent(n_rows)

    def without_minimiser(self, alpha: Tensor) -> Tensor:
        return self._absent(alpha).any(1)

    def gradient(self, alpha: Tensor, w: Tensor) -> Tensor:
        return self.components.pull(w[:, None], alpha[:, None], ALL)[:, 0] + self._penalty * w

    def _look(
        self, w: Tensor, alpha: Tensor, components: LinearSums
    ) -> tuple[Tensor, Tensor | None]:
        g, second = components.pull_with_second(w, alpha, ALL)
        return g + self._penalty * w, second

    def _bounds(
        self, solved: Solved, alpha: Tensor, components: LinearSums
    ) -> tuple[Bounds, Tensor]:
        space, w, g = self.space, solved.w[:, 0], solved.gradient[:, 0]
        residuals = self._residuals(alpha, solved.second, components)
        if self._spreads is None:
            slack = certificate.rounding(w, components.longest_row, self._summed) * residuals
            return certificate.strongly_convex(
                torch.linalg.vector_norm(g, dim=-1) + slack, space.l2
            ), slack
        assert solved.second is not None
        spread = self._spreads.of_mixtures(alpha, components)
        size = 1.0 + spread.reach + torch.linalg.vector_norm(spread.reference)
        relative = certificate.rounding(w, size, self._summed)
        slack = relative * residuals
        split = g.view(len(g), space.n_outputs, space.width)
        bounds = certificate.self_concordant(
            split[..., :-1],
            split[..., -1],
            solved.second[:, 0],
            spread,
            space.l2,
            certificate.Known(slack, relative),
            certificate.Concordance(space.sharpness, space.concordance),
        )
        return bounds, slack

    @property
    def _floor(self) -> float:
        return FLOOR * certificate.EPS * (1.0 + float(self.components.longest_row))

    def _residuals(self, alpha: Tensor, second: Tensor | None, components: LinearSums) -> Tensor:
        """Return a bound on a row's mean plus statistic, (M,).

        It is an average over each mixture's rows.
        """
        if second is None:
            return alpha.new_ones(len(alpha))
        N = len(components.counts)
        labels = alpha[:, :N] @ components.label_sizes
        if alpha.shape[1] > N:
            labels = labels + alpha[:, N] * components.own_label_sizes
        return self.space.residual_bound(second[:, 0], labels)

    @property
    def _diagonal(self) -> Tensor:
        return rough_diagonal(self.components)

    def _precision(self, rough: bool) -> torch.dtype:
        holds = rough and self.components.largest < generalised.FLOAT32_HOLDS
        return torch.float32 if holds else self.space.dtype

    def _graph(self, models: int) -> int:
        """Return 0: passes go tile by tile and keep nothing."""
        return 0

    @property
    def flat(self) -> Tensor:
        """Return curvature 1 where softmax has none, in what all classes share.

        Softmax ignores what unpenalised parameters of all classes have in common.
        """
        K, width, penalty = self.space.n_outputs, self.space.width, self._penalty
        if K == 1 or not (self.space.intercept or self.space.l2 == 0):
            return penalty.new_zeros(())
        ignored = torch.diag((penalty.view(K, width)[0] == 0).to(penalty))
        return torch.kron(penalty.new_ones(K, K), ignored)


def _merged(first: Tensor, a: Outcome, others: Tensor, b: Outcome) -> Outcome:
    """Return two outcomes as one, each model at its original place."""
    order = torch.cat([first, others]).argsort()

    def joined(x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([x, y])[order]

    return Outcome(
        joined(a.w, b.w),
        joined(a.gradient, b.gradient),
        joined(a.vector, b.vector),
        Bounds(
            joined(a.bounds.distance, b.bounds.distance), joined(a.bounds.excess, b.bounds.excess)
        ),
        np.concatenate([a.status, b.status])[order.cpu().numpy()],
        joined(a.passes, b.passes),
    )
