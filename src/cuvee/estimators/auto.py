"""Which kind of model suits a run: held-out losses of a few, on the targets' own rows.

All contenders are judged on the same folds, each on the better of two mixtures: the average that
the linear model found, and half own. The contender of least loss wins, unless an earlier one in the
list, which is simpler, is within the standard error of their paired difference: a few dozen rows
say little more than that.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cuvee.estimators.candidates import few
from cuvee.estimators.choose import Target
from cuvee.estimators.folds import held_out
from cuvee.estimators.routing import Learner
from cuvee.results import Floats

JUDGED = 2  # mixtures of each contender
ERRORS = 1.0  # standard errors by which a simpler contender may be behind


@dataclass(frozen=True, eq=False)
class Contest:
    """What each contender lost on one target's own rows, held out."""

    loss: Mapping[str, Floats]  # (k,) by contender, on its better mixture; NaN: not judged
    mixtures: Mapping[str, Mapping[str, float]]  # the mean loss of every mixture, by contender
    seconds: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Verdict:
    """The contender that won, what each lost in the mean, and how sure that is."""

    winner: str
    loss: Mapping[str, float]  # mean log loss; squared error in units of the first contender's
    error: Mapping[str, float]  # standard error of the difference to the least loss


def contest(
    learners: Mapping[str, Learner], target: Target, deadlines: Mapping[str, float] | None = None
) -> Contest:
    """Return the held-out losses of contenders by name, on a target's own rows.

    A contender whose deadline (`time.monotonic`) comes first is not judged.
    """
    candidates = few(target.rows.counts, target.alpha, ())[:JUDGED]
    loss, mixtures, seconds = {}, {}, {}
    for name, learner in learners.items():
        began = time.monotonic()
        until = (deadlines or {}).get(name, np.inf)
        judged = held_out(learner, target.rows, candidates, target=target.name, deadline=until)
        known = np.isfinite(judged.loss)
        best = int(np.nanargmin(judged.loss)) if known.any() else 0
        loss[name] = judged.rows[best]
        mixtures[name] = {c[0]: float(v) for c, v in zip(candidates, judged.loss, strict=True)}
        seconds[name] = time.monotonic() - began
    return Contest(loss, mixtures, seconds)


def verdict(contests: Sequence[Contest], *, classify: bool) -> Verdict:
    """Return the contender for all targets together; the first of them is the simplest.

    One that was not judged on some target cannot win, unless none was: then it is the first.
    Squared errors are taken in units of the first contender's on the same target, so that no target
    counts for more by its unit.

    >>> one = np.array([0.3, 0.2, 0.4])
    >>> verdict([Contest({"linear": one + 0.1, "trees": one}, {}, {})], classify=True).winner
    'trees'
    """
    names = list(contests[0].loss)
    each = [np.stack([one.loss[name] for name in names]) for one in contests]  # (models, k)
    if not classify:
        each = [rows / _unit(rows) for rows in each]
    mean = np.mean([rows.mean(1) for rows in each], 0)
    best = int(np.argmin(np.where(np.isfinite(mean), mean, np.inf)))
    variance = [(rows - rows[best]).var(1, ddof=1) / rows.shape[1] for rows in each]
    error = np.sqrt(np.sum(variance, 0)) / len(each)
    near = np.isfinite(mean) & (mean - mean[best] <= ERRORS * error)
    winner = names[int(np.argmax(near))]
    return Verdict(
        winner, dict(zip(names, mean.tolist(), strict=True)), dict(zip(names, error, strict=True))
    )


def _unit(rows: Floats) -> float:
    """Return the mean loss of the first contender that was judged, of losses (contenders, k)."""
    mean = rows.mean(1)
    return max(float(mean[np.argmax(np.isfinite(mean))]), 1e-300)
