"""How a method calls `cuvee.adapt`: with the frame as it is, and nothing tuned."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import cuvee

TASKS = {"quantity": "regression", "count": "counts", "classes": "classification"}


def adapt(task, **options):
    """Return answers of a run on the labelled rows, and on the unlabelled ones if they are seen."""
    rows = task.rows[[*task.features, task.domain, task.label]]
    if task.unlabelled is not None:
        rows = pd.concat([rows, task.unlabelled], ignore_index=True)
    folder = tempfile.TemporaryDirectory()
    run = cuvee.adapt(
        rows,
        Path(folder.name) / "run",
        domain=task.domain,
        label=task.label,
        targets=task.targets,
        task=TASKS[task.kind],
        impute=True,
        seed=task.seed,
        **options,
    )
    return _Answers(task, run, folder)


class _Answers:
    """The models of a run, for frames."""

    def __init__(self, task, run, folder):
        self.task, self.run, self.folder = task, run, folder  # the folder goes with the models

    def __call__(self, frame):
        if not self.task.classes:
            return self.run.predict(frame)["prediction"].to_numpy(float)
        known = [self.task.classes.index(str(c)) for c in self.run.classes]
        out = np.zeros((len(frame), len(self.task.classes)))
        out[:, known] = self.run.predict_proba(frame)
        return out
