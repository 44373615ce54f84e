"""A table that was read: its labelled rows with small domains pooled, and what its labels are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cuvee.data.columns import count
from cuvee.data.frame import Table, located, read
from cuvee.data.groups import usable_names
from cuvee.data.label_summary import Summary
from cuvee.data.labelled import LabelledFrame
from cuvee.data.options import Options
from cuvee.data.roles import SMALL, Pool, excluded, label_free, pool, without
from cuvee.data.targets import EACH, choose, suggest
from cuvee.data.task import Inferred, Task, check_of, infer_of, summary
from cuvee.errors import DomainError
from cuvee.hypothesis.registry import MODELS
from cuvee.mixture import registry as alpha_methods
from cuvee.problem import LEAST_ROWS

# the options that `read` takes
COLUMNS = ("domain", "label", "features", "drop", "text", "encoding", "missing", "strict")


@dataclass(frozen=True, eq=False)
class OpenedTable:
    """A table and its labelled rows, without the domains left out; nothing is encoded yet."""

    source: Any  # what it was read from
    options: Options
    table: Table
    excluded: tuple[str, ...]
    domains: dict[str, int]  # labelled rows of every domain of the table that is not left out
    small: Pool  # what becomes of those with too few rows
    rows: LabelledFrame  # all labelled rows; those of small domains as one
    inferred: Inferred
    label_free: tuple[str, ...] = ()  # targets whose weights come from inputs alone

    @property
    def sizes(self) -> dict[str, int]:
        """Return the labelled rows of every domain, of SMALL instead of those pooled in it."""
        return self.small.resized(self.domains)

    @property
    def used(self) -> Any:
        """Return a frame of the rows of all domains that may be sources."""
        return _used(self.rows, self.small)

    def targets(self, wanted: str | Sequence[str]) -> tuple[list[str], bool]:
        """Return the domains named as targets, and whether that is every domain in turn."""
        targets = choose(list(self.domains), wanted, self.excluded)
        return targets, wanted in (EACH, (EACH,)) and len(targets) == len(self.domains)

    def others(self, targets: str | None) -> list[str]:
        """Return all domains that may be sources, without the targets if any are named."""
        if targets == EACH and EACH not in self.domains:
            raise DomainError(
                "every domain in turn cannot be a target here: leave --targets out, or name some"
            )
        chosen = set() if targets is None else set(self.targets(targets)[0])
        sources = [name for name in usable_names(self.sizes) if name not in chosen]
        if not sources:
            raise DomainError(
                f"no source is left: no other domain has {LEAST_ROWS} labelled rows; name fewer "
                "targets"
            )
        return sources

    def named(self, wanted: Sequence[str], least: int = LEAST_ROWS) -> list[str]:
        """Return these domains in the order of the table.

        A domain that is not there or has too few rows is an error.
        """
        sizes = self.sizes
        known = [*self.domains, *([SMALL] if self.small.names else [])]
        for name in wanted:
            if name not in known:
                raise DomainError(f"there is no domain {name!r} in the table{suggest(name, known)}")
            rows = sizes.get(name, self.domains.get(name, 0))
            if rows < least or name not in sizes:
                pooled = f"; it is part of {SMALL!r}" if name in self.small.names else ""
                raise DomainError(
                    f"domain {name!r} has {count(rows, 'labelled row')}, and needs {least}: label "
                    "more, or leave it "
                    f"out{pooled}"
                )
        asked = set(wanted)
        return [name for name in sizes if name in asked]


def open_table(source: Any, options: Options, *, label_free: bool = False) -> OpenedTable:
    """Read a table from anywhere and find its labelled rows, its small domains and its task.

    With `label_free`, targets of the options that have too few labels are found as well.
    """
    table = read(source, **{name: getattr(options, name) for name in COLUMNS})
    left_out = excluded(table.names, options.exclude)
    rows = LabelledFrame.of(without(table, left_out))
    sizes = rows.sizes
    bare = _label_free(table, sizes, options, left_out) if label_free else ()
    # every domain in turn: the few labels of one serve the others
    in_turn = options.targets in (EACH, (EACH,))
    aside = [name for name in bare if not in_turn or sizes[name] == 0]
    small = pool(sizes, strict=options.strict, aside=aside)
    rows = rows.pooled(small.names)
    with located(source, options.encoding):
        inferred = inferred_task(options, _used(rows, small)[table.label])
    return OpenedTable(source, options, table, tuple(left_out), sizes, small, rows, inferred, bare)


def _label_free(
    table: Table, sizes: Mapping[str, int], options: Options, left_out: Sequence[str]
) -> tuple[str, ...]:
    """Return the targets of the options with too few labels, unless these are to be errors.

    A method that needs labels leaves them without a model, as ever.
    """
    if options.strict or not alpha_methods.find(options.method).label_free:
        return ()
    inputs = table.frame[table.domain].value_counts().to_dict()
    return label_free(sizes, inputs, choose(list(sizes), options.targets, left_out))


def inferred_task(options: Options, labels: Any) -> Inferred:
    """Return the task of the labels of all rows.

    Raise an error where they are not what the user says.
    """
    return inferred_of(options, summary(labels, options.label))


def inferred_of(options: Options, labels: Summary) -> Inferred:
    """Return the task of labels of which there is a summary."""
    if options.task != "auto":
        return check_of(labels, options.task, options.label)
    asked = MODELS.get(options.hypothesis)
    if asked is not None and asked.task == Task.counts:
        return check_of(labels, asked.task, options.label)
    inferred = infer_of(labels, options.label)
    if asked is not None and inferred.task is Task.counts and asked.task == Task.regression:
        return check_of(labels, asked.task, options.label)
    return inferred


@contextmanager
def decodable() -> Iterator[None]:
    """Turn Python's error about text that has no encoding into one about the table."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise DomainError(
            f"the table holds text with characters that cannot be stored, {error.object!r:.60}: "
            "correct them, or read the table again with the right encoding"
        ) from None


def _used(rows: LabelledFrame, small: Pool) -> Any:
    unused = set(small.unused)
    return rows.rows(places for name, places in rows.at.items() if name not in unused)
