"""Algorithm 3, co-component ERM by projected gradient descent: the reference, for every hypothesis.

    GD(v, α, K):  v ← P_W(v − γ Σ_j α_j ∇f_j(v)),  γ = 1/L_f,  K times

All M mixtures descend together. λ/2‖w‖² belongs to the risk, so its gradient belongs to the step.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cuvee.components import LocalComponents

POWER_STEPS = 30
SAFETY = 1.1  # power iteration approaches L_f from below
CHECK = 50


def gd(components: LocalComponents, v: Tensor, alpha: Tensor, K: int, gamma: Tensor, tol: float = 0.0) -> Tensor:
    """K steps from v (M, P) for α (M, N or N+1), γ (M,); fewer when no step is longer than γ·tol any more."""
    space, rate = components.space, gamma[:, None].to(v)
    for k in range(K):
        new = space.project(v - rate * gradient(components, v, alpha))
        moved = (new - v).abs() / rate
        v = new
        if k % CHECK == 0 and bool((moved <= tol).all()):
            break
    return v


def gradient(components: LocalComponents, v: Tensor, alpha: Tensor) -> Tensor:
    """Σ_j α_j ∇f_j(v) + λv, (M, P)."""
    space, rows = components.space, components.everything
    _, pullback = components.losses(v[:, None], rows)
    return pullback(alpha[:, None].to(v))[:, 0] + space.l2 * space.penalised.to(v) * v


def smoothness(components: LocalComponents, v: Tensor, alpha: Tensor, seed: int = 0) -> Tensor:
    """L_f (M,): the largest curvature of each mixture at v, by power iteration on differences of gradients.

    For ridge it is the same everywhere, for logistic it is largest at v = 0; for a network it is the one at v.
    """
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(v.shape, generator=generator, dtype=torch.float64).to(v)
    at_v = gradient(components, v, alpha)
    step = torch.finfo(v.dtype).eps ** (1 / 3)
    L = v.new_zeros(len(v))
    for _ in range(POWER_STEPS):
        u = u / torch.linalg.vector_norm(u, dim=-1, keepdim=True).clamp(min=1e-30)
        u = (gradient(components, v + step * u, alpha) - at_v) / step
        L = torch.maximum(L, torch.linalg.vector_norm(u, dim=-1))
    return (SAFETY * L).clamp(min=torch.finfo(v.dtype).tiny ** 0.5)


def solve(components: LocalComponents, alpha: Tensor, *, steps: int, tol: float, seed: int = 0) -> Tensor:
    """w (M, P) after at most `steps` steps: from 0, or for a network from its initialisation."""
    space = components.space
    start = torch.zeros(1, space.n_params, dtype=space.dtype) if space.convex else space.start(1, seed)
    v = start.to(alpha.device).expand(len(alpha), -1)
    if len(alpha) == 0:
        return v
    return gd(components, v, alpha, steps, 1.0 / smoothness(components, v, alpha), tol)
