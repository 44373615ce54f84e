"""Poisson regression: counts such as visits, sales and claims, with a log link."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cuvee.errors import DomainError
from cuvee.facts import Array, Facts
from cuvee.hypothesis.base import LossKind, TableModel
from cuvee.hypothesis.generalised import GeneralisedSpace
from cuvee.hypothesis.labels import check_numeric
from cuvee.hypothesis.linear import LinearHypothesis, finite_radius
from cuvee.hypothesis.ridge import saturated
from cuvee.problem import Domain

STANDARD_RADIUS = 3.0
"""W when the user names none, on unit-variance columns and labels of mean 1: expected counts from
0.05 to 20.
"""


@dataclass(frozen=True)
class Poisson(LinearHypothesis):
    """Poisson regression with λ/2‖w‖², the intercept not penalised: E[y] = exp(x·w + b).

    Labels are counts, or rates: any numbers ≥ 0. Where rows were exposed for different times (days
    in hospital, hours a shop was open), build domains with `Poisson.domain`: models then predict
    counts per unit of exposure.

    `radius` makes W, in which the adversary of `cuvee.estimate` lives, a ball in the coordinates of
    X.

    One mixture's risk is Σ_j α_j · (mean half deviance on source j) + l2/2 ‖w‖², which is
    scikit-learn's `PoissonRegressor(alpha=l2)` with `sample_weight = α_j/m_j`.

    >>> import cuvee
    >>> ward = cuvee.Poisson.domain("ward", [[0.0], [1.0]], [3, 8], exposure=[1.0, 2.0])
    >>> ward.y.tolist()
    [3.0, 4.0]
    """

    def bind(self, facts: Facts, *, standardised: bool = False) -> PoissonSpace:
        return PoissonSpace(facts, self, standardised)

    @staticmethod
    def domain(name: str, X: Any, counts: Any, exposure: Any) -> Domain:
        """Return a domain of rates, counts/exposure, in which every row weighs its exposure.

        That is the Poisson model with expected counts exposure · exp(x·w + b).
        """
        plain = Domain(name, X, counts, exposure)
        if plain.weight is None or plain.weight.min() <= 0:
            raise DomainError(f"domain {name!r}: exposure must be above 0 in every row")
        return Domain(name, plain.X, plain.y / plain.weight, plain.weight, plain.features)


class PoissonSpace(GeneralisedSpace):
    """`Poisson` on a problem.

    When standardised, labels are divided by their mean over the sources.
    """

    likelihood = True
    task = "counts"
    sharpness = None
    concordance = 1.0
    n_kinds = 2  # zeros, and counts above 0

    def __init__(self, facts: Facts, spec: Poisson, standardised: bool) -> None:
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
        for domain in facts.domains:
            if domain.labels.least < 0:
                raise DomainError(
                    f"domain {domain.name!r}: label {domain.labels.least:g} at row "
                    f"{domain.labels.least_row} is "
                    "below 0; counts are not (for a quantity use Ridge)"
                )
        mean, spread = facts.quantity()
        if mean <= 0:
            raise DomainError(
                "every source row has the label 0; a model of counts needs some that are not"
            )
        # Without an intercept nothing could make up for another unit.
        self._label_mean = mean
        self._unit = mean if standardised and spec.intercept else 1.0
        self.typical_curvature = mean / self._unit
        self.largest_bounded = max(0.5, 0.5 * spread**2 / mean) / self._unit
        """The bounded loss stays below it: half the labels' variance over their mean, ½ where they
        are Poisson.
        """

    def encode(self, y: Array, name: str) -> Array:
        return y.astype(np.float64) / self._unit

    def trained(self, scores: Tensor, y: Tensor) -> Tensor:
        """Return half the deviance, μ − y + y log(y/μ) with log μ the score: 0 where μ = y."""
        s = scores.squeeze(-2)
        return s.exp() - y * s + (torch.xlogy(y, y) - y).to(s.dtype)

    def bounded(self, scores: Tensor, y: Tensor) -> Tensor:
        return saturated(self.trained(scores, y), self.largest_bounded)

    def mean_(self, scores: Tensor) -> Tensor:
        return scores.exp_()

    def statistic(self, y: Tensor) -> Tensor:
        return y.unsqueeze(-2).to(self.dtype)

    def curvature(self, mean: Tensor, output: int) -> Tensor:
        return mean.clone()

    def change(self, mean: Tensor, scores: Tensor) -> Tensor:
        return mean * scores

    def summed_curvature(self, weighted: Tensor, mean: Tensor) -> Tensor:
        return weighted.sum(-1, keepdim=True)

    def residual_bound(self, curvature: Tensor, labels: Tensor) -> Tensor:
        return curvature[:, 0, 0] + labels

    def kinds(self, y: Tensor) -> Tensor:
        return (y > 0).long()

    def absent(self, seen: Tensor) -> Tensor:
        """Return where no label is above 0: expected counts then fall to 0 for ever."""
        return torch.stack([torch.zeros_like(seen[:, 0], dtype=torch.bool), seen[:, 1] == 0], 1)

    def first_guess(self, statistic: Tensor) -> Tensor:
        w = torch.zeros_like(statistic)
        if self.intercept:  # the model that predicts the mean label everywhere
            w[-1] = statistic[-1].clamp(min=1e-12).log()
        return w

    def compared(self, scores: Tensor, y: Tensor) -> Tensor:
        return self.bounded(scores, y) * (self._unit / self._label_mean)

    def score_bounds(
        self, loss: LossKind, length: Tensor, y: Tensor, radius: float | None
    ) -> tuple[Tensor, float, Tensor]:
        reach = length * finite_radius(radius)
        ends = torch.stack([reach, -reach])
        largest = self.trained(ends[:, None], y).amax(0)  # it is convex in the score
        slope = torch.maximum(reach.exp(), y)
        bend = float(reach.exp().max()) if reach.numel() else 0.0
        if loss == "trained":
            return slope, bend, largest
        # The slope is ℓ'/(1 + ℓ/most)², and ℓ ≥ (μ − y)²/(2 max(μ, y)): it stays below this
        # whatever the score is.
        most = self.largest_bounded
        slope = torch.minimum(slope, (0.65 * (most * y).sqrt()).clamp(min=most))
        return slope, bend + 2.0 * float(slope.max()) ** 2 / most, largest.clamp(max=most)

    def curvature_range(self, reach: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return (-reach).exp(), reach.exp()

    def decide(self, scores: Tensor) -> Array:
        """Return expected counts, per unit of exposure where there was one."""
        return np.asarray((scores.squeeze(-2) + log(self._unit)).exp())


MODEL = TableModel(
    "poisson",
    Poisson,
    "counts",
    "Poisson regression",
    {
        "trained": "half the deviance, in units of the mean label",
        "bounded": "half the deviance, bent so that it stays bounded, in units of the mean label",
    },
)
