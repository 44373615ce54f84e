"""CatBoost with the domain and all text as categories."""

from benchmarks.groups.methods._frames import Categories, all_classes, within
from catboost import CatBoostClassifier, CatBoostRegressor

INSTALL = ("catboost==1.2.10",)


def fit(task):
    categories = Categories(task)
    names = list(categories.levels)

    def frames(frame):
        out = categories(frame)
        return out.assign(**{c: out[c].astype(object).fillna("missing") for c in names})

    settings = {"iterations": 500, "learning_rate": 0.06, "cat_features": names, "verbose": False,
                "random_seed": task.seed, "thread_count": task.threads,
                "allow_writing_files": False}  # fmt: skip
    if task.classes:
        model = CatBoostClassifier(**settings).fit(frames(task.rows), task.y.astype(int))
        return lambda f: all_classes(task, model.predict_proba(frames(f)), model.classes_)
    if task.kind == "count":
        model = CatBoostRegressor(loss_function="Poisson", **settings).fit(
            frames(task.rows), task.y
        )
        return lambda f: within(task, model.predict(frames(f), prediction_type="Exponent"))
    model = CatBoostRegressor(**settings).fit(frames(task.rows), task.y)
    return lambda f: model.predict(frames(f))
