"""What learning a map ends with: the predictor, what its bounds rest on, and what was measured on
the way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from cuvee.api.bound import Bound
from cuvee.learn.base import Descending, Labels, Predictor
from cuvee.learn.calibrate import Calibration
from cuvee.learn.choose import Trial
from cuvee.learn.settings import Settings
from cuvee.learn.subspace import Subspace
from cuvee.results import Status


@dataclass(frozen=True, repr=False)
class Selection:
    """Hold what was measured while a map was learnt, and why it is the one it is."""

    method: str
    n_labels: int
    n_calibration: int
    trials: tuple[Trial, ...]
    seconds: dict[str, float]  # labels, fit, calibration
    passes: int  # over the data, for all labels together
    law: str  # the mixtures' that it was learnt from
    why: str
    saved: str = ""
    """What a warm start saved, for a map that grew out of another."""

    @classmethod
    def restored(cls, noted: dict[str, Any]) -> Selection:
        """Return what a file holds of it."""
        return cls(**{**noted, "trials": tuple(Trial(**t) for t in noted["trials"])})

    def __str__(self) -> str:
        tried = [
            f"  {t.name}: median error {t.error:.1e}, ‖∇‖∞ ≤ {t.gradient:.1e} on 95 % of held-out "
            "mixtures"
            for t in self.trials
            if np.isfinite(t.error)
        ]
        return "\n".join([self.why, *tried, *([self.saved] if self.saved else [])])

    __repr__ = __str__


@dataclass(frozen=True, eq=False, repr=False)
class Learnt:
    """A learnt map α -> w*(α) with the data it was learnt from.

    `ModelMap` is how a user asks it.
    """

    bound: Bound = field(repr=False)
    predictor: Predictor | Descending = field(repr=False)
    subspace: Subspace = field(repr=False)
    calibration: Calibration = field(repr=False)
    labels: Labels = field(repr=False)
    plan: Selection
    settings: Settings = field(repr=False)
    status: Status
    """How the fit ended: "diverged" is kept with the best finite parameters."""

    @property
    def _passes(self) -> int:
        """Return how many passes over the data a prediction takes: 0 unless the map descends."""
        return self.predictor.passes if isinstance(self.predictor, Descending) else 0

    @cached_property
    def _ask(self) -> Predictor:
        predictor = self.predictor
        return predictor.by(self.bound.descend) if isinstance(predictor, Descending) else predictor

    def predicted(self, alpha: Tensor) -> Tensor:
        """Return ŵ (M, P) for checked mixtures, with nothing said about it."""
        return self.bound.space.project(self.subspace.decode(self._ask(alpha)))
