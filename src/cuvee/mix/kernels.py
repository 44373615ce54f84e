"""Compare mixtures by kernels: a sum of few simple ones, each with a variance of its own.

All are cheap products of features, so that no length scale has to be searched for:

- one per domain, α_j α'_j: a domain that matters to a metric gets a large variance;
- shared by all domains: a constant, α·α', √α·√α', saturating shares 1 − exp(−α/s), pairs of domains
  Σ_{j<l} α_j α_l α'_j α'_l, and two Gaussian bells of √α.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SOFT = 1e-4  # √α is bent near 0, where its slope would be infinite
SATURATION = (0.05, 0.15)  # shares at which a domain has given most of what it has
LENGTHS = (0.35, 0.8)  # of the bells, in distance between √α: at most √2
SHARED = ("constant", "linear", "root", "saturating", "pairs", "near", "far")


def root(alpha: Tensor) -> Tensor:
    """Return about √α, with a finite slope at 0."""
    return (alpha + SOFT).sqrt() - SOFT**0.5


@dataclass(frozen=True, eq=False)
class Views:
    """Hold what the kernels look at, for m mixtures of N domains."""

    own: Tensor  # (m, N) features with a variance per domain
    linear: Tensor  # (m, N)
    root: Tensor  # (m, N)
    saturating: Tensor  # (m, 2N)
    raw: Tensor  # (m, N)


def views(alpha: Tensor) -> Views:
    """Return the features of mixtures (m, N)."""
    own = alpha * alpha.shape[1] ** 0.5
    saturating = torch.cat([1.0 - torch.exp(-alpha / s) for s in SATURATION], 1)
    return Views(own, own, root(alpha), saturating, alpha)


def shared_grams(a: Views, b: Views) -> Tensor:
    """Return the kernels that all domains share, in the order of SHARED: (7, m, n)."""
    N = a.raw.shape[1]
    products = a.raw @ b.raw.T
    pairs = N * (products.square() - a.raw.square() @ b.raw.square().T)
    along = a.root @ b.root.T
    apart = a.root.square().sum(1)[:, None] + b.root.square().sum(1) - 2.0 * along
    bells = [torch.exp(-apart.clamp(min=0.0) / (2.0 * length**2)) for length in LENGTHS]
    grams = [torch.ones_like(along), N * products, along, a.saturating @ b.saturating.T, pairs]
    return torch.stack([*grams, *bells])


def gram(theta: Tensor, a: Views, b: Views) -> Tensor:
    """Return the kernel (K, m, n) of K metrics with log variances θ (K, N + 7)."""
    variance = theta.exp()
    N = a.own.shape[1]
    per_domain = (a.own * variance[:, None, :N]) @ b.own.T
    return per_domain + torch.einsum("kb,bmn->kmn", variance[:, N:], shared_grams(a, b))


def diagonal(theta: Tensor, a: Views) -> Tensor:
    """Return k(α, α), (K, m), without the rest of the matrix."""
    variance = theta.exp()
    N = a.own.shape[1]
    squares = a.raw.square()
    total = squares.sum(1)
    ones = torch.ones_like(total)
    shared = torch.stack(
        [
            ones,
            N * total,
            a.root.square().sum(1),
            a.saturating.square().sum(1),
            N * (total.square() - squares.square().sum(1)),
            ones,
            ones,
        ]
    )
    return variance[:, :N] @ a.own.square().T + variance[:, N:] @ shared
