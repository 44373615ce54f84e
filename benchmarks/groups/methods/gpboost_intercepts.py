"""GPBoost: boosting and a random intercept for each domain; rounds by CV, label standardised."""

import gpboost as gpb
import numpy as np
from benchmarks.groups.methods._frames import Categories, within

INSTALL = ("gpboost==1.8.0",)
SETTINGS = {"learning_rate": 0.05, "max_depth": 6, "min_data_in_leaf": 10, "verbose": -1}


def fit(task):
    if len(task.classes) > 2:
        raise ValueError("GPBoost has no likelihood for more than two classes")
    frames = Categories(task, domain=False)
    settings = {**SETTINGS, "num_threads": task.threads, "seed": task.seed}
    y = np.log1p(task.y) if task.kind == "count" else task.y  # its Poisson overflows on some tables
    mean, scale = (0.0, 1.0) if task.classes else (y.mean(), y.std())
    rows = gpb.Dataset(frames.codes(task.rows), (y - mean) / scale, free_raw_data=False)
    random = gpb.GPModel(
        group_data=task.rows[task.domain].to_numpy(),
        likelihood="bernoulli_logit" if task.classes else "gaussian",
        num_parallel_threads=task.threads,
    )
    cv = {"nfold": 4, "seed": task.seed, "early_stopping_rounds": 10, "verbose_eval": False}
    tried = gpb.cv(settings, rows, 500, gp_model=random, use_gp_model_for_validation=True, **cv)
    means = next(v for k, v in tried.items() if k.endswith("-mean"))
    model = gpb.train(settings, rows, int(np.argmin(means)) + 1, gp_model=random)

    def answer(frame):
        X, groups = frames.codes(frame), frame[task.domain].to_numpy()
        told = model.predict(data=X, group_data_pred=groups, pred_latent=False)["response_mean"]
        if task.classes:
            return np.column_stack([1 - told, told])
        told = told * scale + mean
        return within(task, np.expm1(told) if task.kind == "count" else told)

    return answer
