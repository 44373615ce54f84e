"""scikit-learn's TargetEncoder for the domain and text, then histogram boosting."""

from benchmarks.groups.methods._frames import Categories, all_classes, within
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import TargetEncoder

INSTALL = ("scikit-learn>=1.6",)


def fit(task):
    frames = Categories(task)
    loss = "poisson" if task.kind == "count" else "squared_error"
    boosting = (
        HistGradientBoostingClassifier(random_state=task.seed)
        if task.classes
        else HistGradientBoostingRegressor(loss=loss, random_state=task.seed)
    )
    kind = "auto" if task.classes else "continuous"  # "auto" would take counts as classes
    encode = TargetEncoder(target_type=kind, random_state=task.seed)
    columns = make_column_transformer((encode, frames.places), remainder="passthrough")
    model = make_pipeline(columns, boosting).fit(frames.codes(task.rows), task.y)
    if task.classes:
        return lambda f: all_classes(task, model.predict_proba(frames.codes(f)), model.classes_)
    return lambda f: within(task, model.predict(frames.codes(f)))
