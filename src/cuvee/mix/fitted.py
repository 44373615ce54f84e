"""Hold how a surface was fitted, and how well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from cuvee.mix.average import Average
from cuvee.mix.candidate import DTYPE


@dataclass(frozen=True)
class Settings:
    """Hold how a surface was fitted, so that it can be fitted again."""

    candidates: tuple[str, ...]
    level: float
    seed: int
    maximise: tuple[str, ...]


@dataclass(frozen=True)
class Fit:
    """Hold how well one metric is fitted, on runs that were held out."""

    metric: str
    error: float  # root mean square, in units of the metric
    explained: float  # share of the variance
    rank: float  # Spearman
    shares: Mapping[str, float]  # of the candidates in the average
    errors: Mapping[str, float]  # root mean square of each candidate alone
    varies: bool = True  # False: it is the same in all runs, and there is nothing to explain

    def in_words(self) -> tuple[str, str]:
        """Return the share of the variance that is explained, and the rank correlation."""
        if not self.varies:
            return "never varies", "–"
        return f"{self.explained:.0%}", f"{self.rank:.2f}"


class Half(NamedTuple):
    """Hold the candidates fitted to half of the runs; two that follow each other share none."""

    average: Average
    rows: Tensor  # of the runs


def signs(metrics: Sequence[str], maximise: Sequence[str]) -> Tensor:
    """Return 1 (K,) for metrics to minimise and −1 for those to maximise."""
    return torch.tensor([-1.0 if name in maximise else 1.0 for name in metrics], dtype=DTYPE)
