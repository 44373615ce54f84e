"""How numbers are written: which columns of text are numbers, categories, or to be refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from shlex import quote
from typing import Any, Literal, NamedTuple

from cuvee.data.columns import WORDS, at, in_comma_list, short, too_long
from cuvee.data.dates import ORDERS, Order, as_dates, look, order_of
from cuvee.data.notes import Cell, Told
from cuvee.data.refused import MANY, MOST_CATEGORIES, too_many
from cuvee.errors import DomainError

Kind = Literal["number", "comma", "truth", "text", "missing"] | Order

_SIGN, _SPACE = "[+\\-−–]?", " \u00a0\u2009\u202f"
_CURRENCY = "(?:[$€£¥₹]|EUR|USD|GBP|CHF|JPY)"
_BETWEEN = f"[{_SPACE}'’.,_]"  # groups of digits
_GROUPS = rf"[1-9]\d{{0,2}}(?:{_BETWEEN}\d{{2,3}})*{_BETWEEN}\d{{3}}"  # 1,234 or 12 34 567
_DIGITS = rf"(?:(?:{_GROUPS}|\d+)(?:[.,]\d*)?|[.,]\d+)(?:[eE]{_SIGN}\d+)?"
_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
PLAIN = r"^\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*$"
COMMA = r"^\s*[+-]?(?:\d+,?\d*|,\d+)(?:[eE][+-]?\d+)?\s*$"
ALIKE = (
    rf"^\s*\(?{_SIGN}\s*(?:{_CURRENCY}\s*)?{_SIGN}\s*{_DIGITS}"
    rf"[\s{_SPACE}]*(?:%|‰|{_CURRENCY})?\)?\s*$"
)
THOUSANDS = r"^\s*[+-]?[1-9]\d{0,2}(?:\.\d{3})+\s*$"
DATE = (
    r"(?i)^\s*(?:\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.](?:\d{4}|\d\d)"
    rf"|\d\d?[ .-]*{_MONTH}[ .,-]*(?:\d{{4}}|\d\d)|{_MONTH}[ .]+\d\d?[ ,]+\d{{4}})(?:[ T,].*)?$"
)
DAY = r"^(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])$"
AS_TEXT = "declare the column as text (--text) if it holds categories"
DROPPED = "drop the column (--drop)"
AS_MISSING = r", say that it is missing \(--missing (?:'.*?'|\S*?)\)"
"""The pattern of advice that a door without that option leaves out."""
LONG = 16  # digits: some whole numbers of that many are not floats


class Surveyed(NamedTuple):
    """What the columns of text are, and what of it is worth saying."""

    kinds: dict[str, Kind]
    told: list[Told]


def survey(
    tables: Iterable[Any],
    text: Collection[str],
    unchecked: Collection[str],
    *,
    where: str,
    comma: bool,
    typed: bool,
    missing: Collection[str] = (),
) -> Surveyed:
    """Look at every cell of the text columns of pyarrow Tables, those named in `text` aside.

    `comma` allows decimal commas. `typed` says that the columns are text by their type, and not
    because everything in a CSV is. `missing` are words for empty cells. A column that mixes types,
    or holds numbers in another notation, is an error unless it is one of the `unchecked`.
    """
    aside = {*text, *(unchecked if typed else ())}
    looks = _looked_at(tables, aside, lambda: _Looks(comma, typed, ("", *missing)))
    named = {name: f"{where}column {name!r}" for name in looks}
    verdicts = {n: look.verdict(named[n], n not in unchecked) for n, look in looks.items()}
    if "comma" in (kind for kind, _ in verdicts.values()):
        for name in set(looks) - set(unchecked):
            looks[name].check_points(named[name])
    remarks = [
        Told(name, how, look.shown(how))
        for (name, look), (_, how) in zip(looks.items(), verdicts.values(), strict=True)
        if how and name not in unchecked
    ]
    remarks += [
        Told(name, _words_are(verdicts[name][0], look.cells), look.word, look.words)
        for name, look in looks.items()
        if look.word is not None and name not in unchecked
    ]
    return Surveyed({name: kind for name, (kind, _) in verdicts.items()}, remarks)


def _words_are(kind: Kind, others: int) -> str:
    """Return what becomes of words for missing cells beside so many other cells."""
    return "kept" if kind == "text" else "words" if others else "blank"


def _looked_at(
    tables: Iterable[Any], aside: Collection[str], new: Callable[[], _Looks]
) -> dict[str, _Looks]:
    """Return what the cells of every text column look like, those named in `aside` left out."""
    import pyarrow as pa

    looks: dict[str, _Looks] = {}
    row = 0
    for table in tables:
        for one in table.schema:
            is_text = pa.types.is_string(one.type) or pa.types.is_large_string(one.type)
            if is_text and one.name not in aside:
                looks.setdefault(one.name, new()).add(table[one.name], row)
        row += len(table)
    return looks


@dataclass
class _Looks:
    """What the cells of a column of text look like, batch after batch."""

    comma: bool
    typed: bool
    missing: tuple[str, ...] = ("",)  # texts that are no cells at all
    kind: Kind = "missing"
    words: int = 0  # cells that are words for missing ones, which are counted nowhere else
    word: Cell | None = None  # the first of them
    cells: int = 0
    numbers: int = 0  # cells that are plain numbers
    commas: int = 0  # … that are numbers with a decimal comma, or without any
    points: int = 0  # … that are plain numbers with a point
    thousands: int = 0  # … whose point may separate thousands
    alike: int = 0  # … that are numbers in any notation
    dates: int = 0
    looks: set[str] = field(default_factory=set)  # … of them
    days: int = 0  # … that are dates written as whole numbers
    digits: bool = True  # there are digits alone in every cell
    first: Cell | None = None
    point: Cell | None = None
    zero: Cell | None = None  # the first with a leading zero
    foreign: Cell | None = None  # the first that is a number in another notation
    odd: Cell | None = None  # the first that is no number at all
    undated: Cell | None = None  # the first that is no date
    merged: tuple[Cell, Cell] | None = None  # two that differ, and not as floats
    # different cells, as long as they are few enough for categories
    different: set[str] = field(default_factory=set)

    def add(self, column: Any, first: int) -> None:
        import pyarrow as pa
        from pyarrow import compute

        kind = _kind(column.drop_null())
        if kind != "number":
            column, words = _apart(column, self.missing)
            self.words += _count(words)
            self.word = self.word or _first(column, words, first)
            column = compute.if_else(words, pa.scalar(None, column.type), column)
            kind = _kind(column.drop_null())
        here = len(column) - column.null_count
        if not here:
            return
        self.kind = kind if self.kind in ("missing", kind) else "text"
        self.cells += here
        self.first = self.first or _first(column, compute.is_valid(column), first)
        self.digits = self.digits and kind == "number"
        if kind == "number":  # the usual case, with few looks
            self.numbers, self.alike = self.numbers + here, self.alike + here
            self._add_different(column, MANY)
            if self.comma:
                self._add_points(column, here, first)
            if self.digits:
                self._add_digits(column, first)
        elif kind == "text":
            self._add_text(column, first)

    def _add_points(self, column: Any, here: int, first: int) -> None:
        from pyarrow import compute

        point = compute.match_substring(column, ".")
        n = _count(point)
        self.points, self.commas = self.points + n, self.commas + here - n
        self.thousands += _count(compute.match_substring_regex(column, THOUSANDS)) if n else 0
        self.point = self.point or _first(column, point, first)

    def _add_digits(self, column: Any, first: int) -> None:
        from pyarrow import compute

        trimmed = compute.ascii_trim_whitespace(column)
        self.digits = compute.all(compute.ascii_is_decimal(trimmed)).as_py()
        if not self.digits:
            return
        length = compute.binary_length(trimmed)
        zero = compute.and_(compute.starts_with(trimmed, "0"), compute.greater(length, 1))
        self.zero = self.zero or _first(column, zero, first)
        ends = compute.min_max(length).as_py()
        if ends["min"] == ends["max"] == 8:
            self.days += _count(compute.match_substring_regex(trimmed, DAY))
        if ends["max"] >= LONG and self.merged is None:
            self.merged = _merged(trimmed, compute.greater_equal(length, LONG), first)

    def _add_different(self, column: Any, most: int) -> None:
        from pyarrow import compute

        if len(self.different) <= most:
            few = compute.unique(column.drop_null()).slice(0, MOST_CATEGORIES + 1)
            self.different.update(few.to_pylist())

    def _add_text(self, column: Any, first: int) -> None:
        from pyarrow import compute

        match = compute.match_substring_regex
        self._add_different(column, MOST_CATEGORIES)
        plain, alike, comma, date = (match(column, p) for p in (PLAIN, ALIKE, COMMA, DATE))
        self.numbers, self.alike = self.numbers + _count(plain), self.alike + _count(alike)
        self.commas, self.dates = self.commas + _count(comma), self.dates + _count(date)
        if self.dates == self.cells:
            self.looks.update(map(look, compute.unique(column.drop_null()).to_pylist()))
        self.foreign = self.foreign or _first(column, compute.and_not(alike, plain), first)
        self.odd = self.odd or _first(column, compute.invert(alike), first)
        self.undated = self.undated or _first(column, compute.invert(date), first)

    def verdict(self, named: str, checked: bool) -> tuple[Kind, str]:
        """Return what the column is, and how that is known if it is worth saying.

        Raise `DomainError` if it is `checked`, and nothing that can be learnt from as it stands.
        """
        if self.kind == "number":
            if self.digits and self.zero:
                return "text", "zeros"
            if self.merged and checked:
                raise too_long(named, *self.merged)
            days = "days" if 1 < self.cells == self.days else ""
            return "number", "typed" if self.typed else days
        if self.kind in ("missing", "truth") and not (self.typed and self.kind == "truth"):
            return self.kind, ""
        if self.comma and self.commas == self.cells and checked:
            return "comma", "comma"
        if checked and self.dates == self.cells:
            kind = self._written_as(named)
            return kind, kind
        how = self._mixed()
        if checked and how and self._few():
            return "text", how
        if checked:
            self._refuse(named)
        return "text", "text"

    def _mixed(self) -> str:
        """Return how a column is told of most of whose cells are numbers, or dates; or nothing."""
        if 2 * self.numbers > self.cells and self.odd is not None:
            return "mixed"
        return "undated" if 2 * self.dates > self.cells and self.undated is not None else ""

    def _few(self) -> bool:
        """Return whether the different cells are as few as those of categories."""
        return len(self.different) <= MANY and 2 * len(self.different) <= self.cells

    def _written_as(self, named: str) -> Order:
        """Return how the dates of a column are written; raise `DomainError` where that is open."""
        order = order_of(self.looks)
        assert self.first is not None
        if order is None:
            raise DomainError(
                f"{named} holds dates, like {short(self.first.text)} at row {self.first.row}, of "
                "which it is open what is the day, the month or the year; write them like "
                f"2020-01-31, {DROPPED}, or {AS_TEXT}",
                self.first.row,
            )
        return order

    def _refuse(self, named: str) -> None:
        """Raise `DomainError` where most cells look like numbers or dates."""
        as_text = f"or {AS_TEXT}"
        if too_many(len(self.different), self.cells):  # for categories
            as_text = f"or {DROPPED}"
        if how := self._mixed():
            what, odd = ("numbers", self.odd) if how == "mixed" else ("dates", self.undated)
            assert odd is not None  # as the column is mixed
            word = quote(in_comma_list([odd.text.strip()]))
            raise DomainError(
                f"{named} mixes types: it holds {what}, but {short(odd.text)} at row {odd.row}; "
                f"correct it, leave it empty, say that it is missing (--missing {word}), {as_text}",
                odd.row,
            )
        if 2 * self.alike > self.cells and self.foreign is not None:
            raise DomainError(
                f"{named} holds numbers in a notation that is not read, like "
                f"{short(self.foreign.text)} at row {self.foreign.row}; write plain numbers, such "
                f"as 1234.5, {as_text}{self._with_commas()}",
                self.foreign.row,
            )

    def _with_commas(self) -> str:
        """Return what to do about a column whose commas may all be decimal."""
        if self.comma or self.commas < self.cells:
            return ""
        how = 'read it in Python with pd.read_csv(path, decimal=",")'
        saved = "" if self.typed else "save the file with ';' between columns, or "
        return f"; if its commas are decimal, {saved}{how}"

    def check_points(self, named: str) -> None:
        """Raise `DomainError` where every point may separate thousands.

        That is open where other columns have decimal commas.
        """
        if self.kind == "number" and self.point is not None and self.points == self.thousands:
            raise DomainError(
                f"{named} is written with points, like {short(self.point.text)} at row "
                f"{self.point.row}, beside decimal commas: do they separate thousands? Write it "
                "without them, or with a decimal comma",
                self.point.row,
            )

    def shown(self, how: str) -> Cell:
        """Return the cell that shows it best."""
        cells = {"zeros": self.zero, "comma": self.foreign, "mixed": self.odd}
        cell = self.undated if how == "undated" else cells.get(how)
        cell = cell or self.first
        assert cell is not None
        return cell


def _apart(column: Any, missing: Collection[str]) -> tuple[Any, Any]:
    """Return a column of text without cells that are `missing`, and which are words for that."""
    import pyarrow as pa
    from pyarrow import compute

    trimmed = compute.utf8_trim_whitespace(column)
    gone, words = (compute.is_in(trimmed, pa.array(w, column.type)) for w in (missing, WORDS))
    return compute.if_else(gone, pa.scalar(None, column.type), column), compute.and_not(words, gone)


def without_words(column: Any, missing: Collection[str] = ()) -> Any:
    """Return a column of text in which empty cells and words for missing ones are missing."""
    import pyarrow as pa
    from pyarrow import compute

    column, words = _apart(column, ("", *missing))
    return compute.if_else(words, pa.scalar(None, column.type), column)


def as_numbers(column: Any, kind: Kind, missing: Collection[str] = ()) -> Any:
    """Return the numbers of a column of text that is a "number", a "comma" or "missing"."""
    import pyarrow as pa
    from pyarrow import compute

    cells = compute.ascii_trim_whitespace(column)
    cells = compute.replace_substring(cells, ",", ".") if kind == "comma" else cells
    try:
        return compute.cast(cells, pa.float64())
    except pa.ArrowInvalid:  # beside "NA" and the like
        return compute.cast(without_words(cells, missing), pa.float64())


def parse_dates(
    frame: Any, kinds: Mapping[str, Kind], where: str, missing: Collection[str] = ()
) -> None:
    """Turn those columns of text in a frame into dates whose kind says that they are such."""
    for name, kind in kinds.items():
        for order in ORDERS:
            if kind == order:
                named = f"{at(where)}column {name!r}"
                frame[name] = as_dates(frame[name], order, named, missing)


def _kind(cells: Any) -> Kind:
    """Return what all these cells are, none of which is missing."""
    import pyarrow as pa
    from pyarrow import compute

    if not len(cells):
        return "missing"
    try:
        numbers = compute.cast(compute.ascii_trim_whitespace(cells), pa.float64())
        # "nan" is a word to pandas, and a number to Arrow
        return "text" if compute.any(compute.is_nan(numbers)).as_py() else "number"
    except pa.ArrowInvalid:
        few = compute.unique(compute.ascii_lower(cells)).slice(0, 3).to_pylist()
        return "truth" if set(few) <= {"true", "false"} else "text"


def _count(mask: Any) -> int:
    from pyarrow import compute

    return compute.sum(mask).as_py() or 0


def _first(column: Any, mask: Any, first: int) -> Cell | None:
    """Return the first cell of the mask, the rows of the column counted from `first` on."""
    from pyarrow import compute

    row = compute.index(mask, True).as_py()
    return None if row < 0 else Cell(first + row, column[row].as_py())


def _merged(cells: Any, long: Any, first: int) -> tuple[Cell, Cell] | None:
    """Return two of the long cells of digits that differ but are the same float."""
    from pyarrow import compute

    seen: dict[float, str] = {}
    for text in compute.unique(cells.filter(long)).to_pylist():
        other = seen.setdefault(float(text), text)
        if other != text:
            return Cell(first + compute.index(cells, other).as_py(), other), Cell(
                first + compute.index(cells, text).as_py(), text
            )
    return None
