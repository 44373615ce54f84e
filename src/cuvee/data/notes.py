"""What is worth saying of how columns were read: a sentence for each way, with an example."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from shlex import quote
from typing import Any, NamedTuple

from cuvee.data.columns import count, in_comma_list, short

_DATES = "taken as days since 1970, month (1 to 12) and weekday (1 to 7, Sunday last)"
# How a column was taken: the beginning and the end of the sentence.
_SAID = {
    "text": ("taken as categories, being text", ""),
    "mixed": (
        "taken as categories, as few different values are there and some are no numbers",
        "; correct {them} if numbers are meant",
    ),
    "undated": (
        "taken as categories, as few different values are there and some are no dates",
        "; correct {them} if dates are meant, or say what is missing (--missing {word})",
    ),
    "year first": (f"of dates {_DATES}", ""),
    "day first": (f"of dates, the day written first, {_DATES}", ""),
    "month first": (f"of dates, the month written first, {_DATES}", ""),
    "zeros": ("taken as categories, being digits with leading zeros", ""),
    "typed": ("of text read as numbers", "; name {them} in text (--text) if {they} categories"),
    "comma": ("read with decimal commas", ""),
    "named": (
        "that names the domain of each row, so that the names of files or parts do not count",
        "",
    ),
    "days": (
        "read as numbers, though {looks} like dates",
        "; make days since a date of {them}, or name {them} in text (--text)",
    ),
    "words": ("with words for missing cells, taken as missing", ""),
    "kept": (
        "with words that may mean missing cells, kept as values",
        "; if they are missing, say so (--missing {word})",
    ),
}
_AS = {"blank": "words"}  # ways that are told alike
UNDONE = ("typed", "words", "blank")  # ways that are not told of a column taken as text after all
_ONE = {"them": "it", "they": "it holds", "looks": "it looks"}
_MANY = {"them": "them", "they": "they hold", "looks": "they look"}


class Cell(NamedTuple):
    """A cell that shows what a column holds."""

    row: int
    text: str


class Told(NamedTuple):
    """How a column was taken, a key of `_SAID` or of `_AS`, and a cell that shows why."""

    name: str
    how: str
    cell: Cell
    cells: int = 0  # how many there are, where that is said


def notes(remarks: Iterable[Told], label: str, most: int = 10) -> tuple[str, ...]:
    """Return a sentence for each way in which columns were taken, the label's text aside."""
    ways: dict[str, dict[str, Told]] = {}
    for one in remarks:
        if (one.name, one.how) != (label, "text"):
            columns = ways.setdefault(_AS.get(one.how, one.how), {})
            before = columns.get(one.name)
            columns[one.name] = before._replace(cells=before.cells + one.cells) if before else one
    return tuple(_sentence(how, ways[how], most) for how in _SAID if how in ways)


def named_otherwise(names: Any, part: str) -> list[Told]:
    """Return what is to be said where a column of domains names others than its file does."""
    others = names[(names != part).to_numpy()]
    first = ((row, str(name)) for row, name in others[:1].items())
    return [Told(str(names.name), "named", Cell(*one)) for one in first]


def text_throughout(parts: Sequence[Sequence[Told]]) -> set[str]:
    """Return the columns that one part shows to be categories where another reads numbers in them.

    Leading zeros or few different values, some of them no numbers or no dates, do so in one file,
    and text does where the column's type is text in every part, or where another part has words for
    missing cells alone.
    """
    shown = {"zeros", "mixed", "undated"}
    ways = [
        {one.name: one.how for one in part if one.how not in ("words", "kept")} for part in parts
    ]
    names = {name for part in ways for name in part}
    hows = {name: {part.get(name) for part in ways} for name in names}
    return {
        name
        for name, of in hows.items()
        if (of & shown and of - shown - {"text"})
        or of == {"typed", "text"}
        or ("blank" in of and of & {"text", *shown} and not of & {None, "typed"})
    }


def _sentence(how: str, columns: dict[str, Told], most: int) -> str:
    words = _ONE if len(columns) == 1 else _MANY
    said = sorted({one.cell.text.strip() for one in columns.values()})
    begin, end = (part.format(**words, word=quote(in_comma_list(said))) for part in _SAID[how])
    examples = [f"{name!r} ({_shown(one)})" for name, one in columns.items()]
    shown = ", ".join(examples[:most])
    more = f" and {len(columns) - most:,} more" if len(columns) > most else ""
    return f"{'column' if len(columns) == 1 else 'columns'} {begin}: {shown}{more}{end}"


def _shown(one: Told) -> str:
    like = f"like {short(one.cell.text)}"
    return f"{count(one.cells, 'cell')}, {like}" if one.cells else like
