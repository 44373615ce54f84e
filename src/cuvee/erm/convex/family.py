"""Answer as the `Oracle` of any smooth convex risk.

Faster solvers and tighter certificates for some of them build on it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from cuvee.components import ALL, Components, bind
from cuvee.erm import certificate, linear_system
from cuvee.erm.ball_constraint import multiplier
from cuvee.erm.convex import conjugate_gradient
from cuvee.erm.convex import solver as convex
from cuvee.erm.convex.precondition import add_diagonal
from cuvee.erm.convex.solver import Solved
from cuvee.erm.shared import implicit_derivative, not_penalised, statuses
from cuvee.hypothesis.base import Space
from cuvee.oracle import Bounds, Outcome, Progress, sphere
from cuvee.problem import Problem
from cuvee.results import Status

ON_SPHERE = 1e-12
MOST_DENSE = 2048  # parameters up to which factorising a model's Hessian is fast


class ConvexFamily:
    """Solve by quasi-Newton steps and certify by λ-strong convexity.

    A certificate needs every parameter to be penalised.
    """

    def __init__(
        self,
        problem: Problem,
        space: Space,
        *,
        own: bool,
        device: str,
        memory: int,
        roundings: int = 0,
    ) -> None:
        self.space, self._memory, self._own = space, memory, own
        data = problem if own else problem.without_targets()
        self.components = self._bound(data, device)
        self._penalty = (space.l2 * space.penalised).to(device)

    def _bound(self, problem: Problem, device: str) -> Components:
        bound: Components = bind(problem, self.space, device=device)
        return bound

    @property
    def rests_on(self) -> str:
        if not self._strongly_convex:
            return not_penalised(self.space)
        return f"λ-strong convexity with λ = {self.space.l2:g}, rounding not counted"

    @property
    def _strongly_convex(self) -> bool:
        return bool((self._penalty > 0).all())

    def solve(
        self,
        alpha: Tensor,
        *,
        tol: float,
        start: Tensor | None = None,
        progress: Progress | None = None,
    ) -> Outcome:
        return self._solve(alpha, self.components, tol, start, progress)

    def _solve(
        self,
        alpha: Tensor,
        components: Any,
        tol: float,
        start: Tensor | None,
        progress: Progress | None,
    ) -> Outcome:
        if len(alpha) == 0:
            return self._nothing(alpha)
        near = None if start is None else start[:, None]
        solved = self._minimise(components, alpha[:, None], tol, start=near, progress=progress)
        if self.space.radius is not None:
            solved = self._into_ball(solved, alpha, components, tol, self.space.radius)
        return self._outcome(solved, alpha, components, tol)

    def _minimise(self, components: Any, alpha: Tensor, tol: float, **options: Any) -> Solved:
        """Return the minimisers for α (M, 1, N or N+1)."""
        return convex.solve(components, ALL, alpha, tol=tol, memory=self._memory, **options)

    def _of(self, models: Tensor) -> Any:
        """Return the components with the own samples of the given models, if they joined."""
        return self.components.narrow(models) if self._own else self.components

    def _into_ball(
        self, solved: Solved, alpha: Tensor, components: Any, tol: float, radius: float
    ) -> Solved:
        """Solve again, with λ raised by the multiplier, for models that ended outside W."""
        norm = torch.linalg.vector_norm(solved.w[:, 0], dim=-1)
        outside = (norm > radius).nonzero()[:, 0]
        if len(outside) == 0:
            return solved
        a, w = alpha[outside, None], self.space.project(solved.w[outside])
        part = components.narrow(outside) if self._own else components

        def norm_at(nu: Tensor) -> Tensor:
            nonlocal w
            w = self._minimise(part, a, 1e-3 * tol, extra=nu, start=w).w
            return torch.linalg.vector_norm(w[:, 0], dim=-1)

        at_0 = self._look(torch.zeros_like(w), a, part)[0]
        most = torch.linalg.vector_norm(at_0[:, 0], dim=-1) / radius  # ‖w(ν)‖ ≤ ‖∇f(0)‖/ν
        multiplier(norm_at, radius, most, norm[outside], rtol=ON_SPHERE)
        w = w * (radius / torch.linalg.vector_norm(w, dim=-1, keepdim=True))
        w_all, g_all, second = solved.w.clone(), solved.gradient.clone(), solved.second
        w_all[outside] = w
        g_all[outside], bends = self._look(w, a, part)
        if second is not None and bends is not None:
            second = second.clone()
            second[outside] = bends
        return replace(solved, w=w_all, gradient=g_all, second=second)

    def _look(self, w: Tensor, alpha: Tensor, components: Any) -> tuple[Tensor, Tensor | None]:
        """Return ∇f_α (M, 1, P), penalty included, and the intercepts' Hessian or None.

        The Hessian is there where certificates need it.
        """
        return convex.gradients(components, w, alpha, self._penalty, self._memory), None

    def gradient(self, alpha: Tensor, w: Tensor) -> Tensor:
        return convex.gradients(
            self.components, w[:, None], alpha[:, None], self._penalty, self._memory
        )[:, 0]

    def certify(self, alpha: Tensor, w: Tensor, *, tol: float) -> Outcome:
        if len(w) == 0:
            return self._nothing(alpha)
        w = self.space.canonical(w, features=False)
        inside = self.space.project(w)
        g, second = self._look(inside[:, None], alpha[:, None], self.components)
        nothing = torch.zeros_like(g[..., 0], dtype=torch.bool)
        looked = Solved(
            inside[:, None], g, second, torch.ones_like(nothing, dtype=torch.int64), nothing
        )
        outcome = self._outcome(looked, alpha, self.components, tol)
        lost = self.without_minimiser(alpha)
        return replace(outcome, bounds=outcome.bounds.unless(lost)).moved_from(w)

    def _outcome(self, solved: Solved, alpha: Tensor, components: Any, tol: float) -> Outcome:
        space, w, g = self.space, solved.w[:, 0], solved.gradient[:, 0]
        bounds, slack = self._bounds(solved, alpha, components)
        if space.radius is not None:
            bounds = bounds.least(certificate.on_ball(w, g, space.radius, slack))
        nu = sphere(w, g, space.radius)
        residual = (g + nu[:, None] * w).abs().amax(-1)
        late = ~(residual <= tol)
        floor = self._floor if bool(late.any()) else 0.0  # far away, it is asked for
        status = statuses(
            len(w),
            (late, Status.ITERATION_LIMIT),
            (late & solved.stuck[:, 0], Status.ILL_CONDITIONED),
            (late & (residual <= floor), Status.ROUNDED),
            (~(w.isfinite().all(-1) & residual.isfinite()), Status.DIVERGED),
        )
        return Outcome(w, residual, g, bounds, status, solved.passes[:, 0])

    def _bounds(self, solved: Solved, alpha: Tensor, components: Any) -> tuple[Bounds, Tensor]:
        """Return what is proven of the models, and how far gradients may be off, (M,)."""
        norm = torch.linalg.vector_norm(solved.gradient[:, 0], dim=-1)
        slack = torch.zeros_like(norm)
        if not self._strongly_convex:
            return certificate.unknown(norm), slack
        return certificate.strongly_convex(norm, self.space.l2), slack

    @property
    def _floor(self) -> float:
        """Return what rounding alone may leave of a gradient; 0 where it is not known."""
        return 0.0

    def without_minimiser(self, alpha: Tensor) -> Tensor:
        return torch.zeros(len(alpha), dtype=torch.bool, device=alpha.device)

    @property
    def flat(self) -> Tensor:
        return self._penalty.new_zeros(())

    def sensitivity(self, alpha: Tensor, w: Tensor) -> Tensor:
        P, N = self.space.n_params, alpha.shape[1]
        per_model = 8 * P * (4 * N + (4 * P if self._dense else 16 * N)) + self._graph(N)
        size = max(1, self._memory // per_model)
        parts = [
            self._sensitivity(alpha[i : i + size], w[i : i + size], i)
            for i in range(0, len(w), size)
        ]
        if not parts:
            return w.new_zeros(0, N, P)
        return torch.where(
            self.without_minimiser(alpha)[:, None, None], torch.nan, torch.cat(parts)
        )

    def component_gradients(self, w: Tensor, *, rough: bool = False) -> Tensor:
        N, P = len(self.components.counts), self.space.n_params
        gradients = w.new_zeros(len(w), N, P)
        w = w.to(self._precision(rough))
        unit = torch.eye(N, dtype=w.dtype, device=w.device)
        size = max(1, self._memory // (32 * N * P + self._graph(N)))
        for low in range(0, len(w), size):
            models = w[low : low + size, None]
            shares = unit.expand(len(models), -1, -1)
            gradients[low : low + size] = self._sources.pull(models.expand(-1, N, -1), shares, ALL)
        return gradients

    def component_hessians(self, w: Tensor, *, rough: bool = False) -> Tensor:
        N, at = len(self.components.counts), w.to(self._precision(rough))
        unit = torch.eye(N, dtype=at.dtype, device=w.device)[:, None]
        return self._sources.hessians(at.expand(N, 1, -1), unit, ALL)[:, 0].to(w)

    def hessian_solve(self, alpha: Tensor, w: Tensor, stack: Tensor) -> Tensor:
        P = self.space.n_params
        size = max(1, self._memory // (8 * P * (4 * stack.shape[1] + 4 * P) + self._graph(1)))
        answer = torch.empty_like(stack)
        for low in range(0, len(w), size):
            models = slice(low, low + size)
            part = self._of(torch.arange(len(w), device=w.device)[models])
            ridge = self._penalty.expand_as(w[models])
            answer[models] = self._divide(alpha[models], w[models], stack[models], ridge, part)
        return self.space.canonical(answer)

    def _sensitivity(self, alpha: Tensor, w: Tensor, first: int) -> Tensor:
        M, N = alpha.shape
        components = self._of(torch.arange(first, first + M, device=w.device))
        unit = torch.eye(N, dtype=w.dtype, device=w.device).expand(M, N, N)
        gradients = components.pull(w[:, None].expand(M, N, -1), unit, ALL)
        nu = sphere(w, (gradients * alpha[..., None]).sum(1) + self._penalty * w, self.space.radius)

        def solve(stack: Tensor) -> Tensor:
            return self._divide(alpha, w, stack, self._penalty + nu[:, None], components)

        return self.space.canonical(implicit_derivative(solve, gradients, w, nu > 0))

    def _divide(
        self, alpha: Tensor, w: Tensor, stack: Tensor, ridge: Tensor, components: Any
    ) -> Tensor:
        """Return (∇²f_α(w) + ridge)⁻¹ on a stack (M, R, P), with a ridge (M, P)."""
        if not self._dense:
            return conjugate_gradient.solve(components, ALL, alpha, w, ridge, stack, self._diagonal)
        H = (
            add_diagonal(components.hessians(w[:, None], alpha[:, None], ALL)[:, 0], ridge)
            + self.flat
        )
        return linear_system.solve(H, stack.transpose(-1, -2))[0].transpose(-1, -2)

    @cached_property
    def _sources(self) -> Any:
        return self.components.without_targets()

    @property
    def _diagonal(self) -> Tensor:
        """Return roughly the diagonal of the Hessian (P,), to scale by."""
        return torch.ones_like(self._penalty)

    def _precision(self, rough: bool) -> torch.dtype:
        return self.space.dtype

    def _graph(self, models: int) -> int:
        """Return the bytes that the graphs of a pullback and a Hessian product keep.

        They are for the given number of models.
        """
        return (
            8
            * models
            * (self.components.n_rows + self.components.own_rows)
            * self.components.bytes_per_row()
        )

    @property
    def _dense(self) -> bool:
        """Return whether a model's Hessian fits a few times and is factorised fast."""
        return 40 * self.space.n_params**2 <= self._memory and self.space.n_params <= MOST_DENSE

    def _nothing(self: Self, alpha: Tensor) -> Outcome:
        none, w = alpha.new_zeros(0), alpha.new_zeros(0, self.space.n_params)
        return Outcome(w, none, w, certificate.unknown(none), statuses(0), none.to(torch.int64))
