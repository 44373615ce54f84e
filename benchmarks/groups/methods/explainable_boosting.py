"""Explainable boosting machines (interpret) with the domain as a category."""

import numpy as np
from benchmarks.groups.methods._frames import Categories, all_classes, within
from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

INSTALL = ("interpret-core==0.7.8",)


def fit(task):
    categories = Categories(task)
    kinds = ["nominal" if c in categories.levels else "continuous" for c in categories.columns]

    def frames(frame):
        out = categories(frame)
        return out.assign(**{c: out[c].astype(object).fillna("missing") for c in categories.levels})

    settings = {"feature_types": kinds, "random_state": task.seed, "n_jobs": task.threads}
    if len(task.classes) > 2:
        settings["interactions"] = 0  # what it supports for more than two classes
    if task.classes:
        model = ExplainableBoostingClassifier(**settings).fit(frames(task.rows), task.y.astype(int))
        return lambda f: all_classes(task, model.predict_proba(frames(f)), model.classes_)
    y = np.log1p(task.y) if task.kind == "count" else task.y  # its Poisson loss overflows
    model = ExplainableBoostingRegressor(**settings).fit(frames(task.rows), y)
    if task.kind == "count":
        return lambda f: within(task, np.expm1(model.predict(frames(f))))
    return lambda f: model.predict(frames(f))
