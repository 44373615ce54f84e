"""What hangs on the values of rows alone, not on where a row or a column stands: digests, an order
of the rows, and draws.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pandas as pd

from cuvee.problem import Array

MISSING = np.uint64(0x9E3779B97F4A7C15)  # stands for a gap


def row_digests(frame: Any) -> Array:
    """Return a number of 64 bits for every row (rows,), of its values and their columns' names.

    The type of a column is no part of it: 1, 1.0 and True are the same, and "1" is another.
    """
    total = np.zeros(len(frame), np.uint64)
    for name in frame.columns:
        total += _mixed(_values(frame[name]) ^ _of_texts([str(name)])[0])
    return total


def digest(frame: Any, *roles: str) -> str:
    """Return the SHA-256, in hexadecimal, of the rows in any order, and of what they are used for.

    Equal rows count as often as they are there.
    """
    hashed = hashlib.sha256("\0".join(roles).encode())
    hashed.update(np.sort(row_digests(frame)).astype("<u8").tobytes())
    return hashed.hexdigest()


def in_order(frame: Any) -> Any:
    """Return the rows in an order that hangs on what they hold, numbered from 0."""
    order = np.argsort(row_digests(frame), kind="stable")
    return frame.iloc[order].reset_index(drop=True)


def drawn(frame: Any, by: str, most: int) -> Any:
    """Return at most so many rows of every value of the column `by`."""
    rows = in_order(frame)
    return rows[rows.groupby(by).cumcount() < most]


def _values(column: Any) -> Array:
    if pd.api.types.is_numeric_dtype(column):
        if column.dtype.kind in "iub" and not column.hasnans:
            return column.to_numpy("int64").astype(np.uint64)
        numbers = column.to_numpy("float64", na_value=np.nan) + 0.0  # −0 becomes 0
        whole = (np.abs(numbers) < 2.0**53) & (numbers == np.floor(numbers))
        bits = np.where(whole, 0.0, numbers).view(np.uint64)
        bits[whole] = numbers[whole].astype(np.int64).astype(np.uint64)
        return np.where(np.isnan(numbers), MISSING, bits)
    codes, texts = pd.factorize(column)
    return np.append(_of_texts([str(text) for text in texts]), MISSING)[codes]


def _of_texts(texts: list[str]) -> Array:
    each = (hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts)
    return np.frombuffer(b"".join(d[:8] for d in each), "<u8").astype(np.uint64)


def _mixed(bits: Array) -> Array:
    """Return the bits, mixed so that each hangs on all (the last steps of splitmix64)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
