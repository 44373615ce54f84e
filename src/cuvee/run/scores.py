"""How good the models are on rows that nothing learnt from, beside the baselines; with
intervals.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cuvee.data.metrics import ACCURACY, METRICS, beside
from cuvee.data.task import Task
from cuvee.problem import Array
from cuvee.report.findings import CUVEE, FEW_TARGETS, MAJORITY, OWN_MEAN
from cuvee.results import Floats
from cuvee.run.judge import Judged

METHODS = (CUVEE, "uniform", "pooled", "pooled_own", "target_only")
ROUNDING = 1e-9  # relative to a score: what differs by less is the same
LEVEL = 1.96  # standard errors to either side: 95 %


def simple_mixtures(source_rows: Floats, own_rows: Floats) -> Floats:
    """Return α of the four baselines (M, 4, N+1): m_j rows of the sources, k of each target.

    A target without rows of its own, which has no scores, has the uniform mixture as its last.
    """
    M, N = len(own_rows), len(source_rows)
    simple = np.zeros((M, 4, N + 1))
    simple[:, 0, :N] = 1.0
    simple[:, 1, :N] = simple[:, 2, :N] = source_rows
    simple[:, 2, N] = own_rows
    simple[:, 3, N] = own_rows > 0
    simple[own_rows == 0, 3, :N] = 1.0
    return np.asarray(simple / simple.sum(-1, keepdims=True))


def metrics(judged: Judged, rows: Array, metric: str) -> dict[str, Any]:
    """Return what metrics.json says of the scores.

    It has values with 95 % intervals, ranks, and what cuvee gains.

    A share of right answers has Wilson's interval, other shares and R² that of a normal; an error
    that of the logarithm of the mean loss. Gains are paired, row by row and target by target. Their
    interval is that of a mean over targets, or that of the rows within them where this is wider:
    targets may agree by chance. Fewer targets than FEW_TARGETS say nothing about others: then it is
    that of their rows.
    """
    of = METRICS[metric]
    classify = Task.classification in of.tasks
    score, low, high = (rounded(v) for v in intervals(judged, rows, metric))
    scored = np.isfinite(score).all(1)
    sign = 1.0 if of.higher_is_better else -1.0
    gains = sign * (score[:, :1] - score)
    mean = _mean_interval(score[scored], of.error(judged.error, score)[scored])
    mean = mean.clip(of.lowest, 1.0 if of.higher_is_better else None)  # no score lies beyond
    if scored.sum() == 1:
        mean = np.stack([score, low, high], -1)[scored][0]
    gain = _mean_interval(gains[scored], paired_error(judged, score, rows, metric)[scored])
    gain = gain.clip(-1.0, 1.0) if of.is_share else gain
    ranks = _ranks(-sign * score[scored])
    return {
        "metric": metric,
        "higher_is_better": of.higher_is_better,
        "methods": [*METHODS, MAJORITY if classify else OWN_MEAN],
        "scored": int(scored.sum()),
        "mean": listed(mean),
        "mean_rank": listed(ranks.mean(0) if len(ranks) else np.full(score.shape[1], np.nan)),
        "gain": listed(gain),
        "scores": listed(np.stack([score, low, high], -1)),  # (M, methods, 3)
        "chance": listed(chance(judged, rows, metric)),  # (M, methods)
        "also": {
            name: _also(name, judged.also[..., k])
            for k, name in enumerate(beside(metric)[: judged.also.shape[2]])
            if np.isfinite(judged.also[..., k]).any()  # AUC is of two classes alone
        },
    }


def _also(name: str, values: Floats) -> dict[str, Any]:
    """Return what metrics.json says of another score (M, methods); null where a target has none."""
    known = np.isfinite(values).all(1)
    mean = values[known].mean(0) if known.any() else np.full(values.shape[1], np.nan)
    how = {"higher_is_better": METRICS[name].higher_is_better, "scored": int(known.sum())}
    return {**how, "mean": listed(mean), "scores": listed(values)}


def paired_error(judged: Judged, score: Floats, rows: Array, metric: str) -> Floats:
    """Return standard errors (M, methods) of differences to cuvee's score.

    Of right and wrong answers with half a row added to either kind that differs, as Agresti and Min
    (2005) have it: 36 rows on which two models agree do not prove them alike.
    """
    if metric != ACCURACY:
        # of roots a − b = (a² − b²) / (a + b)
        sums = np.maximum(score[:, :1] + score, 1e-300) if METRICS[metric].root else 1.0
        error = judged.paired / sums
        return np.asarray(np.where(error <= ROUNDING * np.abs(score), 0.0, error))
    n = np.asarray(rows, dtype=np.float64)[:, None]
    more = n * (judged.loss - judged.loss[:, :1])
    differ = np.nan_to_num((n - 1.0) * n * judged.paired**2) + more**2 / np.maximum(n, 1.0)
    error = np.sqrt(np.maximum(differ + 1.0 - more**2 / (n + 2.0), 0.0)) / (n + 2.0)
    error[:, 0] = 0.0
    return np.asarray(error)


def chance(judged: Judged, rows: Array, metric: str) -> Floats:
    """Return how likely such a difference to cuvee's losses is by chance alone, (M, methods).

    It is the two-sided p-value of a test of the pairs of losses, row by row: McNemar's exact test
    of right and wrong answers, and Student's t of other losses.
    """
    from scipy.stats import binom, t

    n = np.asarray(rows, dtype=np.float64)[:, None]
    apart = judged.loss - judged.loss[:, :1]
    if metric != ACCURACY:
        with np.errstate(divide="ignore", invalid="ignore"):
            size = np.abs(apart) / judged.paired
            same = np.abs(apart) <= ROUNDING * np.abs(judged.loss)
            return np.where(same, 1.0, 2.0 * t.sf(size, n - 1.0))
    more = n * apart  # rows that the method alone has wrong, less those that cuvee alone has
    differ = np.round((n - 1.0) * n * judged.paired**2 + more**2 / np.maximum(n, 1.0))
    fewer = np.round((differ - np.abs(more)) / 2.0)
    return np.minimum(1.0, 2.0 * binom.cdf(fewer, differ, 0.5))


def rounded(values: Floats) -> Floats:
    """Round to nine digits: what differs by rounding alone is the same, and shares its rank.

    Nine digits are also all that is written of them: powers of ten are exact where they multiply
    and divide, so that no other digits come from them.

    >>> rounded(np.array([0.1 + 0.2, 1234.56789012345, -2e-12 / 3.0])).tolist()
    [0.3, 1234.56789, -6.66666667e-13]
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        digits = 8.0 - np.floor(np.log10(np.abs(values)))
        up, down = 10.0 ** np.maximum(digits, 0.0), 10.0 ** np.maximum(-digits, 0.0)
        near = np.round(values / down * up) / up * down
        return np.where((values == 0) | ~np.isfinite(near), values, near)


