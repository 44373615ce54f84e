"""Compute the largest discrepancy of given mixtures, sup over W of |f_T − Σ_j α_j f_j|.

In the "sum" form it is the supremum of Σ_j α_j |f_T − f_j|. It is the term of Theorem 1 that
Algorithm 1 makes small, for an α from anywhere. For squared loss in a ball the first form is exact:
the difference is one indefinite quadratic, whose maximum has a dual that any λ bounds from above.
Otherwise a panel climbs with α held fixed, and its result is a lower bound.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from cuvee.components import ALL, Batch, Components, QuadraticSums
from cuvee.components.quadratic import PRODUCTS
from cuvee.mixture import players as play
from cuvee.mixture.objective import Discrepancy, Objective, differences
from cuvee.mixture.players import Settings

HALVINGS = 100  # of the bracket around λ
CHEAP = 2_000_000  # multiplications per target: up to this, a pass over all rows is cheap
KINK = 1e-24  # of g(x) = √(x² + c): |x| to twelve digits


def largest_discrepancy(
    components: Components, alpha: Tensor, discrepancy: Discrepancy, settings: Settings
) -> tuple[Tensor, bool]:
    """Return the largest discrepancy (M,) of mixtures (M, N or N+1), and whether it is exact.

    Where a pass over all rows is costly, a panel climbs on minibatches, and the discrepancy is
    computed on all rows only at its last points.
    """
    space = components.space
    gram = space.quadratic and components.loss == "trained"
    if gram and discrepancy == "mixture" and space.radius:
        return _exact(cast(QuadraticSums, components), alpha, space.radius), True
    work = int(components.counts.sum()) * space.n_params * settings.adversaries
    return _climbed(components, alpha, discrepancy, settings, full=gram or work <= CHEAP), False


def _exact(components: QuadraticSums, alpha: Tensor, radius: float) -> Tensor:
    """Return the maxima (M,) of the quadratics f_T − Σ_j α_j f_j of mixtures and targets."""
    sources, own = components.grams
    N, P = len(sources.r), components.space.n_params
    maxima = [alpha.new_zeros(0)]
    for part in torch.arange(len(alpha)).split(max(1, PRODUCTS // P**2)):
        a = alpha[part, :N].to(sources.A)
        share = a.sum(1)  # f_T − Σ_j α_j f_j − α_T f_T = Σ_j α_j (f_T − f_j): the own part cancels
        A = share[:, None, None] * own.A[part] - torch.tensordot(a, sources.A, 1)
        b, r = share[:, None] * own.b[part] - a @ sources.b, share * own.r[part] - a @ sources.r
        eigenvalues, V = torch.linalg.eigh(A)
        beta = (V.mT @ b[..., None])[..., 0]
        sides = [largest_quadratic(s * eigenvalues, beta, s * r, radius) for s in (1.0, -1.0)]
        maxima.append(torch.maximum(*sides))
    return torch.cat(maxima)


def largest_quadratic(eigenvalues: Tensor, beta: Tensor, r: Tensor, radius: float) -> Tensor:
    """Return the largest ½wᵀAw − bᵀw + r over ‖w‖ ≤ radius, (M,).

    A has these eigenvalues (M, P), and b is β (M, P) along their vectors. Strong duality holds: it
    is the least ½λ·radius² + ½Σ_i β_i²/(λ − a_i) + r over λ ≥ max(0, a_max), and every such λ gives
    a value from above. β's sign does not matter, so that −A and −b take the same β.
    """
    low = eigenvalues.amax(-1, keepdim=True).clamp(min=0.0)  # (M, 1)
    gaps, square = low - eigenvalues, beta.square()

    def over(t: Tensor, power: int) -> Tensor:
        """Return Σ β²/(λ − a)^power at λ = low + t, with terms of β = 0 counted as 0."""
        return torch.where(square > 0, square / (gaps + t) ** power, 0.0).sum(-1, keepdim=True)

    near = torch.zeros_like(low)
    far = square.sum(-1, keepdim=True).sqrt() / radius  # beyond it the dual only grows
    # λ = low itself: w lies inside the ball, or is filled up along the top eigenvector.
    near_is_enough = over(near, 2) <= radius**2
    for _ in range(HALVINGS):
        middle = 0.5 * (near + far)
        outside = over(middle, 2) > radius**2
        near, far = torch.where(outside, middle, near), torch.where(outside, far, middle)
    t = torch.where(near_is_enough, 0.0, far)
    return (0.5 * (low + t) * radius**2 + 0.5 * over(t, 1)).squeeze(-1) + r


def _climbed(
    components: Components,
    alpha: Tensor,
    discrepancy: Discrepancy,
    settings: Settings,
    full: bool,
) -> Tensor:
    """Return the largest discrepancy (M,) that a panel of adversaries finds by adaptive steps.

    For "mixture", half of the panel climbs the difference and half descends it.
    """
    M, space = len(alpha), components.space
    objective = Objective(discrepancy, KINK, 0.0, torch.zeros_like(alpha[:1]))
    first = space.start(settings.adversaries, settings.seed).to(components.counts.device)
    w = first.expand(M, -1, -1).contiguous()
    pace = play.Pace.fresh(settings.gamma, play.W_REACH * play.w_reach(space, first), w)
    best = alpha.new_zeros(M)
    for t in range(settings.steps):
        batch = ALL if full else Batch(t, settings.batch_size)
        losses, pullback = components.losses(w, batch)
        z = differences(losses)
        if full:
            best = torch.maximum(best, objective.distance(alpha, z).amax(-1))
        coefficients, side = objective.ascent(alpha, z)
        gradient = side.to(w) * pullback(coefficients)
        pace = pace.after(gradient)
        w = space.project(w + pace.step * gradient)
    ends = objective.distance(alpha, differences(components.values(w, ALL)))
    return torch.maximum(best, ends.amax(-1))
