"""Everything cuvee raises or warns, in one tree.

::

    CuveeError
    ├── InputError (also a ValueError)    what was passed in is wrong; the message says where
    │   ├── DomainError                   a table: names the domain, and the row or column
    │   ├── MixtureError                  an α that is not on the simplex: names the row
    │   └── OptionError                   a setting out of range: names the setting
    ├── MissingExtra (also an ImportError)  an optional package is not installed; says which
    └── StatusError                       raised by `raise_for_status()`, for those who want a throw
    CuveeWarning                          allowed, but worth saying
"""

from __future__ import annotations

from math import isfinite
from numbers import Integral, Real
from typing import Any


class CuveeError(Exception):
    """Base of every error this library raises on purpose."""


class InputError(CuveeError, ValueError):
    """Something passed in is wrong."""


class DomainError(InputError):
    """A domain's table is wrong; `row` is the row of the table that shows it, where one does."""

    def __init__(self, message: str = "", row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class MixtureError(InputError):
    """A row of α is not a point of the simplex."""


class OptionError(InputError):
    """A setting is out of its range."""


class MissingExtra(CuveeError, ImportError):
    """An optional dependency is needed for this and is not installed."""


class StatusError(CuveeError, RuntimeError):
    """Some rows of a result did not end well."""


class CuveeWarning(UserWarning):
    """Allowed, but probably not what was meant."""


def option(name: str) -> str:
    """Return how errors name an option that has one name: on the command line, and in Python.

    Example:
        >>> option("keep")
        '--keep (keep=)'
    """
    return f"--{name} ({name}=)"


def check_number(
    name: str,
    value: float,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
) -> None:
    """Raise `OptionError` unless `value` is finite and within its limits.

    The limits are `above` < value and `least` ≤ value ≤ `most`.
    """
    good = isinstance(value, Real) and not isinstance(value, bool) and _finite(value)
    good = good and (above is None or value > above) and (least is None or value >= least)
    if good and (most is None or value <= most):
        return
    limits = [f"above {above:g}"] if above is not None else []
    limits += [f"at least {least:g}"] if least is not None else []
    limits += [f"at most {most:g}"] if most is not None else []
    wanted = f"a finite number {' and '.join(limits)}".rstrip()
    raise OptionError(f"{name} must be {wanted}; got {value!r}")


def _finite(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise `OptionError` unless `value` is one of `choices`."""
    if value not in choices:
        raise OptionError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}")


def check_whole(name: str, value: Any, least: int) -> None:
    """Raise `OptionError` unless `value` is a whole number ≥ `least` that 64 bits hold."""
    if (
        not isinstance(value, Integral)
        or isinstance(value, bool)
        or not least <= int(value) < 2**63
    ):
        most = " and below 2⁶³" if isinstance(value, Integral) and int(value) > 0 else ""
        raise OptionError(f"{name} must be a whole number of at least {least}{most}; got {value!r}")
