"""Compare mixtures by kernels: a sum of few simple ones, each with a variance of its own.

All are cheap products of features, so that no length scale has to be searched for:

- one per domain, α_j α'_j: a domain that matters to a metric gets a large variance;
- the sum of these times α·α': domains that matter, in pairs with any others;
- shared by all domains: a constant, α·α', √α·√α', saturating shares 1 − exp(−α/s), log(1 + α/s),
  all pairs Σ_{j<l} α_j α_l α'_j α'_l, and two Gaussian bells of √α.

Log variances θ (K, N + 9) are in this order, the pairs of domains that matter last.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log1p

import torch
from torch import Tensor

SOFT = 1e-4  # √α is bent near 0, where its slope would be infinite
FIRST = 0.1  # share from which on the logarithm is felt
SATURATION = (0.05, 0.15)  # shares at which a domain has given most of what it has
LENGTHS = (0.35, 0.8)  # of the bells, in distance between √α: at most √2
SHARED = ("constant", "linear", "root", "saturating", "log", "pairs", "near", "far")
LINEAR = SHARED.index("linear")


def root(alpha: Tensor) -> Tensor:
    """Return about √α, with a finite slope at 0."""
    return (alpha + SOFT).sqrt() - SOFT**0.5


def log(alpha: Tensor) -> Tensor:
    """Return log(1 + α/FIRST), scaled to 1 at α = 1."""
    return torch.log1p(alpha / FIRST) / log1p(1.0 / FIRST)


@dataclass(frozen=True, eq=False)
class Views:
    """Hold what the kernels look at, for m mixtures of N domains."""

    alpha: Tensor  # (m, N)
    own: Tensor  # (m, N) features with a variance per domain
    root: Tensor  # (m, N)
    saturating: Tensor  # (m, 2N)
    log: Tensor  # (m, N)


def views(alpha: Tensor) -> Views:
    """Return the features of mixtures (m, N)."""
    saturating = torch.cat([1.0 - torch.exp(-alpha / s) for s in SATURATION], 1)
    return Views(alpha, alpha * alpha.shape[1] ** 0.5, root(alpha), saturating, log(alpha))


def shared_grams(a: Views, b: Views) -> Tensor:
    """Return the kernels that all domains share, in the order of SHARED: (8, m, n)."""
    N = a.alpha.shape[1]
    products = a.alpha @ b.alpha.T
    pairs = N * (products.square() - a.alpha.square() @ b.alpha.square().T)
    along = a.root @ b.root.T
    apart = a.root.square().sum(1)[:, None] + b.root.square().sum(1) - 2.0 * along
    bells = [torch.exp(-apart.clamp(min=0.0) / (2.0 * length**2)) for length in LENGTHS]
    bent = [along, a.saturating @ b.saturating.T, a.log @ b.log.T]
    return torch.stack([torch.ones_like(along), N * products, *bent, pairs, *bells])


def gram(theta: Tensor, a: Views, b: Views) -> Tensor:
    """Return the kernel (K, m, n) of K metrics with log variances θ (K, N + 9)."""
    return summed(theta, a, b, shared_grams(a, b))


def summed(theta: Tensor, a: Views, b: Views, shared: Tensor) -> Tensor:
    """Return the kernel (K, m, n), the shared kernels (8, m, n) being there already."""
    variance = theta.exp()
    N = a.own.shape[1]
    own = (a.own * variance[:, None, :N]) @ b.own.T
    with_others = 1.0 + variance[:, -1, None, None] * shared[LINEAR]
    return own * with_others + torch.einsum("kb,bmn->kmn", variance[:, N:-1], shared)


def slopes(theta: Tensor, a: Views, shared: Tensor, change: Tensor) -> Tensor:
    """Return Σ_mn change_mn · d gram_mn/dθ, (K, N + 9), for any change (K, m, m)."""
    variance = theta.exp()
    N = a.own.shape[1]
    with_others = change * (1.0 + variance[:, -1, None, None] * shared[LINEAR])
    per_domain = ((with_others @ a.own) * a.own).sum(1)
    together = ((change * shared[LINEAR]) @ a.own * a.own).sum(1)
    parts = [
        per_domain,
        change.flatten(1) @ shared.flatten(1).T,
        (together * variance[:, :N]).sum(1, keepdim=True),
    ]
    return torch.cat(parts, 1) * variance


def diagonal(theta: Tensor, a: Views) -> Tensor:
    """Return k(α, α), (K, m), without the rest of the matrix."""
    variance = theta.exp()
    N = a.own.shape[1]
    squares = a.alpha.square()
    total = squares.sum(1)
    ones = torch.ones_like(total)
    bent = [x.square().sum(1) for x in (a.root, a.saturating, a.log)]
    pairs = N * (total.square() - squares.square().sum(1))
    shared = torch.stack([ones, N * total, *bent, pairs, ones, ones])
    own = variance[:, :N] @ a.own.square().T
    return own * (1.0 + variance[:, -1:] * shared[LINEAR]) + variance[:, N:-1] @ shared
