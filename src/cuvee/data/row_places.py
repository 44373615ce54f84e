"""Where a row stands for the person who has the table open: at which line of which file."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from cuvee.data.encoding import bytes_of
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


def line_of(
    source: Path | BinaryIO,
    row: int,
    separator: str,
    packed: str | None,
    encoding: str,
    name: str,
) -> str:
    """Return "line 7 of visits.csv", where a row of a text file of this name begins.

    Cells may hold several lines, and lines may be empty.
    """
    try:
        with bytes_of(source, packed) as file:
            text = io.TextIOWrapper(file, encoding=encoding, errors="replace", newline="")
            lines = csv.reader(text, delimiter=separator)
            begin, rows = 1, -1  # the first line holds names
            for cells in lines:
                if cells and rows == row:
                    return f"line {begin:,} of {name}"
                rows, begin = rows + bool(cells), lines.line_num + 1
    except (OSError, csv.Error):  # the row is told all the same
        pass
    return ""
