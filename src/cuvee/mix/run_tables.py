"""Read the two tables of a swarm as they were given, and join them by the names of their runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cuvee.errors import InputError
from cuvee.inputs.arrays import as_array
from cuvee.mix.sizes import listed
from cuvee.results import Floats

KEYS = ("run", "run_id", "index")  # columns that name a run; the first that is there counts
SCALE = "scale"
REASON, OTHER_REASON = "reason", "reason (in words)"  # of plans, which may be filled in as tables
NAMELESS = re.compile(r"\s*|Unnamed: \d+")  # the second is what pandas calls such a column


@dataclass(frozen=True, eq=False)
class Table:
    """Hold one of the two tables as it was given."""

    what: str
    values: Floats  # (n, columns), NaN where there is no number
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    keyed: str = ""  # the column that named the runs
    scale: tuple[str | None, ...] | None = None
    spare: tuple[str, ...] = ()  # columns that could name runs beside the one that does

    @classmethod
    def of(cls, given: Any, what: str, column: str, known: Sequence[Sequence[str]] = ()) -> Table:
        if hasattr(given, "columns") and hasattr(given, "iloc"):
            return cls._of_frame(given, what)
        try:
            values = as_array(given).astype(np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"{what} must be a frame or an array of numbers, a row per run"
            ) from None
        if values.ndim == 1 and what == "metrics":
            values = values[:, None]
        if values.ndim != 2 or not values.size:
            raise InputError(
                f"{what} must have a row per run and columns; got shape {values.shape}"
            )
        names = tuple(f"{column} {j + 1}" for j in range(values.shape[1]))
        if known:
            names = _known(what, column, len(names), known)
        return cls(what, values, names, tuple(f"run {i + 1}" for i in range(len(values))))

    @classmethod
    def _of_frame(cls, frame: Any, what: str) -> Table:
        names = [str(name) for name in frame.columns]
        twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
        if twice is not None:
            raise InputError(f"{what} has two columns named {twice!r}: keep one")
        nameless = next((j for j, name in enumerate(names) if NAMELESS.fullmatch(name)), None)
        if nameless is not None:
            raise InputError(
                f"column {nameless + 1} of {what} has no name, as an index that was written with "
                "the table: name it, or leave it out"
            )
        key = next((name for name in KEYS if name in names), "")
        labels = (
            tuple(map(str, frame[frame.columns[names.index(key)]]))
            if key
            else tuple(f"run {i + 1}" for i in range(len(frame)))
        )
        again = next((label for i, label in enumerate(labels) if label in labels[:i]), None)
        if again is not None:
            raise InputError(f"{what} has two rows for run {again!r} in column {key!r}: keep one")
        scale = None
        if SCALE in names:
            scale = listed(frame[frame.columns[names.index(SCALE)]], len(frame))
        kept = [
            j
            for j, name in enumerate(names)
            if name not in (*KEYS, SCALE) and not _is_a_reason(name, frame.iloc[:, j])
        ]
        spare = tuple(name for name in names if name in KEYS and name != key)
        columns = [_numbers(frame.iloc[:, j], what, names[j], labels) for j in kept]
        if not columns or not len(frame):
            raise InputError(f"{what} has no columns of numbers, or no rows")
        chosen = tuple(names[j] for j in kept)
        return cls(what, np.column_stack(columns), chosen, labels, key, scale, spare)

    def taken(self, rows: Sequence[int]) -> Table:
        return replace(
            self,
            values=self.values[list(rows)],
            labels=tuple(self.labels[i] for i in rows),
            scale=None if self.scale is None else tuple(self.scale[i] for i in rows),
        )


def joined(left: Table, right: Table, notes: list[str]) -> tuple[Table, Table]:
    """Return both tables with the same runs in the same order."""
    if bool(left.keyed) != bool(right.keyed):
        has, lacks = (left, right) if left.keyed else (right, left)
        raise InputError(
            f"{has.what} names its runs in column {has.keyed!r}, and {lacks.what} has no column "
            f"that does: add it to {lacks.what}, or take it out of {has.what} if the rows of both "
            "are in the same order"
        )
    if not left.keyed:
        if len(left.values) != len(right.values):
            raise InputError(
                f"alpha has {len(left.values)} rows and metrics {len(right.values)}: give a row "
                f"per run in both, or a column {KEYS[0]!r} that names the runs in both"
            )
        return left, right
    place = {label: i for i, label in enumerate(right.labels)}
    both = [i for i, label in enumerate(left.labels) if label in place]
    if not both:
        raise InputError(
            f"no run is in both tables: alpha names runs such as {left.labels[0]!r} in column "
            f"{left.keyed!r}, metrics {right.labels[0]!r} in column {right.keyed!r}"
        )
    for table, other in ((left, right), (right, left)):
        known = set(other.labels)
        alone = [label for label in table.labels if label not in known]
        if alone:
            notes.append(
                f"{some_runs(alone)} of {table.what} {'has' if len(alone) == 1 else 'have'} no "
                f"row in {other.what}, and {'is' if len(alone) == 1 else 'are'} left out."
            )
    return left.taken(both), right.taken([place[left.labels[i]] for i in both])


def some_runs(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"Run {shown}" if len(names) == 1 else f"Runs {shown}{more}"


def _numbers(column: Any, what: str, name: str, labels: Sequence[str]) -> Floats:
    import pandas as pd

    values = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    wrong = np.flatnonzero(np.isnan(values) & column.notna().to_numpy())
    if len(wrong):
        raise InputError(
            f"column {name!r} of {what} holds {column.iloc[wrong[0]]!r} for run "
            f"{labels[wrong[0]]!r}, which is not a number: correct it, or leave the column out"
        )
    return values


def _known(what: str, column: str, n: int, known: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the names of the n columns of an array, of lists that are known."""
    fitting = next((names for names in known if len(names) == n), None)
    if fitting is None:
        raise InputError(
            f"{what} has {n} columns for the {column}s {', '.join(known[-1])}: give a column for "
            "each of them, in this order, or a frame with names"
        )
    return tuple(fitting)


def _is_a_reason(name: str, column: Any) -> bool:
    """Return whether a column holds the reasons of a plan; a domain may have that name too."""
    import pandas as pd

    if name not in (REASON, OTHER_REASON):
        return False
    return bool(pd.to_numeric(column, errors="coerce").isna().all())
