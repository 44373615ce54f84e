"""Cells of a CSV that a spreadsheet would compute: written with an apostrophe, read without it."""

from __future__ import annotations

import re
from typing import Any

_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def guarded(text: str) -> str:
    """Return a cell that no spreadsheet computes, and that `unguarded` turns into this text again.

    A text that is a number stays as it is. One that begins with apostrophes and then like a formula
    gets one more.

    >>> guarded("=1+1"), guarded("-5"), guarded("north")
    ("'=1+1", '-5', 'north')
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unguarded(cell: str) -> str:
    """Return the text that `guarded` made this cell of."""
    return cell[1:] if cell[:1] == "'" and _FORMULA.match(cell) else cell


def guarded_frame(frame: Any) -> Any:
    """Return a data frame for a CSV: names and cells of text guarded, numbers as they are."""

    def safe(value: Any) -> Any:
        return guarded(value) if isinstance(value, str) else value

    numeric = [name for name in frame.columns if frame[name].dtype.kind in "biufM"]
    others = {n: frame[n].astype(object).map(safe) for n in frame.columns if n not in numeric}
    return frame.assign(**others).set_axis([safe(name) for name in frame.columns], axis=1)
