"""Sum products with twice the digits of float64, for sums in which large terms cancel.

Every rounding error of a float64 sum or product is itself a float64 number, found by Knuth's and
Dekker's error-free transformations (Ogita, Rump and Oishi 2005, "Accurate sum and dot product").
"""

from __future__ import annotations

import torch
from torch import Tensor

SPLITTER = 2.0**27 + 1  # halves the 53 bits of a float64
LARGEST = 2.0**996  # beyond it, splitting overflows; such numbers are taken as they are


def dot(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return Σ_i a_i b_i over the last axis as (sum, what rounding left out of it)."""
    products, errors = _two_product(*torch.broadcast_tensors(a, b))
    return total(torch.cat([products, errors], -1))


def total(terms: Tensor) -> tuple[Tensor, Tensor]:
    """Return Σ_i terms_i over the last axis as (sum, what rounding left out of it), by halves."""
    left_out = torch.zeros_like(terms[..., :1])
    while terms.shape[-1] > 1:
        half = terms.shape[-1] // 2
        odd = terms[..., 2 * half :]
        sums, errors = _two_sum(terms[..., :half], terms[..., half : 2 * half])
        left_out = left_out + errors.sum(-1, keepdim=True)
        terms = torch.cat([sums, odd], -1)
    result, error = _two_sum(terms, left_out)
    return result[..., 0], error[..., 0]


def _two_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return fl(a + b) and a + b − fl(a + b), exactly."""
    s = a + b
    part = s - a
    return s, (a - (s - part)) + (b - part)


def _two_product(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return fl(a b) and a b − fl(a b), exactly unless that underflows."""
    p = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return p, a_low * b_low - (((p - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _halves(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return two numbers of 26 bits each whose sum is a."""
    scaled = SPLITTER * a
    high = torch.where(a.abs() < LARGEST, scaled - (scaled - a), a)
    return high, a - high
