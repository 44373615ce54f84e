"""RealMLP with its tuned defaults (pytabkit), the domain as a category, 64 epochs."""

import numpy as np
from benchmarks.groups.methods._frames import Categories, all_classes, folds, within
from pytabkit import RealMLP_TD_Classifier, RealMLP_TD_Regressor

INSTALL = ("pytabkit==1.7.3", "torch==2.13.0")
EPOCHS = 64  # in place of 256, for a quarter of the time


def fit(task):
    categories = Categories(task)
    names = list(categories.levels)
    medians = categories(task.rows).drop(columns=names).median().fillna(0.0)

    def frames(frame):  # gaps of numbers must be filled; those of categories are known to it
        return categories(frame).fillna(medians.to_dict())

    settings = {"n_epochs": EPOCHS, "random_state": task.seed, "n_threads": task.threads}
    settings["device"] = "cpu"
    fitted = {"cat_col_names": names, "val_idxs": folds(task, 5)[0][1]}
    if task.classes:  # what its documentation advises where probabilities matter
        settings |= {"val_metric_name": "cross_entropy", "use_ls": False}
        model = RealMLP_TD_Classifier(**settings)
        model.fit(frames(task.rows), task.y.astype(int), **fitted)
        return lambda f: all_classes(task, model.predict_proba(frames(f)), model.classes_)
    y = np.log1p(task.y) if task.kind == "count" else task.y
    model = RealMLP_TD_Regressor(**settings).fit(frames(task.rows), y, **fitted)
    back = np.expm1 if task.kind == "count" else np.asarray
    return lambda f: within(task, back(model.predict(frames(f)).ravel()))
