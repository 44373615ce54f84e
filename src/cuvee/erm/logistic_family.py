"""The oracle of logistic and softmax regression."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from cuvee.components import ALL, LinearComponents
from cuvee.erm import certificate, conjugate, linear_system, logistic
from cuvee.erm.ball import multiplier
from cuvee.erm.family import implicit_derivative, nothing_penalised, statuses
from cuvee.erm.precondition import add_diagonal
from cuvee.erm.spread import Spreads
from cuvee.hypothesis.logistic import LogisticSpace
from cuvee.oracle import Bounds, Outcome, Progress, sphere
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
        self.components = LinearComponents(data, space, device=device, memory=memory)
        self._spreads = Spreads.of(self.components) if space.intercept else None
        self._penalty = (space.l2 * space.penalised).to(device)
        self._summed = self.components.roundings + self.components.own_rows + space.n_params + roundings + 32

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
            return self._solve(alpha, self.components, tol, start, progress)
        whole, part = (~lacking).nonzero()[:, 0], lacking.nonzero()[:, 0]
        return _merged(
            whole,
            self._solve(alpha[whole], self._of(whole), tol, None if start is None else start[whole], progress),
            part,
            self._solve_without(absent[part], alpha[part], self._of(part), tol),
        )

    def _of(self, models: Tensor) -> LinearComponents:
        """Return the components with the own samples of some models, where those joined."""
        return self.components.narrow(models) if self._own else self.components

    def _solve(
        self,
        alpha: Tensor,
        components: LinearComponents,
        tol: float,
        start: Tensor | None,
        progress: Progress | None,
    ) -> Outcome:
        if len(alpha) == 0:
            return _nothing(self.space, alpha)
        found = logistic.solve(
            components,
            ALL,
            alpha[:, None],
            tol=tol,
            memory=self._memory,
            second=self.space.intercept,
            start=None if start is None else start[:, None],
            progress=progress,
        )
        if self.space.radius is not None:
            found = self._into_ball(found, alpha, components, tol, self.space.radius)
        return self._outcome(found, alpha, components, tol)

    def _solve_without(self, absent: Tensor, alpha: Tensor, components: LinearComponents, tol: float) -> Outcome:
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
            components,
            ALL,
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
        C, N = len(self.space.classes), len(self.components.counts)
        if not self.space.intercept or self.space.radius is not None:  # penalised, or bounded: there is one
            return torch.zeros(len(alpha), C, dtype=torch.bool, device=alpha.device)
        seen = (alpha[:, :N] > 0).to(alpha) @ self.components.rows_of_class.to(alpha)
        if alpha.shape[1] > N:
            seen = seen + self.components.own_rows_of_class * (alpha[:, N:] > 0)
        return seen == 0

    def _into_ball(
        self, found: logistic.Solved, alpha: Tensor, components: LinearComponents, tol: float, radius: float
    ) -> logistic.Solved:
        """Solve again, with λ raised by the multiplier, for models that ended outside W."""
        norm = torch.linalg.vector_norm(found.w[:, 0], dim=-1)
        outside = (norm > radius).nonzero()[:, 0]
        if len(outside) == 0:
            return found
        a, w = alpha[outside, None], self.space.project(found.w[outside])
        part = components.narrow(outside) if self._own else components

        def norm_at(nu: Tensor) -> Tensor:
            nonlocal w
            w = logistic.solve(part, ALL, a, tol=1e-3 * tol, memory=self._memory, extra=nu, start=w).w
            return torch.linalg.vector_norm(w[:, 0], dim=-1)

        at_0 = self._gradient(torch.zeros_like(w), a, part)[0]
        most = torch.linalg.vector_norm(at_0[:, 0], dim=-1) / radius  # ‖w(ν)‖ ≤ ‖∇f(0)‖/ν
        multiplier(norm_at, radius, most, norm[outside], rtol=ON_SPHERE)
        w = w * (radius / torch.linalg.vector_norm(w, dim=-1, keepdim=True))
        w_all, g_all, second = found.w.clone(), found.gradient.clone(), found.second
        w_all[outside] = w
        g_all[outside], bends = self._gradient(w, a, part)
        if second is not None:
            second = second.clone()
            second[outside] = bends
        return replace(found, w=w_all, gradient=g_all, second=second)

    def _gradient(self, w: Tensor, alpha: Tensor, components: LinearComponents) -> tuple[Tensor, Tensor]:
        """∇f_α (M, 1, P), penalty included, and the intercepts' Hessian, chunk by chunk inside."""
        g, second = components.pull_with_second(w, alpha, ALL)
        return g + self._penalty * w, second

    def gradient(self, alpha: Tensor, w: Tensor) -> Tensor:
        return self.components.pull(w[:, None], alpha[:, None], ALL)[:, 0] + self._penalty * w

    def certify(self, alpha: Tensor, w: Tensor, *, tol: float) -> Outcome:
        if len(w) == 0:
            return _nothing(self.space, alpha)
        w = self.space.canonical(w, features=False)
        inside = self.space.project(w)
        g, second = self._gradient(inside[:, None], alpha[:, None], self.components)
        nothing = torch.zeros_like(g[..., 0], dtype=torch.bool)
        found = logistic.Solved(inside[:, None], g, second, torch.ones_like(nothing, dtype=torch.int64), nothing)
        outcome = self._outcome(found, alpha, self.components, tol)
        lacking = self._absent(alpha).any(1)
        return replace(outcome, bounds=outcome.bounds.unless(lacking)).moved_from(w)

    def _outcome(self, found: logistic.Solved, alpha: Tensor, components: LinearComponents, tol: float) -> Outcome:
        space, w, g = self.space, found.w[:, 0], found.gradient[:, 0]
        if self._spreads is not None:
            assert found.second is not None
            spread = self._spreads.of_mixtures(alpha, components)
            size = 1.0 + spread.reach + torch.linalg.vector_norm(spread.reference)
            slack = certificate.rounding(w, size, self._summed)
            split = g.view(len(g), space.n_outputs, space.width)
            bounds = certificate.logistic(split[..., :-1], split[..., -1], found.second[:, 0], spread, space.l2, slack)
        else:
            slack = certificate.rounding(w, components.longest_row, self._summed)
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
        found = w.new_zeros(len(w), N, P)
        w = w.to(self._precision(rough))
        each = torch.eye(N, dtype=w.dtype, device=w.device)
        size = max(1, self._memory // (32 * N * P))
        for low in range(0, len(w), size):
            some = w[low : low + size, None]
            shares = each.expand(len(some), -1, -1)
            found[low : low + size] = self._sources.pull(some.expand(-1, N, -1), shares, ALL)
        return found

    def component_hessians(self, w: Tensor, *, rough: bool = False) -> Tensor:
        N, at = len(self.components.counts), w.to(self._precision(rough))
        each = torch.eye(N, dtype=at.dtype, device=w.device)[:, None]
        return self._sources.hessians(at.expand(N, 1, -1), each, ALL)[:, 0].to(w)

    @cached_property
    def _sources(self) -> LinearComponents:
        return self.components.without_targets()

    def _precision(self, rough: bool) -> torch.dtype:
        holds = rough and self.components.largest < logistic.FLOAT32_HOLDS
        return torch.float32 if holds else self.space.dtype

    @property
    def _dense(self) -> bool:
        """Whether a Hessian of a model fits, a few times over, and is factorised in no time."""
        return 40 * self.space.n_params**2 <= self._memory and self.space.n_params <= 2048

    def _sensitivity(self, alpha: Tensor, w: Tensor, first: int) -> Tensor:
        M, N = alpha.shape
        components = self._of(torch.arange(first, first + M, device=w.device))
        each = torch.eye(N, dtype=w.dtype, device=w.device).expand(M, N, N)
        gradients = components.pull(w[:, None].expand(M, N, -1), each, ALL)
        nu = sphere(w, (gradients * alpha[..., None]).sum(1) + self._penalty * w, self.space.radius)

        def solve(stack: Tensor) -> Tensor:
            return self._divide(alpha, w, stack, self._penalty + nu[:, None], components)

        return self.space.canonical(implicit_derivative(solve, gradients, w, nu > 0))

    def _divide(self, alpha: Tensor, w: Tensor, stack: Tensor, ridge: Tensor, components: LinearComponents) -> Tensor:
        """(∇²f_α(w) + ridge)⁻¹ on a stack (M, R, P), with a ridge (M, P)."""
        if not self._dense:
            return conjugate.solve(components, ALL, alpha, w, ridge, stack)
        H = add_diagonal(components.hessians(w[:, None], alpha[:, None], ALL)[:, 0], ridge) + self.flat
        return linear_system.solve(H, stack.transpose(-1, -2))[0].transpose(-1, -2)

    def hessian_solve(self, alpha: Tensor, w: Tensor, stack: Tensor) -> Tensor:
        size = max(1, self._memory // (8 * self.space.n_params * (4 * stack.shape[1] + 4 * self.space.n_params)))
        found = torch.empty_like(stack)
        for low in range(0, len(w), size):
            some = slice(low, low + size)
            part = self._of(torch.arange(len(w), device=w.device)[some])
            found[some] = self._divide(alpha[some], w[some], stack[some], self._penalty.expand_as(w[some]), part)
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
