"""A mixed model (lme4 formulas) with intercept and strongest slopes drawn for each domain."""

import mixedlm as mlm
import numpy as np
import pandas as pd
from benchmarks.groups.methods._frames import Matrix, within

INSTALL = ("mixedlm==1.3.0",)
MOST, SLOPES = 15, 3  # columns with a common slope, and with a slope of each domain's own


def fit(task):
    if len(task.classes) > 2:
        raise ValueError("mixed models here have two classes at most")
    matrix, y = Matrix(task), task.y
    X = matrix(task.rows)
    alike = np.abs((X - X.mean(0)).T @ (y - y.mean())) / np.maximum(X.std(0), 1e-9)
    best = np.argsort(-alike, kind="stable")[:MOST]
    names = [f"x{i}" for i in range(len(best))]

    def frame_of(rows):
        out = pd.DataFrame(matrix(rows)[:, best], columns=names)
        return out.assign(domain=rows[task.domain].to_numpy())

    data = frame_of(task.rows).assign(y=y)
    formula = f"y ~ {' + '.join(names)} + (1 + {' + '.join(names[:SLOPES])} | domain)"
    if task.kind == "quantity":
        model = mlm.lmer(formula, data)
    else:
        kind = mlm.families.Binomial if task.classes else mlm.families.Poisson
        model = mlm.glmer(formula, data, family=kind())

    def answer(rows):
        told = np.asarray(model.predict(frame_of(rows), allow_new_levels=True), dtype=float)
        if task.classes:
            return np.column_stack([1 - told, told])
        return within(task, told)

    return answer
