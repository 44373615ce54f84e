"""Define what a candidate for the surface is asked and what it answers.

A candidate is fitted to all metrics at once: metrics are an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

DTYPE = torch.float64


@dataclass(frozen=True, eq=False)
class ShapedRuns:
    """Hold n runs as candidates see them: metrics have mean 0 and variance 1."""

    alpha: Tensor  # (n, N)
    y: Tensor  # (n, K)
    precision: Tensor  # (n,) of a run's noise, relative to the other runs: 1 where all are alike

    def __getitem__(self, rows: Tensor) -> ShapedRuns:
        return ShapedRuns(self.alpha[rows], self.y[rows], self.precision[rows])

    def __len__(self) -> int:
        return len(self.alpha)


class Fitted(Protocol):
    """Predict all metrics of a mixture, differentiably unless they are trees."""

    def __call__(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean (m, K) and its standard deviation (m, K) for mixtures (m, N)."""
        ...

    def mean(self, alpha: Tensor) -> Tensor:
        """Return the mean (m, K) alone, which is cheaper."""
        ...

    def joint(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean (m, K) and the covariance (K, m, m) between the mixtures."""
        ...

    def tensors(self) -> Mapping[str, Tensor]:
        """Return all that `restore` needs, beside the runs, to make this again."""
        ...


@dataclass(frozen=True)
class Method:
    """Describe a candidate: how it is fitted, and how it comes back from a file."""

    name: str
    summary: str
    fit: Callable[[ShapedRuns, Any], Any]
    """(runs, the same candidate fitted to more runs or None) -> Fitted."""
    restore: Callable[[ShapedRuns, Mapping[str, Tensor]], Any]
    """(runs, what `tensors` returned) -> Fitted."""
    default: bool = True  # it joins unless others are asked for by name
