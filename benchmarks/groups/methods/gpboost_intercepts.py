"""GPBoost: boosting and a random intercept for each domain, with its own search of parameters."""

import gpboost as gpb
import numpy as np
from benchmarks.groups.methods._frames import Categories, folds, within

INSTALL = ("gpboost==1.8.0",)
GRID = {"learning_rate": [0.1, 0.01], "max_depth": [2, 6]}


def fit(task):
    if len(task.classes) > 2:
        raise ValueError("GPBoost has no likelihood for more than two classes")
    frames, count = Categories(task, domain=False), task.kind == "count"
    y = np.log1p(task.y) if count else task.y  # its Poisson likelihood overflows on some tables
    mean, scale = (0.0, 1.0) if task.classes else (y.mean(), y.std() or 1.0)
    rows = gpb.Dataset(frames(task.rows), (y - mean) / scale, free_raw_data=False)
    random = gpb.GPModel(
        group_data=task.rows[task.domain].to_numpy(),
        likelihood="bernoulli_logit" if task.classes else "gaussian",
        num_parallel_threads=task.threads,
    )
    grid = {**GRID, "learning_rate": [0.1]} if task.classes else GRID  # a quarter of a minute each
    fixed = {"min_data_in_leaf": 10, "verbose": -1, "num_threads": task.threads, "seed": task.seed}
    how = {"folds": folds(task, 4), "early_stopping_rounds": 10, "verbose_eval": 0}
    how |= {"metric": "binary_logloss" if task.classes else "mse", "num_boost_round": 1000}
    best = gpb.grid_search_tune_parameters(grid, rows, random, params=fixed, **how)
    model = gpb.train(fixed | best["best_params"], rows, best["best_iter"], random)

    def answer(frame):
        groups = frame[task.domain].to_numpy()
        told = model.predict(frames(frame), group_data_pred=groups)["response_mean"]
        if task.classes:
            return np.column_stack([1 - told, told])
        return within(task, np.expm1(told * scale + mean) if count else told * scale + mean)

    return answer
