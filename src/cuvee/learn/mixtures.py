"""Provide the mixtures that a map is learnt from and calibrated on.

They come from a stated law, or from a sample that the user gives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuvee.errors import OptionError
from cuvee.results import Floats
from cuvee.simplex import sample

LABELS, CALIBRATION, MORE, SPREAD = range(4)  # independent streams of random numbers
CONCENTRATIONS = (0.1, 1e3)  # of mixtures all over the simplex: from one heavy source to equal ones
CORNERS = 16  # one in so many of the mixtures to calibrate on is a source alone, at most


@dataclass(frozen=True)
class Mixes:
    """Hold mixtures to solve, others to calibrate on, and a law for more."""

    labels: Floats  # (n, N)
    calibration: Floats  # (k, N)
    law: str
    concentration: float | None
    seed: int

    @classmethod
    def drawn(cls, n: int, k: int, n_sources: int, concentration: float, seed: int) -> Mixes:
        """Return mixtures drawn from the symmetric Dirichlet law.

        Half of those to calibrate on are `spread` over the simplex, so that errors are known where
        the law hardly goes, too.
        """
        labels = sample(n, n_sources, seed=[seed, LABELS], concentration=concentration)
        like = sample(k - k // 2, n_sources, seed=[seed, CALIBRATION], concentration=concentration)
        calibration = np.concatenate([like, spread(k // 2, n_sources, seed)])
        law = f"Dirichlet({concentration:g})" + (
            ", uniform on the simplex" if concentration == 1.0 else ""
        )
        return cls(labels, calibration, law, concentration, seed)

    @classmethod
    def given(cls, alpha: Floats, n: int, k: int, seed: int, least: int) -> Mixes:
        """Return mixtures from a sample of those to come: n to learn from, k to calibrate on.

        Half of a smaller sample is used to calibrate, unless that leaves fewer labels than `least`.
        """
        if len(alpha) < n + k:
            k = max(0, min(k, len(alpha) // 2, len(alpha) - least))
            n = min(n, len(alpha) - k)
        order = np.random.default_rng([seed, LABELS]).permutation(len(alpha))
        return cls(
            alpha[order[:n]], alpha[order[n : n + k]], f"a sample of {len(alpha)}", None, seed
        )

    def __post_init__(self) -> None:
        if len(self.labels) > 1 and np.ptp(self.labels, axis=0).max() <= 1e-9:
            raise OptionError(
                "all mixtures are equal, so there is only one model: solve it, no map is needed"
            )

    def again(self, k: int) -> Floats:
        """Return k mixtures to try a map on: of the same law, or repeats of those given."""
        if self.concentration is not None:
            return self.more(k)
        mixtures = np.concatenate([self.calibration, self.labels])
        return mixtures[np.random.default_rng([self.seed, MORE]).integers(len(mixtures), size=k)]

    def more(self, k: int) -> Floats:
        """Return k further mixtures, unsolved: from the law, or between and beyond those given."""
        if self.concentration is not None:
            return sample(
                k, self.labels.shape[1], seed=[self.seed, MORE], concentration=self.concentration
            )
        rng = np.random.default_rng([self.seed, MORE])
        i, j = rng.integers(len(self.labels), size=(2, k))
        u = rng.uniform(0.0, 1.5, size=(k, 1))
        blend = np.clip(u * self.labels[i] + (1.0 - u) * self.labels[j], 0.0, None)
        return blend / blend.sum(1, keepdims=True)


def spread(k: int, n_sources: int, seed: int) -> Floats:
    """Return k mixtures (k, N) all over the simplex.

    Some are a source alone. The others weigh all sources, or some, down to one or two; their
    weights range from nearly equal ones to hardly more than one.
    """
    rng = np.random.default_rng([seed, SPREAD])
    corners = np.eye(n_sources)[rng.permutation(n_sources)[: k // CORNERS]]
    n = k - len(corners)
    some = np.exp(rng.uniform(0.0, np.log(n_sources + 1), size=n)).astype(int)
    n_weighed = np.where(np.arange(n) % 2, n_sources, some.clip(1, n_sources))
    weighed = rng.random((n, n_sources)).argsort(1).argsort(1) < n_weighed[:, None]
    low, high = np.log(CONCENTRATIONS)
    concentration = np.exp(rng.uniform(low, high, size=n))
    weights = weighed * (rng.gamma(concentration[:, None], size=(n, n_sources)) + 1e-300)
    return np.concatenate([corners, weights / weights.sum(1, keepdims=True)])
