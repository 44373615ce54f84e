"""Thirty public tables with many groups each, and tables of one's own.

    python -m benchmarks.groups.tables          prints rows, groups and columns of all of them

    from benchmarks.groups.tables import TABLES, load
    table = load("house_zip")                   a frame, its domain and label, its kind, its k

The archives come from PyPI (`benchmarks.groups.archives`); a table that was read is kept beside
them as Parquet, so that it is read once. Frames hold text and gaps as they are: methods encode.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.groups import archives, classes_and_counts, content, quantities, records
from benchmarks.groups.records import TABLES, Kind, TableFacts

from cuvee.data import task
from cuvee.data.frame import located, read
from cuvee.errors import DomainError, InputError, OptionError
from cuvee.problem import Array

__all__ = ["TABLES", "Facts", "Kind", "Table", "TableFacts", "facts_of", "load", "own_table"]

KINDS: dict[task.Task, Kind] = {
    task.Task.regression: "quantity",
    task.Task.classification: "classes",
    task.Task.counts: "count",
}


@dataclass(frozen=True, eq=False)
class Table:
    """A table whose rows stand in an order that hangs on what they hold, not on a file."""

    name: str
    frame: Any  # pandas.DataFrame of the features, the domain (text) and the label; index 0…n−1
    domain: str
    label: str
    kind: Kind
    k: int  # labelled rows of a target
    block: Array | None = None  # (rows,): rows of one block are alike, split by it
    time: Array | None = None  # (rows,): orders the rows of a domain
    digest: str = field(init=False)  # SHA-256 of all of that, whatever the order of rows, columns

    def __post_init__(self) -> None:
        others = {"block of the row": self.block, "time of the row": self.time}
        whole = self.frame.assign(**{name: v for name, v in others.items() if v is not None})
        digest = content.digest(whole, self.domain, self.label, self.kind)
        object.__setattr__(self, "digest", digest)

    @property
    def features(self) -> tuple[str, ...]:
        """Return the columns to learn from."""
        return tuple(c for c in self.frame.columns if c not in (self.domain, self.label))

    @property
    def eligible(self) -> tuple[str, ...]:
        """Return the domains, sorted, with enough rows to be a target."""
        sizes = self.frame[self.domain].value_counts()
        return tuple(sorted(sizes.index[sizes >= rows_needed(self.k)]))


def rows_needed(k: int) -> int:
    """Return the rows that a target needs: k labelled ones and 20 to 30 for a test."""
    return k + min(30, max(20, k))


def load(name: str) -> Table:
    """Return a table by its name in `TABLES`, downloaded if need be."""
    if name not in TABLES:
        raise OptionError(f"there is no table {name!r}: it is one of {', '.join(TABLES)}")
    facts = TABLES[name]
    place = archives.cache("tables") / f"{name}-{_recipe()}.parquet"
    archives.made_once(place, lambda path: plain(facts).to_parquet(path, index=False))
    frame = pd.read_parquet(place)
    block, time = (
        None if column is None else frame.pop(column).to_numpy()
        for column in (facts.block, facts.time)
    )
    return Table(name, frame, facts.domain, facts.label, facts.kind, facts.k, block, time)


def own_table(
    path: str | PathLike[str], domain: str, label: str, k: int, kind: Kind | None = None
) -> Table:
    """Return a table of a CSV or Parquet file.

    What there is to learn follows from the labels, as in `cuvee adapt`, if `kind` does not say it.
    Rows without a label are left out.
    """
    if k < 1:
        raise OptionError(f"k must be at least 1; got {k}")
    opened = read(Path(path), domain=domain, label=label)
    frame = opened.frame.dropna(subset=[label])
    if frame.empty:
        raise InputError(f"{path}: no row has a label in column {label!r}")
    try:
        with located(path):
            kind = _kind(frame[label], label, kind)
    except DomainError as error:
        raise InputError(f"{path}: {error}") from None
    frame[label] = _label(frame[label], kind)
    table = Table(Path(path).stem, content.in_order(frame), domain, label, kind, k)
    if not table.eligible:
        raise InputError(
            f"{path}: no value of column {domain!r} has {rows_needed(k)} rows with a label, and a "
            f"target needs {k} that are shown and {rows_needed(k) - k} for a test; choose a "
            "smaller k or another column"
        )
    return table


def _kind(labels: Any, name: str, asked: Kind | None) -> Kind:
    if asked is None:
        return KINDS[task.infer(labels, name).task]
    tasks = {kind: task for task, kind in KINDS.items()}
    if asked not in tasks:
        raise OptionError(f"kind is one of {', '.join(tasks)}; got {asked!r}")
    task.check(labels, tasks[asked], name)
    return asked


def plain(facts: TableFacts) -> Any:
    """Return the frame of a table as it is kept: numbers, truth values and text, in order.

    Rows without a domain or a label are left out.
    """
    frame = facts.read().dropna(subset=[facts.domain, facts.label]).reset_index(drop=True)
    columns = {name: _plain(frame[name]) for name in frame.columns}
    columns[facts.domain] = _text(frame[facts.domain])
    columns[facts.label] = _label(frame[facts.label], facts.kind)
    return content.in_order(pd.DataFrame(columns))


def _plain(column: Any) -> Any:
    if pd.api.types.is_bool_dtype(column) and not column.hasnans:
        return column.astype(bool)
    if pd.api.types.is_numeric_dtype(column):
        whole = pd.api.types.is_integer_dtype(column) and not column.hasnans
        return column.astype("int64") if whole else column.to_numpy("float64", na_value=np.nan)
    return _text(column)


def _text(column: Any) -> Any:
    """Return text without spaces around it; whole numbers have no point, and gaps stay."""
    is_number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    if is_number and (column == column.round()).all():
        column = column.astype("int64")
    texts = column.astype(object).where(column.notna(), None)
    return texts.map(lambda value: str(value).strip(), na_action="ignore")


def _label(column: Any, kind: Kind) -> Any:
    if kind == "classes":
        return _text(column)
    return column.astype("float64" if kind == "quantity" else "int64")


@cache
def _recipe() -> str:
    """Return what stands for all that a kept table hangs on: this code, the pins, the libraries."""
    modules = (archives, classes_and_counts, content, quantities, records, sys.modules[__name__])
    hashed = hashlib.sha256(f"{version('pandas')} {version('scikit-learn')}".encode())
    for path in (*(Path(str(m.__file__)) for m in modules), Path(__file__).with_name("pins.json")):
        hashed.update(path.read_bytes())
    return hashed.hexdigest()[:16]


@dataclass(frozen=True)
class Facts:
    """What `tables.md` holds of a table that was read."""

    name: str
    rows: int
    groups: int
    eligible: int  # groups with enough rows to be a target
    numbers: int  # features that are numbers or truth values
    categories: int  # features that are text
    digest: str

    @property
    def line(self) -> str:
        """Return the line of the table in `tables.md`."""
        t = TABLES[self.name]
        cells = [self.name, f"{t.domain} → {t.label}", t.kind, t.k, self.rows, self.groups]
        cells += [self.eligible, f"{self.numbers} + {self.categories}", self.digest[:16]]
        return f"| {' | '.join(map(str, cells))} |"


def facts_of(table: Table) -> Facts:
    """Return how large a table is, and its digest."""
    text = [not pd.api.types.is_numeric_dtype(table.frame[name]) for name in table.features]
    groups = table.frame[table.domain].nunique()
    sizes = (len(table.frame), groups, len(table.eligible), text.count(False), text.count(True))
    return Facts(table.name, *sizes, table.digest)


HEAD = """\
# The tables of the benchmark of groups

Printed by `python -m benchmarks.groups.tables`; a test compares it with what is read. A group is
eligible as a target if it has k rows to be labelled and 20 to 30 more for a test. The digest is the
beginning of a SHA-256 of all values, in whatever order the rows and columns stand.

| table | domain → label | kind | k | rows | groups | eligible | num + cat | digest |
|---|---|---|---|---|---|---|---|---|"""


def about(facts: TableFacts) -> str:
    """Return what `tables.md` says of a table beneath the lines."""
    return (
        f"- **{facts.name}** ({facts.field}). {facts.note} Left out: {facts.dropped}. "
        f"From `{facts.pin}`: {facts.licence}."
    )


def main() -> None:
    """Print `tables.md`, and what is downloaded meanwhile."""
    print(HEAD)
    for name in TABLES:
        print(facts_of(load(name)).line, flush=True)
    print("\n## What they are\n", *map(about, TABLES.values()), sep="\n")


if __name__ == "__main__":
    main()
