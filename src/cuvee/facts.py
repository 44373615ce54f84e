"""What may be known of a domain without its rows: small values that are computed where the rows
are.

Binding a hypothesis, standardising columns, taking out levels and checking labels ask for facts,
never for rows. A table in this process computes each of them when it is first asked for;
`LocalFacts.known` computes all of them, for rows that live elsewhere and only send what is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
BLOCK = 16_384  # rows at a time: X may be larger than memory
SMALLEST_SQUARE = 1e-280  # smaller ones have lost digits
MOST_VALUES = 10_000  # different labels that are told of rows elsewhere: more are no classes


@dataclass(frozen=True, eq=False)
class Labels:
    """What a domain's labels are like."""

    text: bool  # whether they are anything but numbers
    first: Any  # the label of the first row, as an example
    not_number: tuple[int, Any] | None  # row and label of the first that is not a number
    not_whole: tuple[int, Any] | None  # row and label of the first number that is not whole
    least: float  # the smallest label and its row; infinite for text
    least_row: int


@dataclass(frozen=True, eq=False)
class Classes:
    """The distinct labels of a domain, sorted, and the first row of each.

    They are None where labels cannot be sorted.
    """

    values: Array | None
    rows: Array | None


@dataclass(frozen=True, eq=False)
class Moments:
    """Weighted mean and standard deviation of each column, or of the labels."""

    mean: Array
    deviation: Array


@dataclass(frozen=True, eq=False)
class Within:
    """Second moments of a domain's rows around their own means.

    They are those of X (d, d), of X and y (d,), and of y.
    """

    gram: Array
    cross: Array
    square: float


class DomainFacts(Protocol):
    """What is known of one domain."""

    @property
    def name(self) -> str: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def worth(self) -> float:
        """Return how many rows of equal weight the domain's weights are worth."""
        ...

    @property
    def labels(self) -> Labels: ...
    @property
    def classes(self) -> Classes: ...
    @property
    def columns(self) -> Moments: ...
    @property
    def quantity(self) -> Moments:
        """Return mean and standard deviation of the labels, which must be numbers."""
        ...

    @property
    def within(self) -> Within: ...


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of a problem's sources and targets."""

    input_shape: tuple[int, ...]
    sources: Sequence[DomainFacts]
    targets: Sequence[DomainFacts] = ()
    features: tuple[str, ...] = ()  # names of the columns, where they have any

    @property
    def domains(self) -> tuple[DomainFacts, ...]:
        return (*self.sources, *self.targets)

    def columns(self) -> tuple[Array, Array]:
        """Return mean and standard deviation per column; every source counts alike.

        The deviation is 0 where a column does not vary in the sources' rows.
        """
        return _together([s.columns for s in self.sources])

    def quantity(self) -> tuple[float, float]:
        """Return mean and standard deviation of the sources' labels, each source counting alike.

        The deviation of labels that are all the same is 1.
        """
        mean, scale = _together([s.quantity for s in self.sources])
        return float(mean), float(scale) or 1.0


@dataclass(frozen=True, eq=False)
class KnownFacts:
    """Facts of rows that are somewhere else, all computed there."""

    name: str
    n_rows: int
    worth: float
    labels: Labels
    classes: Classes
    columns: Moments
    quantity: Moments
    within: Within

    def lowered(self, level: float) -> KnownFacts:
        """Return the facts of the same rows with `level` taken off every label."""

        def less(at: tuple[int, Any] | None) -> tuple[int, Any] | None:
            return None if at is None else (at[0], at[1] - level)

        labels, values = self.labels, self.classes.values
        return replace(
            self,
            labels=replace(
                labels,
                first=labels.first - level,
                not_whole=less(labels.not_whole),
                least=labels.least - level,
            ),
            classes=Classes(None if values is None else values - level, self.classes.rows),
            quantity=Moments(self.quantity.mean - level, self.quantity.deviation),
        )


