"""Generalised linear models: what the fast solvers ask of a loss whose scores are linear in w.

The gradient of a row's loss is (mean(scores) − statistic(y)) ⊗ x and its Hessian curvature ⊗ x xᵀ.
Along any direction the third derivative is at most `concordance` times the largest change of a
row's scores times the second: the loss is self-concordant, which is what certificates with an
unpenalised intercept rest on.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from cuvee.hypothesis.linear import LinearSpace


class GeneralisedSpace(LinearSpace):
    """A linear space with a mean function.

    Shapes: scores and means (..., outputs, rows), labels (..., rows).
    """

    generalised = True
    sharpness: float | None
    """The largest curvature of a row's loss in its scores; None where there is no largest."""
    concordance: float
    typical_curvature: float
    """About what the curvature is where models end, for scaling."""
    n_kinds: int
    """How many kinds of labels `kinds` tells apart."""

    @abstractmethod
    def mean_(self, scores: Tensor) -> Tensor:
        """Return the means where the scores stood; scores are used up."""

    @abstractmethod
    def statistic(self, y: Tensor) -> Tensor:
        """Return the means of a perfect fit to labels, (..., rows) -> (..., outputs, rows)."""

    @abstractmethod
    def curvature(self, mean: Tensor, output: int) -> Tensor:
        """Return ∂mean_a/∂scores_b for a = output: (..., outputs, rows)."""

    @abstractmethod
    def change(self, mean: Tensor, scores: Tensor) -> Tensor:
        """Return how the means change when scores change by `scores`, to first order."""

    @abstractmethod
    def summed_curvature(self, weighted: Tensor, mean: Tensor) -> Tensor:
        """Return Σ_rows weight · curvature, (..., outputs, outputs).

        `weighted` is weight · mean.
        """

    @abstractmethod
    def residual_bound(self, curvature: Tensor, labels: Tensor) -> Tensor:
        """Return a bound (M,) on the average size of mean − statistic, for what rounding may do.

        `curvature` (M, outputs, outputs) is summed over a mixture's rows, and `labels` (M,) is the
        average size of its statistics.
        """

    @abstractmethod
    def kinds(self, y: Tensor) -> Tensor:
        """Return which kind each label is, 0 … n_kinds − 1."""

    @abstractmethod
    def absent(self, seen: Tensor) -> Tensor:
        """Return which kinds (M, n_kinds) a mixture misses so that its free intercept runs away.

        `seen` (M, n_kinds) counts its rows of each kind.
        """

    def first_guess(self, statistic: Tensor) -> Tensor:
        """Return parameters (P,) to start from, given the mean (P,) of statistic(y) ⊗ x; here 0."""
        return torch.zeros_like(statistic)
