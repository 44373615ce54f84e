"""What passes over a feature learn of it, batch by batch or worker by worker."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cuvee.data.columns import at, is_number
from cuvee.data.encode import Category, Number
from cuvee.data.files import ROWS
from cuvee.data.refused import MOST_CATEGORIES, check_categories
from cuvee.errors import DomainError


@dataclass
class ColumnFit:
    """What a pass learns of a feature."""

    name: str
    rows: int = 0
    gaps: int = 0
    low: float = np.inf
    high: float = -np.inf
    scaler: Any = None
    origin: float = 0.0  # taken off before the scaler sees the column
    seen: Counter[str] = field(default_factory=Counter)

    def add(self, column: Any, where: str) -> None:
        from sklearn.preprocessing import StandardScaler

        cells = column.dropna()
        self.rows, self.gaps = self.rows + len(column), self.gaps + len(column) - len(cells)
        if len(cells) and is_number(column):
            values = cells.to_numpy(np.float64)[:, None]
            self.low, self.high = min(self.low, values.min()), max(self.high, values.max())
            with np.errstate(over="ignore", invalid="ignore"):  # told by `Number.fitted`
                self.scaler = (self.scaler or StandardScaler()).partial_fit(values - self.origin)
        elif len(cells):
            self.seen.update(cells)
            if len(self.seen) > MOST_CATEGORIES:
                check_categories(self.name, len(self.seen), self.rows, cells.iloc[0], where)
        self._check_one_kind(where)

    def join(self, other: ColumnFit, where: str) -> None:
        """Add what another pass has learnt of other rows of the same column."""
        self.rows, self.gaps = self.rows + other.rows, self.gaps + other.gaps
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.seen.update(other.seen)
        self.scaler = joined(self.scaler, other.scaler)
        if len(self.seen) > MOST_CATEGORIES:
            check_categories(self.name, len(self.seen), self.rows, next(iter(self.seen)), where)
        self._check_one_kind(where)

    def _check_one_kind(self, where: str) -> None:
        if self.seen and self.scaler is not None:
            raise DomainError(
                f"{at(where)}column {self.name!r} holds text in one file and numbers in another; "
                "use one"
            )

    def begin_again(self) -> None:
        """Fit the scaler once more, on the column less its least value."""
        self.scaler, self.origin, self.rows, self.gaps = None, self.low, 0, 0

    def rule(self, fill: float | None, impute: bool, where: str) -> Number | Category:
        """Return the rule that `Encoder.fit` would make; `fill` is the median."""
        if self.scaler is None:
            check_categories(
                self.name, len(self.seen), self.rows - self.gaps, next(iter(self.seen)), where
            )
            often = max(self.seen.values())
            frequent = min(value for value, n in self.seen.items() if n == often)
            return Category(self.name, tuple(sorted(self.seen)), frequent if impute else None)
        for low in range(0, self.gaps if fill is not None else 0, ROWS):
            with np.errstate(over="ignore", invalid="ignore"):  # told by `Number.fitted`
                self.scaler.partial_fit(
                    np.full((min(ROWS, self.gaps - low), 1), fill) - self.origin
                )
        return Number.fitted(self.name, self.scaler, self.low, self.high, fill, where, self.origin)


def joined(one: Any, other: Any) -> Any:
    """Return the scaler of the rows of two scalers; None is one of no rows."""
    from sklearn.preprocessing import StandardScaler

    if one is None or other is None:
        return one if other is None else other
    n, m = float(one.n_samples_seen_), float(other.n_samples_seen_)
    scaler = StandardScaler()
    scaler.n_features_in_ = 1
    with np.errstate(over="ignore", invalid="ignore"):  # told by `Number.fitted`
        apart = other.mean_ - one.mean_
        scaler.mean_ = one.mean_ + apart * (m / (n + m))
        scaler.var_ = (n * one.var_ + m * other.var_ + apart**2 * (n * m / (n + m))) / (n + m)
        scaler.n_samples_seen_ = one.n_samples_seen_ + other.n_samples_seen_
        # what scikit-learn takes for the rounding of a column that never varies
        eps, rows = np.finfo(np.float64).eps, n + m
        constant = scaler.var_ <= rows * eps * scaler.var_ + (rows * scaler.mean_ * eps) ** 2
        scaler.scale_ = np.where(constant, 1.0, np.sqrt(scaler.var_))
    return scaler
