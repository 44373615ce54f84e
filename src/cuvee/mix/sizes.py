"""Read the scales of runs: sizes such as 70M or 1.3e9, told apart by value, shown as given."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np

from cuvee.errors import InputError, OptionError, option

ZEROS = {"k": 3, "m": 6, "b": 9, "t": 12}  # that a letter behind a number stands for
GAPS = ("", "nan", "none", "null", "na", "n/a", "<na>", "nat")
WRITE = "write a number, such as 70000000, 70M or 1.3B"


def size_of(scale: Any) -> float | None:
    """Return the number that a scale stands for, or None where it is no number.

    >>> size_of("1.3B") == size_of(1300000000) == size_of("1.3e9")
    True
    """
    if isinstance(scale, bool | np.bool_):
        return None
    text = str(scale).strip() if not isinstance(scale, Real) else repr(_plain(scale))
    zeros = ZEROS.get(text[-1:].lower(), 0)
    try:
        value = float(Decimal(text[:-1].strip() if zeros else text).scaleb(zeros))
    except (ArithmeticError, ValueError):
        return None
    return value if isfinite(value) else None


def named(scale: Any) -> str | None:
    """Return the name of a scale: text as it is, all digits of a number; None for a gap."""
    if isinstance(scale, Real) and not isinstance(scale, bool | np.bool_):
        value = _plain(scale)
        text = repr(int(value) if value == value // 1 and abs(value) < 1e16 else value)
    else:
        text = str(scale).strip()
    return None if text.lower() in GAPS else text


def listed(given: Any, n: int) -> tuple[str | None, ...]:
    """Return the names of n scales; None stands for a gap."""
    if isinstance(given, str) or not (hasattr(given, "tolist") or hasattr(given, "__iter__")):
        raise InputError(f"scale must have a value per run, so {n} of them; got {given!r}")
    values = given.tolist() if hasattr(given, "tolist") else list(given)
    if not isinstance(values, list) or len(values) != n:
        count = len(values) if isinstance(values, list) else 1
        raise InputError(f"scale has {count} values for {n} runs: give one per run")
    return tuple(named(value) for value in values)


def agreed(
    one: Sequence[str | None] | None,
    other: Sequence[str | None] | None,
    labels: Sequence[str],
    sources: tuple[str, str],
) -> tuple[str | None, ...] | None:
    """Return the scale of every run from two sources; raise where they say different ones."""
    if one is None or other is None:
        both = one if other is None else other
        return None if both is None else tuple(both)
    for label, first, second in zip(labels, one, other, strict=True):
        if first is not None and second is not None and _key(first) != _key(second):
            raise InputError(
                f"run {label!r} has the scale {first!r} in {sources[0]} and {second!r} in "
                f"{sources[1]}: correct one of them, or leave one out"
            )
    pairs = zip(one, other, strict=True)
    return tuple(second if first is None else first for first, second in pairs)


def merged(names: Sequence[str | None], labels: Sequence[str]) -> tuple[str, ...]:
    """Return one name for all spellings of a size, the first that was given.

    Raise where a run has no scale, and where there are several of which one is no number.
    """
    first: dict[float | str, str] = {}
    for name, label in zip(names, labels, strict=True):
        if name is None:
            raise InputError(
                f"run {label!r} has no scale: give one to every run, or leave out all scales"
            )
        first.setdefault(_key(name), name)
    for key, name in first.items():
        if isinstance(key, str) and len(first) > 1:
            raise InputError(
                f"the scale {name!r} of run {labels[list(names).index(name)]!r} is no size: "
                f"{WRITE}. Other text can only be the scale of all runs"
            )
    return tuple(first[_key(name)] for name in names if name is not None)


def ordered(scales: Sequence[str]) -> tuple[str, ...]:
    """Return the different scales, smallest first."""
    different = list(dict.fromkeys(scales))
    sizes = [size_of(name) for name in different]
    known = [(size, name) for size, name in zip(sizes, different, strict=True) if size is not None]
    if len(different) > 1 and len(known) < len(different):
        wrong = different[sizes.index(None)]
        raise InputError(f"the scale {wrong!r} is no size, so scales have no order: {WRITE}")
    return tuple(name for _, name in sorted(known)) or tuple(different)


def place_of(scale: Any, scales: Sequence[str]) -> int:
    """Return where a scale is, by its name or its value; raise `OptionError` if it is not there."""
    if scale in scales:
        return list(scales).index(scale)
    if list(scales) == [""]:
        raise OptionError(
            f"{option('scale')} must be one of those of the runs, which have none: leave it out; "
            f"got {scale!r}"
        )
    keys = [_key(name) for name in scales]
    if _key(scale) not in keys:
        raise OptionError(
            f"{option('scale')} must be one of {', '.join(map(repr, scales))}; "
            f"got {_plain(scale)!r}"
        )
    return keys.index(_key(scale))


def _key(scale: Any) -> float | str:
    """Return what tells a scale from others: its value, or its text where it has none."""
    size = size_of(scale)
    return str(scale).strip() if size is None else size


def _plain(scale: Any) -> Any:
    """Return the number of Python's that a NumPy number is; anything else as it is."""
    if isinstance(scale, bool | np.bool_) or not isinstance(scale, Real):
        return scale
    return int(scale) if isinstance(scale, Integral) else float(scale)
