"""Which rows a method sees and which it is asked about: the protocol of the benchmark.

All draws are orders by a digest of a row's (or a group's) content and a seed. The order of rows, of
columns and of files means nothing, and neither does what a group is called.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pandas as pd
from benchmarks.groups import content
from benchmarks.groups.tables import Table, rows_needed
from benchmarks.groups.task import BLOCK, Task

Places = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Track:
    """One way to draw tasks. The main track has each table's own k, everything drawn at random."""

    name: str = "main"
    k: int | None = None  # labelled rows of a target; None: the table's own
    targets: int = 8  # of a fold, at most; and at most half of the groups
    folds: int = 3  # of a seed, at most; no target is in two
    test_rows: int | None = 500  # of a target, at most
    source_rows: int | None = 200  # of a group, at most
    unlabelled: bool = False  # are the targets' further rows seen without labels?
    in_time: bool = False  # are the labelled rows the first in time rather than drawn?


TRACKS = {
    t.name: t
    for t in (
        Track(),
        *(Track(f"k{k}", k=k) for k in (10, 20, 40, 80)),
        Track("unseen", k=0),
        Track("unlabelled", unlabelled=True),
        Track("time", in_time=True),
        Track("full", test_rows=None, source_rows=None),
    )
}


@dataclass(frozen=True)
class Draw:
    """A task, the rows asked about, and their labels, which no method sees."""

    task: Task
    test: pd.DataFrame  # features, domain
    truth: npt.NDArray[np.float64]  # (rows,)
    row: Places  # (rows,): places in the table


@lru_cache(maxsize=16)
def hashes(table: Table, seed: int) -> npt.NDArray[np.uint64]:
    """(rows,): a number for each row that hangs on its content and the seed.

    What its domain is called is no part of it.
    """
    bits = content.row_digests(table.frame.drop(columns=table.domain))
    key = hashlib.sha256(f"groups {seed}".encode()).digest()[:8]
    return np.asarray(pd.util.hash_array(bits ^ np.frombuffer(key, np.uint64)))


def k_of(table: Table, track: Track) -> int:
    """Return how many labelled rows a target has."""
    return table.k if track.k is None else track.k


def targets_of(table: Table, track: Track, seed: int) -> list[list[str]]:
    """Return the targets of each fold of a seed, by name."""
    order = (
        pd.Series(hashes(table, seed))
        .groupby(table.frame[table.domain].to_numpy())
        .agg(["min", "size"])
    )
    eligible = order[order["size"] >= rows_needed(k_of(table, track))].sort_values("min").index
    size = min(track.targets, len(eligible) // 2)
    folds = min(track.folds, len(eligible) // size if size else 0)
    return [list(eligible[f * size : (f + 1) * size]) for f in range(folds)]


def draw(table: Table, track: Track, seed: int, fold: int) -> Draw:
    """Return one fold of a seed: its targets with k labelled rows, all other groups as sources."""
    k, targets = k_of(table, track), targets_of(table, track, seed)[fold]
    order = hashes(table, seed)
    groups = pd.Series(np.arange(len(order))).groupby(table.frame[table.domain].to_numpy()).indices
    learnt, asked = [], []
    for group, places in groups.items():
        rows = _shuffled(np.asarray(places), order, table)
        if group not in targets:
            learnt.append(rows[: track.source_rows])
            continue
        if track.in_time:
            assert table.time is not None
            rows = rows[np.argsort(table.time[rows], kind="stable")]
        own = _first(table, rows, k)
        learnt.append(rows[:own])
        asked.append(rows[own:][: track.test_rows])
    return _drawn(table, track, seed, targets, np.concatenate(learnt), np.concatenate(asked))


def _shuffled(rows: Places, order: npt.NDArray[np.uint64], table: Table) -> Places:
    """Return the rows of a group as drawn: blocks stay together."""
    rows = rows[np.argsort(order[rows], kind="stable")]
    if table.block is None:
        return rows
    block = pd.Series(table.block[rows])
    first = block.groupby(block.to_numpy()).transform(lambda b: b.index.min())
    return np.asarray(rows[np.lexsort((np.arange(len(rows)), first))])


def _drawn(
    table: Table, track: Track, seed: int, targets: list[str], rows: Places, test: Places
) -> Draw:
    """Return the task of these rows, and what is asked about."""
    frame = table.frame if table.block is None else table.frame.assign(**{BLOCK: table.block})
    hidden = (
        frame.drop(columns=[table.label, BLOCK], errors="ignore").iloc[test].reset_index(drop=True)
    )
    classes = sorted(table.frame[table.label].unique()) if table.kind == "classes" else []
    task = Task(
        rows=frame.iloc[rows].reset_index(drop=True),
        domain=table.domain,
        label=table.label,
        kind=table.kind,
        classes=tuple(classes),
        targets=tuple(targets),
        unlabelled=hidden if track.unlabelled else None,
        seed=seed,
        threads=1,
    )
    labels = table.frame[table.label].iloc[test]
    truth = labels.map({c: i for i, c in enumerate(classes)}) if classes else labels
    return Draw(task, hidden, truth.to_numpy(float), test)


def _first(table: Table, rows: Places, k: int) -> int:
    """Return how many of the rows are labelled: k, or as many whole blocks as are needed for k."""
    if table.block is None or k == 0:
        return k
    block = table.block[rows]
    while k < len(rows) and block[k] == block[k - 1]:
        k += 1
    return k
