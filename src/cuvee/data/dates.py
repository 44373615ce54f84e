"""Dates as numbers: days since 1970, the month, and the day of the week."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from numbers import Real
from typing import Any, Literal, get_args

from cuvee.data.columns import WORDS, at, short
from cuvee.data.notes import Told
from cuvee.errors import DomainError

Order = Literal["year first", "day first", "month first"]
"""How dates are written. Those with the month's name are as clear as those with the year first."""
ORDERS: tuple[Order, ...] = get_args(Order)
UNITS = ("days", "month", "weekday")
_DERIVED = re.compile(rf"(.*) → ({'|'.join(UNITS)})(?:, (day first|month first))?", re.DOTALL)
_TAIL = r"(?:(?:T|,?\s+)(?P<time>.*\S))?\s*"
_YEAR_FIRST = re.compile(rf"\s*(?P<year>\d{{4}})([-/.])(?P<month>\d\d?)\2(?P<day>\d\d?){_TAIL}")
_NAMED = re.compile(
    rf"\s*(?P<day>\d\d?)[ .-]*(?P<name>[A-Za-z]{{3}})[a-z]*[ .,-]*(?P<year>\d{{4}}){_TAIL}"
)
_NAME_FIRST = re.compile(
    rf"\s*(?P<name>[A-Za-z]{{3}})[a-z]*[ .]+(?P<day>\d\d?)[ ,]+(?P<year>\d{{4}}){_TAIL}"
)
_CLEAR = (_YEAR_FIRST, _NAMED, _NAME_FIRST)
_NUMBERS = re.compile(rf"\s*(?P<one>\d\d?)([-/.])(?P<other>\d\d?)\2(?P<year>\d{{4}}){_TAIL}")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_CLOCKS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%H:%M:%S %Z", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p")


def names(column: str, order: Order) -> tuple[str, ...]:
    """Return the names of the numbers that a column of dates becomes.

    >>> names("arrival", "year first")
    ('arrival → days', 'arrival → month', 'arrival → weekday')
    """
    said = "" if order == "year first" else f", {order}"
    return tuple(f"{column} → {unit}{said}" for unit in UNITS)


def origin(name: str) -> tuple[str, str, Order] | None:
    """Return the column, the unit and the order of what `names` gave; None for another name.

    >>> origin("arrival → month, day first"), origin("arrival")
    (('arrival', 'month', 'day first'), None)
    """
    match = _DERIVED.fullmatch(name)
    if match is None:
        return None
    column, unit, order = match.groups()
    return str(column), str(unit), _order(order or ORDERS[0])


def made_of(name: str) -> str:
    """Return the column of a table that a feature is made of: itself, or a column of dates.

    >>> made_of("arrival → month"), made_of("age")
    ('arrival', 'age')
    """
    of = origin(name)
    return of[0] if of else name


def look(cell: str) -> str:
    """Return what a date says of how the dates of its column are written.

    >>> look("2020-01-31"), look("31/12/2020"), look("1/2/2021"), look("1/2/21")
    ('clear', 'day first', 'open', 'unknown')
    """
    if any(form.fullmatch(cell) for form in _CLEAR):
        return "clear"
    match = _NUMBERS.fullmatch(cell)
    if match is None:
        return "unknown"
    if match[2] == "." or int(match["one"]) > 12:
        return "day first"
    return "month first" if int(match["other"]) > 12 else "open"


def order_of(looks: Collection[str]) -> Order | None:
    """Return how dates with these looks are written; None where that is open.

    >>> order_of({"day first", "open"}), order_of({"clear"}), order_of({"open"})
    ('day first', 'year first', None)
    """
    said = {*looks} - {"clear"}
    if not said:
        return "year first"
    orders: list[Order] = [o for o in ("day first", "month first") if o in said]
    return orders[0] if len(orders) == 1 and "unknown" not in said else None


def are_dates(column: Any) -> bool:
    """Return whether a column (rows,) holds dates by its type."""
    from pandas.api import types

    if column.dtype != object:
        return types.is_datetime64_any_dtype(column.dtype)
    return types.infer_dtype(column, skipna=True) in ("date", "datetime", "datetime64")


