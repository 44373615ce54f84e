"""Read arrays, tensors and lists, and labels that must stay distinct."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, time, timedelta
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from cuvee.errors import DomainError

Array = npt.NDArray[Any]


def as_array(values: Any) -> Array:
    """Return an array of anything that NumPy takes, and of any tensor, whatever its floats."""
    if not hasattr(values, "detach"):
        return np.asarray(values)
    tensor = values.detach().cpu()
    try:
        return np.asarray(tensor)
    except TypeError:  # NumPy has no bfloat16
        return np.asarray(tensor.double())


def kind_of(value: Any) -> str:
    """Return what a value is to the person who wrote the table: "number", "text", "date", …."""
    named = {
        "truth value": bool | np.bool_,
        "number": Real,
        "text": str,
        "date": date | time | timedelta | np.datetime64,
    }
    kinds = (name for name, types in named.items() if isinstance(value, types))
    return next(kinds, type(value).__name__)


def check_apart(values: Iterable[Any], become: Iterable[Any], what: str, one: str) -> None:
    """Raise `DomainError` where values of two kinds, such as "1" and 1, become the same."""
    first: dict[Any, tuple[int, Any]] = {}
    for row, (value, same) in enumerate(zip(values, become, strict=True)):
        before, other = first.setdefault(same, (row, value))
        if type(other) is not type(value) and kind_of(other) != kind_of(value):
            raise DomainError(
                f"{what} holds the {kind_of(other)} {other!r} at row {before} and the "
                f"{kind_of(value)} {value!r} at row {row}, which would become one {one}; use one "
                "type throughout",
                row,
            )


def as_labels(y: Any, what: str, one: str = "label") -> Array:
    """Return labels as an array; raise `DomainError` if text and a number would become one."""
    array = as_array(y)
    typed = hasattr(y, "dtype") and y.dtype != np.object_
    if not typed and array.dtype.kind in "USbiufO":
        values = np.asarray(y, dtype=object).ravel()
        become = array.ravel()
        if array.dtype == object:
            become = np.array([str(v) for v in values], object)
        if len({kind_of(v) for v in values}) > 1:
            check_apart(values.tolist(), become.tolist(), what, one)
    return array


def first_text(array: Array, columns: Sequence[str]) -> str:
    """Return where the first value that is not a number is, in words, or "" if all are."""
    for index, value in np.ndenumerate(array):
        try:
            float(value)
        except (TypeError, ValueError):
            column = (
                columns[index[1]] if columns and len(index) == 2 else ", ".join(map(str, index[1:]))
            )
            return f"{value!r} at row {index[0]}, column {column!r}"
    return ""
