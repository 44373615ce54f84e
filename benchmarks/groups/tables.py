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
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.groups import archives, classes_and_counts, content, quantities, records
from benchmarks.groups.records import TABLES, Kind, TableFacts

from cuvee.data import task
from cuvee.data.frame import read
from cuvee.errors import InputError, OptionError
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
        roles = (self.domain, self.label, self.kind, str(self.k))
        whole = _with_others(self.frame, self.block, self.time)
        object.__setattr__(self, "digest", content.digest(whole, *roles))

    @property
    def features(self) -> tuple[str, ...]:
        """Return the columns to learn from."""
        return tuple(c for c in self.frame.columns if c not in (self.domain, self.label))

    @property
    def eligible(self) -> tuple[str, ...]:
        """Return the domains, sorted, with enough rows for a target: k and 20 to 30 for a test."""
        sizes = self.frame[self.domain].value_counts()
        return tuple(sorted(sizes.index[sizes >= self.k + min(30, max(20, self.k))]))


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


def own_table(path: str | PathLike[str], domain: str, label: str, k: int) -> Table:
    """Return a table of a CSV or Parquet file.

    What there is to learn follows from the labels as in `cuvee adapt`. Rows without a label are
    left out.
    """
    if k < 1:
        raise OptionError(f"k must be at least 1; got {k}")
    opened = read(Path(path), domain=domain, label=label)
    frame = opened.frame.dropna(subset=[label])
    if frame.empty:
        raise InputError(f"{path}: no row has a label in column {label!r}")
    kind = KINDS[task.infer(frame[label], label).task]
    frame[label] = _label(frame[label], kind)
    return Table(Path(path).stem, content.in_order(frame), domain, label, kind, k)


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
    """Return text; whole numbers are written without a point, and gaps stay."""
    if pd.api.types.is_numeric_dtype(column) and (column == column.round()).all():
        column = column.astype("int64")
    return column.astype(object).where(column.notna(), None).map(str, na_action="ignore")


def _label(column: Any, kind: Kind) -> Any:
    if kind == "classes":
        return _text(column)
    return column.astype("float64" if kind == "quantity" else "int64")


def _with_others(frame: Any, block: Array | None, time: Array | None) -> Any:
    others = {"block of the row": block, "time of the row": time}
    return frame.assign(**{name: v for name, v in others.items() if v is not None})


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
    eligible: int
    numbers: int  # columns
    categories: int
    digest: str


def facts_of(table: Table) -> Facts:
    """Return how large a table is, and its digest."""
    text = [not pd.api.types.is_numeric_dtype(table.frame[name]) for name in table.features]
    groups = table.frame[table.domain].nunique()
    sizes = (len(table.frame), groups, len(table.eligible), text.count(False), text.count(True))
    return Facts(table.name, *sizes, table.digest)


def main() -> None:
    """Print a line of Markdown for each table, and what is downloaded meanwhile."""
    print("| table | domain → label | kind | k | rows | groups | eligible | num + cat | digest |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in TABLES:
        print(line_of(load(name)), flush=True)


def line_of(table: Table) -> str:
    """Return the line of a table in `tables.md`."""
    f = facts_of(table)
    cells = [f.name, f"{table.domain} → {table.label}", table.kind, table.k, f.rows, f.groups]
    cells += [f.eligible, f"{f.numbers} + {f.categories}", f.digest[:16]]
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
