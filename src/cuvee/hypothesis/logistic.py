"""Logistic regression, binary (one score) and softmax (a score per class), with cross-entropy."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from cuvee.facts import Array, Facts
from cuvee.hypothesis.base import LossKind, TableModel
from cuvee.hypothesis.generalised import GeneralisedSpace
from cuvee.hypothesis.labels import find_classes, number_labels
from cuvee.hypothesis.linear import LinearHypothesis, finite_radius

STANDARD_RADIUS = 5.0
"""W when the user names none, on unit-variance columns: scores of ±5, so probabilities of 0.7 % to
99.3 %.
"""


@dataclass(frozen=True)
class Logistic(LinearHypothesis):
    """Logistic regression with λ/2‖w‖², the intercept not penalised.

    `radius` makes W, in which the adversary of `cuvee.estimate` lives, a ball in the coordinates of
    X.

    One mixture's risk is Σ_j α_j · (mean cross-entropy on source j) + l2/2 ‖w‖², which is
    scikit-learn's `LogisticRegression(C=1/l2)` with `sample_weight = α_j/m_j`. Two classes give one
    score; more give one each.
    """

    def bind(self, facts: Facts, *, standardised: bool = False) -> LogisticSpace:
        return LogisticSpace(facts, self, standardised)


class LogisticSpace(GeneralisedSpace):
    """`Logistic` on a problem.

    The classes are those of the sources, and means are their probabilities.
    """

    classes: Array
    likelihood = chances = True
    task = "classification"
    typical_curvature = 0.25

    def __init__(self, facts: Facts, spec: Logistic, standardised: bool) -> None:
        self.classes = find_classes(facts)
        self.loss_words = MODEL.losses
        super().__init__(
            facts,
            n_outputs=1 if len(self.classes) == 2 else len(self.classes),
            l2=spec.l2,
            intercept=spec.intercept,
            radius=STANDARD_RADIUS if standardised and spec.radius is None else spec.radius,
            standardised=standardised,
        )
        # 1/K at even chances, ½ where two classes share them all
        self.steepening = max(1.0, self.n_outputs / 2)
        several = self.n_outputs > 1
        self.sharpness = 0.5 if several else 0.25
        # scores of a softmax change by their largest difference
        self.concordance = sqrt(2.0) if several else 1.0
        self.n_kinds = len(self.classes)

    def encode(self, y: Array, name: str) -> Array:
        return number_labels(y, self.classes, name)

    def trained(self, scores: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(scores, y)

    def bounded(self, scores: Tensor, y: Tensor) -> Tensor:
        return chance_of_error(scores, y)

    def mean_(self, scores: Tensor) -> Tensor:
        """Return class probabilities (..., outputs, rows) in place of the scores.

        For two classes it is the probability of the second.
        """
        return scores.sigmoid_() if self.n_outputs == 1 else scores.softmax(-2)

    def statistic(self, y: Tensor) -> Tensor:
        """Return the mean of a perfect fit to each label, (..., rows) -> (..., outputs, rows)."""
        if self.n_outputs == 1:
            return y.unsqueeze(-2).to(self.dtype)
        return functional.one_hot(y, self.n_outputs).transpose(-1, -2).to(self.dtype)

    def curvature(self, mean: Tensor, output: int) -> Tensor:
        """Return p_a(δ_ab − p_b) for a = output: (..., outputs, rows)."""
        weight = mean * -mean[..., output : output + 1, :]
        weight[..., output, :] += mean[..., output, :]
        return weight

    def change(self, mean: Tensor, scores: Tensor) -> Tensor:
        if self.n_outputs == 1:
            return mean * (1 - mean) * scores
        return mean * (scores - (mean * scores).sum(-2, keepdim=True))

    def summed_curvature(self, weighted: Tensor, mean: Tensor) -> Tensor:
        if self.n_outputs == 1 and weighted is mean:
            squares = torch.linalg.vector_norm(mean, dim=-1, keepdim=True).square()
        else:
            squares = weighted @ mean.transpose(-1, -2)
        return torch.diag_embed(weighted.sum(-1)) - squares

    def residual_bound(self, curvature: Tensor, labels: Tensor) -> Tensor:
        return torch.ones_like(labels)

    def kinds(self, y: Tensor) -> Tensor:
        return y

    def absent(self, seen: Tensor) -> Tensor:
        return seen == 0

    def canonical(self, w: Tensor, *, features: bool = True) -> Tensor:
        """Return the w of least norm that gives the same predictions.

        Softmax ignores what all classes' scores share.

        At a minimiser all parameters sum to 0 over the classes. Without `features`, only what no
        penalty holds moves.
        """
        if self.n_outputs == 1:
            return w
        by_class = w.reshape(*w.shape[:-1], self.n_outputs, self.width)
        shift = by_class.mean(-2, keepdim=True)
        if not features and self.l2 > 0:
            shift = shift * (self.penalised.to(w).view(self.n_outputs, self.width)[:1] == 0)
        return (by_class - shift).reshape(w.shape)

    def compared(self, scores: Tensor, y: Tensor) -> Tensor:
        return chance_of_error(scores, y)

    def score_bounds(
        self, loss: LossKind, length: Tensor, y: Tensor, radius: float | None
    ) -> tuple[Tensor, float, Tensor]:
        ones, several = torch.ones_like(length), self.n_outputs > 1
        # no steeper than √2 p(1 − p), no more bent than 2p(1 − p)² or 2p²(1 − p)
        if loss == "bounded" and several:
            return sqrt(2.0) / 4 * ones, 8 / 27, ones
        if loss == "bounded":  # 1 − p_y: σ' ≤ ¼ and |σ''| ≤ 1/(6√3)
            return 0.25 * ones, 1 / (6 * sqrt(3.0)), ones
        steepest, most_bent = (sqrt(2.0), 0.5) if several else (1.0, 0.25)
        against = self._lead(length * finite_radius(radius))
        return steepest * torch.sigmoid(against), most_bent, functional.softplus(against)

    def curvature_range(self, reach: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        if self.n_outputs > 1:  # softmax does not feel what all classes share
            return torch.zeros_like(reach), torch.full_like(reach, 0.5)
        wrong = torch.sigmoid(reach)
        return wrong * (1 - wrong), torch.full_like(reach, 0.25)

    def _lead(self, reach: Tensor) -> Tensor:
        """Return the largest log-odds against its class that w gives a row with ‖w‖‖x‖ ≤ reach.

        Two scores of a softmax differ by √2‖w‖‖x‖ at most, and each of the other classes may be
        that far ahead.
        """
        return reach if self.n_outputs == 1 else sqrt(2.0) * reach + log(self.n_outputs - 1)

    def decide(self, scores: Tensor) -> Array:
        return self.classes[np.asarray(winners(scores))]

    def probabilities(self, scores: Tensor) -> Tensor:
        return class_probabilities(scores)


def cross_entropy(scores: Tensor, y: Tensor) -> Tensor:
    """Return −log p_y per row; one output is the log-odds of class 1."""
    if scores.shape[-2] == 1:
        return -functional.logsigmoid(scores.squeeze(-2) * (2 * y - 1).to(scores.dtype))
    return torch.logsumexp(scores, -2) - _own_score(scores, y)


def chance_of_error(scores: Tensor, y: Tensor) -> Tensor:
    """Return 1 − p_y per row, in [0, 1]."""
    if scores.shape[-2] == 1:
        return torch.sigmoid(scores.squeeze(-2) * (1 - 2 * y).to(scores.dtype))
    return 1.0 - _own_score(scores.softmax(-2), y)


def class_probabilities(scores: Tensor) -> Tensor:
    """Return probabilities (..., rows, classes), which sum to 1, of scores (..., outputs, rows)."""
    if scores.shape[-2] == 1:
        scores = torch.cat([torch.zeros_like(scores), scores], -2)
    return scores.softmax(-2).transpose(-1, -2)


def winners(scores: Tensor) -> Tensor:
    """Return the number of the likeliest class per row."""
    return (scores.squeeze(-2) > 0).long() if scores.shape[-2] == 1 else scores.argmax(-2)


def _own_score(scores: Tensor, y: Tensor) -> Tensor:
    index = y.expand(*scores.shape[:-2], scores.shape[-1]).unsqueeze(-2)
    return scores.gather(-2, index).squeeze(-2)


MODEL = TableModel(
    "logistic",
    Logistic,
    "classification",
    "logistic regression",
    {
        "trained": "cross-entropy",
        "bounded": "the probability that the model gives to wrong classes",
    },
)
