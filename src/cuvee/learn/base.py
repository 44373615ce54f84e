"""What every learnt map is made of: labels to learn from, and a predictor that was fitted to them.

Nothing here solves anything: a `cuvee.oracle.Oracle` with the data bound comes from the caller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from cuvee.oracle import Descend


@dataclass(frozen=True)
class Labels:
    """Solved mixtures."""

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
    """Map α (M, N) to w (M, P): a frozen dataclass of tensors and plain numbers, so that a file can
    hold it.
    """

    def __call__(self, alpha: Tensor) -> Tensor: ...


@runtime_checkable
class Newton(Protocol):
    """Know the curvature of the risk, as some predictors do."""

    def newton(self, alpha: Tensor, w: Tensor, gradient: Tensor) -> Tensor:
        """Return w − H⁻¹∇ (M, P) for gradients ∇ (M, P) of the data themselves."""
        ...


@runtime_checkable
class Descending(Protocol):
    """Stand for a predictor that asks the data: it is one once it is told how to descend."""

    @property
    def passes(self) -> int:
        """Return how many passes over the data a prediction takes."""
        ...

    def by(self, descend: Descend) -> Predictor:
        """Return the predictor that descends so."""
        ...


def median_error(predictor: Predictor, labels: Labels) -> float:
    """Median of ‖ŵ − w*‖ / ‖w*‖."""
    if len(labels) == 0:
        return float("nan")
    norm = torch.linalg.vector_norm
    away = norm(predictor(labels.alpha) - labels.w, dim=-1) / norm(labels.w, dim=-1).clamp(
        min=1e-300
    )
    return float(away.median())
