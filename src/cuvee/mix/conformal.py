"""Calibrate intervals by cross-conformal residuals, normalised by the predicted spread.

A run that was held out has a score |y − mean| / √(spread² + noise²), with mean and spread from the
folds that did not see it. The interval of a new run is mean ± q·√(spread² + noise²) with q the
quantile of these scores: it is meant for a *new noisy run*. That of the mean over many such runs is
mean ± q·spread.

With no more runs than domains both hold less often than they say: folds see too little of how much
candidates are off, and what is taken for noise is mostly their error. They are then widened by the
factors below, which hold 90 % on average over log-linear, sparse and saturating swarms of 12 to 30
runs and 17 or 40 domains (seeds 100 to 109; the coverage in docs/mix.md is of other seeds).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

from cuvee.mix.candidate import ShapedRuns

LEAST_NOISE = 0.25  # of the mean squared residual: a spread alone never explains all


WIDER_RUN, WIDER_MEAN = 1.2, 1.75  # intervals of a run and of the mean, with n ≤ N runs


@dataclass(frozen=True, eq=False)
class Calibration:
    """Hold what turns a spread into an interval, per metric."""

    noise: Tensor  # (K,) standard deviation of a run around its mean
    quantile: Tensor  # (K,) q
    correlation: Tensor  # (K, K) of held-out residuals between metrics


def calibrate(shaped: ShapedRuns, mean: Tensor, spread: Tensor, level: float) -> Calibration:
    """Return the calibration from held-out means and spreads (n, K)."""
    residual = shaped.y - mean
    weight = shaped.precision[:, None]
    squares = residual.square()
    noise = ((squares - spread.square()) * weight).mean(0)
    noise = torch.maximum(noise, LEAST_NOISE * (squares * weight).mean(0)).clamp(min=1e-12).sqrt()
    score = residual.abs() / (spread.square() + noise.square() / weight).sqrt()
    standard = residual / residual.square().mean(0).clamp(min=1e-24).sqrt()
    correlation = standard.T @ standard / len(shaped)
    return Calibration(noise, quantile(score, level), correlation)


def quantile(score: Tensor, level: float) -> Tensor:
    """Return the conformal quantile (K,) of scores (n, K): rank ⌈(n + 1)·level⌉, at most n."""
    n = len(score)
    rank = min(ceil((n + 1) * level), n)
    return score.sort(0).values[rank - 1]


def enough(n: int, level: float) -> bool:
    """Return whether n runs are enough for intervals of this level to be honest."""
    return ceil((n + 1) * level) <= n