class LocalFacts:
    """Facts of a table in this process, each computed when it is first asked for."""

    def __init__(self, name: str, X: Array, y: Array, weight: Array | None) -> None:
        self.name, self.n_rows = name, len(X)
        self._X, self._y, self._weight = X, y, weight

    def known(self) -> KnownFacts:
        """Return all of them at once; moments of labels that are text are not known."""
        quantity, within = (
            Moments(np.array(np.nan), np.array(np.nan)),
            Within(np.zeros((0, 0)), np.zeros(0), np.nan),
        )
        if not self.labels.text:
            quantity, within = self.quantity, self.within
        return KnownFacts(
            self.name,
            self.n_rows,
            self.worth,
            self.labels,
            _few(self.classes),
            self.columns,
            quantity,
            within,
        )

    @property
    def worth(self) -> float:
        p = self._shares
        return 1.0 / float(p @ p)

    @cached_property
    def labels(self) -> Labels:
        y, not_number, not_whole, least_row = self._y, None, None, 0
        text = y.dtype.kind not in "iufb"
        if text:
            row = next((i for i, v in enumerate(y) if not isinstance(v, Real)), 0)
            not_number = row, y[row]
        else:
            least_row = int(np.argmin(y))
        if y.dtype.kind == "f":
            broken = y != np.round(y)
            if broken.any():
                row = int(np.argmax(broken))
                not_whole = row, y[row]
        return Labels(
            text, y[0], not_number, not_whole, np.inf if text else float(y[least_row]), least_row
        )

    @cached_property
    def classes(self) -> Classes:
        try:
            return Classes(*np.unique(self._y, return_index=True))
        except TypeError:
            return Classes(None, None)

    @cached_property
    def columns(self) -> Moments:
        return _moments(self._X, self._weight)

    @cached_property
    def quantity(self) -> Moments:
        return _moments(self._y, self._weight)

    @property
    def within(self) -> Within:
        """Return the second moments within the domain.

        They are not kept: a domain's (d, d) is asked for once.
        """
        d, n = self._X[0].size, self.n_rows
        gram, cross, square = np.zeros((d, d)), np.zeros(d), 0.0
        for low in range(0, n, BLOCK):
            X, y = self.around_means(slice(low, low + BLOCK))
            gram += X.T @ X
            cross += X.T @ y
            square += float(y @ y)
        return Within(gram, cross, square)

    def around_means(self, rows: slice = slice(None)) -> tuple[Array, Array]:
        """Return X (rows, d) and y less their means, times the roots of the rows' shares.

        Products of them with themselves are the second moments `within`. Where rows are fewer than
        columns they hold the same in less.
        """
        root = np.sqrt(self._shares[rows])
        X, y = (part[rows].astype(np.float64) for part in (self._X, self._y))
        X = (X - self.columns.mean).reshape(len(X), -1)
        return X * root[:, None], (y - float(self.quantity.mean)) * root

    @property
    def _shares(self) -> Array:
        """Return weights (rows,) that sum to 1."""
        weight = np.ones(self.n_rows) if self._weight is None else self._weight / self._weight.max()
        return np.asarray(weight / weight.sum())


def merged(parts: Sequence[KnownFacts], shares: Sequence[float]) -> KnownFacts:
    """Return the facts of a domain whose rows lie in several parts, one after the other.

    `shares` (parts,) sum to 1: how much the rows of each part weigh in the domain.
    """
    share = np.asarray(shares, dtype=np.float64)
    first = np.cumsum([0, *(part.n_rows for part in parts)])[:-1].tolist()
    columns, x_apart = _merged_moments([p.columns for p in parts], share)
    quantity, y_apart = _merged_moments([p.quantity for p in parts], share)
    within = parts[0].within
    if not any(part.labels.text for part in parts):
        x, y = x_apart.reshape(len(parts), -1), y_apart.reshape(-1)
        within = Within(
            np.tensordot(share, [p.within.gram for p in parts], 1) + (x.T * share) @ x,
            np.tensordot(share, [p.within.cross for p in parts], 1) + x.T @ (share * y),
            float(share @ [p.within.square for p in parts] + share @ y**2),
        )
    return KnownFacts(
        parts[0].name,
        sum(part.n_rows for part in parts),
        1.0 / float(sum(a * a / p.worth for a, p in zip(shares, parts, strict=True))),
        _merged_labels([p.labels for p in parts], first),
        _merged_classes([p.classes for p in parts], first),
        columns,
        quantity,
        within,
    )


