"""Answer as the oracle of ridge regression, from Gram matrices that are computed once.

With an unpenalised intercept, and no ball W, everything is computed around a reference row x0 and
label y0: w stays the same, b' = b + x0·w − y0. Columns with large means then cost no digits. The
result is b again, rounded: gradient, status and certificate are those of the rounded one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cuvee.components import QuadraticSums, bind
from cuvee.components.protocol import Grams, Reference
from cuvee.erm import certificate, linear_system
from cuvee.erm.certificate import EPS, Mean
from cuvee.erm.ridge import around
from cuvee.erm.ridge import solver as ridge
from cuvee.erm.shared import implicit_derivative, not_penalised, statuses
from cuvee.hypothesis.ridge import RidgeSpace
from cuvee.oracle import Bounds, Outcome, Progress, sphere
from cuvee.problem import Problem
from cuvee.results import Status


class RidgeFamily:
    def __init__(
        self,
        problem: Problem,
        space: RidgeSpace,
        *,
        own: bool,
        device: str,
        memory: int,
        roundings: int = 0,
    ) -> None:
        self.space, self._memory = space, memory
        data = problem if own else problem.without_targets()
        self._components: QuadraticSums = bind(data, space, device=device)
        self._around: Reference | None = None
        if space.intercept and space.radius is None and space.centred_at is None:
            self._around = self._components.reference()
            self._around.row[-1] = 0.0
        self._summed = (
            self._components.roundings + problem.n_sources + space.n_params + roundings + 16
        )
        grams = self._components.source_grams(self._around)
        # Mixtures that use a source whose sums overflow diverge; others must not be affected.
        finite = (
            grams.A.isfinite().flatten(1).all(1) & grams.b.isfinite().all(1) & grams.r.isfinite()
        )
        self._broken = ~finite
        for part in (grams.A, grams.b, grams.r):
            part[self._broken] = 0.0
        self._sources = grams
        self._penalty = (space.l2 * space.penalised).to(device)

    @property
    def rests_on(self) -> str:
        if self.space.l2 == 0:
            return not_penalised(self.space)
        exact = (
            ", and exact curvature 1 in the unpenalised intercept" if self.space.intercept else ""
        )
        return f"λ-strong convexity with λ = {self.space.l2:g}{exact}"

    def solve(
        self,
        alpha: Tensor,
        *,
        tol: float,
        start: Tensor | None = None,
        progress: Progress | None = None,
    ) -> Outcome:
        solved = ridge.solve(
            self._sources,
            self._own_grams,
            alpha[:, None],
            self._penalty,
            intercept=self.space.intercept,
            radius=self.space.radius,
            memory=self._memory,
            report=lambda done: progress(done, len(alpha)) if progress is not None else None,
        )
        w, left_out = self._shift(solved.w[:, 0], -1.0)
        return self._outcome(solved, w, -left_out, alpha, tol, Status.ILL_CONDITIONED)

    def certify(self, alpha: Tensor, w: Tensor, *, tol: float) -> Outcome:
        inside = self.space.project(w)
        u, left_out = self._shift(inside, 1.0)
        evaluated = ridge.evaluate(
            self._sources, self._own_grams, alpha[:, None], self._penalty, u[:, None], self._memory
        )
        outcome = self._outcome(evaluated, inside, left_out, alpha, tol, Status.ITERATION_LIMIT)
        return outcome.moved_from(w)

    def gradient(self, alpha: Tensor, w: Tensor) -> Tensor:
        u, left_out = self._shift(w, 1.0)
        evaluated = ridge.evaluate(
            self._sources, self._own_grams, alpha[:, None], self._penalty, u[:, None], self._memory
        )
        return self._unshift((evaluated.gradient + evaluated.last * left_out[:, None, None])[:, 0])

    def _own_grams(self, targets: slice, models: slice) -> Grams:
        return self._components.own_grams(self._around, targets=targets)

    def _shift(self, w: Tensor, sign: float) -> tuple[Tensor, Tensor]:
        return around.shift(w, self._around, sign, self._memory)

    def _outcome(
        self,
        solved: ridge.Solved,
        w: Tensor,
        moved: Tensor,
        alpha: Tensor,
        tol: float,
        otherwise: Status,
    ) -> Outcome:
        """Return what is known of w (M, P), from the solved models around the reference.

        The intercepts b' of w are larger than those of `solved` by `moved` (M,). Models whose
        gradient is above the tolerance, and above what rounding explains, have the status
        `otherwise`.
        """
        u, g, last, scale = (
            t[:, 0] for t in (solved.w, solved.gradient, solved.last, solved.scale)
        )
        g = g + last * moved[:, None]
        floor = slack = self._summed * EPS * scale
        if self._around is not None:  # an intercept is rounded once, which affects every column
            floor = floor + EPS * w[:, -1].abs() * (1.0 + self._around.row.abs().amax())
        if self.space.intercept:
            bounds = self._bounds(g, last, slack)
        else:
            bounds = certificate.strongly_convex(
                torch.linalg.vector_norm(g, dim=-1) + slack, self.space.l2
            )
        if self.space.radius is not None:
            bounds = bounds.least(certificate.on_ball(u, g, self.space.radius, slack))
        g = self._unshift(g)
        nu = sphere(w, g, self.space.radius)
        residual = (g + nu[:, None] * w).abs().amax(-1)
        broken = self.without_minimiser(alpha)
        w = torch.where(broken[:, None], torch.nan, w)
        status = statuses(
            len(w),
            (~(residual <= tol), Status.ROUNDED),
            (~(residual <= floor.clamp(min=tol)), otherwise),
            (solved.singular[:, 0], Status.ILL_CONDITIONED),
            (~w.isfinite().all(-1), Status.DIVERGED),
        )
        bounds = bounds.unless(broken)
        return Outcome(w, residual, g, bounds, status, torch.ones_like(residual, dtype=torch.int64))

    def _bounds(self, g: Tensor, last: Tensor, slack: Tensor) -> Bounds:
        mass = last[:, -1]
        mean = Mean(last[:, :-1] / mass[:, None], mass)
        reference = self.space.centred_at if self._around is None else self._around.row[:-1]
        constrained = self.space.radius is not None
        return certificate.squared_loss(
            g[:, :-1],
            g[:, -1],
            mean,
            self.space.l2,
            slack,
            constrained=constrained,
            reference=reference,
        )

    @property
    def flat(self) -> Tensor:
        return self._penalty.new_zeros(())

    def hessian_solve(self, alpha: Tensor, w: Tensor, stack: Tensor) -> Tensor:
        H = ridge.hessians(self._sources, self._own_grams, alpha[:, None], self._penalty)[:, 0]
        if self._around is not None:
            H = self._unshift(self._unshift(H).transpose(-1, -2))
        return linear_system.solve(H, stack.transpose(-1, -2))[0].transpose(-1, -2)

    def without_minimiser(self, alpha: Tensor) -> Tensor:
        return (alpha[:, : len(self._broken)] * self._broken > 0).any(-1)

    def component_gradients(self, w: Tensor, *, rough: bool = False) -> Tensor:
        return self._unshift(self._gradients(self._shift(w, 1.0)[0]))

    def component_hessians(self, w: Tensor, *, rough: bool = False) -> Tensor:
        H = self._sources.A
        if self._around is None:
            return H
        # the derivative of b' = b + x0·w − y0 is applied from both sides
        return self._unshift(self._unshift(H).transpose(-1, -2))

    def _gradients(self, w: Tensor) -> Tensor:
        """Return ∇f_j (M, N, P) around the reference."""
        return torch.einsum("npq,mq->mnp", self._sources.A, w) - self._sources.b

    def _unshift(self, g: Tensor) -> Tensor:
        return around.by_model(g, self._around)

    def sensitivity(self, alpha: Tensor, w: Tensor) -> Tensor:
        P = self.space.n_params
        size = max(1, self._memory // (8 * P * (4 * P + 3 * alpha.shape[1])))
        parts = [
            self._sensitivity(alpha[i : i + size], w[i : i + size], i)
            for i in range(0, len(w), size)
        ]
        return torch.cat(parts) if parts else w.new_zeros(0, alpha.shape[1], P)

    def _sensitivity(self, alpha: Tensor, w: Tensor, first: int) -> Tensor:
        M, N, w = len(w), len(self._sources.b), self._shift(w, 1.0)[0]
        gradients = self._gradients(w)
        own = self._own_grams
        if alpha.shape[1] > N:
            grams = self._own_grams(slice(first, first + M), slice(None))
            gradients = torch.cat([gradients, (grams.A @ w[:, None, :, None])[..., 0] - grams.b], 1)

            def own(targets: slice, models: slice) -> Grams:
                return grams

        H = ridge.hessians(self._sources, own, alpha[:, None], self._penalty)[:, 0]
        nu = sphere(w, (gradients * alpha[..., None]).sum(1) + self._penalty * w, self.space.radius)
        H.diagonal(dim1=-2, dim2=-1).add_(nu[:, None])

        def solve(stack: Tensor) -> Tensor:
            return linear_system.solve(H, stack.transpose(-1, -2))[0].transpose(-1, -2)

        change = implicit_derivative(solve, gradients, w, nu > 0)
        change = around.moved(change, self._around)
        change[:, :N][:, self._broken] = torch.nan
        return change
