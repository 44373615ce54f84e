"""Solve many symmetric positive semidefinite systems at once.

A singular system gets its least-norm solution. Norms are in units of the diagonal, so the scale of
a column does not decide whether a system is singular.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cuvee.numerics.parallel import each, slices

TINY_PIVOT = 1e-7
NOISE = 1e-13  # of the largest, per unknown: smaller eigenvalues are rounding errors


def solve(H: Tensor, b: Tensor, *, free_last: bool = False) -> tuple[Tensor, Tensor]:
    """Return H⁻¹b and which systems were singular (...,), for H (..., P, P) and b (..., P, R).

    A system with an infinite or NaN entry gives NaN. With `free_last` the last unknown, an
    intercept, does not count in the least norm.
    """
    cost = 4 * H[:1].numel() * (H.shape[-1] + b.shape[-1])  # LAPACK is slow on small matrices
    parts = slices(len(H), cost) if H.ndim > 2 else []
    if len(parts) <= 1:
        return _solve(H, b, free_last)
    solved = each(
        lambda part: _solve(H[part], b[part], free_last), parts, H.device, cost=len(H) * cost
    )
    x, singular = (torch.cat(of) for of in zip(*solved, strict=True))
    return x, singular


def _solve(H: Tensor, b: Tensor, free_last: bool) -> tuple[Tensor, Tensor]:
    """Return the same of a few systems."""
    factor, info = torch.linalg.cholesky_ex(H)
    x = torch.cholesky_solve(b, factor)
    # A matrix with a tiny pivot passes for positive definite but its solution is noise: these
    # systems are solved by singular values too.
    size = H.diagonal(dim1=-2, dim2=-1).clamp(min=0.0).sqrt()
    pivots = factor.diagonal(dim1=-2, dim2=-1)
    doubtful = (
        (info != 0) | ~(pivots > TINY_PIVOT * size).all(-1) | ~x.isfinite().flatten(-2).all(-1)
    )
    singular = torch.zeros_like(doubtful)
    if bool(doubtful.any()):
        # LAPACK may fail on infinite or NaN entries
        broken = ~(H.isfinite().flatten(-2).all(-1) & b.isfinite().flatten(-2).all(-1))
        careful = doubtful & ~broken
        least = _without_last if free_last else _least_norm
        solution, deficient = least(H[careful].cpu(), b[careful].cpu())
        x[careful] = solution.to(x)
        x[broken] = torch.nan
        singular[careful] = deficient.to(singular.device)
        singular |= broken
    return x, singular


def _least_norm(H: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the solution by singular values, and whether the rank is less than full.

    H is scaled to a unit diagonal first.
    """
    size = H.diagonal(dim1=-2, dim2=-1).clamp(min=0.0).sqrt()
    unit = torch.where(size > 0, 1.0 / size, 1.0)[..., None]
    least = torch.linalg.lstsq(
        H * unit * unit.transpose(-1, -2), b * unit, rcond=NOISE * H.shape[-1], driver="gelsd"
    )
    return least.solution * unit, least.rank < H.shape[-1]


def _without_last(H: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same after eliminating the last unknown, which centres the others."""
    s, h = H[..., -1:, -1:], H[..., :-1, -1:]
    s = torch.where(s > 0, s, 1.0)
    centred = H[..., :-1, :-1] - h @ h.transpose(-1, -2) / s
    others, deficient = _least_norm(centred, b[..., :-1, :] - h * b[..., -1:, :] / s)
    last = (b[..., -1:, :] - h.transpose(-1, -2) @ others) / s
    return torch.cat([others, last], -2), deficient
