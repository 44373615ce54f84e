"""What to expect of targets without labels: how weights from inputs do where labels are known.

Every labelled target of a run is treated once more as if it had no label: its weights come from all
its inputs, its model from the sources alone. No label of it enters, so that all its labelled rows
can score that model, those for training too. What such targets reach is what to expect of one
whose labels nobody knows, as far as it is like them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cuvee.api import estimate, solve
from cuvee.data.metrics import METRICS
from cuvee.data.options import Options
from cuvee.data.prepared import Group
from cuvee.hypothesis import Hypothesis
from cuvee.problem import Domain
from cuvee.results import Floats
from cuvee.run.judge import Judged, judge
from cuvee.run.scores import listed

COLUMNS = ("loss", "error", "test loss")
"""Of each labelled target without its labels: the mean loss on all its labelled rows, the standard
error of that, and the loss on its test rows, where the model that saw labels is scored too.
"""
# Of what scores of targets vary by, at least this share is taken for a difference of targets and
# not for the luck of few rows: where that luck is overestimated, intervals would be too short.
LEAST_SPREAD = 0.5


def unknown(n_targets: int) -> Floats:
    """Return scores of which nothing is known, (M, COLUMNS)."""
    return np.full((n_targets, len(COLUMNS)), np.nan)


def without_labels(group: Group, hypothesis: Hypothesis, seed: int) -> Floats:
    """Return the weights (M, N) that the targets of a group have from their inputs alone."""
    pairs = zip(group.problem.targets, group.test, strict=True)
    hidden = [_hidden(target, test) for target, test in pairs]
    problem = group.problem.with_targets(hidden)
    mix = estimate(problem, hypothesis, method="matching", own=True, seed=seed)
    return np.ascontiguousarray(mix.alpha[:, :-1])


def _hidden(target: Domain, test: Domain | None) -> Domain:
    """Return all inputs of a target, without a label."""
    parts = [target.X, *([] if test is None else [test.X])]
    parts += [] if target.unlabelled is None else [target.unlabelled]
    inputs: Any = {"X": None, "y": None, "unlabelled": np.concatenate(parts)}
    return Domain(target.name, **inputs, features=target.features)


def labelled_rows(group: Group, i: int) -> Domain | None:
    """Return all labelled rows of target i, labels as they are; None where it has none."""
    learn, test = group.plain.targets[i], group.test[i]
    if not learn.n_rows:
        return None
    both = [learn, *([] if test is None else [test])]
    X, y = (np.concatenate([getattr(part, name) for part in both]) for name in ("X", "y"))
    return Domain(learn.name, X, y, features=learn.features)


def scores(group: Group, hypothesis: Hypothesis, options: Options, metric: str) -> Floats:
    """Return what models without any label of their target reach, (M, COLUMNS).

    NaN for those that have no labels to score on.
    """
    alpha = without_labels(group, hypothesis, options.seed)  # (M, N)
    alone = group.problem.without_targets()
    solution = solve(alone, hypothesis, alpha, tol=options.tol, seed=options.seed)
    w, offset = solution.w[:, None], alpha @ group.levels
    rows = [labelled_rows(group, i) for i in range(len(alpha))]
    everywhere, tested = (
        judge(solution.space, w, on, offset, group.plain.targets, metric, most=0)
        for on in (rows, group.test)
    )
    return columns(everywhere, tested)


def columns(everywhere: Judged, tested: Judged) -> Floats:
    """Return COLUMNS of one model per target, judged on all labelled rows and on test rows."""
    return np.stack([everywhere.loss[:, 0], everywhere.error[:, 0], tested.loss[:, 0]], 1)


def as_metrics(
    values: Floats, with_labels: Floats, label_free: Sequence[str], metric: str
) -> dict[str, Any]:
    """Return the entry of metrics.json, or none where every target has labels.

    Args:
        values: (M, COLUMNS) of the run's targets; NaN for those without labels.
        with_labels: (M,) loss on test rows of the models that saw labels; NaN without test rows.
        label_free: the targets without labels.
        metric: of the losses.
    """
    if not label_free:
        return {}
    loss, error, tested = values.T
    of = METRICS[metric]
    judged = np.isfinite(loss)
    both = np.isfinite(tested) & np.isfinite(with_labels)
    hidden, seen = (of.score(v[both]) for v in (tested, with_labels))
    gain = (1.0 if of.higher_is_better else -1.0) * (seen - hidden)
    entry = {
        "targets": list(label_free),
        "judged_on": int(judged.sum()),
        "expected": listed(expected(loss[judged], error[judged], metric)),
        "scores": listed(of.score(loss)),  # (M,)
        "tested_on": int(both.sum()),
        "without_labels": listed(_mean(hidden)[0]),
        "with_labels": listed(_mean(seen)[0]),
        "gain_of_labels": listed(_mean(gain)),
    }
    return {"label_free": entry}


def expected(loss: Floats, error: Floats, metric: str) -> Floats:
    """Return the score to expect of a target like n others, and a 95 % interval of it: (3,).

    `loss` (n,) and its standard `error` (n,) are those of the others. The interval is one of
    prediction, for the true score of a target of its own: targets differ, and their mean is not
    known. Errors are compared as logarithms, as none is below 0. There is no interval of one
    target, and nothing of none.
    """
    from scipy.stats import t

    n = len(loss)
    if not n:
        return np.full(3, np.nan)
    small = np.finfo(np.float64).tiny
    of = METRICS[metric]
    score = of.score(loss)
    value, noise = score, of.error(error, score)
    if not of.higher_is_better:
        value, noise = (np.log(np.maximum(score, small)), noise / np.maximum(score, small))
    noise = np.nan_to_num(noise) ** 2
    middle, half = float(value.mean()), np.nan
    if n > 1:
        seen, luck = float(value.var(ddof=1)), float(noise.mean())
        spread = max(seen - luck, LEAST_SPREAD * seen)
        half = float(t.ppf(0.975, n - 1)) * (spread + max(seen, luck) / n) ** 0.5
    ends = np.array([middle, middle - half, middle + half])
    return np.clip(ends, of.lowest, 1.0) if of.higher_is_better else np.exp(ends)


def _mean(values: Floats) -> Floats:
    """Return the mean of values (n,) with a 95 % interval over them: (3,)."""
    from scipy.stats import t

    n = len(values)
    if not n:
        return np.full(3, np.nan)
    half = float(t.ppf(0.975, n - 1) * values.std(ddof=1) / n**0.5) if n > 1 else np.nan
    return float(values.mean()) + np.array([0.0, -half, half])
