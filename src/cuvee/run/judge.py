"""All models on all test rows at once: what the scores are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import torch

from cuvee.hypothesis.base import Space
from cuvee.problem import Array, Domain
from cuvee.report.findings import ALSO
from cuvee.results import Floats

NUMBERS = 2**22  # held of the scores of a block
WASTE = 2  # times as many rows as the shortest of a block that its longest may have


@dataclass(frozen=True, eq=False)
class Judged:
    """Mean loss of every method on each target's test rows, and how sure that is.

    All of it is NaN without test rows.

    The last method always gives the same answer: the most frequent class, or the mean, of the
    target's own labels.
    """

    loss: Floats  # (M, methods) share of wrong answers, or mean squared error
    error: Floats  # (M, methods) standard error of it
    paired: Floats  # (M, methods) standard error of its difference to that of the first method
    also: Floats = field(default_factory=lambda: np.zeros((0, 0, 0)))
    """(M, methods, 3) of a classification, the scores of ALSO; (M, methods, 0) of a quantity."""


def judge(
    space: Space, w: Floats, test: Sequence[Domain | None], offset: Floats, own: Sequence[Domain]
) -> Judged:
    """Return how w (M, Q, P) do on the test rows, and after them the best constant answer.

    That answer uses no features; it comes from the `own` labels.

    offset (M,) is added to what the first of the Q methods predicts. AUC is of two classes alone.
    """
    M, Q = w.shape[0], w.shape[1] + 1
    classify = getattr(space, "classes", None) is not None
    loss, error, paired = (np.full((M, Q), np.nan) for _ in range(3))
    also = np.full((M, Q, len(ALSO) if classify else 0), np.nan)
    constant = (
        _shares([space.encode(d.y, d.name) for d in own], len(space.classes))  # type: ignore[arg-type]
        if classify
        else np.array([d.y.astype(np.float64).mean() if d.n_rows else np.nan for d in own])[:, None]
    )
    width = prod(space.input_shape)
    # of a row: itself, and what a layer of each model makes of it
    numbers = width + Q * (w.shape[2] // width + 1)
    for at in _blocks([0 if d is None else d.n_rows for d in test], numbers):
        rows = Rows.of(space, [d for i in at if (d := test[i]) is not None])
        if classify:
            losses, also[at] = _classes(
                space, torch.as_tensor(w[at], dtype=space.dtype), rows, constant[at]
            )
        else:
            losses = _quantity(
                space, torch.as_tensor(w[at], dtype=space.dtype), rows, constant[at], offset[at]
            )
        loss[at] = rows.mean(losses)
        error[at] = rows.deviation(losses)
        paired[at] = rows.deviation(losses - losses[:, :1])
    return Judged(loss, error, paired, also)


def judge_answers(answers: Floats, test: Domain, own: Domain, classes: Array | None) -> Judged:
    """Return how Q models that answered the test rows of one target did; the constant is last.

    Args:
        answers: (Q, k) quantities, or (Q, k, K) probabilities of the classes.
        test: the k rows, with their labels as they are.
        own: the labelled rows that the constant answer comes from.
        classes: (K,) sorted; None: a quantity.
    """
    k = test.n_rows
    code = np.zeros(k, int) if classes is None else np.searchsorted(classes, test.y)
    rows = Rows(
        torch.zeros(0), test.y[None], code[None], np.ones((1, k), bool), np.array([[float(k)]])
    )
    if classes is None:
        mean = np.full((1, 1, k), own.y.astype(np.float64).mean())
        losses = (np.concatenate([answers[None], mean], 1) - test.y.astype(np.float64)) ** 2
        also = np.full((1, losses.shape[1], 0), np.nan)
    else:
        logs = np.log(np.maximum(answers, np.finfo(np.float64).eps))
        surprise = -np.take_along_axis(logs, code[None, :, None], 2)[None, :, :, 0]
        shares = _shares([np.searchsorted(classes, own.y)], len(classes))
        decided, odds = classes[answers.argmax(2)][None], (logs[..., 1] - logs[..., 0])[None]
        losses, also = _of_classes(classes, decided, surprise, odds, rows, shares)
    differ = losses - losses[:, :1]
    return Judged(rows.mean(losses), rows.deviation(losses), rows.deviation(differ), also)


@dataclass(frozen=True, eq=False)
class Rows:
    """Test rows of m targets side by side, each padded to k with repeats of its own."""

    X: torch.Tensor  # (m, k, …) as the space wants them
    y: Array  # (m, k) labels
    code: Array  # (m, k) labels as the space has them
    real: Array  # (m, k) False for padding
    n: Floats  # (m, 1)

    @classmethod
    def of(cls, space: Space, domains: Sequence[Domain]) -> Rows:
        n = np.array([d.n_rows for d in domains])
        step = np.arange(n.max())
        at = (np.cumsum(n) - n)[:, None] + step % n[:, None]  # (m, k)
        X, y, code = (
            np.concatenate(part)
            for part in zip(*((d.X, d.y, space.encode(d.y, d.name)) for d in domains), strict=True)
        )
        prepared = space.prepare(torch.as_tensor(X, dtype=space.dtype))
        return cls(
            prepared[torch.as_tensor(at)],
            y[at],
            code[at],
            step < n[:, None],
            n[:, None].astype(np.float64),
        )

    def mean(self, values: Floats) -> Floats:
        """Return (m, Q, k) -> (m, Q), padding aside."""
        return np.asarray((values * self.real[:, None]).sum(-1) / self.n)

    def deviation(self, values: Floats) -> Floats:
        """Return the standard error of the mean, (m, Q, k) -> (m, Q); NaN of a single row."""
        square = (values - self.mean(values)[..., None]) ** 2
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.sqrt(self.mean(square) * self.n / (self.n - 1) / self.n)


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


def _quantity(space: Space, w: torch.Tensor, rows: Rows, mean: Floats, offset: Floats) -> Floats:
    """Return squared errors (m, Q + 1, k)."""
    with torch.no_grad():
        predicted = np.asarray(space.decide(space.own_scores(w, rows.X)), dtype=np.float64)
    predicted[:, 0] += offset[:, None]
    constant = np.broadcast_to(mean[:, :, None], (len(mean), 1, predicted.shape[2]))
    return np.asarray(
        (np.concatenate([predicted, constant], 1) - rows.y[:, None].astype(np.float64)) ** 2
    )


def _shares(codes: Sequence[Array], K: int) -> Floats:
    """Return the class shares (M, K) of the targets' own labels, one row of each class added."""
    place = np.repeat(np.arange(len(codes)), [len(c) for c in codes]) * K + np.concatenate(codes)
    counts = np.bincount(place, minlength=len(codes) * K).reshape(len(codes), K) + 1.0
    return np.asarray(counts / counts.sum(1, keepdims=True))


