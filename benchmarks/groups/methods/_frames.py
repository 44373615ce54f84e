"""What several methods do to a frame before they learn: categories for trees, a matrix for linear
models.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from benchmarks.groups.task import BLOCK, Array, Task
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold


class Categories:
    """Frames with text, booleans and the domain as pandas categories whose levels the labelled rows
    name.
    """

    def __init__(self, task: Task, *, domain: bool = True) -> None:
        self.columns = task.features + [task.domain] * domain
        rows = task.rows
        self.levels = {
            c: sorted(rows[c].dropna().astype(str).unique())
            for c in self.columns
            if c == task.domain
            or not pd.api.types.is_numeric_dtype(rows[c])
            or rows[c].dtype == bool
        }

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the columns to learn from; a level that is not known is missing."""
        out = {}
        for c in self.columns:
            column = frame[c]
            if c in self.levels:
                text = column.astype(str).where(column.notna())
                known = text.where(text.isin(self.levels[c]))
                out[c] = pd.Categorical(known, categories=self.levels[c])
            else:
                out[c] = column.astype(float)
        return pd.DataFrame(out, index=frame.index)

    def codes(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the same with categories as whole numbers, missing as NaN."""
        out = self(frame)
        for c in self.levels:
            codes = out[c].cat.codes.astype(float)
            out[c] = codes.where(codes >= 0)
        return out

    @property
    def places(self) -> list[int]:
        """The places of the columns that are categories."""
        return [i for i, c in enumerate(self.columns) if c in self.levels]


class Matrix:
    """Numbers standardised, gaps at the median with a column that says so, text as columns of 0 and
    1.
    """

    def __init__(self, task: Task, *, domain: bool = False, most_levels: int = 30) -> None:
        self.frames = Categories(task, domain=domain)
        seen = self.frames(task.rows)
        self.numbers = [c for c in self.frames.columns if c not in self.frames.levels]
        self.medians = seen[self.numbers].median().fillna(0.0)
        self.gaps = [c for c in self.numbers if seen[c].isna().any()]
        self.levels = {
            c: list(seen[c].value_counts().index[: None if c == task.domain else most_levels])
            for c in self.frames.levels
        }
        raw = seen[self.numbers].fillna(self.medians).to_numpy(float)
        self.mean, self.scale = raw.mean(0), raw.std(0)
        self.scale[self.scale < 1e-12] = 1.0

    def __call__(self, frame: pd.DataFrame) -> Array:
        """Return (rows, columns) of numbers."""
        seen = self.frames(frame)
        raw = seen[self.numbers].fillna(self.medians).to_numpy(float)
        parts = [(raw - self.mean) / self.scale]
        parts += [seen[[c]].isna().to_numpy(float) for c in self.gaps]
        parts += [
            (seen[[c]].astype(object).to_numpy() == np.array([names], dtype=object)).astype(float)
            for c, names in self.levels.items()
        ]
        return np.hstack(parts)


def all_classes(task: Task, probabilities: Array, known: Array) -> Array:
    """Return (rows, classes) where a model may know some classes alone.

    Where a class is in none of the rows learnt from, each class counts as having one row more
    (Laplace's rule): no class is impossible because few rows do not have it.
    """
    out, n = np.zeros((len(probabilities), len(task.classes))), len(task.rows)
    out[:, np.asarray(known, dtype=int)] = probabilities
    return out if len(known) == out.shape[1] else (n * out + 1) / (n + out.shape[1])


def folds(task: Task, n: int) -> list[tuple[Array, Array]]:
    """Return the places to learn from and to test on of n folds, which are drawn at random.

    Classes have their shares in each fold, and rows of a block are in one.
    """
    block = task.rows.get(BLOCK)
    if task.classes:
        kind = StratifiedKFold if block is None else StratifiedGroupKFold
    else:
        kind = KFold if block is None else GroupKFold
    drawn = kind(n, shuffle=True, random_state=task.seed)
    return list(drawn.split(task.rows, task.y, block))


def within(task: Task, values: Array) -> Array:
    """Return answers held within the range of the labels seen; Poisson models overflow without."""
    return np.clip(values, task.y.min(), task.y.max())
