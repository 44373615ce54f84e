"""Prove bounds on ‖w − w*(α)‖ and on the excess risk of any w, from its gradient.

Without an unpenalised intercept the risk is λ-strongly convex: ‖w − w*‖ ≤ ‖∇‖/λ and excess ≤
‖∇‖²/(2λ).

Without an unpenalised intercept the risk is λ-strongly convex: ‖w − w*‖ ≤ ‖∇‖/λ and excess ≤
‖∇‖²/(2λ).

With an unpenalised intercept it is not. Along the intercepts the curvature S of the data at w
takes the place of λ:

- squared loss: S = 1 everywhere, and around the mixture's mean row the two parts do not touch each
  other;
- generalised linear models (logistic, softmax, Poisson): S is the smallest eigenvalue of the
  mixture's Hessian in the intercepts, measured at w. It may fade on the way to w*, but not fast:
  the third derivative along v is at most ρ times the second, where ρ bounds the change of any row's
  scores along v (self-concordance), so what remains of it is at least φ(ρ) ≥ 1/(1 + ρ).

docs/models.md derives the inequalities below. λ = 0 gives no bound: infinite.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cuvee.oracle import Bounds

EPS = torch.finfo(torch.float64).eps


def unknown(like: Tensor) -> Bounds:
    """Return infinite bounds in the shape of `like`: nothing is proven of these models."""
    infinite = torch.full_like(like, torch.inf)
    return Bounds(infinite, infinite)


def strongly_convex(gradient: Tensor, mu: float | Tensor) -> Bounds:
    """Return the bounds ‖∇‖/μ and ‖∇‖²/(2μ) for gradient norms (...,)."""
    return _known(gradient / mu, gradient.square() / (2 * mu))


@dataclass(frozen=True)
class Spread:
    """Describe how far a mixture's rows lie from a reference row x0.

    Bounds by self-concordance need no more of the data.
    """

    reference: Tensor  # (features,) x0
    reach: Tensor  # (...,) ≥ ‖x − x0‖ over all rows with positive weight
    second_moment: Tensor  # (...,) ≥ λ_max of the mean of (x − x0)(x − x0)ᵀ


@dataclass(frozen=True)
class Mean:
    """Hold the mean row and the total weight of a mixture."""

    row: Tensor  # (..., features)
    mass: Tensor  # (...,) Σα, which is 1 within the tolerance of the check of α


def squared_loss(
    features: Tensor,
    intercept: Tensor,
    mean: Mean,
    l2: float,
    slack: Tensor,
    *,
    constrained: bool,
    reference: Tensor | None = None,
) -> Bounds:
    """Return bounds for squared loss from gradients (..., features) and (...,).

    Each gradient is known up to `slack`. The gradients and the mean are taken around `reference` if
    given.

    In the coordinates b' = b + mean·w the Hessian is block diagonal, with at least λ for w and
    exactly Σα = 1 for b'. When W binds, all that is known is λτ² + β² ≤ g_w τ + g_b β for the two
    distances τ and β, together.
    """
    g = _norm(features - mean.row * intercept[..., None]) + slack * (1.0 + _norm(mean.row))
    h, mass = intercept.abs() + slack, mean.mass
    if constrained:
        tau = (g + (g.square() + l2 * h.square() / mass).sqrt()) / (2 * l2)
        beta = (h + (h.square() + mass * g.square() / l2).sqrt()) / (2 * mass)
    else:
        tau, beta = g / l2, h / mass
    true_mean = mean.row if reference is None else mean.row + reference
    distance = torch.hypot(tau, beta + _norm(true_mean) * tau)
    return _known(distance, g.square() / (2 * l2) + h.square() / (2 * mass))


@dataclass(frozen=True)
class Concordance:
    """Hold what a generalised linear model declares of its loss."""

    sharpness: float | None  # the largest curvature in a score; None where there is no largest
    k: float  # times the largest change of a row's scores bounds the third derivative by the second


@dataclass(frozen=True)
class Known:
    """Hold the accuracy of numbers that were summed over rows."""

    slack: Tensor  # (...,) gradients, absolutely
    relative: Tensor  # (...,) curvature, as a share of its trace


def self_concordant(
    features: Tensor,
    intercepts: Tensor,
    second: Tensor,
    spread: Spread,
    l2: float,
    known: Known,
    loss: Concordance,
) -> Bounds:
    """Return bounds from gradients (..., K, features), (..., K) and the Hessian `second`.

    `second` (..., K, K) is the Hessian in the intercepts.
    """
    slack = known.slack
    K = intercepts.shape[-1]
    several = K > 1
    # Softmax does not see what all scores share, so that direction is left out and scores change by
    # max − min.
    S = torch.linalg.eigvalsh(second.nan_to_num())[..., 1] if several else second[..., 0, 0]
    # Sums and eigenvalues are known up to rounding of the trace; slack counts the same sums.
    S = (S - (64 * EPS * K + known.relative) * second.diagonal(dim1=-2, dim2=-1).sum(-1)).clamp(
        min=0.0
    )
    k = loss.k
    g_u = _norm((features - intercepts[..., None] * spread.reference).flatten(-2))
    g_u = g_u + slack * (1.0 + _norm(spread.reference))
    g_b = _norm(intercepts) + slack
    # How far features can make up for intercepts: rows weighed by their curvature lie no farther
    # than the farthest.
    a = (
        spread.reach
        if loss.sharpness is None
        else (loss.sharpness * spread.second_moment / S).sqrt()
    )
    G = g_u + a * g_b
    q = k * g_b / S
    s = S / k**2
    e = s * (q / (1.0 + (1.0 - q).sqrt())).square()
    B = G + e * k * (spread.reach + a)
    tau = (B + (B.square() + 4 * l2 * e).sqrt()) / (2 * l2)  # ≥ ‖features of w − w*‖
    D = 1.0 + k * (spread.reach + a) * tau
    E = G.square() / (4 * l2)
    b = s * q * D + E
    kappa = (b + (b.square() + 4 * s * (1 - q) * E * D).sqrt()) / (2 * s * (1 - q))
    beta = a * tau + kappa / k  # ≥ ‖intercepts‖, around x0
    distance = torch.hypot(tau, beta + _norm(spread.reference) * tau)
    excess = g_u.square() / (2 * l2) + g_b * beta
    proven = (q < 1.0) & (S > 0.0)
    return _known(torch.where(proven, distance, torch.inf), torch.where(proven, excess, torch.inf))


def on_ball(w: Tensor, gradient: Tensor, radius: float, slack: Tensor) -> Bounds:
    """Return bounds for W the ball ‖w‖ ≤ radius, from the Lagrangian f + ν/2(‖w‖² − radius²).

    They hold for any ν ≥ 0. w (..., P) lies inside the ball and `gradient` is that of f there,
    known up to `slack`; ν is the multiplier that w itself suggests. The strong convexity λ of f may
    leave out the intercepts; ν covers every direction.
    """
    square = w.square().sum(-1)
    nu = -(gradient * w).sum(-1) / square.clamp(min=EPS)
    # where the gradient does not push w out of the ball, the ball gives no bound
    nu = torch.where(nu > 0, nu, torch.nan)
    residual = _norm(gradient + nu[..., None] * w) + slack
    room = nu * ((radius**2 - square).clamp(min=0.0) + 8 * EPS * radius**2)
    distance = (residual + (residual.square() + nu * room).sqrt()) / nu
    excess = 0.5 * room + residual.square() / (2 * nu)
    return _known(distance, excess)


def rounding(w: Tensor, scale: Tensor, summed: float) -> Tensor:
    """Return how far a float64 gradient may be off by rounding: (...,).

    Rows have size `scale` (...,), scores are of scale · ‖w‖, and each number is the result of at
    most `summed` roundings.
    """
    return summed * EPS * scale * (1.0 + scale * _norm(w))


def _norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=-1)


def _known(distance: Tensor, excess: Tensor) -> Bounds:
    """Return the bounds with NaN (from 0/0) replaced by infinity."""
    return Bounds(*(torch.where(x.isnan(), torch.inf, x) for x in (distance, excess)))
