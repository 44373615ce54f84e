"""A linear model whose penalty cross-validation chooses, for the methods that are linear."""

from __future__ import annotations

import numpy as np
from benchmarks.groups.methods._frames import all_classes, within
from sklearn.linear_model import LogisticRegression, PoissonRegressor, RidgeCV
from sklearn.model_selection import GridSearchCV


def fit_linear(task, X, y=None):
    """Return a function: matrix -> answers. Few rows of a class go without cross-validation."""
    y = task.y if y is None else y
    if task.kind == "quantity":
        model = RidgeCV(np.logspace(-2, 4, 13)).fit(X, y)
        return lambda Z: model.predict(Z)
    if task.kind == "count":
        tried = GridSearchCV(PoissonRegressor(max_iter=300), {"alpha": np.logspace(-4, 1, 6)}, cv=5)
        model = tried.fit(X, y).best_estimator_ if len(y) >= 10 and y.any() else None
        if model is None:
            return lambda Z: np.full(len(Z), y.mean())
        return lambda Z: within(task, model.predict(Z))
    known, counts = np.unique(y, return_counts=True)
    if len(known) == 1:
        return lambda Z: all_classes(task, np.ones((len(Z), 1)), known)
    plain = LogisticRegression(max_iter=500)
    if counts.min() < 3 or len(y) * X.shape[1] > 3e6:
        model = plain.fit(X, y)
    else:
        grid = {"C": [0.003, 0.03, 0.3, 3.0]}
        model = GridSearchCV(plain, grid, cv=3, scoring="neg_log_loss").fit(X, y).best_estimator_
    return lambda Z: all_classes(task, model.predict_proba(Z), known)
