"""ADAPT's TrAdaBoost (for quantities TrAdaBoostR2) over a linear model, for each target."""

import numpy as np
from adapt.instance_based import TrAdaBoost, TrAdaBoostR2
from benchmarks.groups.methods._frames import Matrix, all_classes, within
from benchmarks.groups.methods._per_target import each_target
from sklearn.linear_model import LogisticRegression, Ridge

INSTALL = ("adapt==0.4.5",)
ENVIRONMENT = "adapt"


def fit(task):
    matrix = Matrix(task)
    X, y = matrix(task.rows), np.log1p(task.y) if task.kind == "count" else task.y
    settings = {"n_estimators": 10, "verbose": 0, "random_state": task.seed}

    def one(own):
        if task.classes:
            base = LogisticRegression(max_iter=300)
            model = TrAdaBoost(base, Xt=X[own], yt=y[own], **settings).fit(X[~own], y[~own])
            known = np.unique(y)
            return lambda f: all_classes(task, model.predict_proba(matrix(f)), known)
        model = TrAdaBoostR2(Ridge(), Xt=X[own], yt=y[own], **settings).fit(X[~own], y[~own])
        back = np.expm1 if task.kind == "count" else np.asarray
        return lambda f: within(task, back(np.ravel(model.predict(matrix(f)))))

    return each_target(task, one)
