"""What linear hypotheses share: scores linear in w, flat parameters (outputs, features [+
intercept]).
"""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from cuvee.errors import DomainError, OptionError
from cuvee.facts import Facts
from cuvee.hypothesis.base import LossKind, Space, check_penalties

START = 2.5  # a loose W should not put adversaries where no trained model is


@dataclass(frozen=True)
class LinearHypothesis:
    """Hold what users choose for every linear hypothesis, and check it."""

    l2: float = 1e-2
    intercept: bool = True
    radius: float | None = None

    def __post_init__(self) -> None:
        check_penalties(self.l2, self.radius)


class LinearSpace(Space):
    """Scores X w, all models and rows in one matrix product.

    Its own private names say that they are about columns, so that a subclass does not take one by
    accident.
    """

    dtype = torch.float64
    bounds_known = linear = True
    centred_at: Tensor | None = None
    """The row x0 that was taken off all rows, in their coordinates; None where none was."""

    def __init__(
        self,
        facts: Facts,
        *,
        n_outputs: int,
        l2: float,
        intercept: bool,
        radius: float | None,
        standardised: bool,
    ) -> None:
        if len(facts.input_shape) != 1:
            raise DomainError(
                f"rows of X have shape {facts.input_shape}; a linear hypothesis needs rows of "
                "plain numbers: flatten X, or use Network"
            )
        self.l2, self.radius, self.intercept = l2, radius, intercept
        self.n_outputs = n_outputs
        self._set_features(facts.input_shape[0])
        self._columns_scaled = standardised
        if standardised:
            mean, scale = facts.columns()
            self._column_mean = torch.as_tensor(mean if intercept else np.zeros_like(mean))
            self._column_scale = torch.as_tensor(np.where(scale > 0, scale, 1.0))
            # A column that only targets have tells no sources apart, and moves no other's start.
            self._started_columns = torch.as_tensor(np.flatnonzero(scale))

    def _set_features(self, n_features: int) -> None:
        self.input_shape = (n_features,)
        self.width = n_features + int(self.intercept)
        self.n_params = self.n_outputs * self.width
        self._started_columns = torch.arange(n_features)

    def in_coordinates(
        self, n_features: int, started: int, centred_at: Tensor | None = None
    ) -> Self:
        """Return this space for rows that were standardised already and then given new coordinates.

        `start` spreads models over the first `started` of them alone.
        """
        other = copy(self)
        other.centred_at = centred_at
        other._set_features(n_features)
        other._columns_scaled, other._started_columns = False, torch.arange(started)
        return other

    def standardise(self, X: Tensor) -> Tensor:
        """Return rows (..., features) in the coordinates that models see, without the intercept."""
        X = X.to(self.dtype)
        if self._columns_scaled:
            X = (X - self._column_mean.to(X)) / self._column_scale.to(X)
        return X

    def prepare(self, X: Tensor) -> Tensor:
        X = self.standardise(X)
        if not self.intercept:
            return X
        rows = X.new_ones(*X.shape[:-1], X.shape[-1] + 1)
        rows[..., :-1] = X
        return rows

    def scores(self, w: Tensor, X: Tensor) -> Tensor:
        # (models · outputs, rows): one matrix product for everything
        flat = w.reshape(-1, self.width) @ X.T
        return flat.view(*w.shape[:-1], self.n_outputs, len(X))

    def own_scores(self, w: Tensor, X: Tensor) -> Tensor:
        M, Q, _ = w.shape
        stacked = w.reshape(M, Q * self.n_outputs, self.width) @ X.transpose(-1, -2)
        return stacked.view(M, Q, self.n_outputs, X.shape[-2])

    @abstractmethod
    def score_bounds(
        self, loss: LossKind, length: Tensor, y: Tensor, radius: float | None
    ) -> tuple[Tensor, float, Tensor]:
        """Return how steep a row's loss is in its scores (…,), how bent, and its maximum (…,).

        This is for rows of this length (…,) with labels y (…,), and for any w of norm `radius` or
        less.
        """

    @abstractmethod
    def curvature_range(self, reach: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the least and the largest curvature of the trained loss for scores within reach.

        Shapes (…,), as `reach` has; scores lie between −reach and reach, and y (…,) are the rows'
        encoded labels.
        """

    @property
    def penalised(self) -> Tensor:
        mask = torch.ones(self.n_outputs, self.width, dtype=self.dtype)
        if self.intercept:
            mask[:, -1] = 0.0
        return mask.reshape(-1)

    def start(self, n_models: int, seed: int) -> Tensor:
        """Return starts (n_models, P), row k in its own random direction.

        They lie at half the radius of W, but never farther than START. In standardised coordinates
        columns that do not vary in the sources start at 0.
        """
        columns = self._started_columns
        shape = (self.n_outputs, len(columns) + int(self.intercept))
        drawn = [np.random.default_rng([seed, k]).standard_normal(shape) for k in range(n_models)]
        each = torch.as_tensor(np.reshape(drawn, (n_models, *shape)), dtype=self.dtype)
        w = each.new_zeros(n_models, self.n_outputs, self.width)
        w[..., columns] = each[..., : len(columns)]
        if self.intercept:
            w[..., -1] = each[..., -1]
        w = w.view(n_models, self.n_params)
        reach = START if self.radius is None else min(self.radius / 2, START)
        return w * (reach / torch.linalg.vector_norm(w, dim=-1, keepdim=True))


def finite_radius(radius: float | None) -> float:
    """Return the radius of W; raise `OptionError` where there is none.

    Without it a loss has no bound.
    """
    if radius is None:
        raise OptionError("without a radius this loss has no bound: give the hypothesis a radius")
    return radius
