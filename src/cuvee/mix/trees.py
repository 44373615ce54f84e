"""Fit boosted trees: LightGBM where it is installed, otherwise scikit-learn's.

Trees are steps: they have no slope and no spread of their own, searches through them are slow, and
beside the smooth candidates they got shares of a few per cent. So they join only where a caller
asks for them by name. A file holds the runs, not the trees: reading it grows the same trees again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cuvee.mix.candidate import DTYPE, Method, ShapedRuns

ROUNDS, RATE, LEAVES, LEAST = 300, 0.05, 8, 5  # LEAST: runs in a leaf


@dataclass(frozen=True, eq=False)
class Trees:
    """Predict by one model of boosted trees per metric."""

    models: tuple[Any, ...]

    def __call__(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        mean = self.mean(alpha)
        return mean, torch.zeros_like(mean)

    def mean(self, alpha: Tensor) -> Tensor:
        x = alpha.detach().numpy()
        columns = [np.asarray(model.predict(x)) for model in self.models]
        return torch.as_tensor(np.stack(columns, 1), dtype=DTYPE)

    def joint(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        mean = self.mean(alpha)
        return mean, torch.zeros(mean.shape[1], len(alpha), len(alpha), dtype=DTYPE)

    def tensors(self) -> Mapping[str, Tensor]:
        return {}


def installed() -> bool:
    """Return whether LightGBM is there."""
    return find_spec("lightgbm") is not None


def fit(shaped: ShapedRuns, start: object = None) -> Trees:
    """Return boosted trees, one model after the other: neither library takes several metrics."""
    x, weight = shaped.alpha.numpy(), shaped.precision.numpy()
    columns = shaped.y.T.numpy()
    return Trees(tuple(_model().fit(x, y, sample_weight=weight) for y in columns))


def _model() -> Any:
    if installed():
        import lightgbm

        return lightgbm.LGBMRegressor(
            n_estimators=ROUNDS, learning_rate=RATE, num_leaves=LEAVES, min_child_samples=LEAST,
            random_state=0, n_jobs=1, verbose=-1, deterministic=True,
        )  # fmt: skip
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(
        max_iter=ROUNDS, learning_rate=RATE, max_leaf_nodes=LEAVES, min_samples_leaf=LEAST,
        early_stopping=False, random_state=0,
    )  # fmt: skip


METHOD = Method(
    name="trees",
    summary="Boosted trees, where they are asked for.",
    fit=fit,
    restore=lambda shaped, tensors: fit(shaped),
    default=False,
)
