"""Define what every learnt map is made of: solved labels, and a predictor fitted to them.

Nothing is solved in this file: a `cuvee.oracle.Oracle` with the data bound comes from the caller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from cuvee.oracle import Descend


@dataclass(frozen=True)
class Labels:
    """Hold solved mixtures."""

    alpha: Tensor  # (n, N)
    w: Tensor  # (n, P), or in the coordinates of a `Subspace`
    slopes: Tensor | None = None  # (n, N, P) dw*/dα, where they are known

    def __len__(self) -> int:
        return len(self.alpha)

    def __getitem__(self, rows: slice | Tensor) -> Labels:
        return Labels(
            self.alpha[rows], self.w[rows], None if self.slopes is None else self.slopes[rows]
        )


class Predictor(Protocol):
    """Map α (M, N) to w (M, P).

    It is a frozen dataclass of tensors and plain numbers, so that a file can hold it.
    """

    def __call__(self, alpha: Tensor) -> Tensor: ...


@runtime_checkable
class Newton(Protocol):
    """Take Newton steps, as predictors can that know the curvature of the risk."""

    def newton(self, alpha: Tensor, w: Tensor, gradient: Tensor) -> Tensor:
        """Return w − H⁻¹∇ (M, P) for exact gradients ∇ (M, P), computed from the data."""
        ...


@runtime_checkable
class Descending(Protocol):
    """Make a predictor that descends on the data, once it is given a way to descend."""

    @property
    def passes(self) -> int:
        """Return how many passes over the data a prediction takes."""
        ...

    def by(self, descend: Descend) -> Predictor:
        """Return the predictor that descends with `descend`."""
        ...


def median_error(predictor: Predictor, labels: Labels) -> float:
    """Return the median of ‖ŵ − w*‖ / ‖w*‖."""
    if len(labels) == 0:
        return float("nan")
    norm = torch.linalg.vector_norm
    away = norm(predictor(labels.alpha) - labels.w, dim=-1) / norm(labels.w, dim=-1).clamp(
        min=1e-300
    )
    return float(away.median())
