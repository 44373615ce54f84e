"""What may be known of a domain without its rows: small values that are computed where the rows
are.

Binding a hypothesis, standardising columns, taking out levels and checking labels ask for facts,
never for rows. A table in this process computes each of them when it is first asked for;
`LocalFacts.known` computes all of them, for rows that live elsewhere and only send what is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
BLOCK = 16_384  # rows at a time: X may be larger than memory


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
    """Weighted mean and variance of each column, or of the labels."""

    mean: Array
    variance: Array


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
        """Return mean and variance of the labels, which must be numbers."""
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
        """Return mean and standard deviation per column; every source counts alike."""
        return _together([s.columns for s in self.sources])

    def quantity(self) -> tuple[float, float]:
        """Return mean and standard deviation of the sources' labels, each source counting alike."""
        mean, scale = _together([s.quantity for s in self.sources])
        return float(mean), float(scale)


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
            self.classes,
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
        p, X = self._shares, self._X.reshape(self.n_rows, -1)
        mean, y = (
            self.columns.mean.reshape(-1),
            self._y.astype(np.float64) - float(self.quantity.mean),
        )
        gram, cross = np.zeros((X.shape[1], X.shape[1])), np.zeros(X.shape[1])
        for low in range(0, len(X), BLOCK):
            block = slice(low, low + BLOCK)
            centred = X[block].astype(np.float64) - mean
            gram += (centred.T * p[block]) @ centred
            cross += centred.T @ (p[block] * y[block])
        return Within(gram, cross, float(p @ y**2))

    @property
    def _shares(self) -> Array:
        """Return weights (rows,) that sum to 1."""
        weight = np.ones(self.n_rows) if self._weight is None else self._weight / self._weight.max()
        return np.asarray(weight / weight.sum())


def _moments(values: Array, weight: Array | None) -> Moments:
    """Return mean and variance over rows; relative weights, as huge ones would overflow."""
    values = np.asarray(values, dtype=np.float64)
    share = None if weight is None else weight / weight.max()
    with np.errstate(over="ignore"):  # an infinite spread is told from the losses it gives
        mean = np.average(values, 0, share)
        return Moments(mean, np.average((values - mean) ** 2, 0, share))


def _together(moments: Sequence[Moments]) -> tuple[Array, Array]:
    """Return mean and standard deviation per column; every domain counts alike.

    Rows of a domain count by their weights.

    So neither repeating all rows of a domain nor weights in place of repeated rows change anything.
    """
    means = np.array([m.mean for m in moments])
    with np.errstate(over="ignore", invalid="ignore"):
        mean = means.mean(0)
        square = np.mean([m.variance for m in moments], 0) + np.mean((means - mean) ** 2, 0)
    # What rounding leaves of a column that never varies is no spread; such a column is left as it
    # is.
    scale = np.sqrt(square)
    return mean, np.where(scale > 1e-12 * np.abs(mean), scale, 1.0)
