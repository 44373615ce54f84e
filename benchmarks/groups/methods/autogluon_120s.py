"""AutoGluon, good_quality, 120 seconds, the domain as a column."""

import tempfile

import numpy as np
from autogluon.tabular import TabularPredictor

INSTALL = ("autogluon.tabular[lightgbm,catboost]==1.6.3",)
ENVIRONMENT = "autogluon"


def fit(task):
    columns = [*task.features, task.domain]
    y = np.log1p(task.y) if task.kind == "count" else task.y
    rows = task.rows[columns].assign(_y=y.astype(int) if task.classes else y)
    rows[task.domain] = rows[task.domain].astype("category")
    kind = "multiclass" if len(task.classes) > 2 else "binary" if task.classes else "regression"
    metric = "log_loss" if task.classes else "root_mean_squared_error"
    folder = tempfile.TemporaryDirectory()
    model = TabularPredictor(
        "_y", problem_type=kind, eval_metric=metric, path=folder.name, verbosity=0
    )
    # a run of the benchmark ends processes above 8 GiB: AutoGluon is told of some less
    model.fit(rows, presets="good_quality", time_limit=120, num_cpus=task.threads, memory_limit=6)

    def answer(frame, folder=folder):  # the folder of the models goes with this function
        if task.classes:
            told = model.predict_proba(frame[columns])
            return told.reindex(columns=range(len(task.classes)), fill_value=0.0).to_numpy()
        values = model.predict(frame[columns]).to_numpy()
        return np.expm1(values).clip(0, task.y.max()) if task.kind == "count" else values

    return answer
