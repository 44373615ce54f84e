"""ADAPT's TrAdaBoost over a linear model, for each target; for quantities its two-stage form."""

import numpy as np
from adapt.instance_based import TrAdaBoost, TwoStageTrAdaBoostR2
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
            known = np.unique(y[~own])
            return lambda f: all_classes(task, _vote(model, matrix(f)), known)
        model = TwoStageTrAdaBoostR2(Ridge(), Xt=X[own], yt=y[own], **settings)
        model.fit(X[~own], y[~own])
        back = np.expm1 if task.kind == "count" else np.asarray
        return lambda f: within(task, back(np.ravel(model.predict(matrix(f)))))

    return each_target(task, one)


def _vote(model, Z):
    """Return the shares of the vote that `predict` decides by: it gives the winner alone."""
    half = len(model.estimators_) // 2
    voters = zip(model.estimators_[half:], model.estimator_weights_[half:], strict=True)
    votes = sum(weight * voter.predict_proba(Z) for voter, weight in voters)
    return votes / votes.sum(1, keepdims=True)
