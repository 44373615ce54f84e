"""Where a row stands for the person who has the table open: at which line of which file."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cuvee.errors import DomainError


@contextmanager
def placed(place: Callable[[int], str]) -> Iterator[None]:
    """Add to an error about a row what `place` says of that row, if it says anything."""
    try:
        yield
    except DomainError as error:
        where = "" if error.row is None else place(int(error.row))
        if not where:
            error.row = None  # counted in this part: nobody further out may take it for another
            raise
        raise DomainError(f"{error} (row {error.row} is {where})") from None


def line_of(path: Path, row: int, separator: str, packed: bool, encoding: str) -> str:
    """Return "line 7 of visits.csv", where a row of a text file begins.

    Cells may hold several lines, and lines may be empty.
    """
    opened: Any = gzip.open if packed else open
    try:
        with opened(path, "rt", encoding=encoding, errors="replace", newline="") as file:
            lines = csv.reader(file, delimiter=separator)
            begin, rows = 1, -1  # the first line holds names
            for cells in lines:
                if cells and rows == row:
                    return f"line {begin:,} of {path.name}"
                rows, begin = rows + bool(cells), lines.line_num + 1
    except (OSError, csv.Error):  # the row is told all the same
        pass
    return ""
