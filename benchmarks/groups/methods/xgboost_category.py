"""XGBoost with the domain as a category."""

from benchmarks.groups.methods._frames import Categories, all_classes, within
from xgboost import XGBClassifier, XGBRegressor

INSTALL = ("xgboost-cpu==3.2.0",)


def fit(task):
    frames = Categories(task)
    settings = {
        "n_estimators": 300,
        "learning_rate": 0.05,
        "max_depth": 6,
        "tree_method": "hist",
        "enable_categorical": True,
        "random_state": task.seed,
        "n_jobs": task.threads,
    }
    if task.classes:
        known = sorted(set(task.y.astype(int)))  # XGBoost wants classes 0, 1, ... without gaps
        model = XGBClassifier(**settings).fit(frames(task.rows), [known.index(c) for c in task.y])
        return lambda f: all_classes(task, model.predict_proba(frames(f)), known)
    objective = "count:poisson" if task.kind == "count" else "reg:squarederror"
    model = XGBRegressor(objective=objective, **settings).fit(frames(task.rows), task.y)
    return lambda f: within(task, model.predict(frames(f)))
