"""Exponents of power laws with their 95 % intervals: the one fit that all experiments use."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan
from typing import Any

import numpy as np
from scipy import stats

from cuvee.results import Floats

LEVEL = 0.95
FEW = 3  # replicates from which on their spread tells an interval


@dataclass(frozen=True)
class Exponent:
    """b of y ≈ a·x^b with a 95 % interval."""

    value: float
    low: float
    high: float
    replicates: int

    def __str__(self) -> str:
        return f"{self.value:+.2f} ({self.low:+.2f} to {self.high:+.2f})"

    def as_dict(self) -> dict[str, Any]:
        return {
            "exponent": self.value,
            "low": self.low,
            "high": self.high,
            "replicates": self.replicates,
        }


def exponent(x: Any, y: Any) -> Exponent:
    """x (points,) and y (points,) or (replicates, points), all positive; replicates are
    independent, e.g. seeds.

    With three replicates or more each has its own slope, and their t-interval is given: points of
    one replicate, like averages over time, may lean on each other as they like. With fewer it is
    the interval of one regression.

    >>> str(exponent([1, 10, 100], [[2, 0.2, 0.02]] * 3))
    '-1.00 (-1.00 to -1.00)'
    """
    log_x = np.log(np.asarray(x, dtype=float))
    log_y = np.log(np.atleast_2d(np.asarray(y, dtype=float)))
    if (
        log_x.ndim != 1
        or log_y.shape[1] != len(log_x)
        or len(log_x) < 2
        or not np.isfinite(log_y).all()
    ):
        raise ValueError(
            "an exponent needs two points or more of positive numbers, all replicates at the same "
            "points"
        )
    if len(log_y) >= FEW:
        slopes: Floats = np.polyfit(log_x, log_y.T, 1)[0]
        mean, error = float(slopes.mean()), float(slopes.std(ddof=1) / np.sqrt(len(slopes)))
        return _interval(mean, error, len(slopes) - 1, len(log_y))
    xs, ys = np.tile(log_x, len(log_y)), log_y.ravel()
    if len(xs) < 3:  # a line through two points is exact, and says nothing about itself
        return Exponent(float(np.polyfit(xs, ys, 1)[0]), -inf, inf, len(log_y))
    found = stats.linregress(xs, ys)
    return _interval(float(found.slope), float(found.stderr), len(xs) - 2, len(log_y))


def _interval(mean: float, error: float, freedom: int, replicates: int) -> Exponent:
    half = float(stats.t.ppf(0.5 + LEVEL / 2, freedom)) * error
    return Exponent(mean, mean - half, mean + half, replicates)


def mean_interval(values: Any) -> tuple[float, float, float]:
    """Mean over replicates with its 95 % t-interval; of a single one the interval is unknown."""
    data = np.asarray(values, dtype=float)
    mean = float(data.mean())
    if len(data) < 2:
        return mean, nan, nan
    half = float(
        stats.t.ppf(0.5 + LEVEL / 2, len(data) - 1) * data.std(ddof=1) / np.sqrt(len(data))
    )
    return mean, mean - half, mean + half
