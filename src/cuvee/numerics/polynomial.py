"""Fit polynomials on the simplex by ridge regression, to models and their derivatives.

On Σα = 1 the monomials of degree exactly d span all polynomials of degree up to d. A label with
dw*/dα gives N times as many equations as one without.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb

import torch
from torch import Tensor

RIDGE = 1e-8  # root of the penalty, in units of the features: stable, with no visible effect
STEP = 1e-30  # of a complex step, which takes no difference, so it may be this small
CHUNK = 2**22  # numbers of features at a time, small enough to stay in cache while they are used


@dataclass(frozen=True)
class Polynomial:
    """Predict ŵ(α) = Σ_f coefficients_f · α^f over the monomials f of one degree."""

    coefficients: Tensor  # (F, P), float64, or float32 for twice the speed
    degree: int

    def __call__(self, alpha: Tensor) -> Tensor:
        w = alpha.new_empty(len(alpha), self.coefficients.shape[1])
        rounded = alpha.to(self.coefficients)
        for chunk in chunks(len(alpha), len(self.coefficients)):
            w[chunk] = monomials(rounded[chunk], self.degree).T @ self.coefficients
        return w

    def bend(self, alpha: Tensor, at: Tensor) -> Tensor:
        """Return ŵ(α) less its tangent plane at other mixtures: (M, N), (M, N) -> (M, P)."""
        stepped = monomials(torch.complex(at, STEP * (alpha - at)), self.degree)
        features = monomials(alpha, self.degree) - stepped.real - stepped.imag / STEP
        return features.T @ self.coefficients


def fit(alpha: Tensor, w: Tensor, slopes: Tensor | None, degree: int) -> Polynomial:
    """Fit least squares to models w (n, P), and to dw*/dα (n, N, P) along the simplex if given."""
    A, Y = monomials(alpha, degree).T, w
    if slopes is not None:
        # Derivatives are weighed by how much w changes over a typical step between mixtures.
        typical = float((alpha - alpha.mean(0)).square().mean().sqrt())
        A = torch.cat([A, typical * _derivatives(alpha, degree)])
        Y = torch.cat([Y, typical * _along_simplex(slopes).flatten(0, 1)])
    return Polynomial(least_squares(A, Y), degree)


def n_features(n_sources: int, degree: int) -> int:
    return comb(n_sources + degree - 1, degree)


def monomials(alpha: Tensor, degree: int) -> Tensor:
    """Return all products of `degree` entries of each row of α: (M, N) -> (F, M)."""
    columns = alpha.T.contiguous()
    N, products = len(columns), columns
    for d in range(2, degree + 1):
        higher, low = columns.new_empty(n_features(N, d), len(alpha)), 0
        for j, column in enumerate(columns):
            # α_j times the products of d − 1 entries from j on, which stand together at the end.
            lower = products[len(products) - n_features(N - j, d - 1) :]
            torch.mul(column, lower, out=higher[low : low + len(lower)])
            low += len(lower)
        products = higher
    return products if degree else torch.ones_like(columns[:1])


def raised(n_sources: int, degree: int) -> Tensor:
    """Return the index of each monomial f times α_j among those of the next degree: (F, N)."""
    below, above = (
        [*combinations_with_replacement(range(n_sources), d)] for d in (degree, degree + 1)
    )
    place = {f: i for i, f in enumerate(above)}
    return torch.tensor([[place[tuple(sorted((*f, j)))] for j in range(n_sources)] for f in below])


def least_squares(A: Tensor, Y: Tensor) -> Tensor:
    """Return argmin ‖A C − Y‖² plus a tiny ridge, by QR: (n, F), (n, P) -> (F, P)."""
    scale = A.square().mean(0).sqrt().clamp(min=torch.finfo(A.dtype).tiny ** 0.5)
    penalty = RIDGE * len(A) ** 0.5 * torch.eye(A.shape[1], dtype=A.dtype, device=A.device)
    padded = torch.cat([Y, Y.new_zeros(len(penalty), Y.shape[1])])
    solution = torch.linalg.lstsq(torch.cat([A / scale, penalty]), padded, driver="gels").solution
    # the memory layout that a file restores, so that products round the same
    return solution.contiguous() / scale[:, None]


def chunks(M: int, width: int) -> Iterator[slice]:
    """Return slices of M rows that hold at most CHUNK numbers, `width` per row."""
    size = max(1, CHUNK // max(width, 1))
    return (slice(low, min(low + size, M)) for low in range(0, M, size))


def _derivatives(alpha: Tensor, degree: int) -> Tensor:
    """Return the monomials' derivatives along e_j − 1/N, every source j: (n·N, F).

    They are computed by complex steps.
    """
    n, N = alpha.shape
    tangents = torch.eye(N, dtype=alpha.dtype, device=alpha.device) - 1.0 / N
    stepped = torch.complex(alpha[:, None].expand(n, N, N), STEP * tangents.expand(n, N, N))
    return monomials(stepped.flatten(0, 1), degree).imag.T / STEP


def _along_simplex(slopes: Tensor) -> Tensor:
    """Return dw*/dα_j (n, N, P) along e_j − 1/N."""
    return slopes - slopes.mean(1, keepdim=True)
