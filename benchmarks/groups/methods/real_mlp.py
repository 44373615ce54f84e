"""RealMLP with its tuned defaults (pytabkit), the domain as a category, 64 epochs."""

import numpy as np
from benchmarks.groups.methods._frames import Categories, all_classes, within
from pytabkit import RealMLP_TD_Classifier, RealMLP_TD_Regressor

INSTALL = ("pytabkit==1.7.3", "torch==2.13.0")


def fit(task):
    categories = Categories(task)
    names = list(categories.levels)
    seen = categories(task.rows)
    numbers = [c for c in categories.columns if c not in names]
    medians = seen[numbers].median().fillna(0.0)

    def frames(frame):
        out = categories(frame)
        out = out.assign(
            **{c: out[c].astype(object).fillna("missing").astype("category") for c in names}
        )
        return out.fillna({c: medians[c] for c in numbers})

    settings = {
        "n_epochs": 64,
        "random_state": task.seed,
        "n_threads": task.threads,
        "device": "cpu",
    }
    if task.classes:
        model = RealMLP_TD_Classifier(**settings)
        model.fit(frames(task.rows), task.y.astype(int), cat_col_names=names)
        return lambda f: all_classes(task, model.predict_proba(frames(f)), model.classes_)
    y = np.log1p(task.y) if task.kind == "count" else task.y
    model = RealMLP_TD_Regressor(**settings).fit(frames(task.rows), y, cat_col_names=names)
    if task.kind == "count":
        return lambda f: within(task, np.expm1(model.predict(frames(f)).ravel()))
    return lambda f: model.predict(frames(f)).ravel()