def _merged_moments(parts: Sequence[Moments], share: Array) -> tuple[Moments, Array]:
    """Return the moments of all parts, and how far each part's mean lies from the mean of all."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.tensordot(share, [p.mean for p in parts], 1)
        apart = np.array([p.mean for p in parts]) - mean
        within, between = (_size(v, share) for v in (np.array([p.deviation for p in parts]), apart))
    return Moments(mean, np.hypot(within, between)), apart


def _merged_labels(parts: Sequence[Labels], first: Sequence[int]) -> Labels:
    """Return what the labels of all parts are like; `first` has the row that each begins with."""

    def earliest(name: str) -> tuple[int, Any] | None:
        told = ((low, getattr(p, name)) for low, p in zip(first, parts, strict=True))
        return next(((low + at[0], at[1]) for low, at in told if at is not None), None)

    low = min(range(len(parts)), key=lambda i: parts[i].least)
    return Labels(
        any(p.text for p in parts),
        parts[0].first,
        earliest("not_number"),
        earliest("not_whole"),
        parts[low].least,
        first[low] + parts[low].least_row,
    )


def _merged_classes(parts: Sequence[Classes], first: Sequence[int]) -> Classes:
    """Return the distinct labels of all parts, and the first row of each."""
    if any(p.values is None for p in parts):
        return Classes(None, None)
    values = np.concatenate([np.asarray(p.values) for p in parts])
    rows = np.concatenate([np.asarray(p.rows) + low for p, low in zip(parts, first, strict=True)])
    different, where = np.unique(values, return_index=True)  # the first place has the first row
    return _few(Classes(different, rows[where]))


def _few(classes: Classes) -> Classes:
    """Return at most MOST_VALUES of the labels: all labels of a quantity are as good as rows."""
    if classes.values is None or classes.rows is None:
        return classes
    return Classes(classes.values[:MOST_VALUES], classes.rows[:MOST_VALUES])


def _moments(values: Array, weight: Array | None) -> Moments:
    """Return mean and deviation over rows; relative weights, as huge ones would overflow."""
    values = np.asarray(values, dtype=np.float64)
    share = None if weight is None else weight / weight.max()
    with np.errstate(over="ignore", invalid="ignore"):  # what is infinite is told by its losses
        mean = np.average(values, 0, share)
        if not np.isfinite(mean).all():  # the sum overflows, though no mean does
            p = np.full(len(values), 1.0) if share is None else share
            mean = np.tensordot(p / p.sum(), values, 1)
        return Moments(mean, _size(values - mean, share))


def _size(values: Array, share: Array | None) -> Array:
    """Return the root mean square over the first axis; squares may be too large or too small."""
    with np.errstate(over="ignore", invalid="ignore"):
        square = np.asarray(np.average(values**2, 0, share))
    # Of some, squares are 0, denormal or infinite: these are divided by their largest number first.
    doubtful = ~((square > SMALLEST_SQUARE) & (square < np.inf))
    size = np.asarray(np.sqrt(square))
    if doubtful.any():
        few = values[:, doubtful]
        unit = np.abs(few).max(0)
        unit = np.where((unit > 0) & np.isfinite(unit), unit, 1.0)
        size[doubtful] = unit * np.sqrt(np.average((few / unit) ** 2, 0, share))
    return size


def _together(moments: Sequence[Moments]) -> tuple[Array, Array]:
    """Return mean and standard deviation per column; every domain counts alike.

    Rows of a domain count by their weights.

    So neither repeating all rows of a domain nor weights in place of repeated rows change anything.
    """
    means = np.array([m.mean for m in moments])
    with np.errstate(over="ignore", invalid="ignore"):
        mean = means.mean(0)
        within = _size(np.array([m.deviation for m in moments]), None)
        scale = np.hypot(within, _size(means - mean, None))
    # What rounding leaves of a column that never varies is no spread.
    return mean, np.where(scale > 1e-12 * np.abs(mean), scale, 0.0)
