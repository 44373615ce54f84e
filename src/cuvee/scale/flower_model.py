"""Use the model that a federated run has handed to a target."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cuvee.data.encode import Encoder, unseen_in
from cuvee.data.frame import read_rows
from cuvee.errors import CuveeWarning, InputError
from cuvee.problem import Array
from cuvee.results import Floats


@dataclass(frozen=True, eq=False)
class FederatedModel:
    """Hold one target's model: rules for its columns, and a linear score per output."""

    target: str
    task: str
    encoder: Encoder
    w: Floats  # (outputs, encoded columns + 1), the intercept last
    offset: float
    classes: tuple[str, ...] | None
    alpha: dict[str, float]

    @classmethod
    def load(cls, path: str | Path) -> FederatedModel:
        """Read the model that lies beside the site's table."""
        try:
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
            encoder = Encoder.from_dict(stored["encoder"])
            w = np.array(stored["w"], dtype=np.float64).reshape(-1, len(encoder.names) + 1)
            classes = stored["classes"]
            return cls(
                str(stored["target"]), str(stored["task"]), encoder, w, float(stored["offset"]),
                None if classes is None else tuple(map(str, classes)), dict(stored["alpha"]),
            )  # fmt: skip
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is not a model of a federated run: {error}") from None

    def predict(self, table: Any) -> Array:
        """Return a prediction per row of a file or a frame; classes are returned as text."""
        scores = self._scores(table)
        if self.classes is not None:
            winner = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(1)
            return np.array(self.classes, dtype=object)[winner.astype(int)]
        values = scores[:, 0] + self.offset
        return np.asarray(np.exp(values) if self.task == "counts" else values)

    def _scores(self, table: Any) -> Floats:
        frame = read_rows(table, self.encoder.features, text=self.encoder.text)
        for note in unseen_in([(self.encoder, frame)], "row"):
            warnings.warn(note, CuveeWarning, stacklevel=3)
        X = self.encoder(frame, where=self.target)
        return np.asarray(X @ self.w[:, :-1].T + self.w[:, -1])
