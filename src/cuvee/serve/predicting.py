"""Predictions of many requests at once: plain rows without a frame, others in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cuvee.problem import Array
from cuvee.results import Floats
from cuvee.run import Run

QUICK = 2**14  # numbers of a batch that is answered without waking a thread


class Asked(NamedTuple):
    """Rows to predict, by the model of one target of a run as it was when they came."""

    run: Run
    rows: Any  # encoded (rows, d), or a frame
    target: str


@dataclass(frozen=True, eq=False)
class Predicted:
    """The predictions of one request."""

    predictions: Array  # (rows,)
    chance: Floats | None  # (rows, classes)
    classes: Array | None

    def as_dict(self) -> dict[str, Any]:
        """Return them as JSON has them, with the probabilities of each class, if there are some."""
        answers: dict[str, Any] = {"predictions": self.predictions}
        if self.chance is not None and self.classes is not None:
            columns = zip(self.classes.tolist(), self.chance.T, strict=True)
            answers["probabilities"] = {str(c): values for c, values in columns}
        return answers

    def frame(self) -> Any:
        """Return them with the columns that `cuvee predict` writes."""
        import pandas as pd

        columns = {"prediction": self.predictions}
        if self.chance is not None and self.classes is not None:
            columns |= {f"p({c})": self.chance[:, k] for k, c in enumerate(self.classes)}
        return pd.DataFrame(columns)


def quick(asked: Sequence[Asked]) -> bool:
    """Return whether a batch takes less than waking a thread."""
    plain = all(isinstance(one.rows, np.ndarray) for one in asked)
    return plain and sum(one.rows.size for one in asked) <= QUICK


def predicted(asked: Sequence[Asked]) -> list[Predicted]:
    """Return the predictions of all requests; rows that can stand together are answered together.

    Those are encoded rows of one model, and frames with columns of the same kinds: text beside
    numbers would be read in another way.
    """
    groups: dict[Any, list[int]] = {}
    for i, (run, rows, target) in enumerate(asked):
        if isinstance(rows, np.ndarray):
            groups.setdefault((id(run), target), []).append(i)
        else:
            kinds = (*rows.columns, *map(str, rows.dtypes))
            groups.setdefault((id(run), None, *kinds), []).append(i)
    answers: dict[int, Predicted] = {}
    for at in groups.values():
        part = [asked[i] for i in at]
        whole = _of_encoded(part) if isinstance(part[0].rows, np.ndarray) else _of_frames(part)
        ends = np.cumsum([len(one.rows) for one in part])
        for i, low, high in zip(at, [0, *ends[:-1]], ends, strict=True):
            chance = None if whole.chance is None else whole.chance[low:high]
            answers[i] = Predicted(whole.predictions[low:high], chance, whole.classes)
    return [answers[i] for i in range(len(asked))]


def _of_encoded(asked: Sequence[Asked]) -> Predicted:
    run, rows, target = asked[0]
    X = rows if len(asked) == 1 else np.concatenate([one.rows for one in asked])
    return Predicted(*run.of_encoded(X, target), run.classes)


def _of_frames(asked: Sequence[Asked]) -> Predicted:
    import pandas as pd

    run = asked[0].run
    kept = [name for name in run.features if name in asked[0].rows.columns]
    frames = [one.rows[kept] for one in asked]
    names = [np.full(len(one.rows), one.target, dtype=object) for one in asked]
    joined = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
    answers = run.answer(joined, np.concatenate(names))
    chances = [answers[f"p({c})"] for c in ([] if run.classes is None else run.classes)]
    chance = np.stack(chances, 1) if chances else None
    return Predicted(answers["prediction"].to_numpy(), chance, run.classes)
