"""One column: tidied into numbers, truth values or text, and the words that say what is wrong with
it.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from cuvee.errors import DomainError, OptionError
from cuvee.inputs.arrays import kind_of
from cuvee.results import Floats

# Words for what is missing, as pandas and R write them. They are missing in a column of numbers,
# truth values or dates alone: elsewhere they are values like any others.
WORDS = (
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
    "N/A", "NA", "NULL", "NaN", "NaT", "None", "n/a", "nan", "null",
)  # fmt: skip


def tidy(column: Any, where: str = "", missing: Collection[str] = ()) -> Any:
    """Return a column (rows,) as float64 (missing: NaN), bool or text.

    Empty text is missing, and so are the words `missing`, which may be numbers. Errors name the
    first cell that is neither a number nor text.
    """
    column = _tidied(column, where)
    if not is_number(column):
        words = {"", *missing}
        gone = [value for value in column.dropna().unique() if value.strip() in words]
    else:
        gone = [number for word in missing if (number := _number(word)) is not None]
        gone = gone if column.dtype == np.float64 else []
    there = column.isin(gone) if gone else None
    return column if there is None or not there.any() else column.mask(there)


def tidy_labels(column: Any, where: str = "", missing: Collection[str] = ()) -> Any:
    """Return labels (rows,) as `tidy` does, but truth values beside gaps stay truth values."""
    from pandas.api import types

    tidied = tidy(column, where, missing)
    cells = column[tidied.notna()]
    truth = types.is_bool_dtype(column.dtype) or (
        column.dtype == object and types.infer_dtype(cells, skipna=True) == "boolean"
    )
    return tidied.astype("boolean") if truth and tidied.dtype == np.float64 else tidied


def plain_labels(labels: Any) -> Any:
    """Return labels (rows,) without gaps in the type that they have where none has gaps."""
    types = {"Int64": np.int64, "boolean": np.bool_}
    return labels.astype(types.get(str(labels.dtype), labels.dtype))


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _tidied(column: Any, where: str) -> Any:
    import pandas as pd
    from pandas.api import types

    dtype, name = column.dtype, str(column.name)
    if isinstance(dtype, pd.StringDtype) or dtype == np.bool_:
        return column
    # the user says that these are categories, even where they are numbers
    if isinstance(dtype, pd.CategoricalDtype):
        written = np.array([*map(as_written, dtype.categories), None], dtype=object)
        return pd.Series(written[column.cat.codes], column.index, object, name)
    if types.is_bool_dtype(dtype) and not column.hasnans:
        return column.astype(np.bool_)
    # truth values with gaps too: 0, 1, NaN
    if types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        _check_numbers(
            column, values, f"{at(where)}column {name!r}", whole=types.is_integer_dtype(dtype)
        )
        return column if dtype == np.float64 else pd.Series(values, column.index, np.float64, name)
    return _of_objects(column, f"{at(where)}column {name!r}")


def _of_objects(column: Any, named: str) -> Any:
    """Return a column of Python's own values as text, or as float64; `named` is for errors."""
    import pandas as pd
    from pandas.api import types

    try:
        cells = column.astype(object)
        kind = types.infer_dtype(cells, skipna=True)
        if kind == "string":
            return cells.map(str, na_action="ignore")
        if kind == "boolean":  # 0, 1, NaN where there are gaps
            return cells.astype(np.float64 if cells.isna().any() else np.bool_)
        numbers = kind in ("integer", "floating", "mixed-integer-float", "decimal", "empty")
        if not numbers and cells.notna().any():  # a column of gaps alone is of no kind
            oddity, row = _oddity(cells)
            raise DomainError(f"{named} {oddity}", row)
        values = np.array(
            [np.nan if gap else float(v) for v, gap in zip(cells, cells.isna(), strict=True)]
        )
    except ArithmeticError:  # too large, or a decimal that refuses every question
        raise DomainError(f"{named} holds a number that no float can hold; rescale it") from None
    _check_numbers(column, values, named, whole=kind == "integer")
    return pd.Series(values, column.index, np.float64, str(column.name))


