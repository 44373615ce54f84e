"""Losses of answers, and their unit: what the mean of a target's own k rows would lose."""

from __future__ import annotations

import numpy as np
import pandas as pd
from benchmarks.groups.draws import Draw
from benchmarks.groups.task import Array
from scipy.special import xlogy
from sklearn.metrics import roc_auc_score

LEAST = (
    1e-4  # a probability counts as at least this; a mean count as at least this share of the mean
)


def of_rows(kind: str, answers: Array, truth: Array, scale: float) -> Array:
    """(rows,): squared error, Poisson deviance or log loss; `scale` is the mean of the labels."""
    if kind == "classes":
        p = np.clip(answers, LEAST, None)
        p = p / p.sum(1, keepdims=True)
        return -np.log(p[np.arange(len(p)), truth.astype(int)])
    if kind == "count":
        mean = np.clip(answers, LEAST * scale, None)
        return np.asarray(2 * (xlogy(truth, truth / mean) - truth + mean))
    return np.asarray((answers - truth) ** 2)


def unit(draw: Draw) -> Array:
    """(rows,) or (rows, classes): the answers of the target's own k-row mean.

    Classes and counts have further rows that are the mean of the sources, one for each class or one
    in all: no class has probability 0. Without labelled rows (k = 0) the sources' mean is all there
    is.
    """
    task = draw.task
    y = np.eye(len(task.classes))[task.y.astype(int)] if task.classes else task.y[:, None]
    of_sources = y[~task.own].mean(0)
    out = np.empty((len(draw.test), y.shape[1]))
    domain, asked = task.rows[task.domain].to_numpy(object), draw.test[task.domain].to_numpy(object)
    for target in task.targets:
        own = y[domain == target]
        extra = 0 if task.kind == "quantity" and len(own) else y.shape[1]
        out[asked == target] = (own.sum(0) + extra * of_sources) / (len(own) + extra)
    return out if task.classes else out[:, 0]


def by_row(draw: Draw, answers: Array | None) -> pd.DataFrame:
    """Return a row for each row asked about: target, row, loss, loss of the unit.

    Answers that are missing or not finite count as the k-row mean.
    """
    kind, scale = draw.task.kind, float(np.abs(draw.task.y).mean())
    fallback = unit(draw)
    base = of_rows(kind, fallback, draw.truth, scale)
    if answers is None:
        loss = base
    else:
        finite = np.isfinite(answers).reshape(len(answers), -1).all(1)
        answers = np.where(finite.reshape((-1,) + (1,) * (answers.ndim - 1)), answers, fallback)
        loss = of_rows(kind, answers, draw.truth, scale)
    target = draw.test[draw.task.domain].astype(str)
    return pd.DataFrame({"target": target, "row": draw.row, "loss": loss, "unit": base})


def by_target(draw: Draw, answers: Array | None, rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each target: mean loss, mean loss of the unit, and scores people know."""
    out = rows.groupby("target")[["loss", "unit"]].mean()
    out["rows"] = rows.groupby("target").size()
    told = unit(draw) if answers is None else answers
    here = {t: (rows["target"] == t).to_numpy() for t in out.index}
    scores = [_scores(draw.task.kind, told[at], draw.truth[at]) for at in here.values()]
    return out.join(pd.DataFrame(scores, index=out.index)).reset_index()


def _scores(kind: str, answers: Array, truth: Array) -> dict[str, float]:
    """Return accuracy and AUC of classes, or R² of a quantity or a count."""
    if kind != "classes":
        spread = float(((truth - truth.mean()) ** 2).mean())
        error = float(((answers - truth) ** 2).mean())
        return {"r2": 1 - error / spread if spread > 0 else np.nan}
    scores = {"accuracy": float((answers.argmax(1) == truth).mean())}
    if answers.shape[1] == 2 and 0 < truth.mean() < 1:
        scores["auc"] = float(roc_auc_score(truth, answers[:, 1]))
    return scores
