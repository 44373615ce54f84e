"""What is worth saying of how columns were read: a sentence for each way, with an example."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from cuvee.data.columns import short

# How a column was taken: the beginning and the end of the sentence.
_SAID = {
    "text": ("taken as categories, being text", ""),
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
}
_ONE = {"them": "it", "they": "it holds", "looks": "it looks"}
_MANY = {"them": "them", "they": "they hold", "looks": "they look"}


class Cell(NamedTuple):
    """A cell that shows what a column holds."""

    row: int
    text: str


class Told(NamedTuple):
    """How a column was taken, a key of `_SAID`, and a cell that shows why."""

    name: str
    how: str
    cell: Cell


def notes(remarks: Iterable[Told], label: str, most: int = 10) -> tuple[str, ...]:
    """Return a sentence for each way in which columns were taken, the label's text aside."""
    ways: dict[str, dict[str, Cell]] = {}
    for name, how, cell in remarks:
        if (name, how) != (label, "text"):
            ways.setdefault(how, {}).setdefault(name, cell)
    return tuple(_sentence(how, ways[how], most) for how in _SAID if how in ways)


def named_otherwise(names: Any, part: str) -> list[Told]:
    """Return what is to be said where a column of domains names others than its file does."""
    others = names[(names != part).to_numpy()]
    first = ((row, str(name)) for row, name in others[:1].items())
    return [Told(str(names.name), "named", Cell(*one)) for one in first]


def text_throughout(parts: Sequence[Sequence[Told]]) -> set[str]:
    """Return the columns that one part shows to be categories where another reads numbers in them.

    Leading zeros in one file do so, and text does where the column's type is text in every part.
    """
    ways = [{name: how for name, how, _ in part} for part in parts]
    names = {name for part in ways for name in part}
    zeros = {name for name in names if any(part.get(name) == "zeros" for part in ways)}
    typed = {name for name in names if {part.get(name) for part in ways} == {"typed", "text"}}
    as_text = ("zeros", "text")
    return {name for name in zeros if any(part.get(name) not in as_text for part in ways)} | typed


def _sentence(how: str, cells: dict[str, Cell], most: int) -> str:
    words = _ONE if len(cells) == 1 else _MANY
    begin, end = (part.format(**words) for part in _SAID[how])
    examples = [f"{name!r} (like {short(cell.text)})" for name, cell in cells.items()]
    shown = ", ".join(examples[:most])
    more = f" and {len(cells) - most:,} more" if len(cells) > most else ""
    return f"{'column' if len(cells) == 1 else 'columns'} {begin}: {shown}{more}{end}"
