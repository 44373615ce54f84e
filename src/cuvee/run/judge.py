"""All models on all test rows: what the scores are made of.

Each is made of values of rows, as their standard errors are; the tests compare it with
scikit-learn's, which takes a hundred times as long for many targets with a few rows each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import torch

from cuvee.data.metrics import (
    ACCURACY,
    AUC,
    BALANCED,
    DEVIANCE,
    LOG_LOSS,
    MAE,
    METRICS,
    R2,
    beside,
)
from cuvee.hypothesis.base import Space
from cuvee.problem import Array, Domain
from cuvee.results import Floats

NUMBERS = 2**22  # held of the scores of a block
WASTE = 2  # times as many rows as the shortest of a block that its longest may have
BY_CLASS = (BALANCED, AUC)  # shares that are taken class by class
MOST = 1_000  # targets of a group that have scores beside the headline
SMALL = np.finfo(np.float64).eps  # least probability, and least prediction of a count


@dataclass(frozen=True, eq=False)
class Judged:
    """Mean loss of every method on each target's test rows, and how sure that is.

    All of it is NaN without test rows, and where the metric is not known for them.

    The last method always gives the same answer: the most frequent class, or the mean, of the
    target's own labels.
    """

    loss: Floats  # (M, methods) of the metric: `Metric.score` makes the score of it
    error: Floats  # (M, methods) standard error of it
    paired: Floats  # (M, methods) standard error of its difference to that of the first method
    also: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    """(M, methods, scores) of the metrics `beside` this one."""

    @classmethod
    def nothing(cls, n_targets: int, methods: int, metric: str) -> Judged:
        """Return scores of which nothing is known."""
        loss, error, paired = (np.full((n_targets, methods), np.nan) for _ in range(3))
        also = np.full((n_targets, methods, len(beside(metric))), np.nan)
        return cls(loss, error, paired, also)


def judge(
    space: Space,
    w: Floats,
    test: Sequence[Domain | None],
    offset: Floats,
    own: Sequence[Domain],
    metric: str,
    *,
    most: int = MOST,
) -> Judged:
    """Return how w (M, Q, P) do on the test rows, and after them the best constant answer.

    That answer uses no features; it comes from the `own` labels.

    offset (M,) is added to what the first of the Q methods predicts. The first `most` targets have
    the scores beside the metric.
    """
    M, Q = w.shape[:2]
    classes: Array | None = getattr(space, "classes", None)
    found = Judged.nothing(M, Q + 1, metric)
    width = prod(space.input_shape)
    # of a row: itself, and what a layer of each model makes of it
    numbers = width + Q * (w.shape[2] // width + 1)
    for at in _blocks([0 if d is None else d.n_rows for d in test], numbers):
        rows = [d for i in at if (d := test[i]) is not None]
        models = torch.as_tensor(w[at], dtype=space.dtype)
        for i, d, answers in zip(at, rows, _answers(space, models, rows), strict=True):
            if classes is None:
                answers[0] += offset[i]
            one = judge_answers(answers, d, own[i], classes, metric, also=i < most)
            for name in ("loss", "error", "paired", "also"):
                getattr(found, name)[i] = getattr(one, name)[0]
    return found


def judge_answers(
    answers: Floats, test: Domain, own: Domain, classes: Array | None, metric: str, *, also: bool
) -> Judged:
    """Return how Q models that answered the test rows of one target did; the constant is last.

    Args:
        answers: (Q, k) quantities, or (Q, k, K) probabilities of the classes.
        test: the k rows, with their labels as they are.
        own: the labelled rows that the constant answer comes from.
        classes: (K,) sorted; None: a quantity.
        metric: of the losses.
        also: whether the scores beside the metric are worked out.
    """
    y = coded(test, classes)
    if classes is None:
        constant = own.y.astype(np.float64).mean()
    else:
        # one row of each class added
        counts = np.bincount(coded(own, classes), minlength=len(classes)) + 1.0
        constant = counts / counts.sum()
    answers = np.concatenate([answers, np.broadcast_to(constant, (1, *answers.shape[1:]))])
    found = Judged.nothing(1, len(answers), metric)
    if (told := measured(metric, y, answers)) is not None:
        found.loss[0], parts = told
        found.error[0] = _error(parts, metric)
        found.paired[0] = _error([part - part[:1] for part in parts], metric, differ=True)
    for k, name in enumerate(beside(metric)):
        if also and (told := measured(name, y, answers)) is not None:
            found.also[0, :, k] = METRICS[name].score(told[0])
    return found


def coded(rows: Domain, classes: Array | None) -> Array:
    """Return labels as numbers: a quantity as it is, and the places of classes."""
    return rows.y.astype(np.float64) if classes is None else np.searchsorted(classes, rows.y)


def measured(metric: str, y: Array, answers: Floats) -> tuple[Floats, list[Floats]] | None:
    """Return the loss (Q,) of answers (Q, k) or (Q, k, K), and what its uncertainty comes from.

    That is one part or more, (Q, rows) each: values whose means vary as the loss does. None where
    these rows do not define the metric.
    """
    if metric == R2:
        if len(y) < 2 or not np.ptp(y):
            return None
        centred = (y - y.mean()) ** 2
        loss = ((answers - y) ** 2).mean(1) / centred.mean()
        return loss, [((answers - y) ** 2 - loss[:, None] * centred) / centred.mean()]
    if metric in BY_CLASS:
        here = np.unique(y)
        if len(here) < 2 or (metric == AUC and answers.shape[2] > 2):
            return None
        decided, chance = answers.argmax(2), answers[..., -1]
        if metric == AUC:
            # of each row of a class, the share of the other class that it is ranked wrongly to
            parts = [_outranked(sign * chance, y == c) for c, sign in ((0, -1.0), (1, 1.0))]
        else:
            parts = [np.asarray(decided[:, y == c] != c, dtype=np.float64) for c in here]
        return np.mean([part.mean(1) for part in parts], 0), parts
    losses = _losses(metric, y, answers)
    return losses.mean(1), [losses]


def _losses(metric: str, y: Array, answers: Floats) -> Floats:
    """Return the losses (Q, k) of rows of a metric that is their mean, or its root."""
    if metric == ACCURACY:
        return np.asarray(answers.argmax(2) != y, dtype=np.float64)
    if metric == LOG_LOSS:
        own = np.take_along_axis(answers, y[None, :, None], 2)[..., 0]
        return np.asarray(-np.log(np.maximum(own, SMALL)))
    if metric == DEVIANCE:
        from scipy.special import xlogy

        mean = np.maximum(answers, SMALL)
        return np.asarray(2.0 * (xlogy(y, y / mean) - y + mean))
    return np.asarray(abs(answers - y) if metric == MAE else (answers - y) ** 2)


def _outranked(chance: Floats, own: Array) -> Floats:
    """Return (Q, own rows): the share of the other rows with a larger chance; ties count half."""
    from scipy.stats import rankdata

    inside, everywhere = (rankdata(-part, axis=1) for part in (chance[:, own], chance))
    return np.asarray((everywhere[:, own] - inside) / (~own).sum())


def _error(parts: Sequence[Floats], metric: str, *, differ: bool = False) -> Floats:
    """Return the standard error (Q,) of a sum of means, one of each part; NaN of a single row.

    Shares of few rows may be 0 or 1 by chance: two made-up rows, one right and one wrong (or one
    of either kind that differs, as Agresti and Min have it), keep them from looking certain.
    """
    if metric not in BY_CLASS:
        (values,) = parts
        with np.errstate(invalid="ignore", divide="ignore"):
            square = ((values - values.mean(1, keepdims=True)) ** 2).mean(1)
            return np.asarray(np.sqrt(square / (values.shape[1] - 1)))
    weight = 1.0 if metric == AUC else 1.0 / len(parts)
    middle, more = (0.0, 1.0) if differ else (0.5, 0.5)
    total = np.zeros(len(parts[0]))
    for values in parts:
        n, moved = values.shape[1] + 2, values - middle
        total += ((moved**2).sum(1) + more - moved.sum(1) ** 2 / n) / n**2
    total[: int(differ)] = 0.0
    return np.asarray(weight * np.sqrt(total))


def _answers(space: Space, w: torch.Tensor, domains: Sequence[Domain]) -> Iterator[Floats]:
    """Yield what models w (m, Q, P) answer on the rows of each of m domains.

    These are quantities (Q, k), or probabilities (Q, k, K). All go through the model at once, the
    rows of a domain padded with repeats of its own.
    """
    n = np.array([d.n_rows for d in domains])
    at = (np.cumsum(n) - n)[:, None] + np.arange(n.max()) % n[:, None]  # (m, k)
    X = torch.as_tensor(np.concatenate([d.X for d in domains]), dtype=space.dtype)
    with torch.no_grad():
        answers = answers_of(space, space.own_scores(w, space.prepare(X)[torch.as_tensor(at)]))
    for one, rows in zip(answers, n, strict=True):
        yield one[:, :rows]


def answers_of(space: Space, scores: torch.Tensor) -> Floats:
    """Return what scores (…, outputs, k) stand for: quantities (…, k), or (…, k, K) chances."""
    if getattr(space, "classes", None) is None:
        return np.asarray(space.decide(scores), dtype=np.float64)
    return np.asarray(space.probabilities(scores.double()))


def _blocks(rows: Sequence[int], numbers: int) -> Iterator[Array]:
    """Yield targets with similar numbers of rows together, so that padding is cheap.

    Targets without rows are left out.
    """
    order = np.argsort(rows, kind="stable")
    sizes = np.asarray(rows)[order]
    low = int(np.searchsorted(sizes, 1))
    while low < len(order):
        room = max(1, NUMBERS // max(1, numbers))
        alike = int(np.searchsorted(sizes, WASTE * sizes[low], side="right"))
        within = low + int(
            np.searchsorted(np.arange(1, alike - low + 1) * sizes[low:alike], room, side="right")
        )
        high = max(low + 1, min(alike, within))
        yield order[low:high]
        low = high
