"""The models that `cuvee adapt --model` knows by name."""

from __future__ import annotations

from importlib import import_module
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
from cuvee.errors import MissingExtra
from cuvee.estimators.bins import Bins

PACKAGES = {"lightgbm": "lightgbm", "xgboost": "xgboost"}
# A leaf of a few rows: forests of single rows are as large as the table itself, for every target.
FOREST: dict[str, Any] = {"n_estimators": 100, "min_samples_leaf": 3}
COLUMNS = 1 / 3  # of a quantity's, from which each split of a forest draws; of classes √columns
# Mixtures put most weight on few rows, which larger trees learn by heart; these take half the time.
TREES: dict[str, Any] = {"max_leaf_nodes": 8}


def named(model: str, task: Task) -> Any:
    """Return the estimator that `model` names, for classes, a quantity or counts.

    Histogram gradient boosting stops early by itself where it has more than 10,000 rows. All
    settings of LightGBM and XGBoost are their own but the number of threads: workers fit many at
    once.

    >>> named("trees", Task.counts)[-1].loss
    'poisson'
    """
    classify, counts = task is Task.classification, task is Task.counts
    if model == "forest":
        if classify:
            return RandomForestClassifier(**FOREST)
        return RandomForestRegressor(max_features=COLUMNS, **FOREST)
    if model == "lightgbm":
        lightgbm, how = package(model), {"n_jobs": 1, "verbose": -1}
        if classify:
            return lightgbm.LGBMClassifier(**how)
        return lightgbm.LGBMRegressor(objective="poisson" if counts else "regression", **how)
    if model == "xgboost":
        xgboost = package(model)
        if classify:
            return xgboost.XGBClassifier(n_jobs=1)
        objective = "count:poisson" if counts else "reg:squarederror"
        return xgboost.XGBRegressor(objective=objective, n_jobs=1)
    if classify:
        return make_pipeline(Bins(), HistGradientBoostingClassifier(**TREES))
    loss = "poisson" if counts else "squared_error"
    return make_pipeline(Bins(), HistGradientBoostingRegressor(loss=loss, **TREES))


def package(model: str) -> Any:
    """Return the package that a model is from; raise `MissingExtra` where it is not installed."""
    try:
        return import_module(PACKAGES.get(model, "sklearn"))
    except ImportError:
        raise MissingExtra(
            f"model {model!r} needs the package {PACKAGES[model]}, which is not installed: "
            f"pip install 'cuvee[{model}]', or choose the model 'trees', which needs no such "
            "package"
        ) from None


def linear(task: Task, l2: float, n_rows: int) -> Any:
    """Return scikit-learn's linear model with the penalty that `l2` is for so many weighed rows.

    It is the linear hypothesis on the same terms as trees, so that folds can compare them.
    """
    l2 = max(l2, 1e-9)
    if task is Task.classification:
        return LogisticRegression(C=1.0 / (l2 * n_rows), max_iter=200)
    return PoissonRegressor(alpha=l2) if task is Task.counts else Ridge(alpha=l2 * n_rows)
