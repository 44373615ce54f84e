"""What may be asked about mixtures α and models w once the data are bound: solve, certify,
differentiate.

`Oracle` is the one protocol between α and w. The families of `cuvee.erm` implement it; the maps of
`cuvee.learn` and the labels of `cuvee.online` are handed one, and know nothing else of the data. α
is (M, N), or (M, N+1) when the targets' own samples were bound too; M = 0 is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from cuvee.hypothesis.base import Space
from cuvee.problem import Array

Progress = Callable[[int, int], None]
"""Called with (models done, models in all)."""
Descend = Callable[[Tensor, Tensor, int], Tensor]
"""GD(v, α, K) of Algorithm 3: v (M, P), α (M, N) -> w (M, P) after K gradient steps from v."""


@dataclass(frozen=True)
class Bounds:
    """Hold proven bounds per model: distance ≥ ‖w − w*‖, excess ≥ f(w) − f(w*)."""

    distance: Tensor
    excess: Tensor

    def unless(self, unknown: Tensor) -> Bounds:
        """Return the same, infinite where `unknown` (...,) says so."""
        return Bounds(*(torch.where(unknown, torch.inf, x) for x in (self.distance, self.excess)))

    def least(self, other: Bounds) -> Bounds:
        """Return the smaller bound of the two: both are proven, so the smaller one is."""
        return Bounds(
            torch.minimum(self.distance, other.distance), torch.minimum(self.excess, other.excess)
        )


@dataclass(frozen=True)
class Outcome:
    """Hold what an oracle knows of M models; everything has a row per model."""

    w: Tensor  # (M, P)
    gradient: Tensor  # (M,) ‖∇‖∞
    vector: Tensor  # (M, P) ∇f_α(w), penalty included; (M, 0) for a network
    bounds: Bounds  # (M,) each
    status: Array  # (M,) of Status
    passes: Tensor  # (M,)
    curves: Tensor | None = None  # (M, checks, 3) of networks: step, training and held-out loss

    def moved_from(self, w: Tensor) -> Outcome:
        """Return the outcome for w, when what was looked at is its projection onto W."""
        gap = torch.linalg.vector_norm(w - self.w, dim=-1)
        excess = torch.where(
            gap > 1e-12 * torch.linalg.vector_norm(w, dim=-1), torch.inf, self.bounds.excess
        )
        return replace(
            self,
            w=w,
            bounds=Bounds((self.bounds.distance + gap).nan_to_num(torch.inf, torch.inf), excess),
        )


class Oracle(Protocol):
    """Answer for many mixtures at once, with the data bound."""

    @property
    def rests_on(self) -> str:
        """Say in words what the certificates rest on."""
        ...

    @property
    def flat(self) -> Tensor:
        """Return (P, P): curvature 1 in directions that no risk feels, 0 elsewhere.

        It is a single 0 if there are no such directions.
        """
        ...

    def solve(
        self,
        alpha: Tensor,
        *,
        tol: float,
        start: Tensor | None = None,
        progress: Progress | None = None,
    ) -> Outcome:
        """Return w*(α); `start` (M, P), where a family can use it, is close to it already."""
        ...

    def certify(self, alpha: Tensor, w: Tensor, *, tol: float) -> Outcome:
        """Return what can be proven of w (M, P), wherever it came from: one pass over the data."""
        ...

    def gradient(self, alpha: Tensor, w: Tensor) -> Tensor:
        """Return ∇f_α(w) = Σ_j α_j ∇f_j(w) + λw, (M, P), at w as it is, also outside W."""
        ...

    def sensitivity(self, alpha: Tensor, w: Tensor) -> Tensor:
        """Return dw*/dα_j = −H⁻¹∇f_j at w, (M, N or N+1, P)."""
        ...

    def hessian_solve(self, alpha: Tensor, w: Tensor, stack: Tensor) -> Tensor:
        """Return (∇²f_α(w) + λ)⁻¹ applied to a stack (M, R, P) per model.

        Directions that no risk feels are taken out; W plays no part.
        """
        ...

    def without_minimiser(self, alpha: Tensor) -> Tensor:
        """Return (M,) which mixtures have no minimiser, or none that can be had.

        A class is absent, or a source overflows.
        """
        ...

    def component_gradients(self, w: Tensor, *, rough: bool = False) -> Tensor:
        """Return ∇f_j(w_k) of every source, without λ: (K, P) -> (K, N, P).

        `rough` allows float32 inside.
        """
        ...

    def component_hessians(self, w: Tensor, *, rough: bool = False) -> Tensor:
        """Return ∇²f_j(w) of every source, without λ: (P,) -> (N, P, P)."""
        ...


def sphere(w: Tensor, gradient: Tensor, radius: float | None) -> Tensor:
    """Return (M,) the multiplier ν of ‖w‖ ≤ radius: 0 inside, where −∇·w says on the sphere."""
    if radius is None:
        return w.new_zeros(len(w))
    square = w.square().sum(-1)
    nu = (-(gradient * w).sum(-1) / square.clamp(min=1e-300)).clamp(min=0.0)
    return torch.where(square >= (radius * (1 - 1e-9)) ** 2, nu, 0.0)


def stationarity(space: Space, w: Tensor, gradient: Tensor) -> Tensor:
    """Return ‖∇‖∞ (M,) of models w (M, P) in W with gradients ∇ (M, P).

    It is what `Outcome.gradient` holds.

    Where a convex risk has its minimiser on the sphere of W, what holds the model there is taken
    off.
    """
    w = space.canonical(w, features=False)
    nu = sphere(w, gradient, space.radius if space.convex else None)
    return (gradient + nu[:, None] * w).abs().amax(-1)


def gradient_norms(oracle: Oracle, space: Space, alpha: Tensor, w: Tensor) -> Tensor:
    """Return ‖∇f_α(P_W(w))‖∞ (M,) for any models w (M, P).

    That takes one pass over the data, and proves nothing.
    """
    inside = space.project(space.canonical(w, features=False))
    return stationarity(space, inside, oracle.gradient(alpha, inside).to(inside))
