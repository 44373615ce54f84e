"""LightGBM on all rows with the domain as a category; the number of rounds by cross-validation."""

import lightgbm as lgb
import numpy as np
from benchmarks.groups.methods._frames import Categories, folds, within

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
    frames, many = Categories(task), len(task.classes) > 2
    kinds = {"quantity": "l2", "count": "poisson", "classes": "multiclass" if many else "binary"}
    settings = {**SETTINGS, "objective": kinds[task.kind], "seed": task.seed}
    settings |= {"num_threads": task.threads} | ({"num_class": len(task.classes)} if many else {})
    rows = lgb.Dataset(frames(task.rows), task.y, free_raw_data=False)
    stop = lgb.early_stopping(30, verbose=False)
    tried = lgb.cv(settings, rows, 2000, folds=folds(task, 5), callbacks=[stop])
    rounds = int(1.1 * len(next(iter(tried.values()))))  # all rows: a quarter more than in a fold
    model = lgb.train(settings, rows, rounds)

    def answer(frame):
        told = model.predict(frames(frame), num_threads=task.threads)
        if not task.classes:
            return within(task, told)
        return told if many else np.column_stack([1 - told, told])

    return answer