def _classes(space: Space, w: torch.Tensor, rows: Rows, shares: Floats) -> tuple[Floats, Floats]:
    """Return 1 where an answer is wrong (m, Q + 1, k), and the scores of ALSO (m, Q + 1, 3)."""
    assert space.classes is not None
    with torch.no_grad():
        scores = space.own_scores(w, rows.X)  # (m, Q, outputs, k)
        surprise = space.trained(scores, torch.as_tensor(rows.code)[:, None]).double().numpy()
    odds = scores[:, :, 0] if scores.shape[2] == 1 else scores[:, :, 1] - scores[:, :, 0]
    return _of_classes(
        space.classes, space.decide(scores), surprise, odds.double().numpy(), rows, shares
    )


def _of_classes(
    classes: Array, answers: Array, surprise: Floats, odds: Floats, rows: Rows, shares: Floats
) -> tuple[Floats, Floats]:
    """Return what `_classes` does, of answers, their log losses and the odds of the second class.

    These are (m, Q, k) each.
    """
    likeliest = classes[shares.argmax(1)][:, None, None]
    always = np.broadcast_to(likeliest, (len(shares), 1, rows.y.shape[1]))
    wrong = np.asarray(np.concatenate([answers, always], 1) != rows.y[:, None], dtype=np.float64)
    constant = -np.log(np.take_along_axis(shares, rows.code, 1))[:, None]
    measures = [_balanced(wrong, rows, len(classes)), np.full(wrong.shape[:2], np.nan)]
    if len(classes) == 2:
        measures[1] = _auc(np.concatenate([odds, np.zeros_like(constant)], 1), rows)
    measures.append(rows.mean(np.concatenate([surprise, constant], 1)))
    return wrong, np.stack(measures, -1)


def _balanced(wrong: Floats, rows: Rows, n_classes: int) -> Floats:
    """Return the share of right answers (m, Q), averaged over the classes of a target's rows.

    NaN where all rows are of one class: its share alone would look like a score of all.
    """
    m, Q = wrong.shape[:2]
    # of every row: its target and class
    place = (np.arange(m)[:, None] * n_classes + rows.code)[rows.real]
    size = m * n_classes
    total = np.bincount(place, minlength=size).reshape(m, n_classes)
    right = np.stack([np.bincount(place, 1.0 - wrong[:, q][rows.real], size) for q in range(Q)], 1)
    share = right.reshape(m, n_classes, Q) / np.maximum(total, 1)[..., None]
    there = (total > 0).sum(1)[:, None]
    return np.where(there > 1, share.sum(1) / there, np.nan)


def _auc(odds: Floats, rows: Rows) -> Floats:
    """Return the area under the ROC curve (m, Q) of odds (m, Q, k) of the second class.

    It is how often a row of the second class has larger odds than one of the first; ties count
    half.
    """
    from scipy.stats import rankdata

    rank = rankdata(np.where(rows.real[:, None], odds, np.inf), axis=-1)
    second = (rows.code == 1) & rows.real
    n1 = second.sum(1, dtype=np.float64)[:, None]
    n0 = rows.n - n1
    with np.errstate(invalid="ignore", divide="ignore"):
        above = (rank * second[:, None]).sum(-1) - n1 * (n1 + 1) / 2
        return np.where((n0 > 0) & (n1 > 0), above / (n0 * n1), np.nan)
