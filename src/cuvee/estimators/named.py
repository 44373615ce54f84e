"""The models that `cuvee adapt --model` knows by name."""

from __future__ import annotations

from typing import Any

from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline

from cuvee.data.task import Task
from cuvee.estimators.bins import Bins

# A leaf of a few rows: forests of single rows are as large as the table itself, for every target.
FOREST: dict[str, Any] = {"n_estimators": 200, "min_samples_leaf": 3}


def named(model: str, task: Task) -> Any:
    """Return the estimator that `model` names, for classes, a quantity or counts.

    Histogram gradient boosting stops early by itself where it has more than 10,000 rows.

    >>> named("trees", Task.counts)[-1].loss
    'poisson'
    """
    if model == "forest":
        make = RandomForestClassifier if task is Task.classification else RandomForestRegressor
        return make(**FOREST)
    if task is Task.classification:
        return make_pipeline(Bins(), HistGradientBoostingClassifier())
    loss = "poisson" if task is Task.counts else "squared_error"
    return make_pipeline(Bins(), HistGradientBoostingRegressor(loss=loss))


def linear(task: Task, l2: float, n_rows: int) -> Any:
    """Return scikit-learn's linear model with the penalty that `l2` is for so many weighed rows.

    It is the linear hypothesis on the same terms as trees, so that folds can compare them.
    """
    l2 = max(l2, 1e-9)
    if task is Task.classification:
        return LogisticRegression(C=1.0 / (l2 * n_rows), max_iter=200)
    return PoissonRegressor(alpha=l2) if task is Task.counts else Ridge(alpha=l2 * n_rows)
