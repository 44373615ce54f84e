"""Fit Taylor pieces of first and second order around solved mixtures.

Along u the gradient condition Σ_j α_j ∇f_j(w) + λw = 0, differentiated once, is H w_u = −∇f_u;
differentiated twice it is H w_uu = −(2 ∇²f_u w_u + ∇³f_α[w_u, w_u]), with f_u = Σ_j u_j f_j. The
right-hand side is a second difference of gradients, so no family needs third derivatives; pairs of
sources follow by polarisation.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cuvee.learn.base import Labels
from cuvee.numerics.polynomial import chunks
from cuvee.oracle import Oracle

STEP = 1e-3  # of a second difference: its error is STEP² on one side, rounding / STEP² on the other
# gradients that second derivatives may cost; anchors beyond that get a first-order piece only
PASSES = 20_000


@dataclass(frozen=True)
class Taylor:
    """Predict ŵ(α) = w_i + u·slopes_i + ½ u·bends_i·u around the nearest anchor i, u = α − α_i."""

    alpha: Tensor  # (n, N)
    w: Tensor  # (n, P)
    slopes: Tensor  # (n, N, P)
    bends: Tensor  # (n, N, N, P), or (0, N, N, P) for first order

    def __call__(self, alpha: Tensor) -> Tensor:
        w = alpha.new_empty(len(alpha), self.w.shape[1])
        for chunk in chunks(
            len(alpha), self.slopes[0].numel() * (1 + len(self.bends[:1]) * alpha.shape[1])
        ):
            a = alpha[chunk]
            nearest = torch.cdist(a, self.alpha).argmin(1)
            u = (a - self.alpha[nearest])[:, None]  # (m, 1, N)
            change = self.slopes[nearest]
            if len(self.bends):
                change = change + 0.5 * (u[:, None] @ self.bends[nearest])[:, :, 0]
            w[chunk] = self.w[nearest] + (u @ change)[:, 0]
        return w


def fit(labels: Labels, bends: Tensor | None = None) -> Taylor:
    """Return Taylor pieces around all labels, or around as many as `bends` has."""
    assert labels.slopes is not None
    _, N, P = labels.slopes.shape
    if bends is None:
        return Taylor(labels.alpha, labels.w, labels.slopes, labels.w.new_zeros(0, N, N, P))
    anchors = labels[: len(bends)]
    assert anchors.slopes is not None
    return Taylor(anchors.alpha, anchors.w, anchors.slopes, bends)


def n_bends(n_labels: int, n_sources: int) -> int:
    """Return how many anchors can have second derivatives within PASSES."""
    return min(n_labels, PASSES // (n_sources * (n_sources + 1)))


def second_derivatives(oracle: Oracle, labels: Labels) -> Tensor:
    """Return d²w*/dα_j dα_k (n, N, N, P) at labels (n) with slopes."""
    assert labels.slopes is not None
    n, N, P = labels.slopes.shape
    row, column = torch.triu_indices(N, N, device=labels.w.device)
    identity = torch.eye(N, dtype=labels.w.dtype, device=labels.w.device)
    directions = identity[row] + identity[column]  # (D, N): e_j + e_k, whose square holds the pair
    D = len(directions)
    w_u = directions @ labels.slopes  # (n, D, P)
    # The step changes w by STEP of its length, so a direction with a large w_u gets a short step.
    size = torch.linalg.vector_norm(labels.w, dim=-1).clamp(min=1e-30)[:, None, None]
    h = STEP * size / torch.linalg.vector_norm(w_u, dim=-1, keepdim=True).clamp(min=1e-30)

    def gradient(sign: float) -> Tensor:
        """Return Σ_j (α + s·h·u)_j ∇f_j(w + s·h·w_u), (n, D, P)."""
        w = (labels.w[:, None] + sign * h * w_u).flatten(0, 1)
        alpha = (labels.alpha[:, None] + sign * h * directions).flatten(0, 1)
        gradients = torch.empty_like(w)
        for chunk in chunks(len(w), N * P):
            gradients[chunk] = (alpha[chunk, None] @ oracle.component_gradients(w[chunk]))[:, 0]
        return gradients.view(n, D, P)

    at_w = (
        (labels.alpha[:, None] @ oracle.component_gradients(labels.w)) if n else labels.w[:, None]
    )
    right_side = (gradient(1.0) - 2.0 * at_w + gradient(-1.0)) / h.square()
    squares = -oracle.hessian_solve(labels.alpha, labels.w, right_side)  # (n, D, P): w_uu
    full = labels.w.new_zeros(n, N, N, P)
    full[:, row, column] = squares
    pure = full.diagonal(dim1=1, dim2=2).transpose(1, 2) / 4.0  # from (2 e_j)
    mixed = 0.5 * (squares - pure[:, row] - pure[:, column])
    full[:, row, column] = torch.where((row == column)[:, None], pure[:, row], mixed)
    full[:, column, row] = full[:, row, column]
    return full
