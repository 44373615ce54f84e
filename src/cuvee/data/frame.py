"""One table in: files, folders, frames and arrays become a `Table`, and what is wrong with them one
sentence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from cuvee.data.columns import at, count, is_number, plain_labels, tidy, tidy_labels
from cuvee.data.dates import ORDERS, are_dates, number, origin, spread
from cuvee.data.encoding import UTF8
from cuvee.data.files import File, files
from cuvee.data.label_summary import label_kind
from cuvee.data.notes import UNDONE, Cell, Told, named_otherwise, notes, text_throughout
from cuvee.data.noticed import called_id, homeless_note
from cuvee.data.pieces import Part, of_file, parts_of
from cuvee.data.row_places import placed
from cuvee.data.spool import Spec
from cuvee.data.targets import domain_names, suggest
from cuvee.data.task import whole_labels
from cuvee.errors import CuveeError, DomainError
from cuvee.problem import Array

__all__ = ["Table", "columns_of", "located", "read", "read_rows", "spec", "spec_of", "suggest"]

DOMAIN, LABEL = "domain", "label"  # the columns, where the user names none
NAMELESS = ("", "Unnamed: 0")  # what a first column without a name is called, here and by pandas
TRUTH = ("bool", "boolean")


@dataclass(frozen=True, eq=False)
class Table:
    """A table: a domain and a label per row, and the columns to learn from.

    A row whose label is missing is unlabelled.
    """

    frame: Any  # pandas.DataFrame of the features, the label and the domain (as text); index 0…n−1
    domain: str
    label: str
    features: tuple[str, ...]
    # which columns were taken as categories, or read in a way worth knowing, and why
    notes: tuple[str, ...] = ()
    ids: Any = None  # pandas.DataFrame of columns that are no features and called like an id

    @cached_property
    def _places(self) -> dict[str, Array]:
        return dict(self.frame.groupby(self.domain, sort=False).indices)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the domains, in order of first appearance."""
        return tuple(self.frame[self.domain].unique().tolist())

    def rows(self, name: str) -> Any:
        """Return the frame's rows of one domain; the index says where they stand in the table."""
        if name not in self._places:
            raise DomainError(f"there is no domain {name!r}{suggest(name, self.names)}")
        return self.frame.iloc[self._places[name]]

    def labelled(self, name: str) -> Any:
        """Return the rows of one domain that have a label."""
        rows = self.rows(name)
        rows = rows[rows[self.label].notna()]
        return rows.assign(**{self.label: plain_labels(rows[self.label])})

    def __repr__(self) -> str:
        sizes = (
            (len(self.frame), "row"),
            (len(self.features), "feature"),
            (len(self.names), "domain"),
        )
        return f"Table({', '.join(count(n, what) for n, what in sizes)})"


def read(
    source: Any,
    *,
    domain: str | None = None,
    label: str = LABEL,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    text: Sequence[str] = (),
    encoding: str = UTF8,
    missing: Sequence[str] = (),
    strict: bool = False,
) -> Table:
    """Return the table of a file, a folder, a frame, a mapping or a triple of arrays.

    A folder has a file per domain; a mapping is name -> (X, y) or Dataset; a triple is (X, y,
    domain).

    `features` are all columns but `drop` where none are named; those of `text` are categories,
    whatever they look like. `encoding` is that of text files, and `missing` are words for empty
    cells. Rows without a domain are left out, or an error where the reading is `strict`.
    """
    domain = domain or DOMAIN
    parts = parts_of(source, domain, label, encoding, missing)
    chosen, said = _choose(parts, domain, label, features, drop)
    parts[0].check(text)
    used = (*chosen, label)
    ids = [
        name
        for name in parts[0].columns
        if name not in (*used, domain)
        and called_id(name)
        and all(part.columns.count(name) == 1 for part in parts)
    ]
    how = Reading(domain, text, label, homeless=not strict)
    frame, remarks = _gather(parts, used, ids, how)
    homeless = frame[domain].isna()
    if homeless.any():
        first = int(homeless.idxmax())
        said += homeless_note(int(homeless.sum()), len(frame), domain, first)
        frame = frame[~homeless]
    if not len(frame):
        raise DomainError(f"{at(parts[0].where)}column {domain!r} names no domain in any row")
    aside, frame = frame[ids], frame.drop(columns=ids)
    frame = frame.assign(**{label: whole_labels(frame[label])})
    spread = tuple(name for name in frame.columns if name not in (label, domain))
    return Table(frame, domain, label, spread, (*said, *notes(remarks, label)), aside)


def read_rows(
    source: Any,
    features: Sequence[str],
    also: Sequence[str] = (),
    *,
    domain: str | None = None,
    text: Sequence[str] = (),
    encoding: str = UTF8,
    missing: Sequence[str] = (),
    label: str | None = None,
) -> Any:
    """Return a frame of the rows to predict on.

    It has `features`, the columns `also` as they are, and `domain` if named; others are ignored.
    Features may be what `read` makes of dates. One of them may be the `label`.
    """
    parts = parts_of(source, domain or DOMAIN, LABEL, encoding, missing)
    parts[0].check(text)
    return _gather(parts, features, also, Reading(domain, text, label, spread=False))[0]


