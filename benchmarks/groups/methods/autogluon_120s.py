"""AutoGluon, good_quality, 120 seconds, the domain as a column."""

import shutil
import tempfile

import numpy as np
from autogluon.tabular import TabularPredictor

INSTALL = ("autogluon.tabular[lightgbm,catboost]==1.6.3",)
ENVIRONMENT = "autogluon"


def fit(task):
    columns = [*task.features, task.domain]
    rows = task.rows[columns].assign(_y=task.y.astype(int) if task.classes else task.y)
    kind = (
        "regression" if not task.classes else "binary" if len(task.classes) == 2 else "multiclass"
    )
    metric = "log_loss" if task.classes else "root_mean_squared_error"
    if task.kind == "count":
        rows["_y"] = np.log1p(rows["_y"])
    folder = tempfile.mkdtemp()
    model = TabularPredictor("_y", problem_type=kind, eval_metric=metric, path=folder, verbosity=0)
    model.fit(
        rows, presets="good_quality", time_limit=120, num_cpus=task.threads, dynamic_stacking=False
    )

    def answer(frame):
        try:
            if task.classes:
                told = model.predict_proba(frame[columns])
                return told.reindex(columns=range(len(task.classes)), fill_value=0.0).to_numpy()
            values = model.predict(frame[columns]).to_numpy()
            return np.expm1(values).clip(0, task.y.max()) if task.kind == "count" else values
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return answer
