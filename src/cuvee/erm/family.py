"""What the public functions ask of a family of models: solve for α, certify a w from anywhere, differentiate.

Every family has the data bound already. α is (M, N), or (M, N+1) when the own samples were bound too; M = 0 is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from cuvee.erm.certificate import Bounds
from cuvee.hypothesis.base import Space
from cuvee.problem import Array
from cuvee.results import Status

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Outcome:
    """Everything has a row per model."""

    w: Tensor  # (M, P)
    gradient: Tensor  # (M,) ‖∇‖∞
    vector: Tensor  # (M, P) ∇f_α(w), penalty included; (M, 0) for a network
    bounds: Bounds  # (M,) each
    status: Array  # (M,) of Status
    passes: Tensor  # (M,)

    def moved_from(self, w: Tensor) -> Outcome:
        """The outcome for w, when what was looked at is its projection onto W."""
        gap = torch.linalg.vector_norm(w - self.w, dim=-1)
        excess = torch.where(gap > 1e-12 * torch.linalg.vector_norm(w, dim=-1), torch.inf, self.bounds.excess)
        return replace(self, w=w, bounds=Bounds((self.bounds.distance + gap).nan_to_num(torch.inf, torch.inf), excess))


class Family(Protocol):
    @property
    def rests_on(self) -> str:
        """What the certificates of this family rest on."""
        ...

    @property
    def flat(self) -> Tensor:
        """(P, P) curvature 1 in directions that no risk feels, 0 elsewhere; a single 0 where there are none."""
        ...

    def solve(
        self, alpha: Tensor, *, tol: float, start: Tensor | None = None, progress: Progress | None = None
    ) -> Outcome:
        """w*(α); `start` (M, P), where a family can use it, is close to it already."""
        ...

    def certify(self, alpha: Tensor, w: Tensor, *, tol: float) -> Outcome: ...

    def sensitivity(self, alpha: Tensor, w: Tensor) -> Tensor:
        """dw*/dα_j = −H⁻¹∇f_j at w, (M, N or N+1, P)."""
        ...

    def hessian_solve(self, alpha: Tensor, w: Tensor, stack: Tensor) -> Tensor:
        """(∇²f_α(w) + λ)⁻¹ applied to a stack (M, R, P) per model, less what no risk feels; no ball."""
        ...

    def without_minimiser(self, alpha: Tensor) -> Tensor:
        """(M,) which mixtures have none, or none that can be had: a class is absent, a source overflows."""
        ...

    def component_gradients(self, w: Tensor, *, rough: bool = False) -> Tensor:
        """∇f_j(w_k) of every source, without λ: (K, P) -> (K, N, P). `rough` allows float32 inside."""
        ...

    def component_hessians(self, w: Tensor, *, rough: bool = False) -> Tensor:
        """∇²f_j(w) of every source, without λ: (P,) -> (N, P, P)."""
        ...


def nothing_penalised(space: Space) -> str:
    """What certificates rest on when λ = 0."""
    binding = ", except where W binds" if space.radius is not None else ""
    return f"not certified: l2 = 0 leaves no strong convexity{binding}"


def statuses(M: int, *marks: tuple[Tensor, Status]) -> Array:
    """(M,) of Status: SOLVED, unless a mask (M,) says otherwise; later masks win."""
    status = np.full(M, Status.SOLVED, dtype=object)
    for mask, value in marks:
        status[mask.cpu().numpy()] = value
    return status


def implicit_derivative(solve: Callable[[Tensor], Tensor], gradients: Tensor, w: Tensor, active: Tensor) -> Tensor:
    """−H⁻¹∇f_j (M, N, P), kept on the sphere for models whose ball is active.

    `solve` applies (H + ν)⁻¹ to stacks (M, R, P). On the sphere ν moves with α just so that w·dw = 0.
    """
    if not bool(active.any()):
        return -solve(gradients)
    solved = solve(torch.cat([gradients, w[:, None]], 1))
    free, along = solved[:, :-1], solved[:, -1:]
    share = (free @ w[..., None]) / (along @ w[..., None])
    return -(free - torch.where(active[:, None, None], share * along, 0.0))


def sphere(w: Tensor, gradient: Tensor, radius: float | None) -> Tensor:
    """(M,) the multiplier ν of ‖w‖ ≤ radius: 0 inside, where −∇·w says on the sphere."""
    if radius is None:
        return w.new_zeros(len(w))
    square = w.square().sum(-1)
    nu = (-(gradient * w).sum(-1) / square.clamp(min=1e-300)).clamp(min=0.0)
    return torch.where(square >= (radius * (1 - 1e-9)) ** 2, nu, 0.0)
