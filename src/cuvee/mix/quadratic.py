"""Fit a quadratic in α and √α by ridge regression, its strength chosen by generalised CV."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from cuvee.mix.candidate import DTYPE, Method, ShapedRuns
from cuvee.mix.kernels import root

STRENGTHS = torch.logspace(-4, 4, 33, dtype=DTYPE)  # of the ridge, relative to the mean square
PAIR = 3.0  # pairs are products of shares, and so small: this makes them as large as shares


@dataclass(frozen=True, eq=False)
class Quadratic:
    """Predict a quadratic in α and √α."""

    coefficients: Tensor  # (p + 1, K), the constant last
    basis: Tensor  # (p, r) directions that the runs know
    spread: Tensor  # (r, K) variance along each
    beyond: Tensor  # (K,) variance along any other
    centre: Tensor  # (p,)

    def __call__(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        x = features(alpha) - self.centre
        along = x @ self.basis
        outside = (x.square().sum(1) - along.square().sum(1)).clamp(min=0.0)
        variance = along.square() @ self.spread + outside[:, None] * self.beyond
        return self.mean(alpha), variance.clamp(min=1e-16).sqrt()

    def mean(self, alpha: Tensor) -> Tensor:
        x = features(alpha) - self.centre
        return x @ self.coefficients[:-1] + self.coefficients[-1]

    def joint(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        x = features(alpha) - self.centre
        along = x @ self.basis
        known = torch.einsum("mr,rk,lr->kml", along, self.spread, along)
        outside = x @ x.T - along @ along.T
        return self.mean(alpha), known + self.beyond[:, None, None] * outside

    def tensors(self) -> Mapping[str, Tensor]:
        names = ("coefficients", "basis", "spread", "beyond", "centre")
        return {name: getattr(self, name) for name in names}


def features(alpha: Tensor) -> Tensor:
    """Return α, √α and all products of two shares: (m, 2N + N(N + 1)/2)."""
    first, second = torch.triu_indices(alpha.shape[1], alpha.shape[1])
    return torch.cat([alpha, root(alpha), PAIR * alpha[:, first] * alpha[:, second]], 1)


def fit(shaped: ShapedRuns, start: object = None) -> Quadratic:
    """Return the ridge regression with the least generalised cross-validation error per metric."""
    x = features(shaped.alpha)
    weight = (shaped.precision / shaped.precision.mean()).sqrt()[:, None]
    centre, level = x.mean(0), shaped.y.mean(0)
    U, S, V = torch.linalg.svd((x - centre) * weight, full_matrices=False)
    kept = 1e-9 * S[0].clamp(min=1e-9) < S
    U, S, V = U[:, kept], S[kept], V[kept]
    n = len(x)
    target = (shaped.y - level) * weight
    along = U.T @ target  # (r, K)
    # where all runs are of one mixture, they know no direction
    ridge = STRENGTHS * (S.square().mean() if len(S) else 1.0)  # (g,)
    shrink = S.square() / (S.square() + ridge[:, None])  # (g, r)
    left = (target.square().sum(0) - along.square().sum(0)).clamp(min=0.0)
    error = left + ((1.0 - shrink).square() @ along.square())  # (g, K)
    freedom = (n - 1.0 - shrink.sum(1)).clamp(min=0.5)
    chosen = (error / freedom[:, None].square()).argmin(0)  # (K,)
    noise = error.gather(0, chosen[None])[0] / freedom[chosen]
    strength, shrunk = ridge[chosen], shrink[chosen].T  # (K,), (r, K)
    slopes = V.T @ (shrunk * along / S[:, None])
    return Quadratic(
        coefficients=torch.cat([slopes, level[None]]),
        basis=V.T.contiguous(),
        spread=noise / (S.square()[:, None] + strength),
        beyond=noise / strength,
        centre=centre,
    )


METHOD = Method(
    name="quadratic",
    summary="A quadratic in α and √α by ridge regression.",
    fit=fit,
    restore=lambda shaped, tensors: Quadratic(**tensors),
)
