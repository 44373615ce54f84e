"""scikit-learn's histogram boosting with the domain as a category, if it has at most 255."""

from benchmarks.groups.methods._frames import Categories, all_classes, within
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

INSTALL = ("scikit-learn>=1.6",)


def fit(task):
    frames = Categories(task)
    few = [i for i in frames.places if len(frames.levels[frames.columns[i]]) <= 255]
    settings = {"categorical_features": few, "random_state": task.seed}
    if task.classes:
        model = HistGradientBoostingClassifier(**settings).fit(frames.codes(task.rows), task.y)
        return lambda f: all_classes(task, model.predict_proba(frames.codes(f)), model.classes_)
    loss = "poisson" if task.kind == "count" else "squared_error"
    model = HistGradientBoostingRegressor(loss=loss, **settings).fit(
        frames.codes(task.rows), task.y
    )
    return lambda f: within(task, model.predict(frames.codes(f)))
