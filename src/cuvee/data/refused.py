"""Say which columns cannot be learnt from: those with gaps, or with too many categories."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from shlex import quote
from typing import Any, NamedTuple

import numpy as np

from cuvee.data.columns import at, count, in_comma_list, is_number, listed, short
from cuvee.data.dates import made_of
from cuvee.errors import DomainError

MOST_CATEGORIES = 200
MOST_NAMED = 5  # columns that an error names
MANY, NEARLY_ALL = 20, 0.9  # this many different values, in this share of the rows, make an id


def too_many(different: int, rows: int) -> bool:
    """Return whether a column with so many different values in so many rows is no category."""
    return different > MOST_CATEGORIES or (different >= MANY and different >= NEARLY_ALL * rows)


class Crowd(NamedTuple):
    """How many different values a column has in how many rows, and one of them."""

    different: int
    rows: int
    example: Any


def check_categories(name: str, different: int, rows: int, example: Any, where: str) -> None:
    """Raise `DomainError` where a column has more categories than a model can learn from.

    Such a column is most likely an id, a free text or a date.
    """
    if too_many(different, rows):
        say_crowded({name: Crowd(different, rows, example)}, where)


def crowded_columns(columns: Sequence[Any]) -> dict[str, Crowd]:
    """Return the tidy columns of text with more categories than a model can learn from."""
    texts = [c for c in columns if not is_number(c) and c.notna().any()]
    each = {str(c.name): Crowd(c.nunique(), c.count(), c.dropna().iloc[0]) for c in texts}
    return {name: one for name, one in each.items() if too_many(one.different, one.rows)}


def say_crowded(crowded: Mapping[str, Crowd], where: str) -> None:
    """Raise `DomainError` about all columns with too many categories."""
    has = [
        f"column {name!r} has {one.different:,} different values in "
        f"{count(one.rows, 'training row')}, like {short(one.example)}"
        for name, one in crowded.items()
    ]
    shown = "; ".join(has[:MOST_NAMED]) + (
        f"; and {len(has) - MOST_NAMED} more" * (len(has) > MOST_NAMED)
    )
    raise DomainError(
        f"{at(where)}{shown}; an id, a free text or a date cannot be one-hot encoded: drop "
        f"{'it' if len(has) == 1 else 'them'} with --drop {quote(in_comma_list(crowded))} (drop= "
        f"in Python), or make numbers of {'it' if len(has) == 1 else 'them'}"
    )


def check_missing(columns: Sequence[Any], where: str, *, to_fit: bool = False) -> None:
    """Raise `DomainError` where values are missing; it counts rows and columns.

    Where the columns are `to_fit`, it names those with too many categories as well.
    """
    gaps = {str(column.name): column.isna().to_numpy() for column in columns}
    gaps = {name: gap for name, gap in gaps.items() if gap.any()}
    if gaps:
        rows = np.any(list(gaps.values()), axis=0)
        cells = {name: int(gap.sum()) for name, gap in gaps.items()}
        crowded = crowded_columns(columns) if to_fit else ()
        say_missing(cells, int(rows.sum()), len(rows), where, crowded)


def say_missing(
    cells: Mapping[str, int], rows: int, of: int, where: str, crowded: Collection[str] = ()
) -> None:
    """Raise `DomainError`: `rows` of the `of` rows have missing values.

    `cells` has the number of missing values in each column; `crowded` columns have too many
    categories besides.
    """
    besides, cells = "", {made_of(name): n for name, n in cells.items()}
    if crowded:
        many = "columns have" if len(crowded) > 1 else "column has"
        more = "" if {*cells} <= {*crowded} else " --impute"
        besides = (
            f"; the {many} too many different values besides, as ids and free texts do: "
            f"{listed([*crowded], MOST_NAMED)}; add --drop {quote(in_comma_list(crowded))}{more}"
        )
    named = ", ".join(f"{name!r} ({n:,})" for name, n in list(cells.items())[:5]) + (
        ", …" if len(cells) > 5 else ""
    )
    raise DomainError(
        f"{at(where)}{rows:,} of {count(of, 'row')} have missing values, in "
        f"{count(len(cells), 'column')}: {named}; "
        "fill them in, drop the columns, or let --impute (impute=True) fill them with each "
        f"column's median or most frequent value{besides}"
    )
