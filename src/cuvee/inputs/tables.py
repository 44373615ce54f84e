"""Check the values of one domain: rows of numbers, a label and perhaps a weight for each.

Every check returns an array, or raises `DomainError` that names the domain, the row and the column.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from cuvee.errors import DomainError
from cuvee.inputs.arrays import Array, as_array, as_labels, first_text

BLOCK = 16_384  # rows that are checked at a time


def per_row(shape: tuple[int, ...]) -> str:
    """Return in words what a row of this shape holds."""
    return f"{shape[0]} features" if len(shape) == 1 else f"shape {shape}"


def column_names(*tables: Any) -> tuple[str, ...]:
    """Return the names of the columns of the first table that has any."""
    return next((tuple(map(str, t.columns)) for t in tables if hasattr(t, "columns")), ())


def is_empty(values: Any) -> bool:
    """Return whether nothing was given, or a table without rows."""
    return values is None or (hasattr(values, "__len__") and len(values) == 0)


def check_unlabelled(name: str, rows: Any, features: tuple[str, ...]) -> Array | None:
    """Return rows without labels, checked as X is; None where there are none."""
    if is_empty(rows):
        return None
    checked, named = check_features(name, rows, features, "unlabelled"), column_names(rows)
    pairs = zip(named, features, strict=False)
    column = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if column is not None:
        raise DomainError(
            f"domain {name!r}: its unlabelled rows have column {named[column]!r} at position "
            f"{column}, where its labelled ones have {features[column]!r}; bring the columns into "
            "one order"
        )
    return checked


def check_features(name: str, X: Any, features: tuple[str, ...], what: str = "X") -> Array:
    """Return X (rows, features…) as finite floats, in one piece of memory."""
    array = np.empty(0)
    try:
        array = as_array(X)
        if array.dtype != np.float32 and array.dtype.kind != "c" and array.ndim:
            array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        where = first_text(array, features) or str(error)
        raise DomainError(
            f"domain {name!r}: {what} is not numeric: {where}; encode text and fill gaps first"
        ) from None
    if array.dtype.kind == "c":
        raise DomainError(
            f"domain {name!r}: {what} holds complex numbers; give their real and imaginary parts "
            "as two columns"
        )
    if array.ndim == 0:
        raise DomainError(
            f"domain {name!r}: {what} must be a dense table, rows × features; got a "
            f"{type(X).__name__}"
        )
    if array.ndim < 2:
        raise DomainError(
            f"domain {name!r}: {what} must be rows × features; got shape {array.shape}"
        )
    if len(array) == 0:
        raise DomainError(f"domain {name!r} is empty: {what} has no rows")
    if array[0].size == 0:
        raise DomainError(f"domain {name!r}: {what} has no columns")
    if features and len(features) != array[0].size:
        raise DomainError(
            f"domain {name!r}: {len(features)} feature names for {array[0].size} columns"
            f"{'' if what == 'X' else ' of its unlabelled rows'}"
        )
    _check_finite(name, array, features, what)
    return np.ascontiguousarray(array)


def _check_finite(name: str, array: Array, features: tuple[str, ...], what: str) -> None:
    """Raise `DomainError` that says where the first infinite or missing value is."""
    # Block by block: a table of truth values as large as X is made only when there is something to
    # tell.
    if all(np.isfinite(array[low : low + BLOCK]).all() for low in range(0, len(array), BLOCK)):
        return
    bad = ~np.isfinite(array)
    row, *column = (int(i) for i in np.argwhere(bad)[0])
    where = repr(features[column[0]]) if features else ", ".join(map(str, column))
    raise DomainError(
        f"domain {name!r}: {what} has {array[(row, *column)]} at row {row}, column {where} "
        f"({int(bad.sum())} such values in {int(bad.reshape(len(bad), -1).any(1).sum())} rows); "
        "drop or impute them first"
    )


def check_labels(name: str, y: Any, n_rows: int) -> Array:
    """Return one label for each row (rows,), none of them missing."""
    try:
        array = as_labels(y, f"domain {name!r}: y")
    except DomainError:
        raise
    except ValueError as error:
        raise DomainError(f"domain {name!r}: y is not a list of labels ({error})") from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DomainError(
            f"domain {name!r}: y must have one label per row; got shape {array.shape}"
        )
    if len(array) != n_rows:
        raise DomainError(f"domain {name!r}: X has {n_rows} rows but y has {len(array)}")
    missing = np.array([_is_missing(v) for v in array], bool) if array.dtype.kind in "OmM" else None
    if array.dtype.kind == "f":
        missing = ~np.isfinite(array)
    if missing is not None and missing.any():
        row = int(np.argmax(missing))
        raise DomainError(
            f"domain {name!r}: y is {array[row]} at row {row} ({int(missing.sum())} such labels)"
        )
    if array.dtype == object and all(isinstance(v, Real) for v in array):
        array = np.array(array.tolist())  # numbers that a frame held as objects
    return array


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas' NA, which answers no comparison."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return bool(value != value)


def check_row_weights(name: str, weight: Any, n_rows: int) -> Array:
    """Return one weight for each row (rows,): finite, not negative, and not all 0."""
    try:
        array = as_array(weight).astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise DomainError(f"domain {name!r}: weight is not numeric ({error})") from None
    if array.shape != (n_rows,):
        raise DomainError(f"domain {name!r}: weight needs shape ({n_rows},); got {array.shape}")
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise DomainError(
            f"domain {name!r}: weight is {array[row]} at row {row}; weights are finite and ≥ 0"
        )
    if array.max() <= 0:
        raise DomainError(f"domain {name!r}: all row weights are 0")
    return array
