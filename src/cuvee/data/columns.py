"""One column: tidied into numbers, truth values or text, and the words that say what is wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from cuvee.errors import DomainError
from cuvee.problem import kind_of


def tidy(column: Any, where: str = "") -> Any:
    """A column (rows,) as float64 (missing: NaN), bool or text; errors name the first cell that is none of these."""
    import pandas as pd
    from pandas.api import types

    dtype, name = column.dtype, str(column.name)
    if isinstance(dtype, pd.StringDtype) or dtype == np.bool_:
        return column
    if isinstance(dtype, pd.CategoricalDtype):  # the user says that these are categories, even where they are numbers
        written = np.array([*map(as_written, dtype.categories), None], dtype=object)
        return pd.Series(written[column.cat.codes], column.index, object, name)
    if types.is_bool_dtype(dtype) and not column.hasnans:
        return column.astype(np.bool_)
    if types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype):  # truth values with gaps too: 0, 1, NaN
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        try:
            cells = column.astype(object)
            kind = types.infer_dtype(cells, skipna=True)
            if kind in ("string", "boolean"):
                return cells.map(str, na_action="ignore")
            if kind not in ("integer", "floating", "mixed-integer-float", "decimal", "empty"):
                raise DomainError(f"{at(where)}column {name!r} {_oddity(cells)}")
            values = np.array([np.nan if gap else float(v) for v, gap in zip(cells, cells.isna(), strict=True)])
        except ArithmeticError:  # too large, or a decimal that refuses every question
            raise DomainError(f"{at(where)}column {name!r} holds a number that no float can hold; rescale it") from None
    infinite = np.isinf(values)
    if infinite.any():
        raise DomainError(
            f"{at(where)}column {name!r} is infinite at row {column.index[int(np.argmax(infinite))]} "
            f"({count(int(infinite.sum()), 'such value')}); correct it, or leave it empty and use impute (--impute)"
        )
    return column if dtype == np.float64 else pd.Series(values, column.index, np.float64, name)


def _oddity(cells: Any) -> str:
    """What is wrong with a column of objects, and what to do."""
    there = cells[cells.notna().to_numpy()]
    kinds = [kind_of(value) for value in there]
    usual = Counter(kinds).most_common(1)[0][0]
    odd = next((i for i, kind in enumerate(kinds) if kind != usual), 0)
    row, value, kind = there.index[odd], there.iloc[odd], kinds[odd]
    if kind != usual:
        shown = f" ({short(value)})" if isinstance(value, str | Real) else ""
        return f"mixes types: it holds {usual}s, but a {kind}{shown} at row {row}; use one type throughout"
    if kind == "date":
        return f"holds dates, like {value} at row {row}; make numbers of them (days since a date?), or drop the column"
    return f"holds a {kind} at row {row}, not a number or a text; spread it over several columns, or drop the column"


def pick(frame: Any, name: str, where: str) -> Any:
    """The one column of that name."""
    if name in frame.columns and frame.columns.is_unique:
        return frame[name]
    found = [i for i, column in enumerate(frame.columns) if str(column) == name]
    if len(found) != 1:
        raise DomainError(f"{at(where)}{'two columns are' if found else 'no column is'} named {name!r}")
    return frame.iloc[:, found[0]].rename(name)


def is_number(column: Any) -> bool:
    """Whether a tidy column is numeric."""
    return column.dtype in (np.float64, np.bool_)


def as_written(value: Any) -> str:
    """A number or truth value as a category: 12.0 is '12'."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def short(value: Any) -> str:
    shown = repr(value.item() if isinstance(value, np.generic) else value)
    return shown if len(shown) <= 40 else f"{shown[:39]}…"


def count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return names in quotes, those beyond `most` as three dots."""
    return ", ".join(map(repr, names[:most])) + (", …" if len(names) > most else "")


def at(where: str) -> str:
    return f"{where}: " if where else ""
