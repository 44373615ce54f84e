"""Compute the largest discrepancy of given mixtures, sup over W of |f_T − Σ_j α_j f_j|.

In the "sum" form it is the supremum of Σ_j α_j |f_T − f_j|. It is the term of Theorem 1 that
Algorithm 1 makes small, for an α from anywhere. For squared loss in a ball the first form is exact:
the difference is one indefinite quadratic, whose maximum has a dual that any λ bounds from above.
Otherwise a panel climbs with α held fixed, and its result is a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from cuvee.components import ALL, Batch, Components, Part, QuadraticSums
from cuvee.components.protocol import Grams
from cuvee.components.quadratic import PRODUCTS
from cuvee.mixture import players as play
from cuvee.mixture.objective import Discrepancy, Objective, differences
from cuvee.mixture.players import Settings
from cuvee.numerics.parallel import each, slices

HALVINGS = 100  # of the bracket around λ
EIGEN = 20.0  # times P³: about the multiplications of an eigendecomposition
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
    # f_T − Σ_j α_j f_j − α_T f_T = Σ_j α_j (f_T − f_j): the own part cancels
    sides = _each_quadratic(
        components.grams,
        alpha[:, None, : len(components.counts)],
        lambda a, beta, r, V: torch.maximum(
            largest_quadratic(a, beta, r, radius), largest_quadratic(-a, beta, -r, radius)
        ),
    )
    return sides[:, 0]


def quadratic_maximisers(components: QuadraticSums, u: Tensor, part: Part) -> Tensor:
    """Return the w (M, K, P) of W where Σ_j u_j (f_T − f_j) is largest, for u (M, K, N)."""
    radius = components.space.radius
    assert radius is not None

    def maximisers(a: Tensor, beta: Tensor, r: Tensor, V: Tensor) -> Tensor:
        return (V @ quadratic_maximiser(a, beta, radius)[..., None])[..., 0]

    return _each_quadratic(components.grams_of(part), u, maximisers)


def _each_quadratic(grams: tuple[Grams, Grams], u: Tensor, of: Callable[..., Tensor]) -> Tensor:
    """Return `of` (eigenvalues, β, r, eigenvectors) of every Σ_j u_j (f_T − f_j): (M, K, …)."""
    sources, own = grams
    (M, K, N), P = u.shape, sources.b.shape[-1]
    flat = u.reshape(M * K, N).to(sources.A)
    target = torch.arange(M, device=u.device).repeat_interleave(K)

    def some(part: slice) -> Tensor:
        a, i = flat[part], target[part]
        share = a.sum(1)
        A = share[:, None, None] * own.A[i] - torch.tensordot(a, sources.A, 1)
        b, r = share[:, None] * own.b[i] - a @ sources.b, share * own.r[i] - a @ sources.r
        eigenvalues, V = torch.linalg.eigh(A)
        return of(eigenvalues, (V.mT @ b[..., None])[..., 0], r, V)

    cost = EIGEN * P**3
    parts = slices(M * K, cost, most=max(1, PRODUCTS // P**2))
    done = each(some, parts, u.device, cost=M * K * cost)
    return torch.cat(done).unflatten(0, (M, K)) if M * K else u.new_zeros(M, K, P)


def quadratic_maximiser(eigenvalues: Tensor, beta: Tensor, radius: float) -> Tensor:
    """Return where ½Σ a_i x_i² − Σ β_i x_i is largest over ‖x‖ ≤ radius, (M, P).

    a_i are the eigenvalues (M, P). Where λ = a_max leaves x inside the ball, any direction of the
    top eigenvalue fills it up.
    """
    low, t = _multiplier(eigenvalues, beta.square(), radius)
    gaps = low - eigenvalues + t
    x = torch.where(beta == 0, 0.0, -beta / gaps.clamp(min=1e-300))
    room = (radius**2 - x.square().sum(-1, keepdim=True)).clamp(min=0.0).sqrt()
    top = eigenvalues.argmax(-1, keepdim=True)
    filled = x.scatter_add(-1, top, torch.where((t == 0) & (low > 0), room, 0.0))
    return filled * (radius / torch.linalg.vector_norm(filled, dim=-1, keepdim=True)).clamp(max=1.0)


def largest_quadratic(eigenvalues: Tensor, beta: Tensor, r: Tensor, radius: float) -> Tensor:
    """Return the largest ½wᵀAw − bᵀw + r over ‖w‖ ≤ radius, (M,).

    A has these eigenvalues (M, P), and b is β (M, P) along their vectors. Strong duality holds: it
    is the least ½λ·radius² + ½Σ_i β_i²/(λ − a_i) + r over λ ≥ max(0, a_max), and every such λ gives
    a value from above. β's sign does not matter, so that −A and −b take the same β.
    """
    square = beta.square()
    low, t = _multiplier(eigenvalues, square, radius)
    rest = _over(square, low - eigenvalues, t, 1)
    return (0.5 * (low + t) * radius**2 + 0.5 * rest).squeeze(-1) + r


def _over(square: Tensor, gaps: Tensor, t: Tensor, power: int) -> Tensor:
    """Return Σ β²/(λ − a)^power at λ = low + t, (M, 1); terms of β = 0 count as 0."""
    return torch.where(square > 0, square / (gaps + t) ** power, 0.0).sum(-1, keepdim=True)


def _multiplier(eigenvalues: Tensor, square: Tensor, radius: float) -> tuple[Tensor, Tensor]:
    """Return max(0, a_max) and what the best λ is above it, each (M, 1), from β² (M, P)."""
    low = eigenvalues.amax(-1, keepdim=True).clamp(min=0.0)
    gaps = low - eigenvalues
    near = torch.zeros_like(low)
    far = square.sum(-1, keepdim=True).sqrt() / radius  # beyond it the dual only grows
    # λ = low itself: w lies inside the ball, or is filled up along the top eigenvector.
    near_is_enough = _over(square, gaps, near, 2) <= radius**2
    for _ in range(HALVINGS):
        middle = 0.5 * (near + far)
        outside = _over(square, gaps, middle, 2) > radius**2
        near, far = torch.where(outside, middle, near), torch.where(outside, far, middle)
    return low, torch.where(near_is_enough, 0.0, far)


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
