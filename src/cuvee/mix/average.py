"""Judge candidates by cross-validation, and average them per metric.

The shares of a metric lie on the simplex and make the cross-validated prediction as accurate as
possible (stacking). Runs of one mixture are always in the same fold: a candidate that has seen a
mixture is not asked about it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cuvee.mix.candidate import DTYPE, Fitted, Method, ShapedRuns
from cuvee.numerics.parallel import each
from cuvee.simplex import project

FEW, FOLDS, FEWER_FOLDS = 160, 10, 5  # up to FEW runs there are more folds
LEAST = 0.1  # share of a candidate: below it counts nothing, and does not disagree
POOLED = 2.0  # how much the other metrics say about the shares of one, relative to its own errors
RIDGE = 0.005  # pulls shares towards equal ones, relative to the candidates' errors
Tell = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Judged:
    """Hold the candidates fitted to all runs, and what they said of runs they had not seen."""

    fitted: tuple[Fitted, ...]
    folds: Tensor  # (n,) the fold of every run
    means: Tensor  # (C, n, K) predictions for runs that were held out
    spreads: Tensor  # (C, n, K)


def folds_of(alpha: Tensor, seed: int) -> Tensor:
    """Return a fold (n,) for every run, the same for equal mixtures."""
    same, inverse = np.unique(alpha.numpy().round(12), axis=0, return_inverse=True)
    n_folds = min(FOLDS if len(same) <= FEW else FEWER_FOLDS, len(same))
    shuffled = np.random.default_rng(seed).permutation(len(same)) % n_folds
    return torch.as_tensor(shuffled[inverse.ravel()])


def judge(methods: Sequence[Method], shaped: ShapedRuns, seed: int, tell: Tell) -> Judged:
    """Return all candidates fitted to all runs, and cross-validated."""
    fitted = tuple(method.fit(shaped, None) for method in methods)
    folds = folds_of(shaped.alpha, seed)

    def held_out(fold: int) -> tuple[Tensor, Tensor]:
        rest, out = shaped[folds != fold], shaped.alpha[folds == fold]
        pairs = [m.fit(rest, whole)(out) for m, whole in zip(methods, fitted, strict=True)]
        means, spreads = zip(*pairs, strict=True)
        return torch.stack(means), torch.stack(spreads)

    parts = each(held_out, range(int(folds.max()) + 1), "cpu", tell=tell)
    means = torch.empty(len(methods), *shaped.y.shape, dtype=DTYPE)
    spreads = torch.empty_like(means)
    for fold, (mean, spread) in enumerate(parts):
        means[:, folds == fold], spreads[:, folds == fold] = mean, spread
    return Judged(fitted, folds, means, spreads)


def shares(judged: Judged, shaped: ShapedRuns) -> Tensor:
    """Return the shares (C, K) of the candidates, on the simplex for every metric.

    Metrics of one swarm mostly follow the same law, so that each listens to the others' errors too.
    """
    errors = judged.means - shaped.y  # (C, n, K)
    weighted = errors * shaped.precision[:, None]
    gram = torch.einsum("cnk,dnk->kcd", weighted, errors) / len(shaped)  # (K, C, C)
    C = len(gram[0])
    # a metric that never changes has no errors, and any shares will do
    gram = gram / gram.diagonal(dim1=1, dim2=2).amin(1).clamp(min=1e-12)[:, None, None]
    gram = gram + POOLED * gram.mean(0) + RIDGE * torch.eye(C, dtype=DTYPE)
    step = 1.0 / torch.linalg.matrix_norm(gram, 2)[:, None]
    share = torch.full((len(gram), C), 1.0 / C, dtype=DTYPE)
    ahead, momentum = share, 1.0
    for _ in range(400):  # accelerated projected gradient: a problem of C numbers per metric
        following = project(ahead - step * (gram @ ahead[..., None])[..., 0])
        faster = (1.0 + (1.0 + 4.0 * momentum**2) ** 0.5) / 2.0
        ahead = following + (momentum - 1.0) / faster * (following - share)
        share, momentum = following, faster
    share = torch.where(share < LEAST, 0.0, share)  # what hardly counts is not computed
    return (share / share.sum(1, keepdim=True)).T.contiguous()


def averaged(share: Tensor, means: Tensor, spreads: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and spread (m, K) of the average of C candidates, (C, m, K) each.

    The spread is that of the mixture of the candidates: their own, and how far they disagree.
    """
    weight = share[:, None]
    mean = (weight * means).sum(0)
    variance = (weight * (spreads.square() + (means - mean).square())).sum(0)
    return mean, variance.clamp(min=1e-16).sqrt()


@dataclass(frozen=True, eq=False)
class Average:
    """Predict by the average of candidates; those with a share of 0 everywhere are left out."""

    fitted: tuple[Fitted, ...]
    share: Tensor  # (C, K)

    def __call__(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean (m, K) and its spread (m, K) for mixtures (m, N)."""
        pairs: list[Any] = [self.fitted[c](alpha) for c in self.used]
        means, spreads = zip(*pairs, strict=True)
        return averaged(self.share[self.used], torch.stack(means), torch.stack(spreads))

    def mean(self, alpha: Tensor) -> Tensor:
        """Return the mean (m, K) alone, which is cheaper."""
        means = torch.stack([self.fitted[c].mean(alpha) for c in self.used])
        return (self.share[self.used][:, None] * means).sum(0)

    def joint(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean (m, K) and the covariance (K, m, m) between mixtures."""
        pairs: list[Any] = [self.fitted[c].joint(alpha) for c in self.used]
        means = torch.stack([mean for mean, _ in pairs])
        share = self.share[self.used]
        mean = (share[:, None] * means).sum(0)
        away = (means - mean).mT  # (C, K, m)
        total = torch.zeros_like(pairs[0][1])
        for c, (_, covariance) in enumerate(pairs):
            apart = away[c][:, :, None] * away[c][:, None, :]
            total += share[c][:, None, None] * (covariance + apart)
        return mean, total

    @property
    def used(self) -> list[int]:
        """Return the candidates that some metric listens to."""
        return [c for c in range(len(self.fitted)) if bool((self.share[c] > 0).any())]
