"""Precondition every mixture's solver by the Hessians of the sources at one solved mixture.

Around the anchor w_c every f_j is nearly its quadratic model, so mixture α is nearly the quadratic
Σ_j α_j (f_j + ∇f_j·(w − w_c) + ½‖w − w_c‖²_{∇²f_j}): its minimiser is where the solver starts (a
rational surface in α), and its Hessian is the preconditioner. Where no Hessian per mixture fits,
the anchor's own, without the blocks that couple two classes, serves all; where not even that fits,
the scale of each column does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from cuvee.components import ALL, Batch, Components, LinearSums
from cuvee.erm.convex import lbfgs
from cuvee.numerics.parallel import each, slices, stacked

JITTER = {torch.float32: 1e-6, torch.float64: 1e-13}
CENTRE_PASSES = 100
MOST_COLUMNS = 2048  # with more, a block per class costs more than the passes it saves


class Preconditioner(Protocol):
    def apply(self, q: Tensor) -> Tensor: ...
    def narrow(self, targets: Tensor, models: Tensor | None = None) -> Preconditioner: ...


@dataclass(frozen=True)
class Factors:
    """Hold a Cholesky factor per model, of its Hessian scaled to a unit diagonal."""

    L: Tensor  # (M, Q, P, P)
    scale: Tensor  # (M, Q, P)

    @classmethod
    def of(cls, H: Tensor) -> Factors:
        """Return the factors of H (M, Q, P, P), which is overwritten.

        Scaling undoes the units of the columns, so that float32 is enough.
        """
        (M, Q, P, _), scale = H.shape, torch.empty_like(H[..., 0])

        def some(models: slice) -> None:
            A = H[models]
            A_scale = A.diagonal(dim1=-2, dim2=-1).clamp(min=torch.finfo(H.dtype).tiny ** 0.5)
            scale[models] = A_scale.rsqrt_()
            A.mul_(A_scale[..., None, :]).mul_(A_scale[..., None])
            A.diagonal(dim1=-2, dim2=-1).add_(JITTER[H.dtype])
            L, info = torch.linalg.cholesky_ex(A)
            broken = (info != 0) | ~L.diagonal(dim1=-2, dim2=-1).isfinite().all(-1)
            if bool(broken.any()):
                L[broken] = torch.eye(P, dtype=H.dtype, device=H.device)
            A.mT.copy_(L)  # column by column, as LAPACK reads it

        cost = 4 * Q * P**3  # LAPACK is slow on small matrices
        each(some, slices(M, cost), H.device, cost=M * cost)
        return cls(H.mT, scale)

    def apply(self, q: Tensor) -> Tensor:
        M, Q, P = q.shape

        def some(models: slice) -> Tensor:
            scale = self.scale[models]
            scaled = (q[models].to(self.L.dtype) * scale)[..., None]
            return (torch.cholesky_solve(scaled, self.L[models])[..., 0] * scale).to(q.dtype)

        return stacked(some, M, 64 * Q * P**2, q.device)  # most of it is reading the factors

    def take_one_curvature(self, models: Tensor, curvature: Tensor) -> None:
        """Take one curvature (M, Q, 1) in all directions for the given models (M, Q), in place."""
        self.L[models] = torch.eye(self.L.shape[-1], dtype=self.L.dtype, device=self.L.device)
        least = torch.finfo(self.scale.dtype).tiny ** 0.5
        self.scale[models] = curvature.clamp(min=least).rsqrt().to(self.scale)[models]

    def narrow(self, targets: Tensor, models: Tensor | None = None) -> Factors:
        return Factors(_some(self.L, targets, models), _some(self.scale, targets, models))


@dataclass(frozen=True)
class Blocks:
    """Hold one inverse per class, shared by all models."""

    inverse: Tensor  # (K, width, width)

    def apply(self, q: Tensor) -> Tensor:
        K, width, _ = self.inverse.shape
        # (K, models, width)
        stacked = q.reshape(-1, K, width).transpose(0, 1).to(self.inverse.dtype)
        return (stacked @ self.inverse).transpose(0, 1).reshape(q.shape).to(q.dtype)

    def narrow(self, targets: Tensor, models: Tensor | None = None) -> Blocks:
        return self


@dataclass(frozen=True)
class Diagonal:
    """Hold one number per parameter, shared by all models, for tables with many columns."""

    inverse: Tensor  # (P,)

    def apply(self, q: Tensor) -> Tensor:
        return q * self.inverse.to(q.dtype)

    def narrow(self, targets: Tensor, models: Tensor | None = None) -> Diagonal:
        return self


@dataclass(frozen=True)
class Task:
    """Minimise Σ_j α_j f_j(w) + ½ Σ_p penalty_p w_p² for every row of α.

    Only the parameters that are `free` move.
    """

    components: Components
    batch: Batch
    alpha: Tensor  # (M, Q, N or N+1)
    penalty: Tensor  # (M or 1, 1, P)
    preconditioner: Preconditioner
    free: Tensor | None = None  # (M, Q, P) of 0 and 1
    rescaled: bool = False  # whether L-BFGS scales the preconditioner by what its steps meet

    def gradient(self, w: Tensor, running: Tensor | None = None) -> Tensor:
        # Sources with weight 0 are skipped.
        alpha = self.alpha if running is None else self.alpha * running[..., None]
        return self.add_penalty(self.components.pull(w, alpha, self.batch), w)

    def add_penalty(self, g: Tensor, w: Tensor) -> Tensor:
        g = g.addcmul_(self.penalty.to(w.dtype), w)
        return g if self.free is None else g * self.free

    def precondition(self, q: Tensor) -> Tensor:
        # Without this, rounding errors would add up in directions without curvature.
        r = self.components.space.canonical(self.preconditioner.apply(q))
        return r if self.free is None else r * self.free

    def narrow(self, targets: Tensor, models: Tensor | None = None) -> Task:
        fewer = len(targets) < len(self.alpha)
        return replace(
            self,
            components=self.components.narrow(targets) if fewer else self.components,
            batch=self.batch if models is None else self.batch.of_models(models),
            alpha=_some(self.alpha, targets, models),
            penalty=self.penalty if len(self.penalty) == 1 else self.penalty[targets],
            preconditioner=self.preconditioner.narrow(targets, models),
            free=None if self.free is None else _some(self.free, targets, models),
        )


def _some(x: Tensor, targets: Tensor, models: Tensor | None) -> Tensor:
    """Return x (M, Q, …) of these targets, and of these models of each."""
    return x[targets] if models is None else x[targets[:, None], models]


@dataclass(frozen=True)
class Anchor:
    """Hold a solved mixture and every source's first and second derivatives there."""

    w: Tensor  # (1, 1, P)
    gradients: Tensor  # (N, P)
    hessians: Tensor | None  # (N, P, P) where they fit
    shared: Preconditioner | None  # for all mixtures, where they do not

    @classmethod
    def solve(
        cls,
        components: LinearSums,
        alpha: Tensor,
        penalty: Tensor,
        *,
        dense: bool,
        tol: float,
        memory: int,
        dtype: torch.dtype,
    ) -> Anchor:
        """Solve the mixture α (N,) of the sources to a tolerance good enough for an anchor."""
        N, P = len(components.counts), components.space.n_params
        components = components.without_targets()
        w = (
            components.space.first_guess(alpha @ components.statistics.to(alpha))
            .to(dtype)
            .view(1, 1, P)
        )
        alpha = alpha.to(w).view(1, 1, N)
        preconditioner: Preconditioner
        if dense:
            preconditioner = Factors.of(add_diagonal(components.hessians(w, alpha, ALL), penalty))
        else:
            preconditioner = _shared(components, w, alpha, penalty, memory)
        task = Task(components, ALL, alpha, penalty, preconditioner)
        w = components.space.canonical(lbfgs.minimise(task, w, tol=tol, max_passes=CENTRE_PASSES).w)
        one_each = torch.eye(N, dtype=w.dtype, device=w.device)[:, None]  # (N, 1, N)
        everywhere = w.expand(N, 1, P)
        return cls(
            w,
            components.pull(everywhere, one_each, ALL)[:, 0],
            _finite(components.hessians(everywhere, one_each, ALL)[:, 0]) if dense else None,
            None if dense else _shared(components, w, alpha, penalty, memory),
        )

    def start(
        self, components: LinearSums, batch: Batch, alpha: Tensor, penalty: Tensor
    ) -> tuple[Tensor, Tensor, Preconditioner]:
        """Return the anchor's w, the gradient there, and a preconditioner for every α.

        α is (M, Q, N or N+1), w and the gradient are (M, Q, P). The first full step from there goes
        to the minimiser of the quadratic model.
        """
        N, P = self.gradients.shape
        M, Q = alpha.shape[:2]
        shares = alpha[..., :N].to(self.w.dtype)
        w = self.w.expand(M, Q, P)
        g = shares @ self.gradients + penalty.to(w) * w
        own = None
        if alpha.shape[-1] > N:
            own = torch.cat([torch.zeros_like(shares), alpha[..., N:].to(w.dtype)], -1)
            g = g + components.pull(w, own, batch)
        if self.hessians is None:
            assert self.shared is not None
            return w, g, self.shared
        flat, hessians = shares.reshape(-1, N), self.hessians.view(N, -1)
        H = stacked(lambda m: flat[m] @ hessians, M * Q, N * P * P, w.device).view(M, Q, P, P)
        if own is not None:
            H += components.hessians(w, own, batch)
        return w, g, Factors.of(add_diagonal(H, penalty))


