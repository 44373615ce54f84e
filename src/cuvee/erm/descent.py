"""Run Algorithm 3, co-component ERM by projected gradient descent, for every hypothesis.

    GD(v, α, K):  v ← P_W(v − γ Σ_j α_j ∇f_j(v)),  γ = 1/L_f,  K times

All M mixtures descend together. λ/2‖w‖² belongs to the risk, so its gradient belongs to the step.
This is the reference that faster solvers are compared with. Algorithm 3 itself uses the gradients
of plain components; the labels of Algorithms 2 and 4 use those of an oracle, which take less time
and memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from cuvee.components import ALL, Components
from cuvee.hypothesis.base import Space

POWER_STEPS = 30
SAFETY = 1.1  # power iteration approaches L_f from below
CHECK = 50

Gradient = Callable[[Tensor, Tensor], Tensor]
"""α (M, N or N+1), v (M, P) -> Σ_j α_j ∇f_j(v) + λv, (M, P): `Oracle.gradient`, or `gradient` of
components.
"""


def gd(
    gradient: Gradient,
    space: Space,
    v: Tensor,
    alpha: Tensor,
    K: int,
    gamma: Tensor,
    tol: float = 0.0,
) -> tuple[Tensor, int]:
    """Return v (M, P) after K steps for α (M, N or N+1) with rates γ (M,), and the number of steps.

    There are fewer than K steps when no step is longer than γ·tol any more. Where a convex risk
    declares no upper limit of its curvature, no γ is safe: a step that goes too far is undone, and
    γ is halved.
    """
    guarded = space.convex and space.steepening is None
    rate, at_v = gamma[:, None].to(v), gradient(alpha, v) if K else v
    for k in range(1, K + 1):
        new = space.project(v - rate * at_v)
        at_new = gradient(alpha, new) if k < K or guarded else at_v
        moved = (new - v).abs() / rate
        if guarded:
            # A convex risk that still falls, or rests, at the end of a step has fallen all along
            # it.
            far = ~((at_new * (new - v)).sum(-1, keepdim=True) <= 0)
            new, at_new = torch.where(far, v, new), torch.where(far, at_v, at_new)
            rate, moved = torch.where(far, 0.5 * rate, rate), torch.where(far, torch.inf, moved)
        at_v = at_new
        v = new
        if k % CHECK == 0 and bool((moved <= tol).all()):
            return v, k
    return v, K


def gradient(components: Components, alpha: Tensor, v: Tensor) -> Tensor:
    """Return Σ_j α_j ∇f_j(v) + λv, (M, P), from the components of any hypothesis.

    This is the slow, plain way.
    """
    space = components.space
    _, pullback = components.losses(v[:, None], ALL)
    return pullback(alpha[:, None].to(v))[:, 0] + space.l2 * space.penalised.to(v) * v


def smoothness(gradient: Gradient, space: Space, v: Tensor, alpha: Tensor, seed: int = 0) -> Tensor:
    """Return L_f (M,), the largest curvature of each mixture at v, by power iteration.

    The iteration runs on differences of gradients. For ridge L_f is the same everywhere, for
    logistic it is largest at v = 0; for a network it is the one at v.
    """
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(v.shape, generator=generator, dtype=torch.float64).to(v)
    at_v = gradient(alpha, v)
    step = torch.finfo(v.dtype).eps ** (1 / 3)
    L = v.new_zeros(len(v))
    for _ in range(POWER_STEPS):
        u = u / torch.linalg.vector_norm(u, dim=-1, keepdim=True).clamp(min=1e-30)
        u = (gradient(alpha, v + step * u) - at_v) / step
        L = torch.maximum(L, torch.linalg.vector_norm(u, dim=-1))
    return (SAFETY * (space.steepening or 1.0) * L).clamp(min=torch.finfo(v.dtype).tiny ** 0.5)


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
    """Return w (M, P) after at most `steps` steps, and how many each model took (M,).

    Models start from 0, and networks from their initialisation.
    """
    space, M = components.space, len(alpha)
    start = (
        torch.zeros(1, space.n_params, dtype=space.dtype) if space.convex else space.start(1, seed)
    )
    w = start.to(alpha.device).expand(M, -1).clone()
    steps_taken = torch.zeros(M, dtype=torch.int64, device=alpha.device)
    gathered = 0 if space.quadratic else components.n_rows + components.own_rows * space.n_params
    size = max(1, memory // (32 * (gathered + (len(components.counts) + 2) * space.n_params)))
    for low in range(0, M, size):
        chunk = slice(low, low + size)
        part = (
            components if size >= M else components.narrow(torch.arange(M, device=w.device)[chunk])
        )
        plain = partial(gradient, part)
        gamma = 1.0 / smoothness(plain, space, w[chunk], alpha[chunk])
        w[chunk], steps_taken[chunk] = gd(plain, space, w[chunk], alpha[chunk], steps, gamma, tol)
        progress(min(low + size, M), M)
    return w, steps_taken
