"""Solve squared loss: one GEMM over Gram matrices and one batched Cholesky for all mixtures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cuvee.components.protocol import Grams
from cuvee.erm import linear_system
from cuvee.erm.ball_constraint import multiplier
from cuvee.numerics.parallel import each

CACHE = 8 * 2**20  # bytes of stacked (P, P) systems that are worked on at a time

Chunk = tuple[slice, slice]
"""A slice of the targets, and a slice of each one's mixtures."""
OwnGrams = Callable[[slice, slice], Grams]
"""Returns the Gram matrices of the own samples in a chunk, (m, q or 1, …)."""


@dataclass(frozen=True)
class Solved:
    """Hold solved models; every field has a row per model."""

    w: Tensor  # (M, Q, P)
    gradient: Tensor  # (M, Q, P), penalty included
    # (M, Q, P) last row of H: with an intercept, Σα times the mixture's mean row, then Σα
    last: Tensor
    scale: Tensor  # (M, Q) what the terms of the gradient add up to before they cancel
    singular: Tensor  # (M, Q) the least-norm one of many solutions


def solve(
    sources: Grams,
    own: OwnGrams,
    alpha: Tensor,
    penalty: Tensor,
    *,
    intercept: bool,
    radius: float | None = None,
    memory: int = CACHE,
    report: Callable[[int], None] = lambda done: None,
) -> Solved:
    """Return the exact minimisers over ‖w‖ ≤ radius for α (M, Q, N or N+1).

    Of many minimisers it is the one of least norm, not counting an intercept.
    """
    result = _room(alpha, sources)

    def work(chunk: Chunk) -> None:
        H, b, r = _system(sources, own, alpha, penalty, chunk)
        x, result.singular[chunk] = linear_system.solve(H, b[..., None], free_last=intercept)
        result.w[chunk] = x[..., 0]
        if radius is not None:
            _into_ball(H, b, result.w[chunk], result.singular[chunk], radius)
        _evaluate(result, chunk, H, b, r)

    chunks = _chunks(alpha, sources, memory)

    def tell(done: int) -> None:
        report(len(alpha) * done // len(chunks))

    each(work, chunks, alpha.device, cost=_cost(alpha, sources), tell=tell)
    return result


def evaluate(
    sources: Grams, own: OwnGrams, alpha: Tensor, penalty: Tensor, w: Tensor, memory: int = CACHE
) -> Solved:
    """Return the same fields for any given w (M, Q, P)."""
    result = _room(alpha, sources)
    result.w.copy_(w)

    def work(chunk: Chunk) -> None:
        _evaluate(result, chunk, *_system(sources, own, alpha, penalty, chunk))

    each(work, _chunks(alpha, sources, memory), alpha.device, cost=_cost(alpha, sources) / 8)
    return result


def hessians(sources: Grams, own: OwnGrams, alpha: Tensor, penalty: Tensor) -> Tensor:
    """Return Σ_j α_j A_j + λ for every mixture, (M, Q, P, P)."""
    return _system(sources, own, alpha, penalty, (slice(len(alpha)), slice(alpha.shape[1])))[0]


def _room(alpha: Tensor, sources: Grams) -> Solved:
    """Return empty tensors for all results, allocated at once.

    Small pieces kept between large ones that come and go would fragment the memory.
    """
    shape, P = alpha.shape[:2], sources.b.shape[-1]
    w, gradient, last = (alpha.new_zeros(*shape, P) for _ in range(3))
    return Solved(
        w,
        gradient,
        last,
        alpha.new_zeros(shape),
        torch.zeros(shape, dtype=torch.bool, device=alpha.device),
    )


def _cost(alpha: Tensor, sources: Grams) -> float:
    """Return roughly the multiplications that all systems take, built and solved."""
    (M, Q), (N, P) = alpha.shape[:2], sources.b.shape
    return M * Q * P**2 * (N + 4 * P)


def _chunks(alpha: Tensor, sources: Grams, memory: int) -> list[Chunk]:
    """Return chunks of mixtures whose systems fit the cache and the memory.

    A chunk holds several targets, or some of one target's mixtures.
    """
    (M, Q), (N, P) = alpha.shape[:2], sources.b.shape
    matrices = 2 if alpha.shape[-1] == N else 3  # with an own sample's beside the mixture's
    models = max(1, min(memory, CACHE) // (8 * P * P * matrices))
    targets, mixtures = max(1, models // max(1, Q)), min(models, max(1, Q))
    return [
        (slice(low, low + targets), slice(first, first + mixtures))
        for low in range(0, M, targets)
        for first in range(0, Q, mixtures)
    ]


def _system(
    sources: Grams, own: OwnGrams, alpha: Tensor, penalty: Tensor, chunk: Chunk
) -> tuple[Tensor, Tensor, Tensor]:
    """Return H = A + λ (m, q, P, P), b (m, q, P) and r (m, q) of a chunk of mixtures."""
    N, P = sources.b.shape
    shares = alpha[chunk]
    a = shares[..., :N]
    H = (a.reshape(-1, N) @ sources.A.view(N, -1)).view(*a.shape[:2], P, P)
    b, r = a @ sources.b, a @ sources.r
    if alpha.shape[-1] > N:
        share, grams = shares[..., N:], own(*chunk)
        H += share[..., None] * grams.A
        b += share * grams.b
        r += share[..., 0] * grams.r
    H.diagonal(dim1=-2, dim2=-1).add_(penalty)
    return H, b, r


def _evaluate(result: Solved, chunk: Chunk, H: Tensor, b: Tensor, r: Tensor) -> None:
    """Fill in gradient, last row of H, and the size of the terms that cancel."""
    w, norm = result.w[chunk], torch.linalg.vector_norm
    result.gradient[chunk] = (H @ w[..., None])[..., 0] - b
    result.last[chunk] = H[..., -1, :]
    # |Σ p x xᵀw| ≤ trace ‖w‖, and |Σ p y x| ≤ √trace √(Σ p y²), r being half of the latter.
    trace = H.diagonal(dim1=-2, dim2=-1).sum(-1)
    result.scale[chunk] = trace * norm(w, dim=-1) + (2 * trace * r).sqrt()


def _into_ball(H: Tensor, b: Tensor, w: Tensor, singular: Tensor, radius: float) -> None:
    """Replace every w (m, Q, P) outside the ball by the minimiser inside it.

    That one is unique even if H is singular.
    """
    finite = H.isfinite().flatten(-2).all(-1) & b.isfinite().all(-1)
    outside = (torch.linalg.vector_norm(w, dim=-1) > radius) & finite
    if not bool(outside.any()):
        return
    H, b = H[outside], b[outside]
    eigenvalues, Q = torch.linalg.eigh(H)  # one decomposition, then every ν is cheap
    coefficients = (Q.transpose(-1, -2) @ b[..., None])[..., 0]
    eigenvalues = eigenvalues.clamp(min=0.0)

    def at(nu: Tensor) -> Tensor:
        return coefficients / (eigenvalues + nu[..., None])

    norm = torch.linalg.vector_norm
    nu = multiplier(
        lambda nu: norm(at(nu), dim=-1), radius, norm(b, dim=-1) / radius, norm(w[outside], dim=-1)
    )
    inside = (Q @ at(nu)[..., None])[..., 0]
    w[outside] = inside * (radius / norm(inside, dim=-1, keepdim=True))
    singular[outside] = False
