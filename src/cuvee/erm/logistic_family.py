"""`Family` of logistic and softmax regression."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from cuvee.components import Rows, cast, pick
from cuvee.erm import certificate, conjugate, linear_system, logistic
from cuvee.erm.ball import multiplier
from cuvee.erm.certificate import Bounds
from cuvee.erm.family import Outcome, Progress, implicit_derivative, nothing_penalised, sphere, statuses
from cuvee.erm.precondition import add_diagonal
from cuvee.erm.spread import Spreads
from cuvee.glm import GLMComponents
from cuvee.hypothesis.logistic import LogisticSpace
from cuvee.problem import Problem
from cuvee.results import Status

NEVER = 40.0  # e^−40 is lost beside 1: the intercept of a class that no row has
ON_SPHERE = 1e-12


class LogisticFamily:
    def __init__(
        self, problem: Problem, space: LogisticSpace, *, own: bool, device: str, memory: int, roundings: int = 0
    ) -> None:
        self.space, self._memory, self._own = space, memory, own
        data = problem if own else problem.without_targets()
        self.components = GLMComponents(data, space, device=device, memory=memory)
        self.rows = self.components.everything
        self._spreads = Spreads.of(self.components) if space.intercept else None
        self._penalty = (space.l2 * space.penalised).to(self.rows.X)
        self._summed = self.components.roundings + self.rows.own_X.shape[1] + space.n_params + roundings + 32

    @property
    def rests_on(self) -> str:
        if self.space.l2 == 0:
            return nothing_penalised(self.space)
        free = "; in the unpenalised intercept, the mixture's own curvature there and self-concordance"
        return f"λ-strong convexity with λ = {self.space.l2:g}{free if self.space.intercept else ''}"

    def solve(
        self, alpha: Tensor, *, tol: float, start: Tensor | None = None, progress: Progress | None = None
    ) -> Outcome:
        absent = self._absent(alpha)  # (M, classes)
        lacking = absent.any(1)
        if not bool(lacking.any()):
            return self._solve(alpha, self.rows, tol, start, progress)
        whole, part = (~lacking).nonzero()[:, 0], lacking.nonzero()[:, 0]
        return _merged(
            whole,
            self._solve(alpha[whole], pick(self.rows, whole), tol, None if start is None else start[whole], progress),
            part,
            self._solve_without(absent[part], alpha[part], pick(self.rows, part), tol),
        )

    def _solve(self, alpha: Tensor, rows: Rows, tol: float, start: Tensor | None, progress: Progress | None) -> Outcome:
        if len(alpha) == 0:
            return _nothing(self.space, alpha)
        found = logistic.solve(
            self.components,
            rows,
            alpha[:, None],
            tol=tol,
            memory=self._memory,
            second=self.space.intercept,
            start=None if start is None else start[:, None],
            progress=progress,
        )
        if self.space.radius is not None:
            found = self._into_ball(found, alpha, rows, tol, self.space.radius)
        return self._outcome(found, alpha, rows, tol)

    def _solve_without(self, absent: Tensor, alpha: Tensor, rows: Rows, tol: float) -> Outcome:
        """Mixtures that lack a class: its intercept stands where it is never predicted, the others are solved."""
        space = self.space
        M, K, width = len(alpha), space.n_outputs, space.width
        start = alpha.new_zeros(M, K, width)
        fixed = absent
        if K == 1:  # one score: without the second class it is −∞, without the first +∞
            start[:, 0, -1] = NEVER * (absent[:, 0].to(start) - absent[:, 1].to(start))
            fixed = absent.any(1, keepdim=True)
        else:
            start[..., -1] = torch.where(absent, -NEVER, 0.0)
        free = (~fixed).to(start)[..., None].expand(M, K, width).reshape(M, 1, -1)
        found = logistic.solve(
            self.components,
            rows,
            alpha[:, None],
            tol=tol,
            memory=self._memory,
            start=start.view(M, 1, -1),
            free=free,
        )
        w, g = found.w[:, 0], found.gradient[:, 0].abs().amax(-1)
        status = statuses(
            M, (g <= tol, Status.ABSENT_CLASS), (~(g <= tol), Status.ITERATION_LIMIT), (~g.isfinite(), Status.DIVERGED)
        )
        return Outcome(w, g, found.gradient[:, 0], certificate.unknown(g), status, found.passes[:, 0])

    def _absent(self, alpha: Tensor) -> Tensor:
        """(M, classes): which classes no row of the mixture has, where that leaves no minimiser."""
        C, rows, N = len(self.space.classes), self.rows, len(self.components.counts)
        if not self.space.intercept or self.space.radius is not None:  # penalised, or bounded: there is one
            return torch.zeros(len(alpha), C, dtype=torch.bool, device=alpha.device)
        seen = (alpha[:, :N] > 0).to(alpha) @ self._rows_of_class.to(alpha)
        if alpha.shape[1] > N:
            own = torch.zeros_like(seen).scatter_add_(1, rows.own_y[:, 0], (rows.own_weight[:, 0] > 0).to(alpha))
            seen = seen + own * (alpha[:, N:] > 0)
        return seen == 0

    @cached_property
    def _rows_of_class(self) -> Tensor:
        """(N, classes): how many rows that count each source has of each class."""
        N, C, rows = len(self.components.counts), len(self.space.classes), self.rows
        source = torch.arange(N, device=rows.X.device).repeat_interleave(self.components.counts)
        weighed = (rows.weight > 0).to(rows.X)
        return rows.X.new_zeros(N * C).index_add_(0, source * C + rows.y, weighed).view(N, C)

    def _into_ball(
        self, found: logistic.Solved, alpha: Tensor, rows: Rows, tol: float, radius: float
    ) -> logistic.Solved:
        """Solve again, with λ raised by the multiplier, for models that ended outside W."""
        norm = torch.linalg.vector_norm(found.w[:, 0], dim=-1)
        outside = (norm > radius).nonzero()[:, 0]
        if len(outside) == 0:
            return found
        a, block, w = alpha[outside, None], pick(rows, outside), self.space.project(found.w[outside])

        def norm_at(nu: Tensor) -> Tensor:
            nonlocal w
            w = logistic.solve(self.components, block, a, tol=1e-3 * tol, memory=self._memory, extra=nu, start=w).w
            return torch.linalg.vector_norm(w[:, 0], dim=-1)

        at_0 = self._gradient(torch.zeros_like(w), a, block)[0]
        most = torch.linalg.vector_norm(at_0[:, 0], dim=-1) / radius  # ‖w(ν)‖ ≤ ‖∇f(0)‖/ν
        multiplier(norm_at, radius, most, norm[outside], rtol=ON_SPHERE)
        w = w * (radius / torch.linalg.vector_norm(w, dim=-1, keepdim=True))
        w_all, g_all, second = found.w.clone(), found.gradient.clone(), found.second
        w_all[outside] = w
        g_all[outside], bends = self._gradient(w, a, block)
        if second is not None:
            second = second.clone()
            second[outside] = bends
        return replace(found, w=w_all, gradient=g_all, second=second)

    def _gradient(self, w: Tensor, alpha: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """∇f_α (M, 1, P), penalty included, and the intercepts' Hessian, chunk by chunk inside."""
        g, second = self.components.pull_with_second(w, alpha, rows)
        return g + self._penalty * w, second

    def certify(self, alpha: Tensor, w: Tensor, *, tol: float) -> Outcome:
        if len(w) == 0:
            return _nothing(self.space, alpha)
        w = self.space.canonical(w, features=False)
        inside = self.space.project(w)
        g, second = self._gradient(inside[:, None], alpha[:, None], self.rows)
        nothing = torch.zeros_like(g[..., 0], dtype=torch.bool)
        found = logistic.Solved(inside[:, None], g, second, torch.ones_like(nothing, dtype=torch.int64), nothing)
        outcome = self._outcome(found, alpha, self.rows, tol)
        lacking = self._absent(alpha).any(1)
        return replace(outcome, bounds=outcome.bounds.unless(lacking)).moved_from(w)

    def _outcome(self, found: logistic.Solved, alpha: Tensor, rows: Rows, tol: float) -> Outcome:
        space, w, g = self.space, found.w[:, 0], found.gradient[:, 0]
        if self._spreads is not None:
            assert found.second is not None
            spread = self._spreads.of_mixtures(alpha, rows)
            size = 1.0 + spread.reach + torch.linalg.vector_norm(spread.reference)
            slack = certificate.rounding(w, size, self._summed)
            split = g.view(len(g), space.n_outputs, space.width)
            bounds = certificate.logistic(split[..., :-1], split[..., -1], found.second[:, 0], spread, space.l2, slack)
        else:
            largest = [torch.linalg.vector_norm(X, dim=-1).amax() for X in (rows.X, rows.own_X) if X.numel()]
            slack = certificate.rounding(w, torch.stack(largest).amax(), self._summed)
            bounds = certificate.strongly_convex(torch.linalg.vector_norm(g, dim=-1) + slack, space.l2)
        if space.radius is not None:
            bounds = bounds.least(certificate.on_ball(w, g, space.radius, slack))
        nu = sphere(w, g, space.radius)
        rest = (g + nu[:, None] * w).abs().amax(-1)
        late = ~(rest <= tol)
        status = statuses(
            len(w),
            (late, Status.ITERATION_LIMIT),
            (late & found.stuck[:, 0], Status.ILL_CONDITIONED),
            (~(w.isfinite().all(-1) & rest.isfinite()), Status.DIVERGED),
        )
        return Outcome(w, rest, g, bounds, status, found.passes[:, 0])

    def sensitivity(self, alpha: Tensor, w: Tensor) -> Tensor:
        P, N = self.space.n_params, alpha.shape[1]
        per_model = 8 * P * (4 * N + (4 * P if self._dense else 16 * N))
        size = max(1, self._memory // per_model)
        parts = [self._sensitivity(alpha[i : i + size], w[i : i + size], i) for i in range(0, len(w), size)]
        if not parts:
            return w.new_zeros(0, N, P)
        return torch.where(self._absent(alpha).any(1)[:, None, None], torch.nan, torch.cat(parts))

    def component_gradients(self, w: Tensor, *, rough: bool = False) -> Tensor:
        N, P = len(self.components.counts), self.space.n_params
        rows = self._sources(rough)
        found = w.new_zeros(len(w), N, P)
        each, w = torch.eye(N, dtype=rows.X.dtype, device=w.device), w.to(rows.X)
        size = max(1, self._memory // (32 * N * P))
        for low in range(0, len(w), size):
            some = w[low : low + size, None]
            found[low : low + size] = self.components.pull(some.expand(-1, N, -1), each.expand(len(some), -1, -1), rows)
        return found

    def component_hessians(self, w: Tensor, *, rough: bool = False) -> Tensor:
        N, rows = len(self.components.counts), self._sources(rough)
        each = torch.eye(N, dtype=rows.X.dtype, device=w.device)[:, None]
        return self.components.hessians(w.to(rows.X).expand(N, 1, -1), each, rows)[:, 0].to(w)

    def _sources(self, rough: bool) -> Rows:
        """The sources' rows alone, in float32 where that is enough."""
        return self._rough if rough else pick(self.rows, slice(0, 0))

    @cached_property
    def _rough(self) -> Rows:
        rows = pick(self.rows, slice(0, 0))
        return cast(rows, torch.float32) if float(rows.X.abs().amax()) < logistic.FLOAT32_HOLDS else rows

    @property
    def _dense(self) -> bool:
        """Whether a Hessian of a model fits, a few times over, and is factorised in no time."""
        return 40 * self.space.n_params**2 <= self._memory and self.space.n_params <= 2048

    def _sensitivity(self, alpha: Tensor, w: Tensor, first: int) -> Tensor:
        M, N = alpha.shape
        rows = pick(self.rows, slice(first, first + M)) if self._own else self.rows
        each = torch.eye(N, dtype=w.dtype, device=w.device).expand(M, N, N)
        gradients = self.components.pull(w[:, None].expand(M, N, -1), each, rows)
        nu = sphere(w, (gradients * alpha[..., None]).sum(1) + self._penalty * w, self.space.radius)

        def solve(stack: Tensor) -> Tensor:
            return self._divide(alpha, w, stack, self._penalty + nu[:, None], rows)

        return self.space.canonical(implicit_derivative(solve, gradients, w, nu > 0))

    def _divide(self, alpha: Tensor, w: Tensor, stack: Tensor, ridge: Tensor, rows: Rows) -> Tensor:
        """(∇²f_α(w) + ridge)⁻¹ on a stack (M, R, P), with a ridge (M, P)."""
        if not self._dense:
            return conjugate.solve(self.components, rows, alpha, w, ridge, stack)
        H = add_diagonal(self.components.hessians(w[:, None], alpha[:, None], rows)[:, 0], ridge) + self.flat
        return linear_system.solve(H, stack.transpose(-1, -2))[0].transpose(-1, -2)

    def hessian_solve(self, alpha: Tensor, w: Tensor, stack: Tensor) -> Tensor:
        size = max(1, self._memory // (8 * self.space.n_params * (4 * stack.shape[1] + 4 * self.space.n_params)))
        found = torch.empty_like(stack)
        for low in range(0, len(w), size):
            some = slice(low, low + size)
            rows, ridge = pick(self.rows, some) if self._own else self.rows, self._penalty.expand_as(w[some])
            found[some] = self._divide(alpha[some], w[some], stack[some], ridge, rows)
        return self.space.canonical(found)

    def without_minimiser(self, alpha: Tensor) -> Tensor:
        return self._absent(alpha).any(1)

    @property
    def flat(self) -> Tensor:
        """Softmax ignores what unpenalised parameters of all classes have in common."""
        K, width, penalty = self.space.n_outputs, self.space.width, self._penalty
        if K == 1 or not (self.space.intercept or self.space.l2 == 0):
            return penalty.new_zeros(())
        ignored = torch.diag((penalty.view(K, width)[0] == 0).to(penalty))
        return torch.kron(penalty.new_ones(K, K), ignored)


def _nothing(space: LogisticSpace, alpha: Tensor) -> Outcome:
    none, w = alpha.new_zeros(0), alpha.new_zeros(0, space.n_params)
    return Outcome(w, none, w, certificate.unknown(none), statuses(0), none.to(torch.int64))


def _merged(some: Tensor, a: Outcome, others: Tensor, b: Outcome) -> Outcome:
    """Two outcomes as one, put back where their models stood."""
    order = torch.cat([some, others]).argsort()

    def joined(x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([x, y])[order]

    return Outcome(
        joined(a.w, b.w),
        joined(a.gradient, b.gradient),
        joined(a.vector, b.vector),
        Bounds(joined(a.bounds.distance, b.bounds.distance), joined(a.bounds.excess, b.bounds.excess)),
        np.concatenate([a.status, b.status])[order.cpu().numpy()],
        joined(a.passes, b.passes),
    )
