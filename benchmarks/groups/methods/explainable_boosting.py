"""Explainable boosting machines (interpret) with the domain as a category."""

import numpy as np
from benchmarks.groups.methods._frames import Categories, all_classes, within
from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

INSTALL = ("interpret-core==0.7.8",)
# Its default is 5 pairs for each column (3 for classes), which take four fifths of its time: a
# minute and more for a table of 12,000 rows and 17 columns. With 10 pairs it is a third of that.
PAIRS = 10


def fit(task):
    frames = Categories(task)
    kinds = ["nominal" if c in frames.levels else "continuous" for c in frames.columns]
    settings = {"feature_types": kinds, "interactions": PAIRS, "random_state": task.seed}
    settings["n_jobs"] = task.threads
    if task.classes:
        model = ExplainableBoostingClassifier(**settings).fit(frames(task.rows), task.y.astype(int))
        return lambda f: all_classes(task, model.predict_proba(frames(f)), model.classes_)
    y = np.log1p(task.y) if task.kind == "count" else task.y  # its Poisson loss overflows
    model = ExplainableBoostingRegressor(**settings).fit(frames(task.rows), y)
    back = np.expm1 if task.kind == "count" else np.asarray
    return lambda f: within(task, back(model.predict(frames(f))))