def _finite(H: Tensor) -> Tensor:
    """Return H with 0 for sources whose squares overflow.

    Models that give such a source weight 0 are not affected by it.
    """
    H[~H.isfinite().flatten(1).all(1)] = 0.0
    return H


def add_diagonal(H: Tensor, penalty: Tensor) -> Tensor:
    H.diagonal(dim1=-2, dim2=-1).add_(penalty.to(H))
    return H


def rough_diagonal(components: LinearSums) -> Tensor:
    """Return roughly the diagonal of the Hessian (P,), which undoes the columns' units."""
    space = components.space
    return space.typical_curvature * components.mean_squares.repeat(space.n_outputs)


def _shared(
    components: LinearSums, w: Tensor, alpha: Tensor, penalty: Tensor, memory: int
) -> Preconditioner:
    K, width = components.space.n_outputs, components.space.width
    if width > MOST_COLUMNS or 48 * K * width**2 > memory:
        curvature = rough_diagonal(components) + penalty.view(-1, K * width)[0]
        return Diagonal(1.0 / curvature.clamp(min=torch.finfo(curvature.dtype).tiny ** 0.5))
    blocks = [components.hessian_blocks(w, alpha, ALL, a, only=True)[0, 0, 0] for a in range(K)]
    factors = Factors.of(
        add_diagonal(torch.stack(blocks)[:, None], penalty.view(-1, 1, K, width)[0].transpose(0, 1))
    )
    inverse = torch.cholesky_inverse(factors.L[:, 0])
    return Blocks(inverse * factors.scale * factors.scale.transpose(-1, -2))
