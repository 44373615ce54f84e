"""Exact medians of columns that are never in memory as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuvee.problem import Array
from cuvee.results import Floats

DIGITS = 13, 13, 13, 13, 12  # bits of a float64, by which medians are found


@dataclass(frozen=True, eq=False)
class Digit:
    """Describe a digit that is looked for, and the digits before it of both middle values."""

    middle: Array  # (columns, 2)
    bits: int
    left: int  # bits that come after it


def medians(frames: Callable[[], Iterable[Any]], sizes: Mapping[str, int]) -> dict[str, float]:
    """Return the median of every column by name.

    `frames` goes through the rows anew, and `sizes` counts the values of each column.
    """
    names = list(sizes)
    return medians_by_counts(lambda digit: counted(frames(), names, digit), sizes)


def medians_by_counts(
    count: Callable[[Digit], Array], sizes: Mapping[str, int]
) -> dict[str, float]:
    """Return the same from what `count` says of each digit, as `counted` does.

    A pass finds one digit of the two middle values of each column, from the highest.
    """
    # (columns, 2) among those left
    rank = np.array([[(n - 1) // 2, n // 2] for n in sizes.values()]).reshape(-1, 2)
    middle = np.zeros(rank.shape, np.uint64)  # the digits so far
    left = 64
    for bits in DIGITS:
        left -= bits
        upto = count(Digit(middle, bits, left)).cumsum(-1)
        digit = (upto <= rank[..., None]).sum(-1)
        rank -= np.where(
            digit > 0, np.take_along_axis(upto, np.maximum(digit - 1, 0)[..., None], -1)[..., 0], 0
        )
        middle = (middle << np.uint64(bits)) | digit.astype(np.uint64)
    top = np.uint64(1 << 63)
    values = np.where(middle & top, middle ^ top, ~middle).view(np.float64)
    # a sum of both could overflow
    return dict(zip(sizes, (0.5 * values).sum(1).tolist(), strict=True))


def counted(frames: Iterable[Any], names: Sequence[str], digit: Digit) -> Array:
    """Return how many values have each digit, (columns, 2, digits): sums over rows."""
    bits, left = digit.bits, np.uint64(digit.left)
    seen = np.zeros((*digit.middle.shape, 1 << bits), np.int64)
    for frame in frames:
        for i, name in enumerate(names):
            digits = _sortable(frame[name].dropna().to_numpy(np.float64)) >> left
            for side in (0, 1):
                here = digits[digits >> np.uint64(bits) == digit.middle[i, side]]
                seen[i, side] += np.bincount(
                    (here & np.uint64((1 << bits) - 1)).astype(np.int64), minlength=1 << bits
                )
    return seen


def _sortable(values: Floats) -> Array:
    """Return whole numbers in the order of the floats."""
    bits, top = values.view(np.uint64), np.uint64(1 << 63)
    return np.where(bits & top, ~bits, bits | top)
