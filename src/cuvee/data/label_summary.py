"""What there is to know of the labels of many rows: small enough to be sent, and to be merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import numpy as np

from cuvee.data.columns import is_number

LabelKind = Literal["text", "truth", "whole", "quantity"]
MOST = 10_000  # different labels that are kept for a merge: as many are a quantity


@dataclass(frozen=True, eq=False)
class Summary:
    """Hold what labels (rows,) are like; numbers are NaN for text."""

    kind: LabelKind
    rows: int
    different: int
    first: Any
    low: float
    high: float
    mean: float
    share_of_highest: float  # of the rows
    lowest: tuple[int, Any]  # row and label of the least
    broken: tuple[int, float] | None  # row and label of the first that is not whole
    values: frozenset[Any] | None = None  # the different labels, where they are to be merged

    @classmethod
    def of(cls, labels: Any, *, to_merge: bool = False) -> Summary:
        """Return the summary of tidy labels without gaps."""
        kind, rows = label_kind(labels), len(labels)
        values = frozenset(labels.unique()[:MOST].tolist()) if to_merge else None
        low = high = mean = share = np.nan
        lowest, broken = (labels.index[0], labels.iloc[0]), None
        if kind != "text":
            numbers = labels.to_numpy(np.float64)
            place = int(np.argmin(numbers))
            low, high = float(numbers[place]), float(numbers.max())
            mean = 2 * float((numbers / (2 * rows)).sum())  # a plain sum may overflow
            share, lowest = float((numbers == high).mean()), (labels.index[place], low)
            parts = numbers != np.round(numbers)
            if parts.any():
                place = int(np.argmax(parts))
                broken = labels.index[place], float(numbers[place])
        different = labels.nunique()
        return cls(
            kind, rows, different, labels.iloc[0], low, high, mean, share, lowest, broken, values
        )

    def __add__(self, other: Summary) -> Summary:
        """Return the summary of these labels and of others behind them."""
        kinds: set[LabelKind] = {self.kind, other.kind}
        kind: LabelKind = self.kind
        if len(kinds) > 1:
            kind = "text" if "text" in kinds else "quantity" if "quantity" in kinds else "whole"
        values = (self.values or frozenset()) | (other.values or frozenset())
        rows, high = self.rows + other.rows, max(self.high, other.high)
        highest = np.nan if np.isnan(high) else 0.0
        highest += sum(s.share_of_highest * s.rows for s in (self, other) if s.high == high)
        return Summary(
            kind, rows, max(len(values), self.different, other.different), self.first,
            min(self.low, other.low), high,
            self.mean * (self.rows / rows) + other.mean * (other.rows / rows), highest / rows,
            other.lowest if other.low < self.low else self.lowest, self.broken or other.broken,
            frozenset(list(values)[: MOST + 1]),
        )  # fmt: skip


def together(parts: Sequence[Summary]) -> Summary:
    """Return the summary of the labels of all parts, one after the other."""
    return reduce(lambda one, other: one + other, parts)


def label_kind(labels: Any) -> LabelKind:
    """Return the kind of tidy labels (rows,); missing ones are ignored.

    Whole numbers are those that a float holds exactly.
    """
    if str(labels.dtype) == "boolean":  # truth values beside gaps
        return "truth"
    if not is_number(labels):
        return "text"
    values = labels.dropna().to_numpy(np.float64)
    whole = bool(np.all((values == np.round(values)) & (np.abs(values) < 2**53)))
    return "truth" if labels.dtype == np.bool_ else "whole" if whole else "quantity"
