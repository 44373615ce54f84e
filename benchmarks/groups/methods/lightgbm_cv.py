"""LightGBM on all rows with the domain as a category; the number of rounds by cross-validation."""

import lightgbm as lgb
import numpy as np
from benchmarks.groups.methods._frames import Categories

INSTALL = ("lightgbm==4.7.0",)
SETTINGS = {
    "learning_rate": 0.05,
    "num_leaves": 31,
    "min_data_in_leaf": 10,
    "min_data_per_group": 10,  # 100, the default, hides small groups
    "cat_smooth": 5,
    "cat_l2": 5,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "feature_fraction": 0.8,
    "verbosity": -1,
}


def fit(task):
    frames, y = Categories(task), task.y
    objective = {"quantity": "l2", "count": "poisson", "classes": "multiclass"}[task.kind]
    settings = {**SETTINGS, "objective": objective, "seed": task.seed, "num_threads": task.threads}
    if task.classes:
        settings["num_class"] = len(task.classes)
    rows = lgb.Dataset(frames(task.rows), y, free_raw_data=False)
    folds = np.random.default_rng(task.seed).permutation(len(y)) % 5
    tried = lgb.cv(
        settings,
        rows,
        2000,
        folds=[(np.flatnonzero(folds != f), np.flatnonzero(folds == f)) for f in range(5)],
        callbacks=[lgb.early_stopping(30, verbose=False)],
    )
    rounds = int(1.1 * len(next(iter(tried.values()))))
    model = lgb.train(settings, rows, rounds)
    return lambda frame: model.predict(frames(frame), num_threads=task.threads)
