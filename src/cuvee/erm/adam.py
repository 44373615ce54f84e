"""Networks: M·Q copies trained together by Adam on shared minibatches of the sources."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from cuvee.components import Batch, Components

STEPS = 300
BATCH = 16
RATE = 3e-3
BETA_1, BETA_2 = 0.9, 0.999


def solve(components: Components, batch: Batch, alpha: Tensor, *, seed: int = 0, steps: int = STEPS) -> Tensor:
    """α (M, Q, N+1) -> w (M, Q, P) after `steps` minibatches of BATCH rows per source and all own rows.

    Every copy starts from the same initialisation and sees the same minibatches, so that copies differ by their
    mixtures alone. The rate falls to 0 along a cosine; the last quarter of the iterates is averaged.
    """
    space = components.space
    w = space.start(1, seed).to(alpha.device).expand(*alpha.shape[:-1], -1).contiguous()
    penalty = space.l2 * space.penalised.to(w)
    alpha = alpha.to(w)
    first, second = torch.zeros_like(w), torch.zeros_like(w)
    mean, averaged = torch.zeros_like(w), 0
    for t in range(1, steps + 1):
        _, pullback = components.losses(w, replace(batch, step=t, size=BATCH, own_whole=True))
        gradient = pullback(alpha) + penalty * w
        first.mul_(BETA_1).add_(gradient, alpha=1 - BETA_1)
        second.mul_(BETA_2).addcmul_(gradient, gradient, value=1 - BETA_2)
        rate = RATE * 0.5 * (1 + torch.cos(torch.tensor(torch.pi * t / steps)).item())
        size = rate / (1 - BETA_1**t)
        w = w - size * first / ((second / (1 - BETA_2**t)).sqrt() + 1e-8)
        if t > steps * 3 // 4:
            mean, averaged = mean + w, averaged + 1
    return mean / averaged