def as_dates(column: Any, order: Order, named: str, missing: Collection[str] = ()) -> Any:
    """Return a column (rows,) of text or of dates as datetime64, without a time zone.

    The time of the day is that of the place where it was written. `named` is for errors, and
    `missing` are words for empty cells.
    """
    import pandas as pd

    if isinstance(column.dtype, pd.DatetimeTZDtype):
        return column.dt.tz_localize(None)
    if column.dtype.kind == "M":
        return column
    cells = column.astype(object).where(column.notna(), None)
    known: dict[Any, datetime | None] = {None: None}
    empty = {"", *WORDS, *missing}
    for row, cell in cells.items():
        if cell not in known:
            known[cell] = _date(cell, order)
            if known[cell] is None and not (isinstance(cell, str) and cell.strip() in empty):
                raise DomainError(
                    f"{named} is {short(cell)} at row {row}, where the other rows hold dates; "
                    "correct it, or leave it empty",
                    row,
                )
    return pd.Series(
        pd.array([known[cell] for cell in cells], dtype="datetime64[us]"), column.index
    )


def spread(features: Sequence[str], told: Iterable[Told]) -> dict[str, tuple[str, ...]]:
    """Return what each of the features becomes, feature -> names of numbers, where it holds dates.

    `told` says of every part of a table how its columns were taken.
    """
    orders: dict[str, dict[str, Told]] = {}
    for one in told:
        if one.how in ORDERS and one.name in features:
            orders.setdefault(one.name, {})[one.how] = one
    for name, of in orders.items():
        if len(of) > 1:
            shown = " and ".join(f"{short(one.cell.text)} ({how})" for how, one in of.items())
            raise DomainError(
                f"column {name!r} holds dates that are written in different ways, {shown}; write "
                "all of them like 2020-01-31"
            )
        if taken := next((n for n in names(name, _order(*of)) if n in features), None):
            raise DomainError(
                f"column {name!r} holds dates, of which {taken!r} would be made, and a column has "
                "that name; drop or rename one of them"
            )
    return {name: names(name, _order(*of)) for name, of in orders.items()}


def _order(how: str) -> Order:
    return next(order for order in ORDERS if order == how)


def number(column: Any, name: str, where: str, missing: Collection[str] = ()) -> Any:
    """Return the number `name`, one of `names`, of a column (rows,) of dates, as float64.

    `where` is for errors, and `missing` are words for empty cells.
    """
    import numpy as np
    import pandas as pd

    of = origin(name)
    assert of is not None
    raw, unit, order = of
    dates = as_dates(column, order, f"{at(where)}column {raw!r}", missing)
    if unit == "days":
        days = (dates - pd.Timestamp(0)) / pd.Timedelta(days=1)
        return days.astype(np.float64)
    return (dates.dt.month if unit == "month" else dates.dt.day_of_week + 1).astype(np.float64)


def _date(cell: Any, order: Order) -> datetime | None:
    """Return the date of a cell; None if it is none."""
    import pandas as pd

    if isinstance(cell, Real):
        return None
    if not isinstance(cell, str):
        try:
            return pd.Timestamp(cell).tz_localize(None).to_pydatetime()
        except (TypeError, ValueError):
            return None
    found_by = (form.fullmatch(cell) for form in (*_CLEAR, _NUMBERS))
    match = next((match for match in found_by if match), None)
    if match is None:
        return None
    found = match.groupdict()
    if "one" in found:
        if order == "year first":
            return None
        day, month = (found["one"], found["other"])[:: 1 if order == "day first" else -1]
    else:
        day, name = found["day"], found.get("name", "").lower()
        month = found.get("month") or str(_MONTHS.index(name) + 1 if name in _MONTHS else 0)
    try:
        date = datetime(int(found["year"]), int(month), int(day))
        return date if found["time"] is None else datetime.combine(date, _clock(found["time"]))
    except ValueError:
        return None


def _clock(text: str) -> Any:
    """Return the time of the day; raise `ValueError` where it is none."""
    try:
        return datetime.fromisoformat(f"2000-01-01T{text}").time()
    except ValueError:
        for form in _CLOCKS:
            try:
                return datetime.strptime(text, form).time()
            except ValueError:
                continue
        raise
