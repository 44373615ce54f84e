"""skada's CORAL over a linear model, for each target; the sources have its own labelled rows."""

import numpy as np
from benchmarks.groups.methods._frames import Matrix, all_classes, within
from benchmarks.groups.methods._per_target import each_target
from skada import CORALAdapter, make_da_pipeline
from sklearn.linear_model import LogisticRegression, Ridge

INSTALL = ("skada==0.6.0",)


def fit(task):
    matrix, further = Matrix(task), task.unlabelled
    X, y = matrix(task.rows), np.log1p(task.y) if task.kind == "count" else task.y
    known = np.unique(y)

    def one(own):
        base = LogisticRegression(max_iter=300) if task.classes else Ridge()
        model = make_da_pipeline(CORALAdapter(reg="auto"), base)
        Z = X[own]
        if further is not None:
            here = task.rows.loc[own, task.domain].iloc[0]
            Z = np.vstack([Z, matrix(further[further[task.domain] == here])])
        hidden = np.full(len(Z), -1.0 if task.classes else np.nan)
        domains = np.concatenate([np.ones(len(y)), np.full(len(Z), -2.0)]).astype(int)
        model.fit(np.vstack([X, Z]), np.concatenate([y, hidden]), sample_domain=domains)
        if task.classes:
            return lambda f: all_classes(task, model.predict_proba(matrix(f)), known)
        back = np.expm1 if task.kind == "count" else np.asarray
        return lambda f: within(task, back(model.predict(matrix(f))))

    return each_target(task, one)
