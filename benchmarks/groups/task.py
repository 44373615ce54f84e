"""What a method sees of a benchmark task, and how a task travels to the process of a method.

A method is a file of `methods/` with two things:

    INSTALL = ("lightgbm==4.7.0",)      # what its users install

    def fit(task):                      # learns from task.rows, and returns
        ...                             # a function: frame of rows -> answers

`answers` are a number for each row (a quantity or a count), or for classes an array (rows, classes)
of probabilities with its columns in the order of `task.classes`. This file needs numpy and pandas
alone, as it is imported in the environments of all methods.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

Array = npt.NDArray[np.float64]
Answer = Callable[[pd.DataFrame], Array]
BLOCK = "_block"  # a column of this name says which rows belong together; it is no feature


@dataclass(frozen=True)
class Task:
    """Labelled rows of many groups, and the groups (targets) whose further rows will be asked
    about.

    `rows` has the features with their gaps and texts, the column `domain` (text), the column
    `label`, and a column `_block` where rows must not be split. Targets have k rows in it, sources
    all theirs.
    """

    rows: pd.DataFrame
    domain: str
    label: str
    kind: str  # "quantity", "count" or "classes"
    classes: tuple[str, ...]  # () unless kind is "classes"
    targets: tuple[str, ...]
    unlabelled: (
        pd.DataFrame | None
    )  # further rows of the targets without labels, in the track of that name
    seed: int
    threads: int

    @property
    def features(self) -> list[str]:
        """The columns to learn from, the domain not among them."""
        return [c for c in self.rows.columns if c not in (self.domain, self.label, BLOCK)]

    @property
    def own(self) -> npt.NDArray[np.bool_]:
        """(rows,): is this row one of a target?"""
        return self.rows[self.domain].isin(self.targets).to_numpy()

    @property
    def y(self) -> Array:
        """(rows,): labels as numbers; a class is its place in `classes`."""
        if self.kind != "classes":
            return self.rows[self.label].to_numpy(float)
        place = {name: i for i, name in enumerate(self.classes)}
        return self.rows[self.label].map(place).to_numpy(float)

    def only(self, keep: npt.NDArray[np.bool_]) -> Task:
        """Return the same task with these rows alone."""
        return replace(self, rows=self.rows[keep].reset_index(drop=True))


def write(task: Task, test: pd.DataFrame, folder: Path) -> None:
    """Write a task and the rows to answer (without labels) into an empty folder."""
    task.rows.to_parquet(folder / "rows.parquet")
    test.to_parquet(folder / "test.parquet")
    if task.unlabelled is not None:
        task.unlabelled.to_parquet(folder / "unlabelled.parquet")
    facts = {
        k: v for k, v in asdict(replace(task, rows=None, unlabelled=None)).items() if v is not None
    }
    (folder / "task.json").write_text(json.dumps(facts))


def read(folder: Path, threads: int, *, unlabelled: bool) -> tuple[Task, pd.DataFrame]:
    """Return the task of a folder and its rows to answer."""
    facts = json.loads((folder / "task.json").read_text())
    further = pd.read_parquet(folder / "unlabelled.parquet") if unlabelled else None
    facts |= {
        "rows": pd.read_parquet(folder / "rows.parquet"),
        "classes": tuple(facts["classes"]),
        "targets": tuple(facts["targets"]),
        "unlabelled": further,
        "threads": threads,
    }
    return Task(**facts), pd.read_parquet(folder / "test.parquet")
