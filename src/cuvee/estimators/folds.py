"""Candidates × folds: an estimator is fitted on each and judged on the rows held out.

Workers are threads (`cuvee.numerics.parallel`): compiled trees release Python's lock, all share one
table without copies, and nobody's estimator has to be pickled. Each fit has one OpenMP thread:
teams that meet at every node wait for each other, and where another process has one of the cores a
small boosting takes many times as long with two threads as with one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from cuvee.estimators.candidates import Named
from cuvee.estimators.routing import FittedModel, Learner
from cuvee.estimators.weights import Rows, row_weights, take
from cuvee.numerics.parallel import Tell, each
from cuvee.problem import Array
from cuvee.results import Floats

FOLDS = 5
# Trees say 0 of a class that no row of a leaf has; without this share of "any class" a single such
# row would decide alone which mixture is best.
DOUBT = 0.01


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Mean losses of the candidates on rows that their models did not learn from."""

    loss: Floats  # (G,) NaN where a candidate was not judged
    rows: Floats  # (G, k) the losses of the target's own rows; NaN where a row was not judged
    n_judged: int  # own rows that the losses are means of
    notes: tuple[str, ...]  # why, in a sentence each; other things worth knowing
    failed: tuple[str, ...]  # the sentences of fits that failed
    slowest: float  # seconds of the slowest fit


@dataclass(frozen=True, eq=False)
class _Fit:
    """One candidate in one fold: the losses of the rows held out, or why there are none."""

    losses: Floats | None = None
    failure: str = ""
    absent: int | None = None  # the number of a class that it had no row of
    seconds: float = 0.0
    skipped: bool = False


def deal(y: Array, folds: int = FOLDS) -> Array:
    """Return the fold (k,) of rows with labels y (k,): sorted by label and dealt in turn.

    Classes and quantities are stratified alike, as in the surrogate's own folds.
    """
    rank = np.argsort(np.argsort(y, kind="stable"), kind="stable")
    return np.asarray(rank % min(len(y), folds))


def held_out(
    learner: Learner,
    rows: Rows,
    candidates: Sequence[Named],
    *,
    target: str,
    deadline: float = np.inf,
    tell: Tell = lambda done: None,
    some_folds: bool = False,
) -> HeldOut:
    """Return each candidate's mean loss on the target's own rows, every row judged once.

    A fit that begins after `deadline`, in seconds of `time.monotonic`, is left out, and so is its
    candidate. With `some_folds` a fold is left out instead, as long as all candidates have one in
    common: two candidates on a fifth of the rows tell more than one on all of them. The sentences
    name the target and the candidate.
    """
    fold = deal(rows.y[rows.own])
    F, G = int(fold.max()) + 1, len(candidates)
    jobs = [(g, f) for g in range(G) for f in range(F)]
    if some_folds:
        jobs.sort(key=lambda job: job[1])
    threads = ThreadpoolController()  # looked up once: that takes as long as a small fit

    def fit(job: tuple[int, int]) -> _Fit:
        g, f = job
        if time.monotonic() >= deadline:
            return _Fit(skipped=True)
        with threads.limit(limits=1, user_api="openmp"):
            return _judged(learner, rows, candidates[g][1], rows.own[fold == f])

    fits = dict(zip(jobs, each(fit, jobs, "cpu", tell=tell), strict=True))
    failing = [any(fits[g, f].failure for f in range(F)) for g in range(G)]
    kept = _folds_in_time(fits, failing, F) if some_folds else list(range(F))
    notes, failed, loss = [], [], np.full((G, len(fold)), np.nan)
    for g, (name, _) in enumerate(candidates):
        own = [fits[g, f] for f in range(F)]
        where = f"target {target!r}, mixture {name!r}"
        if bad := [f for f, one in enumerate(own) if one.failure]:
            failed.append(f"{where}: fold {bad[0] + 1} of {F} failed ({own[bad[0]].failure})")
        elif any(own[f].skipped for f in kept):
            notes.append(f"{where}: not judged, because the budget was spent")
        else:
            for f in kept:
                loss[g, fold == f] = own[f].losses
        if lacks := [f for f, one in enumerate(own) if one.absent is not None]:
            missing = np.asarray(learner.classes).tolist()[own[lacks[0]].absent]
            notes.append(
                f"{where}: the rows to learn from have no row of class {missing!r} "
                f"in fold {lacks[0] + 1} of {F}, so that it is never predicted there"
            )
    if len(kept) < F and np.isfinite(loss).any():
        spent = "because the budget was spent"
        notes.append(f"target {target!r}: judged on {len(kept)} of {F} folds, {spent}")
    slowest = max((one.seconds for one in fits.values()), default=0.0)
    judged = np.isin(fold, kept)
    mean = loss[:, judged].mean(1)
    return HeldOut(mean, loss, int(judged.sum()), tuple(notes), tuple(failed), slowest)


def _folds_in_time(
    fits: Mapping[tuple[int, int], _Fit], failing: Sequence[bool], n_folds: int
) -> list[int]:
    """Return the folds in which every candidate was judged that did not fail; at least the first.

    Folds are begun one after the other, so that these are the first ones.
    """
    able = [g for g, bad in enumerate(failing) if not bad]
    whole = [f for f in range(n_folds) if not any(fits[g, f].skipped for g in able)]
    return whole or [0]


def _judged(learner: Learner, rows: Rows, alpha: Floats, test: Array) -> _Fit:
    """Return the losses on test rows of a model that learnt from all others."""
    began = time.monotonic()
    kept = np.ones(len(rows.y), dtype=bool)
    kept[test] = False
    weight = row_weights(rows, alpha, kept)
    absent = None
    if learner.n_classes is not None:
        there = np.bincount(rows.y[weight > 0], minlength=learner.n_classes) > 0
        missed = [c for c in np.unique(rows.y[test]).tolist() if not there[c]]
        absent = missed[0] if missed else None
    try:
        model = learner.fit(rows.X, rows.y, weight)
        each_row = losses(learner, model, take(rows.X, test), rows.y[test])
    except Exception as error:  # whatever the user's estimator raises: the sentence names it
        return _Fit(failure=_first_line(error), seconds=time.monotonic() - began)
    failure = "" if np.isfinite(each_row).all() else "its predictions are not finite"
    return _Fit(each_row, failure, absent, time.monotonic() - began)


def losses(learner: Learner, model: FittedModel, X: Any, y: Array) -> Floats:
    """Return the loss of each row (rows,): log loss where there are probabilities.

    Otherwise it is the squared error, of a class that of its indicator: 1 where it is wrong.
    """
    if learner.n_classes is None:
        return np.asarray((model.predict(X) - y) ** 2)
    if not learner.probabilities:
        return np.asarray(model.predict(X) != y, dtype=np.float64)
    chance = np.take_along_axis(model.predict_proba(X), y[:, None], 1)[:, 0]
    return np.asarray(-np.log((1.0 - DOUBT) * chance + DOUBT / learner.n_classes))


def _first_line(error: Exception) -> str:
    text = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
