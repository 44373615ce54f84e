"""Predictions of many requests at once: plain rows without a frame, others in one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    strict: bool = False  # categories that no training row has are an error


@dataclass(frozen=True, eq=False)
class Predicted:
    """The predictions of one request."""

    predictions: Array  # (rows,)
    chance: Floats | None  # (rows, classes)
    classes: Array | None
    notes: Sequence[str] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return them as JSON has them, with the probabilities of each class, if there are some."""
        answers: dict[str, Any] = {"predictions": self.predictions}
        if self.chance is not None and self.classes is not None:
            columns = zip(self.classes.tolist(), self.chance.T, strict=True)
            answers["probabilities"] = {str(c): values for c, values in columns}
        return answers | ({"notes": [*self.notes]} if self.notes else {})

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
    for i, (run, rows, target, _) in enumerate(asked):
        if isinstance(rows, np.ndarray):
            groups.setdefault((id(run), target), []).append(i)
        else:
            kinds = (*rows.columns, *map(str, rows.dtypes))
            groups.setdefault((id(run), None, *kinds), []).append(i)
    answers: dict[int, Predicted] = {}
    for at in groups.values():
        part = [asked[i] for i in at]
        plain = isinstance(part[0].rows, np.ndarray)
        answers |= zip(at, _of_encoded(part) if plain else _of_frames(part), strict=True)
    return [answers[i] for i in range(len(asked))]


def _of_encoded(asked: Sequence[Asked]) -> Iterator[Predicted]:
    run, rows, target, _ = asked[0]
    X = rows if len(asked) == 1 else np.concatenate([one.rows for one in asked])
    predictions, chance = run.of_encoded(X, target)
    for at in _slices(asked):
        yield Predicted(predictions[at], None if chance is None else chance[at], run.classes)


def _of_frames(asked: Sequence[Asked]) -> Iterator[Predicted]:
    import pandas as pd

    run = asked[0].run
    kept = [name for name in run.features if name in asked[0].rows.columns]
    frames = [one.rows[kept] for one in asked]
    names = [np.full(len(one.rows), one.target, dtype=object) for one in asked]
    joined = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
    rows, whose = run.read(joined), np.concatenate(names)
    answers = run.answer(rows, whose)
    predictions = answers["prediction"].to_numpy()
    chances = [answers[f"p({c})"] for c in ([] if run.classes is None else run.classes)]
    chance = np.stack(chances, 1) if chances else None
    for at, one in zip(_slices(asked), asked, strict=True):
        own = rows.iloc[at].reset_index(drop=True)
        notes = run.unseen(own, whose[at], strict=one.strict)
        share = None if chance is None else chance[at]
        yield Predicted(predictions[at], share, run.classes, notes)


def _slices(asked: Sequence[Asked]) -> list[slice]:
    """Return where the rows of each request lie among those of all."""
    ends = np.cumsum([len(one.rows) for one in asked]).tolist()
    return [slice(low, high) for low, high in zip([0, *ends[:-1]], ends, strict=True)]
