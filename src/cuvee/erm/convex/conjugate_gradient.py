"""Conjugate gradients for (H + ridge) x = b where no Hessian fits: many models, several right-hand
sides each.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cuvee.components import Batch, Components

RTOL = 1e-9
MAX_PASSES = 2000


def solve(
    components: Components,
    batch: Batch,
    alpha: Tensor,
    w: Tensor,
    ridge: Tensor,
    b: Tensor,
    curvature: Tensor,
) -> Tensor:
    """Return x (M, R, P) with (Σ_j α_j ∇²f_j(w) + diag(ridge)) x = b (M, R, P).

    w and ridge are (M, P).

    `curvature` (P,) is roughly the diagonal of ∇²f, to scale by.
    """
    M, R, P = b.shape
    at, shares = w[:, None].expand(M, R, P), alpha[:, None].expand(M, R, -1)
    scale = 1.0 / (curvature + ridge)[:, None].clamp(min=1e-12)
    x, r = torch.zeros_like(b), b.clone()
    z = scale * r
    p, rz = z, (r * z).sum(-1, keepdim=True)
    enough = RTOL * torch.linalg.vector_norm(b, dim=-1, keepdim=True)
    for _ in range(MAX_PASSES):
        running = torch.linalg.vector_norm(r, dim=-1, keepdim=True) > enough
        if not bool(running.any()):
            break
        Hp = components.hessian_times(at, p, shares, batch) + ridge[:, None] * p
        step = torch.where(running, rz / (p * Hp).sum(-1, keepdim=True).clamp(min=1e-300), 0.0)
        x, r = x + step * p, r - step * Hp
        z = scale * r
        new = (r * z).sum(-1, keepdim=True)
        p = z + torch.where(running, new / rz.clamp(min=1e-300), 0.0) * p
        rz = new
    # What has not come within 10⁻⁴ of a solution is none.
    lost = torch.linalg.vector_norm(r, dim=-1, keepdim=True) > 1e5 * enough
    return torch.where(lost, torch.nan, x)
