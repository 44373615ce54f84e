"""Bound the errors of predictions by split-conformal calibration, without a pass over the data.

The bounds are valid for mixtures like those they were calibrated on.

Errors are measured on n solved mixtures that the map has never seen, each divided by the size that
errors have that far from the centre. The k-th smallest ratio bounds the ratio of a new mixture with
a probability that, over the draw of the n, is Beta(k, n + 1 − k); k is the smallest with which that
probability reaches `level` nine times out of ten. A mixture that lies farther out than all of them,
or farther from those learnt from, gets no bound, because it is not like them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from cuvee.numerics.polynomial import chunks

CONFIDENCE = 0.9
CENTRAL = 0.1  # of the farthest distance: nearer than this, errors do not shrink further
STEEPEST = 8.0
LANDMARKS = 128
CUTS = 8  # numbers of mixtures at which the decision of `within` is tested
SHAPE = 0.25  # of the held-out mixtures show how errors grow, the others how large they are
HAIR = 1e-3  # of a distance, which float32 may not resolve


@dataclass(frozen=True)
class Errors:
    """Hold the errors of predictions, or bounds on them: every field (M,)."""

    distance: Tensor  # ‖ŵ − w*‖
    excess: Tensor  # f_α(ŵ) − f_α(w*)
    gradient: Tensor  # ‖∇f_α(ŵ)‖∞


@dataclass(frozen=True)
class Shape:
    """Describe how mixtures lie around their mean, and how errors grow with distance from it."""

    mean: Tensor  # (N,)
    whiten: Tensor  # (N, N)
    farthest: float  # from the mean, whitened, of those seen
    power: float
    landmarks: Tensor  # (k, N) some of them

    @classmethod
    def of(cls, alpha: Tensor, held_out: Tensor, error: Tensor) -> Shape:
        """Return the shape of mixtures α (n, N), with errors (k,) on mixtures held out (k, N)."""
        mean = alpha.mean(0)
        values, vectors = torch.linalg.eigh(
            (alpha - mean).T @ (alpha - mean) / max(len(alpha) - 1, 1)
        )
        # directions in which the mixtures do not vary, such as (1, …, 1)
        flat = values <= 1e-9 * values[-1].clamp(min=1e-30)
        # A small step in such a direction already counts as far out.
        whiten = vectors * torch.where(flat, 1e-4 * values[-1].clamp(min=1e-30), values).rsqrt()
        whiten = whiten.contiguous()  # the memory layout that a file restores
        shape = cls(mean, whiten, 0.0, 0.0, alpha[:LANDMARKS])
        shape = replace(shape, farthest=float(shape.away(alpha).max()))
        x, y = shape._not_central(held_out).log(), error.clamp(min=1e-300).log()
        usable = y.isfinite()
        x, y = x[usable] - x[usable].mean(), y[usable] - y[usable].mean()
        power = float((x * y).sum() / x.square().sum().clamp(min=1e-12)) if len(x) > 1 else 0.0
        return replace(shape, power=min(max(power, 0.0), STEEPEST))

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

    def size(self, alpha: Tensor) -> Tensor:
        """Return how large errors are expected to be (M,), up to a constant factor."""
        return self._not_central(alpha) ** self.power

    def _not_central(self, alpha: Tensor) -> Tensor:
        return self.away(alpha).clamp(min=CENTRAL * self.farthest + 1e-30)


@dataclass(frozen=True)
class Calibration:
    """Hold bounds on all three errors, each of which holds for a share `level` of mixtures."""

    alpha: Tensor  # (k, N) the mixtures this rests on
    sizes: Tensor  # (n,) expected sizes of their errors, without those that `Shape` was made from
    gradients: Tensor  # (n,) and the ‖∇‖∞ measured
    mean: Tensor  # the fields of a `Shape`
    whiten: Tensor
    farthest: float
    power: float
    landmarks: Tensor
    outermost: float  # no mixture, calibrated on or learnt from, was farther out
    reach: float  # nor was one calibrated on farther from all landmarks
    distance: float
    excess: float
    gradient: float
    level: float
    n: int

    @property
    def shape(self) -> Shape:
        return Shape(self.mean, self.whiten, self.farthest, self.power, self.landmarks)

    def bounds(self, alpha: Tensor) -> Errors:
        """Return bounds for mixtures (M, N).

        A mixture farther out than those seen, or too far from all of them, gets an infinite bound.
        """
        shape = self.shape
        like = (shape.away(alpha) <= self.outermost * (1 + HAIR)) & (
            shape.alone(alpha) <= self.reach + HAIR
        )
        size = shape.size(alpha)
        grown = (self.distance * size, self.excess * size.square(), self.gradient * size)
        return Errors(*(torch.where(like, bound, torch.inf) for bound in grown))

    def within(self, alpha: Tensor, gradient: Tensor, tol: float) -> Tensor:
        """Return which mixtures (M,), with bounds `gradient` (M,), count as within `tol`.

        A bound that holds for 95 % of all mixtures may fail more often for those it makes look
        good. So the decision is tested too: outwards from the centre, as long as 95 % of the
        held-out mixtures that would be accepted are within the tolerance.
        """
        most = tol / max(self.gradient, 1e-300)
        sizes, order = self.sizes.sort()
        wrong = (self.gradients[order] > tol).cumsum(0)
        accepted, trusted = int((sizes <= most).sum()), -1.0
        for count in np.unique(
            np.linspace(least_mixtures(self.level), max(accepted, 1), CUTS).astype(int)
        ):
            if count > accepted:
                break
            cut = most if count == accepted else float(sizes[count - 1])
            k = int((sizes <= cut).sum())
            if k - int(wrong[k - 1]) < rank(k, self.level):
                break
            trusted = cut
        return (gradient <= tol) & (self.shape.size(alpha) <= trusted)

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
            "mixtures like those "
            f"({CONFIDENCE:.0%} confidence), nothing is said of others"
        )


def calibrate(shape: Shape, alpha: Tensor, measured: Errors, level: float) -> Calibration:
    """Return the calibration by the errors on solved mixtures (n, N).

    Neither the map nor `shape` has seen these mixtures.
    """
    size, k = shape.size(alpha), rank(len(alpha), level)
    grown = ((measured.distance, size), (measured.excess, size.square()), (measured.gradient, size))
    distance, excess, gradient = (_smallest(error / expected, k) for error, expected in grown)
    return Calibration(
        alpha=alpha,
        sizes=size,
        gradients=measured.gradient,
        **vars(shape),
        outermost=max([shape.farthest, *shape.away(alpha).tolist()]),
        reach=float(shape.alone(alpha).max()) if len(alpha) else 0.0,
        distance=distance,
        excess=excess,
        gradient=gradient,
        level=level,
        n=len(alpha),
    )


def uncalibrated(alpha: Tensor, level: float) -> Calibration:
    """Return the calibration that bounds nothing, for a map learnt from mixtures α (n, N)."""
    empty = alpha[:0, 0]
    return calibrate(
        Shape.of(alpha, alpha[:0], empty), alpha[:0], Errors(empty, empty, empty), level
    )


def calibrated(learnt: Tensor, held_out: Tensor, errors: Errors, level: float) -> Calibration:
    """Return the calibration of a map learnt from α (n, N) by its errors on others (k, N).

    The first quarter of the others shows how errors grow; the rest bounds them.
    """
    n_shape = round(SHAPE * len(held_out))
    first = held_out[:n_shape]
    shape = Shape.of(torch.cat([learnt, first]), first, errors.gradient[:n_shape])
    bounding = Errors(*(error[n_shape:] for error in vars(errors).values()))
    return replace(calibrate(shape, held_out[n_shape:], bounding, level), alpha=held_out)


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


def _smallest(ratios: Tensor, k: int) -> float:
    """Return the k-th smallest ratio; NaN counts as infinite."""
    if k > len(ratios):
        return float("inf")
    return float(ratios.nan_to_num(torch.inf, torch.inf).kthvalue(k).values)