def _check_numbers(column: Any, values: Floats, named: str, *, whole: bool) -> None:
    """Raise `DomainError` where a number is infinite, or two whole numbers have become the same."""
    if whole:
        _check_apart(column, values, named)
    infinite = np.isinf(values)
    if infinite.any():
        row = column.index[int(np.argmax(infinite))]
        raise DomainError(
            f"{named} is infinite at row {row} "
            f"({count(int(infinite.sum()), 'such value')}); correct it or leave it empty; a "
            "feature with gaps needs --impute (impute=True), which fills them",
            row,
        )


def _check_apart(column: Any, values: Floats, named: str) -> None:
    """Raise `DomainError` where whole numbers that differ have become the same float."""
    large = np.flatnonzero(np.abs(values) >= 2**53).tolist()
    seen: dict[float, int] = {}
    for place in large if column.iloc[large].nunique() > len(np.unique(values[large])) else ():
        other = seen.setdefault(float(values[place]), place)
        if column.iloc[other] != column.iloc[place]:
            raise too_long(named, *((column.index[i], str(column.iloc[i])) for i in (other, place)))


def too_long(named: str, one: tuple[int, str], other: tuple[int, str]) -> DomainError:
    """Return the error about two whole numbers, each with its row, that are the same float."""
    return DomainError(
        f"{named} holds whole numbers with more digits than are kept: {one[1]} at row {one[0]} and "
        f"{other[1]} at row "
        f"{other[0]} would become the same; declare the column as text (--text) if these are "
        "identifiers, drop it, or "
        "subtract a constant",
        one[0],
    )


def _oddity(cells: Any) -> tuple[str, int]:
    """Return what is wrong with a column of objects and what to do, and at which row."""
    there = cells[cells.notna().to_numpy()]
    kinds = [kind_of(value) for value in there]
    usual = Counter(kinds).most_common(1)[0][0]
    odd = next((i for i, kind in enumerate(kinds) if kind != usual), 0)
    row, value, kind = there.index[odd], there.iloc[odd], kinds[odd]
    if kind != usual:
        shown = f" ({short(value)})" if isinstance(value, str | Real) else ""
        return (
            f"mixes types: it holds {usual}s, but a {kind}{shown} at row {row}; use one type "
            "throughout",
            row,
        )
    if kind == "date":
        dates = f"holds dates, like {value} at row {row}"
        return f"{dates}; make numbers of them (days since a date?), or drop the column", row
    neither = f"holds a {kind} at row {row}, not a number or a text"
    return f"{neither}; spread it over several columns, or drop the column", row


def pick(frame: Any, name: str, where: str) -> Any:
    """Return the one column of that name."""
    if name in frame.columns and frame.columns.is_unique:
        return frame[name]
    positions = [i for i, column in enumerate(frame.columns) if str(column) == name]
    if len(positions) != 1:
        raise DomainError(
            f"{at(where)}{'two columns are' if positions else 'no column is'} named {name!r}"
        )
    return frame.iloc[:, positions[0]].rename(name)


def is_number(column: Any) -> bool:
    """Return whether a tidy column is numeric."""
    return column.dtype in (np.float64, np.bool_)


def as_written(value: Any) -> str:
    """Return a number or truth value as the name of a category: 12.0 is '12'."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def comma_list(text: str) -> tuple[str, ...]:
    """Return the names in a comma list; quotes keep a comma in a name.

    >>> comma_list('age, "weight, kg"')
    ('age', 'weight, kg')
    """
    try:
        row = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:
        raise OptionError(
            f"{short(text)} is no list of names with commas between them; put double quotes around "
            "a name that holds a comma or a line break"
        ) from None
    return tuple(name.strip() for name in row if name.strip())


def in_comma_list(names: Iterable[str]) -> str:
    """Return names as `comma_list` reads them.

    >>> in_comma_list(["age", "weight, kg"])
    'age,"weight, kg"'
    """
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(names)
    return out.getvalue()


def short(value: Any) -> str:
    shown = repr(value.item() if isinstance(value, np.generic) else value)
    return shown if len(shown) <= 40 else f"{shown[:39]}…"


def count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def listed(names: Sequence[Any], most: int = 3) -> str:
    """Return names in quotes, those beyond `most` as three dots."""
    return ", ".join(map(repr, names[:most])) + (", …" if len(names) > most else "")


def at(where: str) -> str:
    return f"{where}: " if where else ""