def columns_of(source: Any, encoding: str = UTF8) -> tuple[str, ...]:
    """Return the names of the columns that every part of a source has."""
    first, *others = parts_of(source, DOMAIN, LABEL, encoding)
    return tuple(name for name in first.columns if all(name in part.columns for part in others))


def index_columns(source: Any) -> set[str]:
    """Return the columns of a source that number its rows and say nothing of them."""
    return {name for part in parts_of(source, DOMAIN, LABEL, UTF8) for name in numbering(part)}


def located(source: Any, encoding: str = UTF8) -> AbstractContextManager[None]:
    """Add to an error about a row of the whole source where that row stands.

    That is its line in a file, or its row in a part.
    """

    def place(row: int) -> str:
        with suppress(CuveeError):  # a source that can be gone through once alone
            parts = parts_of(source, DOMAIN, LABEL, encoding)
            for part in parts:
                if row < (rows := part.size()):
                    return part.line(row) or (
                        f"row {row} of {part.where}" if len(parts) > 1 else ""
                    )
                row -= rows
        return ""

    return placed(place)


def spec(path: str | PathLike[str], *, encoding: str = UTF8, **roles: Any) -> Spec:
    """Return what `spool` needs to know of a file or folder that is too large to `read`.

    `roles` are the arguments of `spec_of`.
    """
    return spec_of(files(Path(path), encoding), **roles)


def spec_of(
    named_files: Sequence[tuple[File, str | None]],
    *,
    domain: str | None = None,
    label: str = LABEL,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    text: Sequence[str] = (),
    missing: Sequence[str] = (),
    strict: bool = False,
) -> Spec:
    """Return which columns of these files play which role; a file with a name is one domain."""
    domain = domain or DOMAIN
    parts = [of_file(file, name) for file, name in named_files]
    chosen, said = _choose(parts, domain, label, features, drop)
    parts[0].check(text)
    for part in parts:
        part.check([*chosen, label, *([domain] if part.domain is None else [])])
    return Spec(
        tuple(named_files), domain, label, chosen, tuple(text), tuple(missing), strict=strict,
        notes=tuple(said),
    )  # fmt: skip


def _choose(
    parts: Sequence[Part],
    domain: str,
    label: str,
    features: Sequence[str] | None,
    drop: Sequence[str],
) -> tuple[tuple[str, ...], list[str]]:
    """Return the features, the same in every part, and a note on an index that is none of them."""
    _check_roles(domain, label, features, drop)
    first = parts[0]
    first.check(drop)
    if features is not None:
        if not features or len(set(features)) < len(features):
            raise DomainError(
                "name each feature once, and at least one; or none at all, to take every column"
            )
        return tuple(features), []
    index = {name for part in parts for name in numbering(part)}
    given = {domain, label, *drop, *index}
    for part in parts:
        part.check([label, *([domain] if part.domain is None else [])])
        _check_columns(part, first, given)
    chosen = tuple(c for c in first.columns if c not in given)
    if not chosen:
        raise DomainError(
            f"{at(first.where)}no column is left to learn from beside the domain and the label"
        )
    unnamed = sorted(index & {*NAMELESS})
    note = "the first column has no name and holds whole numbers: it is an index, and left out"
    return chosen, [note] if unnamed else []


def numbering(part: Part) -> list[str]:
    """Return the columns of a part that number its rows: an index that was written with them.

    pandas gives one without a name such a name in Parquet and none in a CSV, where it comes first.
    """
    known = [name for name in part.columns if name.startswith("__index_level_")]
    first = part.columns[0] if part.columns else None
    if first not in NAMELESS or part.columns.count(first) > 1:
        return known
    with suppress(CuveeError):
        cells, _ = part.load([first], (), ())
        values = tidy(cells[first], part.where)
        if label_kind(values) == "whole" and values.notna().all():
            return [*known, first]
    return known


def _check_roles(
    domain: str, label: str, features: Sequence[str] | None, drop: Sequence[str]
) -> None:
    """Raise `DomainError` where a column is asked to be two things."""
    if label == domain:
        raise DomainError(
            f"column {label!r} is named as domain and as label; name two different columns"
        )
    if isinstance(features, str) or isinstance(drop, str):
        raise DomainError("features and drop are lists of column names; got a single text")
    for name in (*(features or ()), *drop):
        if name in (domain, label):
            raise DomainError(
                f"column {name!r} is the {'domain' if name == domain else 'label'}; it is no "
                "feature"
            )


def _check_columns(part: Part, first: Part, given: Collection[str]) -> None:
    """Raise `DomainError` where a column to learn from has no name, or is not in the first part."""
    others = [name for name in part.columns if name not in given]
    if "" in others:
        raise DomainError(
            f"{at(part.where)}column {part.columns.index('')} has no name; name it, remove it, or "
            "name the columns to learn from (--features)"
        )
    more = next((name for name in others if name not in first.columns), None)
    if more is not None:
        raise DomainError(
            f"{at(part.where)}column {more!r} is not in {first.where}; give all the same columns"
        )


