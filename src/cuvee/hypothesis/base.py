"""The two roles: a `Hypothesis` is a small frozen description; bound to a problem it is a `Space`.

A `Space` is the paper's H with its parameters flattened: w ∈ W ⊂ R^P, scores, the loss as trained
and a bounded companion, and the projection onto W. Every method takes a batch of models; there is
no loop.

Shapes, everywhere: w (..., P); scores (..., outputs, rows); row losses (..., rows). Rows are either
shared by all models, X (rows, …), or each target's own, X (M, rows, …) with w (M, Q, P).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, Self

import numpy as np
import torch
from torch import Tensor, nn

from cuvee.errors import DomainError, OptionError, check_number
from cuvee.facts import Array, Facts

LossKind = Literal["trained", "bounded"]
SMALLEST_W, LARGEST_W = 1e-50, 1e50  # radii of W


class Space(ABC):
    """A hypothesis bound to a problem: P numbers in, scores and losses out."""

    n_params: int
    input_shape: tuple[int, ...]
    """Of one raw row."""
    dtype: torch.dtype
    l2: float
    n_outputs: int
    intercept = False
    """Whether the last parameter of every output is an intercept, which no penalty holds."""
    radius: float | None
    """W is the ball of this radius around 0; None means all of R^P."""
    quadratic = False
    """Whether the trained loss is quadratic in w, so that Gram matrices say everything."""
    likelihood = False
    """Whether the trained loss is a negative log-likelihood, in which case it has no unit."""
    steepening: float | None = None
    """How many times its curvature at w = 0 a mixture's trained loss can reach elsewhere; None
    where there is no limit, or none is proven.
    """
    convex = True
    """Whether the mixture risk is convex in w, so that a minimiser can be certified."""
    linear = False
    """Whether scores are linear in w, so that only the span of the rows matters."""
    generalised = False
    """Whether it is a generalised linear model, with a mean function: see
    `cuvee.hypothesis.generalised`.
    """
    chances = False
    """Whether the bounded loss is 1 − p_y of class probabilities whose scores are linear in w."""
    loss_words: dict[LossKind, str]
    """What each loss is, for people; for spaces with known bounds."""
    task: str = "regression"
    """What is learnt: "regression", "classification" or "counts"."""
    classes: Array | None = None
    """The classes that a classifier tells apart, sorted; None for quantities and counts."""
    bounds_known = False
    """Whether the losses of a row can be bounded from its length, which the theorems' constants
    need.
    """

    @abstractmethod
    def prepare(self, X: Tensor) -> Tensor:
        """Return rows as `scores` wants them (scaled, with a column for the intercept…).

        This is done once per table.
        """

    @abstractmethod
    def encode(self, y: Array, name: str) -> Array:
        """Return the labels of domain `name` as numbers.

        Raise `DomainError` naming the row that does not fit.
        """

    @abstractmethod
    def scores(self, w: Tensor, X: Tensor) -> Tensor:
        """Return scores (..., outputs, rows) of w (..., P) on rows X (rows, …) shared by all.

        Rows are as `prepare` returns them.
        """

    @abstractmethod
    def own_scores(self, w: Tensor, X: Tensor) -> Tensor:
        """Return scores (M, Q, outputs, rows) of w (M, Q, P) on own rows X (M, rows, …).

        Rows are as `prepare` returns them, those of each target.
        """

    @abstractmethod
    def trained(self, scores: Tensor, y: Tensor) -> Tensor:
        """Return the loss that is trained on, per row: (..., outputs, rows) -> (..., rows)."""

    @abstractmethod
    def bounded(self, scores: Tensor, y: Tensor) -> Tensor:
        """Return a bounded companion of the trained loss, per row.

        With an unbounded loss the inner maximum of the paper runs away.
        """

    @abstractmethod
    def decide(self, scores: Tensor) -> Array:
        """Return predictions in the user's own labels: (..., outputs, rows) -> (..., rows)."""

    @abstractmethod
    def start(self, n_models: int, seed: int) -> Tensor:
        """Return parameters (n_models, P) to start from, apart from each other.

        Row k depends on seed and k alone.
        """

    def module(self, w: Array) -> nn.Module:
        """Return the network whose learnt parameters are w (P,)."""
        raise OptionError("only a Network has a module; all parameters of these models are in w")

    @property
    def penalised(self) -> Tensor:
        """Return (P,): 1 where λ/2‖w‖² counts, 0 at intercepts."""
        return torch.ones(self.n_params, dtype=self.dtype)

    def at_any_scale(self) -> tuple[Self, float]:
        """Return this space in a unit of labels whose squares float64 holds, and that unit."""
        return self, 1.0

    def loss(self, kind: LossKind, scores: Tensor, y: Tensor) -> Tensor:
        return self.trained(scores, y) if kind == "trained" else self.bounded(scores, y)

    def compared(self, scores: Tensor, y: Tensor) -> Tensor:
        """Return the loss per row that discrepancies compare, in units that do not depend on y's.

        y (rows,) are encoded labels. Only spaces with known bounds have it.
        """
        raise OptionError("the losses of this hypothesis have no known bound")

    def project(self, w: Tensor) -> Tensor:
        """Return P_W(w), exactly: the nearest point of the ball."""
        if self.radius is None:
            return w
        # float32 would overflow
        norm = torch.linalg.vector_norm(w, dim=-1, keepdim=True, dtype=torch.float64)
        return w * (self.radius / norm.clamp(min=self.radius)).to(w.dtype)

    def canonical(self, w: Tensor, *, features: bool = True) -> Tensor:
        """Return the w of least norm among those that predict the same; here there is only one.

        Without `features`, only what no penalty holds moves.
        """
        return w

    def predict(self, w: Array | Tensor, X: Array) -> Array:
        """Return predictions (..., rows) of models w (..., P) on raw rows X."""
        with torch.no_grad():
            rows, models = (torch.as_tensor(a, dtype=self.dtype) for a in (X, w))
            return self.answers(models, self.scores(models, self.prepare(rows)))

    def answers(self, w: Tensor, scores: Tensor) -> Array:
        """Return `decide` of the scores (..., outputs, rows) of models w (..., P).

        Raise `DomainError` for a row so far out that the answer of a sound model overflows.
        """
        answers = self.decide(scores)
        good = scores.isfinite().all(-2)
        if answers.dtype.kind == "f":  # a network may give several numbers for a row
            finite = torch.as_tensor(np.isfinite(answers), device=good.device)
            good = good & finite.reshape(*good.shape, -1).all(-1) if finite.numel() else good
        bad = ~good & w.isfinite().all(-1)[..., None]
        bad = bad.reshape(bad.shape[:-1].numel(), bad.shape[-1]).any(0)
        if bool(bad.any()):
            raise far_out(int(bad.nonzero()[0, 0]))
        return answers

    def predict_proba(self, w: Array | Tensor, X: Array) -> Array:
        """Return class probabilities (..., rows, classes) of models w (..., P) on raw rows X."""
        with torch.no_grad():
            rows = self.prepare(torch.as_tensor(X, dtype=self.dtype))
            return np.asarray(
                self.probabilities(self.scores(torch.as_tensor(w, dtype=self.dtype), rows))
            )

    def probabilities(self, scores: Tensor) -> Tensor:
        """Return class probabilities (..., rows, classes) of scores (..., outputs, rows)."""
        raise OptionError(
            "this model predicts a quantity: it has no class probabilities, use predict"
        )


def far_out(row: int) -> DomainError:
    """Return the error about a row for which a sound model's answer overflows."""
    return DomainError(
        f"row {row} is so far from the rows that were learnt from that its prediction is not a "
        "number: correct it, or leave it out",
        row,
    )


def check_penalties(l2: float, radius: float | None) -> None:
    """Raise `OptionError` unless λ ≥ 0 and float64 holds the squares of losses in W."""
    check_number("l2", l2, least=0.0)
    if radius is not None:
        check_number("radius", radius, least=SMALLEST_W, most=LARGEST_W)


class Hypothesis(Protocol):
    """A hypothesis as the user writes it.

    `standardised=True` asks for the same functions in scale-free coordinates.
    """

    @property
    def radius(self) -> float | None: ...

    def bind(self, facts: Facts, *, standardised: bool = False) -> Space: ...


@dataclass(frozen=True)
class TableModel:
    """Say what a hypothesis is for on a table: its name there, the labels it fits, its words."""

    name: str  # as an option
    make: Callable[[float], Hypothesis]  # of l2
    task: str  # "regression", "classification" or "counts"
    words: str
    losses: dict[LossKind, str]  # what each loss is, for people
