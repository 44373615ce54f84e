"""Polynomial ridge regression on the simplex, from models alone or from models and their implicit
derivatives.

On Σα = 1 the monomials of degree exactly d span all polynomials of degree up to d. A label that
knows dw*/dα says N times as much as one that does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb

import torch
from torch import Tensor

RIDGE = 1e-8  # of the features' own size, as a root: enough to be stable, too little to be seen
STEP = 1e-30  # no difference is taken, so it may be as small as that
CHUNK = 2**22  # numbers of features at a time, small enough to stay in cache while they are used


@dataclass(frozen=True)
class Polynomial:
    """ŵ(α) = Σ_f coefficients_f · α^f over the monomials f of one degree."""

    coefficients: Tensor  # (F, P), float64, or float32 for twice the speed
    degree: int

    def __call__(self, alpha: Tensor) -> Tensor:
        w = alpha.new_empty(len(alpha), self.coefficients.shape[1])
        rounded = alpha.to(self.coefficients)
        for some in chunks(len(alpha), len(self.coefficients)):
            w[some] = monomials(rounded[some], self.degree).T @ self.coefficients
        return w

    def bend(self, alpha: Tensor, at: Tensor) -> Tensor:
        """ŵ(α) less its tangent plane at other mixtures: (M, N), (M, N) -> (M, P)."""
        here = monomials(torch.complex(at, STEP * (alpha - at)), self.degree)
        features = monomials(alpha, self.degree) - here.real - here.imag / STEP
        return features.T @ self.coefficients


def fit(alpha: Tensor, w: Tensor, slopes: Tensor | None, degree: int) -> Polynomial:
    """Least squares on models w (n, P), and on dw*/dα (n, N, P) along the simplex where that is
    known.
    """
    A, Y = monomials(alpha, degree).T, w
    if slopes is not None:
        # Derivatives count by what they change over a typical step between mixtures.
        typical = float((alpha - alpha.mean(0)).square().mean().sqrt())
        A = torch.cat([A, typical * _derivatives(alpha, degree)])
        Y = torch.cat([Y, typical * _along_simplex(slopes).flatten(0, 1)])
    return Polynomial(least_squares(A, Y), degree)


def n_features(n_sources: int, degree: int) -> int:
    return comb(n_sources + degree - 1, degree)


def monomials(alpha: Tensor, degree: int) -> Tensor:
    """All products of `degree` entries of each row of α: (M, N) -> (F, M)."""
    columns = alpha.T.contiguous()
    N, found = len(columns), columns
    for d in range(2, degree + 1):
        higher, low = columns.new_empty(n_features(N, d), len(alpha)), 0
        for j, column in enumerate(columns):
            # α_j times the products of d − 1 entries from j on, which stand together at the end.
            rest = found[len(found) - n_features(N - j, d - 1) :]
            torch.mul(column, rest, out=higher[low : low + len(rest)])
            low += len(rest)
        found = higher
    return found if degree else torch.ones_like(columns[:1])


def raised(n_sources: int, degree: int) -> Tensor:
    """(F, N): where monomial f of this degree, times α_j, stands among those of the next."""
    below, above = (
        [*combinations_with_replacement(range(n_sources), d)] for d in (degree, degree + 1)
    )
    place = {f: i for i, f in enumerate(above)}
    return torch.tensor([[place[tuple(sorted((*f, j)))] for j in range(n_sources)] for f in below])


def least_squares(A: Tensor, Y: Tensor) -> Tensor:
    """argmin ‖A C − Y‖² + a trace of ridge, by QR: (n, F), (n, P) -> (F, P)."""
    scale = A.square().mean(0).sqrt().clamp(min=torch.finfo(A.dtype).tiny ** 0.5)
    penalty = RIDGE * len(A) ** 0.5 * torch.eye(A.shape[1], dtype=A.dtype, device=A.device)
    padded = torch.cat([Y, Y.new_zeros(len(penalty), Y.shape[1])])
    found = torch.linalg.lstsq(torch.cat([A / scale, penalty]), padded, driver="gels").solution
    # as a file will hold it, or products would round differently
    return found.contiguous() / scale[:, None]


def chunks(M: int, width: int) -> Iterator[slice]:
    """Slices of M rows whose `width` numbers each fit together."""
    size = max(1, CHUNK // max(width, 1))
    return (slice(low, min(low + size, M)) for low in range(0, M, size))


def _derivatives(alpha: Tensor, degree: int) -> Tensor:
    """Of the monomials along e_j − 1/N, every source j: (n·N, F), as the imaginary part of a step
    that is.
    """
    n, N = alpha.shape
    tangents = torch.eye(N, dtype=alpha.dtype, device=alpha.device) - 1.0 / N
    stepped = torch.complex(alpha[:, None].expand(n, N, N), STEP * tangents.expand(n, N, N))
    return monomials(stepped.flatten(0, 1), degree).imag.T / STEP


def _along_simplex(slopes: Tensor) -> Tensor:
    """dw*/dα_j (n, N, P) along e_j − 1/N."""
    return slopes - slopes.mean(1, keepdim=True)
