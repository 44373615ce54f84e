"""Many symmetric positive semidefinite systems at once; a singular one gets its least-norm solution.

Norms are in units of the diagonal: what scale a column has does not decide whether a system is singular.
"""

from __future__ import annotations

import torch
from torch import Tensor

TINY_PIVOT = 1e-7


def solve(H: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """H (..., P, P), b (..., P, R) -> H⁻¹b, and which systems were singular (...,). An overflowed system gives NaN."""
    factor, info = torch.linalg.cholesky_ex(H)
    x = torch.cholesky_solve(b, factor)
    # A tiny pivot passes for positive definite but its solution is noise; both kinds go the careful way.
    size = H.diagonal(dim1=-2, dim2=-1).clamp(min=0.0).sqrt()
    pivots = factor.diagonal(dim1=-2, dim2=-1)
    doubtful = (info != 0) | ~(pivots > TINY_PIVOT * size).all(-1) | ~x.isfinite().flatten(-2).all(-1)
    singular = torch.zeros_like(doubtful)
    if bool(doubtful.any()):
        broken = ~(H.isfinite().flatten(-2).all(-1) & b.isfinite().flatten(-2).all(-1))  # nothing LAPACK should see
        careful = doubtful & ~broken
        unit = torch.where(size > 0, 1.0 / size, 1.0)[careful][..., None].cpu()
        scaled = H[careful].cpu() * unit * unit.transpose(-1, -2)
        found = torch.linalg.lstsq(scaled, b[careful].cpu() * unit, driver="gelsd")
        x[careful] = (found.solution * unit).to(x)
        x[broken] = torch.nan
        singular[careful] = (found.rank < H.shape[-1]).to(singular.device)
        singular |= broken
    return x, singular
