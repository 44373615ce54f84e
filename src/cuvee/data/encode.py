"""Raw columns -> numbers, fitted on training rows with scikit-learn and kept as plain JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from cuvee.data.columns import (
    as_written,
    at,
    count,
    is_number,
    listed,
    pick,
    short,
    tidy,
)
from cuvee.data.dates import made_of
from cuvee.data.noticed import others
from cuvee.data.refused import check_missing, crowded_columns, say_crowded
from cuvee.errors import DomainError, InputError
from cuvee.problem import Array
from cuvee.results import Floats

FORMAT = 1
NEAR = 1e-152  # squares of smaller numbers have lost digits, or are 0
ROUNDING = 16  # units in the last place that two values may differ by and still be the same


@dataclass(frozen=True)
class Number:
    """A column that is standardised; scale 0 marks one that never varies, and encodes to 0."""

    name: str
    mean: float
    scale: float
    fill: float | None = None  # what missing values become; None: they are an error

    @classmethod
    def fitted(
        cls,
        name: str,
        scaler: Any,
        low: float,
        high: float,
        fill: float | None,
        where: str = "",
        origin: float = 0.0,
    ) -> Number:
        """Return the rule that a fitted `StandardScaler` stands for.

        It was fitted on this column less `origin`; `low` and `high` are the range of the column.
        """
        mean, spread, scale = (
            origin + float(scaler.mean_[0]),
            float(np.sqrt(scaler.var_[0])),
            float(scaler.scale_[0]),
        )
        if not np.isfinite([mean, spread]).all():
            raise too_far(name, low, high, where)
        if low < high and max(-low, high) < NEAR:
            raise DomainError(
                f"{at(where)}column {name!r} runs from {low:g} to {high:g}, and squares of such "
                "numbers are too near to 0 for a float; rescale it"
            )
        # scikit-learn takes 1 where the spread is only rounding
        never_varies = low == high or spread != scale
        return cls(name, mean, 0.0 if never_varies else scale, fill)

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def encode(self, column: Any, where: str) -> Floats:
        """Return a tidy column (rows,) as numbers (rows, 1)."""
        if not is_number(column):
            row, value = next(
                (row, value) for row, value in column.items() if isinstance(value, str)
            )
            raise DomainError(
                f"{at(where)}column {self.name!r} holds text, {short(value)} at row {row}, where "
                "the training rows "
                "hold numbers; correct it",
                row,
            )
        values = column.to_numpy(dtype=np.float64)[:, None]
        if self.scale == 0.0:
            return np.zeros_like(values)
        if self.fill is not None:
            values = np.where(np.isnan(values), self.fill, values)
        with np.errstate(over="ignore"):  # told by the encoder, with the row
            return (values - self.mean) / self.scale


@dataclass(frozen=True)
class Category:
    """A column that becomes one 0/1 column per category.

    A single category never varies, and is encoded as 0.
    """

    name: str
    categories: tuple[str, ...]
    fill: str | None = None  # what missing values become; None: they are an error

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={category}" for category in self.categories)

    def encode(self, column: Any, where: str) -> Floats:
        """Return a tidy column (rows,) as 0/1 columns (rows, categories).

        A category that no training row has is 0 in all of them.
        """
        return (self._places(column)[:, None] == np.arange(len(self.categories))) * float(
            len(self.categories) > 1
        )

    def unseen(self, column: Any) -> Any:
        """Return those values of a tidy column, with their rows, that no training row has."""
        return column[(self._places(column) < 0) & column.notna().to_numpy()]

    def refuse(self, unseen: Any, where: str) -> None:
        """Raise `DomainError` about `unseen` values of this column."""
        row, value = unseen.index[0], unseen.iloc[0]
        raise DomainError(
            f"{at(where)}column {self.name!r} is {short(value)} at row {row}, a value that no "
            f"training row has ({count(len(unseen), 'row')} with such values; known: "
            f"{listed(self.categories, 10)}); correct these rows, or leave them out",
            row,
        )

    def _places(self, column: Any) -> Array:
        """Return the place (rows,) of each value among the categories; -1: it is none of them."""
        import pandas as pd

        values = (
            column.astype(object).map(as_written, na_action="ignore")
            if is_number(column)
            else column
        )
        values = values.to_numpy(dtype=object, na_value=self.fill)
        return pd.Index(self.categories, dtype=object).get_indexer(values)


@dataclass(frozen=True, eq=False)
class Encoder:
    """Rules that turn raw columns into numbers, fitted on training rows.

    Numeric columns are standardised, others one-hot encoded.

    >>> import pandas as pd
    >>> encoder = Encoder.fit(pd.DataFrame({"age": [20, 40], "sex": ["f", "m"]}), ["age", "sex"])
    >>> encoder.names, encoder(pd.DataFrame({"sex": ["m"], "age": [30]})).tolist()
    (('age', 'sex=f', 'sex=m'), [[0.0, 0.0, 1.0]])
    """

    columns: tuple[Number | Category, ...]

    @classmethod
    def fit(
        cls,
        frame: Any,
        features: Sequence[str],
        *,
        impute: bool = False,
        where: str = "",
        of_sources: Array | None = None,
    ) -> Encoder:
        """Return the encoder that is fitted on training rows.

        With `impute`, missing numbers become the median and others the most frequent value.
        Numbers are scaled and gaps are filled by the rows that `of_sources` (rows,) marks, so that
        a target's columns do not depend on which other targets there are. Only where a column does
        not vary in these rows all rows count.
        """
        columns = [tidy(pick(frame, name, where), where) for name in features]
        if not columns or not len(frame):
            raise DomainError(
                f"{at(where)}there are no {'rows' if columns else 'columns'} to learn from"
            )
        if not impute:
            check_missing(columns, where, to_fit=True)
        if crowded := crowded_columns(columns):
            say_crowded(crowded, where)
        return cls(tuple(_fit(column, impute, where, of_sources) for column in columns))

    def unscaled(self) -> Encoder:
        """Return the same encoder without standardising: numbers stay as they are.

        This is for columns that have one scale already, such as pixels.
        """
        as_it_is = (
            replace(c, mean=0.0, scale=1.0) if isinstance(c, Number) else c for c in self.columns
        )
        return Encoder(tuple(as_it_is))

    @property
    def features(self) -> tuple[str, ...]:
        """Return the names of the raw columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def text(self) -> tuple[str, ...]:
        """Return the raw columns that are categories.

        A file is read with these as text, so that '007' stays what it is.
        """
        return tuple(column.name for column in self.columns if isinstance(column, Category))

    @property
    def raw_features(self) -> tuple[str, ...]:
        """Return the columns of a table that the features are made of, dates among them."""
        return tuple(dict.fromkeys(map(made_of, self.features)))

    @property
    def raw_text(self) -> tuple[str, ...]:
        """Return those columns of a table that are read as text: categories and dates."""
        known = {*self.features} - {*self.text}
        return tuple(name for name in self.raw_features if name not in known)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names (d,) of the encoded columns, such as "age" or "sex=f"."""
        return tuple(name for column in self.columns for name in column.names)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes on the columns that never vary."""
        same = [
            column.name
            for column in self.columns
            if (column.scale == 0.0 if isinstance(column, Number) else len(column.categories) == 1)
        ]
        if not same:
            return ()
        if len(same) == 1:
            only = f"column {same[0]!r} has the same value in every training row"
            return (f"{only}: it says nothing and is encoded as 0",)
        return (
            f"{len(same)} columns ({listed(same)}) have the same value in every training row: "
            "they are encoded as 0",
        )

    def __call__(self, frame: Any, *, where: str = "") -> Floats:
        """Return the encoded rows (rows, d) of a frame, whose columns may come in any order.

        A category that no training row has counts as another one: it is 0 in all columns of the
        known ones. `unseen` says where there are such. Errors name `where` (a domain or a file),
        row and column.
        """
        columns = [tidy(pick(frame, name, where), where) for name in self.features]
        check_missing(
            [c for c, rule in zip(columns, self.columns, strict=True) if rule.fill is None], where
        )
        # Written out, because that is shorter than rebuilding transformers; the tests compare it
        # with theirs.
        parts = [
            rule.encode(column, where) for rule, column in zip(self.columns, columns, strict=True)
        ]
        encoded = np.concatenate(parts, axis=1)
        if not np.isfinite(encoded).all():
            row, column = np.argwhere(~np.isfinite(encoded))[0]
            raise DomainError(
                f"{at(where)}column {self.names[column]!r} is too far from the training rows at "
                "row "
                f"{frame.index[row]}; correct it, or drop the column",
                frame.index[row],
            )
        return encoded

    def unseen(self, frame: Any, *, where: str = "", strict: bool = False) -> dict[str, Any]:
        """Return the values that no training row has, column -> pandas.Series with their rows.

        Only columns with such values are there. With `strict` the first is an error.
        """
        found = {}
        for rule in self.columns:
            if isinstance(rule, Category):
                values = rule.unseen(tidy(pick(frame, rule.name, where), where))
                if len(values):
                    found[rule.name] = values
                    if strict:
                        rule.refuse(values, where)
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON that `from_dict` turns into the same encoder, bit by bit."""
        kinds = {Number: "number", Category: "category"}
        return {
            "format": FORMAT,
            "columns": [{"kind": kinds[type(c)], **asdict(c)} for c in self.columns],
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Encoder:
        """Return the encoder that `as_dict` described, as it comes back from JSON."""
        try:
            if stored["format"] != FORMAT:
                raise KeyError(f"format {stored['format']!r}; this version of cuvee reads {FORMAT}")
            return cls(tuple(_restored(**column) for column in stored["columns"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"this is not a stored encoder: {error}") from None


def unseen_in(
    frames: Iterable[tuple[Encoder, Any]], what: str, *, where: str = "", strict: bool = False
) -> list[str]:
    """Return a sentence about categories that no training row has, or none.

    They are looked for in frames, each with its own encoder, whose rows are called `what`. With
    `strict` they are an error.
    """
    found: dict[str, tuple[int, Any]] = {}
    for encoder, frame in frames:
        add_up(found, encoder.unseen(frame, where=where, strict=strict))
    return others(found, what)


def add_up(found: dict[str, tuple[int, Any]], unseen: Mapping[str, Any]) -> None:
    """Add what `Encoder.unseen` returns to the number of such values of each column."""
    for name, values in unseen.items():
        n, example = found.get(name, (0, values.iloc[0]))
        found[name] = n + len(values), example


def _restored(kind: str, name: str, **rest: Any) -> Number | Category:
    if kind == "category":
        return Category(name, tuple(map(str, rest["categories"])), rest["fill"])
    return Number(
        name,
        float(rest["mean"]),
        float(rest["scale"]),
        rest["fill"] if rest["fill"] is None else float(rest["fill"]),
    )


def too_far(name: str, low: float, high: float, where: str) -> DomainError:
    """Return the error about a column whose mean or spread no float holds."""
    return DomainError(
        f"{at(where)}column {name!r} runs from {low:g} to {high:g}, too far for a float; rescale it"
    )


def _fit(column: Any, impute: bool, where: str, of_sources: Array | None) -> Number | Category:
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    name, numeric = str(column.name), is_number(column)
    if column.isna().all():
        raise DomainError(f"{at(where)}column {name!r} is missing in every row; drop it (--drop)")
    usual = column if of_sources is None else column[of_sources]
    if usual.isna().all() or (numeric and usual.min() == usual.max()):
        usual = column
    cells, usual = (
        part.to_numpy(np.float64 if numeric else object, na_value=np.nan)[:, None]
        for part in (column, usual)
    )
    fill = None
    if impute:
        with np.errstate(over="ignore"):
            imputer = SimpleImputer(strategy="median" if numeric else "most_frequent").fit(usual)
        fill = imputer.statistics_[0]
        if numeric and not np.isfinite(fill):
            raise too_far(name, float(np.nanmin(usual)), float(np.nanmax(usual)), where)
        cells, usual = imputer.transform(cells), imputer.transform(usual)
    if numeric:
        with np.errstate(over="ignore", invalid="ignore"):  # told by `fitted`
            scaler = StandardScaler().fit(usual)
        low, high, origin = float(usual.min()), float(usual.max()), 0.0
        if hides_variation(scaler, low, high):
            scaler, origin = StandardScaler().fit(usual - low), low
        return Number.fitted(
            name, scaler, low, high, None if fill is None else float(fill), where, origin
        )
    return Category(name, tuple(OneHotEncoder().fit(cells).categories_[0].tolist()), fill)


def hides_variation(scaler: Any, low: float, high: float) -> bool:
    """Return whether scikit-learn takes a column for constant that is not.

    Its mean, far from 0, would hide the spread.

    Whole numbers that differ do so for a reason; others that differ in their last bits alone are
    one value, rounded.
    """
    spread = float(np.sqrt(scaler.var_[0]))
    if spread == float(scaler.scale_[0]) or not np.isfinite(spread):
        return False
    largest = max(abs(low), abs(high))
    whole = low.is_integer() and high.is_integer() and largest < 2**53
    return high > low if whole else high - low > ROUNDING * float(np.spacing(largest))
