"""`Family` of ridge regression: Gram matrices once, streamed; rows are never seen again."""

from __future__ import annotations

import torch
from torch import Tensor

from cuvee.components import own_blocks, pick
from cuvee.erm import certificate, linear_system, ridge
from cuvee.erm.certificate import EPS
from cuvee.erm.family import Outcome, Progress, implicit_derivative, sphere, statuses
from cuvee.gram import own_grams, stream_grams
from cuvee.hypothesis.ridge import RidgeSpace
from cuvee.problem import Problem
from cuvee.results import Status

RELATIVE_TOL = 1e-9  # of what cancels in the gradient: closer than this no tolerance can ask


class RidgeFamily:
    def __init__(self, problem: Problem, space: RidgeSpace, *, own: bool, device: str, memory: int) -> None:
        self.space, self._memory = space, memory
        self._sources = stream_grams(problem.sources, space, device)
        self._rows = own_blocks(problem.targets if own else (), space, device)
        self._penalty = (space.l2 * space.penalised).to(device)

    @property
    def rests_on(self) -> str:
        if self.space.l2 == 0:
            return "not certified: l2 = 0 leaves no strong convexity"
        exact = ", and exact curvature 1 in the unpenalised intercept" if self.space.intercept else ""
        return f"λ-strong convexity with λ = {self.space.l2:g}{exact}"

    def solve(self, alpha: Tensor, *, tol: float, progress: Progress | None = None) -> Outcome:
        found = ridge.solve(
            self._sources, self._rows, alpha[:, None], self._penalty, radius=self.space.radius, memory=self._memory
        )
        return self._outcome(found, tol)

    def certify(self, alpha: Tensor, w: Tensor, *, tol: float) -> Outcome:
        inside = self.space.project(w)
        found = ridge.evaluate(self._sources, self._rows, alpha[:, None], self._penalty, inside[:, None], self._memory)
        return self._outcome(found, tol).moved_from(w)

    def _outcome(self, found: ridge.Solved, tol: float) -> Outcome:
        w, g, mean, scale = (t[:, 0] for t in (found.w, found.gradient, found.mean, found.scale))
        slack = 4 * EPS * scale
        if self.space.intercept:
            bounds = certificate.squared_loss(g[:, :-1], g[:, -1], mean[:, :-1], self.space.l2, slack)
        else:
            bounds = certificate.strongly_convex(torch.linalg.vector_norm(g, dim=-1) + slack, self.space.l2)
        if self.space.radius is not None:
            bounds = bounds.least(certificate.on_ball(w, g, self.space.radius, slack))
        nu = sphere(w, g, self.space.radius)
        rest = (g + nu[:, None] * w).abs().amax(-1)
        status = statuses(
            len(w),
            (~(rest <= torch.clamp(RELATIVE_TOL * scale, min=tol)), Status.ITERATION_LIMIT),
            (found.singular[:, 0], Status.ILL_CONDITIONED),
            (~w.isfinite().all(-1), Status.DIVERGED),
        )
        return Outcome(w, rest, bounds, status, torch.ones_like(rest, dtype=torch.int64))

    def sensitivity(self, alpha: Tensor, w: Tensor) -> Tensor:
        P = self.space.n_params
        size = max(1, self._memory // (8 * P * (4 * P + 3 * alpha.shape[1])))
        parts = [self._sensitivity(alpha[i : i + size], w[i : i + size], i) for i in range(0, len(w), size)]
        return torch.cat(parts) if parts else w.new_zeros(0, alpha.shape[1], P)

    def _sensitivity(self, alpha: Tensor, w: Tensor, first: int) -> Tensor:
        M, N = len(w), len(self._sources.b)
        rows = self._rows
        gradients = torch.einsum("npq,mq->mnp", self._sources.A, w) - self._sources.b
        if alpha.shape[1] > N:
            rows = pick(rows, slice(first, first + M))
            own = own_grams(rows.own_X, rows.own_y[:, 0], rows.own_weight[:, 0])
            gradients = torch.cat([gradients, ((own.A @ w[..., None])[..., 0] - own.b)[:, None]], 1)
        H = ridge.hessians(self._sources, rows, alpha[:, None], self._penalty)[:, 0]
        nu = sphere(w, (gradients * alpha[..., None]).sum(1) + self._penalty * w, self.space.radius)
        H.diagonal(dim1=-2, dim2=-1).add_(nu[:, None])

        def solve(stack: Tensor) -> Tensor:
            return linear_system.solve(H, stack.transpose(-1, -2))[0].transpose(-1, -2)

        return implicit_derivative(solve, gradients, w, nu > 0)