def intervals(judged: Judged, rows: Array, metric: str) -> tuple[Floats, Floats, Floats]:
    """Return the scores (M, methods), and the ends of their intervals."""
    loss, n = judged.loss, np.maximum(np.asarray(rows, dtype=np.float64), 1.0)[:, None]
    of = METRICS[metric]
    score = of.score(loss)
    if metric == ACCURACY:
        z2 = LEVEL**2
        right = 1.0 - loss
        middle = (right + z2 / (2 * n)) / (1 + z2 / n)
        half = LEVEL / (1 + z2 / n) * np.sqrt(np.maximum(right * loss, 0.0) / n + z2 / (4 * n * n))
        # by rounding alone an end may lie on the wrong side of a score of 0 or 1
        return right, np.minimum(middle - half, right), np.maximum(middle + half, right)
    if of.higher_is_better:
        half = LEVEL * judged.error
        return score, np.maximum(score - half, of.lowest), np.minimum(score + half, 1.0)
    # that of the logarithm holds more often where rows are few, and never ends at 0
    factor = np.exp(LEVEL * of.error(judged.error, score) / np.maximum(score, 1e-300))
    return score, score / factor, score * factor


def _mean_interval(values: Floats, errors: Floats) -> Floats:
    """Return means over the targets with their intervals (methods, 3).

    `values` and their standard errors are (M, methods). The interval is that of Student's t over
    the targets, or that of their own errors, whichever is wider; of few targets always the latter.
    """
    from scipy.stats import t

    M = len(values)
    if M == 0:
        return np.full((values.shape[1], 3), np.nan)
    mean = values.mean(0)
    within = LEVEL * np.sqrt((errors**2).sum(0)) / M
    between = (
        t.ppf(0.975, M - 1) * values.std(0, ddof=1) / np.sqrt(M)
        if M >= FEW_TARGETS
        else np.zeros(len(mean))
    )
    half = np.fmax(within, between)
    return np.stack([mean, mean - half, mean + half], -1)


def _ranks(losses: Floats) -> Floats:
    """Return ranks (M, methods): 1 for the best; methods that are equal share their places."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(losses, axis=1)) if len(losses) else losses


def listed(values: Floats) -> Any:
    """Return lists of `rounded` values for JSON."""
    return exactly(rounded(np.asarray(values, dtype=np.float64)))


def exactly(values: Floats) -> Any:
    """Return lists for JSON, with null in place of NaN and infinity, which JSON does not have."""
    return np.where(np.isfinite(values), np.asarray(values, dtype=object), np.array(None)).tolist()
