"""LightGBM as it comes, with the domain as a category."""

from benchmarks.groups.methods._frames import Categories, all_classes, within
from lightgbm import LGBMClassifier, LGBMRegressor

INSTALL = ("lightgbm==4.7.0",)


def fit(task, *, domain=True):
    frames = Categories(task, domain=domain)
    settings = {"random_state": task.seed, "n_jobs": task.threads, "verbosity": -1}
    if task.classes:
        model = LGBMClassifier(**settings).fit(frames(task.rows), task.y)
        return lambda f: all_classes(task, model.predict_proba(frames(f)), model.classes_)
    objective = "poisson" if task.kind == "count" else "l2"
    model = LGBMRegressor(objective=objective, **settings).fit(frames(task.rows), task.y)
    return lambda f: within(task, model.predict(frames(f)))
