"""Ridge regression: a linear score and the squared loss ½(y − ŷ)²."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from math import log2, sqrt
from typing import Self

import numpy as np
import torch
from torch import Tensor

from cuvee.facts import Array, Facts
from cuvee.hypothesis.base import LossKind, TableModel
from cuvee.hypothesis.labels import check_numeric
from cuvee.hypothesis.linear import LinearHypothesis, LinearSpace, finite_radius

EXTREME = 1e100  # labels beyond it, or below its inverse, are squared in a unit of their own
STANDARD_RADIUS = 2.0
"""W when the user names none: ‖w‖ ≤ 2 on unit-variance columns and labels; R² = 1 needs no more
than 1 on uncorrelated columns.
"""


@dataclass(frozen=True)
class Ridge(LinearHypothesis):
    """Linear regression with λ/2‖w‖², the intercept not penalised.

    `radius` makes W, in which the adversary of `cuvee.estimate` lives, a ball in the coordinates of
    X.

    One mixture's risk is Σ_j α_j · mean ½(y − ŷ)² + l2/2 ‖w‖², which is scikit-learn's
    `Ridge(alpha=l2)` with `sample_weight = α_j/m_j`.
    """

    def bind(self, facts: Facts, *, standardised: bool = False) -> RidgeSpace:
        return RidgeSpace(facts, self, standardised)


def saturated(loss: Tensor, most: float) -> Tensor:
    """Return ℓ/(1 + ℓ/most): ℓ itself near 0, never above `most`."""
    loss = loss.clamp(max=torch.finfo(loss.dtype).max ** 0.5)  # beyond it only inf/inf lies
    return loss / (1.0 + loss / most)


class RidgeSpace(LinearSpace):
    """`Ridge` on a problem.

    When standardised, labels too have mean 0 and variance 1 over the sources.
    """

    quadratic = True
    steepening = 1.0

    def __init__(self, facts: Facts, spec: Ridge, standardised: bool) -> None:
        self.loss_words = MODEL.losses
        super().__init__(
            facts,
            n_outputs=1,
            l2=spec.l2,
            intercept=spec.intercept,
            radius=STANDARD_RADIUS if standardised and spec.radius is None else spec.radius,
            standardised=standardised,
        )
        check_numeric(facts)
        mean, self.label_scale = facts.quantity()
        self._unit = self.label_scale if standardised else 1.0
        # without intercept none could restore it
        self._shift = mean if standardised and spec.intercept else 0.0

    def at_any_scale(self) -> tuple[Self, float]:
        """Return this space with labels in a unit whose squares float64 holds, and that unit.

        It is 1 for all labels but tiny and huge ones. Models found there are in that unit too.
        """
        if 1.0 / EXTREME < self.label_scale < EXTREME:
            return self, 1.0
        unit = 2.0 ** round(log2(self.label_scale))  # exact, so that no label is rounded
        return self._in_units(unit, 0.0), unit

    def in_coordinates(
        self, n_features: int, started: int, centred_at: Tensor | None = None
    ) -> Self:
        other = super().in_coordinates(n_features, started, centred_at)
        # where rows were taken from a reference, labels were encoded and taken from one too
        return other if centred_at is None else other._in_units(1.0, 0.0, other._unit)

    def _in_units(self, unit: float, shift: float, before: float = 1.0) -> Self:
        other = copy(self)
        other._unit, other._shift = unit, shift
        other.label_scale = self.label_scale / before
        other.radius = None if self.radius is None else self.radius / unit
        return other

    def encode(self, y: Array, name: str) -> Array:
        return (y.astype(np.float64) - self._shift) / self._unit

    def trained(self, scores: Tensor, y: Tensor) -> Tensor:
        return 0.5 * (scores.squeeze(-2) - y).square()

    def bounded(self, scores: Tensor, y: Tensor) -> Tensor:
        """Return ½r²/(1 + r²/s²): the squared loss near 0, never above s²/2.

        s is the labels' standard deviation.
        """
        return saturated(self.trained(scores, y), 0.5 * (self.label_scale / self._unit) ** 2)

    def compared(self, scores: Tensor, y: Tensor) -> Tensor:
        return 0.5 * ((scores.squeeze(-2) - y) * (self._unit / self.label_scale)).square()

    def score_bounds(
        self, loss: LossKind, length: Tensor, y: Tensor, radius: float | None
    ) -> tuple[Tensor, float, Tensor]:
        if loss == "bounded":  # ½r²/(1 + r²/s²) is steepest at r = s/√3
            s = self.label_scale / self._unit
            return (
                torch.full_like(length, 9 / (16 * sqrt(3.0)) * s),
                1.0,
                torch.full_like(length, 0.5 * s**2),
            )
        residual = length * finite_radius(radius) + y.abs()
        return residual, 1.0, 0.5 * residual.square()

    def curvature_range(self, reach: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return torch.ones_like(reach), torch.ones_like(reach)

    def decide(self, scores: Tensor) -> Array:
        return np.asarray(scores.squeeze(-2) * self._unit + self._shift)


MODEL = TableModel(
    "ridge",
    Ridge,
    "regression",
    "ridge regression",
    {
        "trained": "half the squared error, in units of the labels' variance",
        "bounded": "the squared error, bent so that it stays below half the labels' variance",
    },
)
