"""Bound the errors of predictions by split-conformal calibration, without a pass over the data.

Errors are measured on solved mixtures that the map has never seen. A new mixture is bounded by the
errors of those most like it, in two ways: in how evenly they weigh the sources, and in how many
sources they weigh at all. Of W such mixtures the k-th smallest error bounds the error of another
one like them with a probability that, over the draw of the W, is Beta(k, W + 1 − k); k is the
smallest with which that probability reaches `level` nine times out of ten. The larger of the two
bounds is given, so that it holds for both.

A mixture that lies outside of all of them, or farther from those learnt from, gets no bound:
nothing like it was seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
import torch
from torch import Tensor

from cuvee.numerics.polynomial import chunks

CONFIDENCE = 0.9
ALIKE = 64  # mixtures that bound a new one, at least
SPARE = 1.4  # times the least number that can bound anything: then not all rests on the largest
SHARE = 8  # one in so many bounds a new mixture, where that is more
MOST = 1_024  # mixtures that bound a new one, and groups of them
WEIGHED = 1e-3  # of an equal share: a source with less is not counted as weighed
LANDMARKS = 128
HAIR = 1e-3  # relative: neither float32 nor labels resolve less
DIGITS = 9  # of a place: sums over sources round otherwise in another batch


@dataclass(frozen=True)
class Errors:
    """Hold the errors of predictions, or bounds on them: every field (M,)."""

    distance: Tensor  # ‖ŵ − w*‖
    excess: Tensor  # f_α(ŵ) − f_α(w*)
    gradient: Tensor  # ‖∇f_α(ŵ)‖∞


@dataclass(frozen=True)
class Shape:
    """Describe how mixtures lie around their mean."""

    mean: Tensor  # (N,)
    whiten: Tensor  # (N, N)
    landmarks: Tensor  # (k, N) some of them

    @classmethod
    def of(cls, alpha: Tensor) -> Shape:
        """Return the shape of mixtures α (n, N)."""
        mean = alpha.mean(0)
        values, vectors = torch.linalg.eigh(
            (alpha - mean).T @ (alpha - mean) / max(len(alpha) - 1, 1)
        )
        # directions in which the mixtures do not vary, such as (1, …, 1)
        flat = values <= 1e-9 * values[-1].clamp(min=1e-30)
        # A small step in such a direction already counts as far out.
        whiten = vectors * torch.where(flat, 1e-4 * values[-1].clamp(min=1e-30), values).rsqrt()
        # contiguous: the memory layout that a file restores
        return cls(mean, whiten.contiguous(), alpha[:LANDMARKS])

    def away(self, alpha: Tensor) -> Tensor:
        """Return how far mixtures are from the mean (M,), whitened."""
        return torch.linalg.vector_norm((alpha - self.mean) @ self.whiten, dim=-1)

    def alone(self, alpha: Tensor) -> Tensor:
        """Return how far mixtures are from the nearest landmark (M,), in plain α.

        Whitening is left out, because it closes gaps between groups.
        """
        near = self.landmarks.float().T
        square, nearest = near.square().sum(0), torch.empty_like(alpha[:, 0])
        for chunk in chunks(len(alpha), near.shape[1]):
            a = alpha[chunk].float()
            nearest[chunk] = torch.addmm(square, a, near, alpha=-2.0).amin(1) + a.square().sum(1)
        return nearest.clamp(min=0.0).sqrt()


@dataclass(frozen=True)
class Calibration:
    """Hold bounds on all three errors, each of which holds for a share `level` of mixtures."""

    alpha: Tensor  # (n, N) the mixtures this rests on
    mean: Tensor  # the fields of a `Shape`
    whiten: Tensor
    landmarks: Tensor
    span: Tensor  # (2, 2) first and last place, in each order of `places`, of those mixtures
    ends: Tensor  # (2, G − 1) where each of G groups of W neighbours gives way to the next
    largest: Tensor  # (2, G, 3) bounds on the errors of each group
    outermost: float  # no mixture, calibrated on or learnt from, was farther out
    reach: float  # nor was one calibrated on farther from all landmarks
    level: float
    n: int

    @property
    def shape(self) -> Shape:
        return Shape(self.mean, self.whiten, self.landmarks)

    def bounds(self, alpha: Tensor) -> Errors:
        """Return bounds for mixtures (M, N).

        A mixture unlike those seen gets an infinite bound.
        """
        shape = self.shape
        seen = (shape.away(alpha) <= self.outermost * (1 + HAIR)) & (
            shape.alone(alpha) <= self.reach + HAIR
        )
        bound = alpha.new_zeros(len(alpha), 3)
        orders = zip(places(alpha), self.span, self.ends, self.largest, strict=True)
        for place, (first, last), ends, largest in orders:
            seen &= (place >= first - HAIR) & (place <= last + HAIR)
            bound = torch.maximum(bound, largest[torch.searchsorted(ends, place)])
        return Errors(*torch.where(seen[:, None], bound, torch.inf).unbind(1))

    @property
    def sentence(self) -> str:
        least = least_mixtures(self.level)
        if self.n < least:
            return (
                f"not calibrated: {self.n} held-out mixtures are too few, a bound at "
                f"{self.level:.0%} needs at least {least}"
            )
        return (
            f"calibrated on {self.n} held-out mixtures: each bound holds for {self.level:.0%} of "
            f"mixtures like the {alike(self.n, self.level)} of them that are most alike in how "
            f"evenly, and how many, sources they weigh ({CONFIDENCE:.0%} confidence); nothing is "
            "said of others"
        )


def places(alpha: Tensor) -> Tensor:
    """Return where mixtures (M, N) lie among others, in two orders: (2, M).

    The first is the log of the effective number of sources, 1/Σα². The second is the number of
    sources that are weighed, and among equal numbers how evenly they are.
    """
    square = alpha.square().sum(1)
    weighed = (alpha > WEIGHED / alpha.shape[1]).sum(1)
    return torch.stack([-square.log(), weighed - 0.5 * square]).round(decimals=DIGITS)


def calibrated(learnt: Tensor, held_out: Tensor, errors: Errors, level: float) -> Calibration:
    """Return the calibration of a map learnt from α (m, N) by its errors on others (n, N)."""
    shape, n = Shape.of(learnt), len(held_out)
    place, order = places(held_out).sort(dim=1, stable=True)
    if n < least_mixtures(level):
        span, ends = place.new_zeros(2, 2), place.new_zeros(2, 0)
        largest = place.new_full((2, 1, 3), torch.inf)
    else:
        measured = torch.stack(list(vars(errors).values()), 1).nan_to_num(torch.inf, torch.inf)
        W = alike(n, level)
        step = ceil((n - W + 1) / MOST)
        groups = measured[order].unfold(1, W, step)  # (2, G, 3, W)
        # Errors are measured from labels, which are solved within a tolerance: hence the hair.
        largest = groups.kthvalue(rank(W, level), dim=-1).values * (1 + HAIR)
        reaches = place.unfold(1, W, step)[..., [0, -1]]
        # Those that join are then as near as those that leave.
        ends = (reaches[:, :-1, 0] + reaches[:, 1:, 1]) / 2
        span = place[:, [0, -1]]
    return Calibration(
        alpha=held_out,
        **vars(shape),
        span=span,
        ends=ends.contiguous(),
        largest=largest,
        outermost=float(shape.away(torch.cat([learnt, held_out])).max()),
        reach=float(shape.alone(held_out).max()) if n else 0.0,
        level=level,
        n=n,
    )


def uncalibrated(alpha: Tensor, level: float) -> Calibration:
    """Return the calibration that bounds nothing, for a map learnt from mixtures α (n, N)."""
    empty = alpha[:0, 0]
    return calibrated(alpha, alpha[:0], Errors(empty, empty, empty), level)


def alike(n: int, level: float) -> int:
    """Return how many of n mixtures, those most like a new one, bound its error."""
    return min(n, max(ALIKE, ceil(SPARE * least_mixtures(level)), min(n // SHARE, MOST)))


def rank(n: int, level: float) -> int:
    """Return the smallest k whose order statistic covers `level` with CONFIDENCE, or n + 1.

    It is n + 1 where none of the n does.
    """
    from scipy.stats import beta  # imported late, so that `import cuvee` needs only numpy and torch

    k = np.arange(1, n + 1)
    enough = beta.sf(level, k, n + 1 - k) >= CONFIDENCE
    return int(k[enough][0]) if enough.any() else n + 1


def least_mixtures(level: float) -> int:
    """Return how many mixtures a calibration at `level` needs at least.

    With fewer, not even the largest error is a bound at that level.
    """
    return int(np.ceil(np.log(1.0 - CONFIDENCE) / np.log(level)))