@dataclass(frozen=True)
class Reading:
    """How the columns of a table are read."""

    domain: str | None  # the column, as text; None: there is none
    text: Sequence[str]  # columns that are categories
    label: str | None
    spread: bool = True  # a column of dates becomes several of numbers
    homeless: bool = False  # rows may have no domain


def _gather(
    parts: Sequence[Part], names: Sequence[str], raw: Sequence[str], how: Reading
) -> tuple[Any, list[Told]]:
    """Return all parts in one frame, index 0…n−1, and what to say of them.

    The frame has tidy columns, raw ones, and the domain as text.
    """
    import pandas as pd

    raw = [name for name in raw if name not in names and name != how.domain]
    loaded, told_of_parts = zip(*(_load(part, names, raw, how) for part in parts), strict=True)
    remarks = [one for part in told_of_parts for one in part]
    frames = _spread(loaded, parts, spread(names, remarks))
    if len(frames) == 1:
        return frames[0], remarks
    if again := text_throughout(told_of_parts):
        frame, more = _gather(parts, names, raw, replace(how, text=[*how.text, *again]))
        return frame, [
            *(one for one in remarks if one.name in again and one.how not in UNDONE),
            *more,
        ]
    for name in frames[0].columns:
        if name not in (*raw, how.domain):
            _agree(name, frames, parts, name == how.label)
    return pd.concat(frames, ignore_index=True), remarks


def _spread(
    frames: Sequence[Any], parts: Sequence[Part], dates: Mapping[str, tuple[str, ...]]
) -> list[Any]:
    """Return the frames with columns of dates replaced by the numbers that are made of them."""
    import pandas as pd

    spread = []
    for frame, part in zip(frames, parts, strict=True) if dates else ():
        columns: dict[str, Any] = {}
        with placed(part.line):
            for name in frame.columns:
                for made in dates.get(name, (name,)):
                    columns[made] = (
                        number(frame[name], made, part.where) if name in dates else frame[name]
                    )
        spread.append(pd.DataFrame(columns, frame.index))
    return spread or [*frames]


def _load(
    part: Part, names: Sequence[str], raw: Sequence[str], how: Reading
) -> tuple[Any, list[Told]]:
    """Return the rows of one part as `_gather` has them, and what is to be said of its columns."""
    import pandas as pd

    domain = how.domain
    own = domain not in part.columns and part.domain is not None
    asked = [] if own or domain is None else [domain]
    made = {name: None if name in part.columns else origin(name) for name in names}
    made_of = {name: of[0] if of else name for name, of in made.items()}
    read = [*dict.fromkeys(made_of.values())]
    part.check([*read, *raw, *asked])
    text = {*how.text, *asked, *(raw for name, raw in made_of.items() if name != raw)}
    frame, remarks = part.load([*read, *raw, *asked], text, {*raw, *asked})
    if not len(frame):
        raise DomainError(f"{at(part.where)}there are no rows")
    columns: dict[str, Any] = {}
    with placed(part.line):
        for name in names:
            column = frame[made_of[name]]
            if name == how.label:
                columns[name] = tidy_labels(column, part.where, part.missing)
            elif made_of[name] != name:
                columns[name] = number(column, name, part.where, part.missing)
            elif how.spread and are_dates(column):
                columns[name] = column
                if all(one.name != name or one.how not in ORDERS for one in remarks):
                    row = column.first_valid_index()
                    remarks.append(Told(name, ORDERS[0], Cell(row, str(column[row]))))
            else:
                columns[name] = tidy(column, part.where, part.missing)
        columns |= {name: frame[name] for name in raw}
        if domain is not None:
            columns[domain] = (
                part.domain
                if own
                else domain_names(
                    frame[domain], part.where, missing=part.missing, gaps=how.homeless
                )
            )
            if part.domain is not None and not own:
                told = columns[domain].dropna()
                remarks = [*remarks, *named_otherwise(told, part.domain)]
    return pd.DataFrame(columns, frame.index), remarks


def _agree(name: str, frames: Sequence[Any], parts: Sequence[Part], is_label: bool) -> None:
    """Raise `DomainError` where a column is text in one part and numbers in another."""
    there = [i for i, frame in enumerate(frames) if frame[name].notna().any()]
    kinds = {is_number(frames[i][name]): parts[i].where for i in reversed(there)}
    truth = bool(there) and all(str(frames[i][name].dtype) in TRUTH for i in there)
    if is_label and truth:
        kinds = {True: ""}
    if len(kinds) > 1:
        raise DomainError(
            f"column {name!r} holds numbers in {kinds[True]} but text in {kinds[False]}; use one "
            "type, or "
            "declare it as text (--text)"
        )
    if False in kinds or any(frame[name].dtype != np.bool_ for frame in frames):
        wanted: Any = np.dtype(object if False in kinds else np.float64)
        wanted = "boolean" if is_label and truth else wanted
        for frame in frames:
            if frame[name].dtype != wanted:  # putting a column into a frame takes long
                frame[name] = frame[name].astype(wanted)
