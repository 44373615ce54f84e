"""ChimeraBoost as it comes, with the domain and all text as categories."""

import numpy as np
from benchmarks.groups.methods._frames import Categories, all_classes, within
from chimeraboost import ChimeraBoostClassifier, ChimeraBoostRegressor

INSTALL = ("chimeraboost==0.34.0",)


def fit(task):
    frames = Categories(task)
    codes = lambda f: frames.codes(f).fillna(dict.fromkeys(frames.levels, -1.0))  # noqa: E731
    settings = {"random_state": task.seed, "thread_count": task.threads, "ensemble_n_jobs": 1}
    fitted = {"cat_features": frames.places}
    if task.classes:
        model = ChimeraBoostClassifier(**settings)
        model.fit(codes(task.rows).to_numpy(), task.y.astype(int), **fitted)
        return lambda f: all_classes(task, model.predict_proba(codes(f).to_numpy()), model.classes_)
    y = np.log1p(task.y) if task.kind == "count" else task.y
    model = ChimeraBoostRegressor(**settings).fit(codes(task.rows).to_numpy(), y, **fitted)
    back = np.expm1 if task.kind == "count" else np.asarray
    return lambda f: within(task, back(model.predict(codes(f).to_numpy())))
