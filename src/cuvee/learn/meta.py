"""One initialisation that is K gradient steps from every mixture: meta-learning, named by the paper as future work.

    w_0 ← w_0 − (1/n) Σ_i (GD(w_0, α_i, K) − w*(α_i))

is the first-order step on (1/n) Σ_i ½‖GD(w_0, α_i, K) − w*(α_i)‖²: it leaves out how GD moves with w_0, which for
strongly convex risks only shortens the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cuvee.learn.base import Labels

ROUNDS = 20

Descend = Callable[[Tensor, Tensor], Tensor]  # v (M, P), α (M, N) -> GD(v, α, K)


@dataclass(frozen=True)
class Initialisation:
    """Where every descent starts; `passes` are its K steps."""

    w: Tensor  # (P,)
    passes: int


def fit(labels: Labels, descend: Descend, passes: int, rounds: int = ROUNDS) -> Initialisation:
    """From the mean of the labels; the best of the rounds is kept."""
    w, best, least = labels.w.mean(0), labels.w.mean(0), float("inf")
    for _ in range(rounds):
        away = descend(w.expand_as(labels.w), labels.alpha) - labels.w
        error = float(away.square().sum(-1).mean())
        if error < least:
            best, least = w, error
        if not torch.isfinite(away).all() or error > 10.0 * least:
            break
        w = w - away.mean(0)
    return Initialisation(best, passes)
