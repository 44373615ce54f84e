"""Hold the settings that a map is learnt with, checked on creation."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cuvee.errors import check_number, check_whole
from cuvee.learn import registry
from cuvee.learn.options import Options

LEAST_LABELS = 4
LABEL_TOL = 1e-3  # of the tolerance, within LABEL_TOLS: errors of labels must not matter
LABEL_TOLS = (1e-9, 1e-5)


@dataclass(frozen=True)
class Settings:
    """Hold what a map is learnt with; the same is used again when a source comes or goes."""

    method: str
    n_labels: int
    n_calibration: int
    concentration: float | None  # of the Dirichlet law; None for a sample that was given
    level: float
    options: Options
    device: str
    memory: int

    def __post_init__(self) -> None:
        registry.find(self.method)
        check_number("level", self.level, least=0.5, most=0.999)
        if self.concentration is not None:
            check_number("concentration", self.concentration, above=0.0)
            object.__setattr__(self, "concentration", float(self.concentration))
        for name, least in (("n_labels", LEAST_LABELS), ("n_calibration", 0)):
            check_whole(name, getattr(self, name), least)
            object.__setattr__(self, name, int(getattr(self, name)))  # a plain int, for JSON
        object.__setattr__(self, "level", float(self.level))

    @property
    def label_tol(self) -> float:
        """Return the tolerance on ‖∇‖∞ of labels."""
        return label_tol(self.options.tol)

    @classmethod
    def restored(cls, noted: dict[str, Any], device: str, memory: int) -> Settings:
        """Return the settings that `noted` put into a file."""
        options = Options(**noted["options"], K=noted["K"])
        fields = {name: value for name, value in noted.items() if name not in ("K", "options")}
        return cls(**fields, options=options, device=device, memory=memory)

    def noted(self) -> dict[str, Any]:
        """Return the settings for a file, without what belongs to a machine.

        K stands outside the options, as in all earlier files.
        """
        notes = asdict(self)
        options = notes.pop("options")
        K = options.pop("K")
        for name in ("device", "memory"):
            del notes[name]
        return {**notes, "K": K, "options": options}


def label_tol(tol: float) -> float:
    """Return the tolerance on ‖∇‖∞ of labels, for a map that is to be within `tol`."""
    return float(np.clip(LABEL_TOL * tol, *LABEL_TOLS))
