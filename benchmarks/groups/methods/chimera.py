"""ChimeraBoost as it comes, with the domain and all text as categories."""

from benchmarks.groups.methods._frames import Categories, all_classes, within
from benchmarks.groups.task import BLOCK
from chimeraboost import ChimeraBoostClassifier, ChimeraBoostRegressor

INSTALL = ("chimeraboost==0.34.0",)


def fit(task):
    categories = Categories(task)
    frames = lambda f: categories.codes(f).to_numpy()  # noqa: E731
    settings = {"random_state": task.seed, "thread_count": task.threads}
    fitted = {"cat_features": categories.places, "groups": task.rows.get(BLOCK)}
    if task.classes:
        model = ChimeraBoostClassifier(**settings)
        model.fit(frames(task.rows), task.y.astype(int), **fitted)
        return lambda f: all_classes(task, model.predict_proba(frames(f)), model.classes_)
    loss = "Poisson" if task.kind == "count" else "RMSE"
    model = ChimeraBoostRegressor(loss=loss, **settings)
    model.fit(frames(task.rows), task.y, **fitted)
    return lambda f: within(task, model.predict(frames(f)))
