"""Algorithm 3, co-component ERM by projected gradient descent: the reference, for every hypothesis.

    GD(v, α, K):  v ← P_W(v − γ Σ_j α_j ∇f_j(v)),  γ = 1/L_f,  K times

All M mixtures descend together. λ/2‖w‖² belongs to the risk, so its gradient belongs to the step.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from cuvee.components import ALL, Components

POWER_STEPS = 30
SAFETY = 1.1  # power iteration approaches L_f from below
CHECK = 50


def gd(components: Components, v: Tensor, alpha: Tensor, K: int, gamma: Tensor, tol: float = 0.0) -> tuple[Tensor, int]:
    """Return where K steps from v (M, P) lead for α (M, N or N+1), γ (M,), and how many were taken.

    There are fewer where no step is longer than γ·tol any more. A curvature without limit makes no γ safe: then one
    that raises the risk is halved, and the step is taken again.
    """
    space, rate = components.space, gamma[:, None].to(v)
    for k in range(1, K + 1):
        new = space.project(v - rate * gradient(components, v, alpha))
        if space.steepening is None:
            worse = ~(risk(components, new, alpha) <= risk(components, v, alpha))[:, None]
            new, rate = torch.where(worse, v, new), torch.where(worse, 0.5 * rate, rate)
            moved = torch.where(worse, torch.inf, (new - v).abs() / rate)
        else:
            moved = (new - v).abs() / rate
        v = new
        if k % CHECK == 0 and bool((moved <= tol).all()):
            return v, k
    return v, K


def gradient(components: Components, v: Tensor, alpha: Tensor) -> Tensor:
    """Σ_j α_j ∇f_j(v) + λv, (M, P)."""
    space = components.space
    _, pullback = components.losses(v[:, None], ALL)
    return pullback(alpha[:, None].to(v))[:, 0] + space.l2 * space.penalised.to(v) * v


def risk(components: Components, v: Tensor, alpha: Tensor) -> Tensor:
    """Return Σ_j α_j f_j(v) + λ/2‖v‖², (M,)."""
    space = components.space
    losses = components.values(v[:, None], ALL)[:, 0]
    return (alpha.to(v) * losses).sum(-1) + 0.5 * space.l2 * (space.penalised.to(v) * v.square()).sum(-1)


def smoothness(components: Components, v: Tensor, alpha: Tensor, seed: int = 0) -> Tensor:
    """L_f (M,): the largest curvature of each mixture at v, by power iteration on differences of gradients.

    For ridge it is the same everywhere, for logistic v = 0 tells the largest; for a network it is the one at v.
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
    return (SAFETY * (components.space.steepening or 1.0) * L).clamp(min=torch.finfo(v.dtype).tiny ** 0.5)


def solve(
    components: Components,
    alpha: Tensor,
    *,
    steps: int,
    tol: float,
    memory: int,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Tensor, Tensor]:
    """w (M, P) after at most `steps` steps from 0, or for a network from its initialisation; and the steps (M,)."""
    space, M = components.space, len(alpha)
    start = torch.zeros(1, space.n_params, dtype=space.dtype) if space.convex else space.start(1, seed)
    w = start.to(alpha.device).expand(M, -1).clone()
    taken = torch.zeros(M, dtype=torch.int64, device=alpha.device)
    gathered = 0 if space.quadratic else components.n_rows + components.own_rows * space.n_params
    size = max(1, memory // (32 * (gathered + (len(components.counts) + 2) * space.n_params)))
    for low in range(0, M, size):
        some = slice(low, low + size)
        part = components if size >= M else components.narrow(torch.arange(M, device=w.device)[some])
        gamma = 1.0 / smoothness(part, w[some], alpha[some])
        w[some], taken[some] = gd(part, w[some], alpha[some], steps, gamma, tol)
        progress(min(low + size, M), M)
    return w, taken
