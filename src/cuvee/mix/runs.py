"""Check the runs of a swarm once, at the edge: mixtures, metrics, names and scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cuvee.errors import InputError, MixtureError
from cuvee.inputs.arrays import as_array
from cuvee.results import Floats

KEYS = ("run", "run_id", "index")  # columns that name a run; the first that is there counts
SCALE = "scale"
ROUNDED = 0.01  # how far a row of ratios may be from sum 1: it is scaled, and that is said
LEAST_RUNS = 4


@dataclass(frozen=True, eq=False)
class Runs:
    """Hold n runs of N domains with K metrics, all finite."""

    alpha: Floats  # (n, N)
    metrics: Floats  # (n, K)
    domains: tuple[str, ...]
    names: tuple[str, ...]  # (K,) of metrics
    labels: tuple[str, ...]  # (n,) of runs
    scale: tuple[str, ...] | None = None  # (n,) the scale of every run
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.alpha)

    def with_domain(self, name: str) -> Runs:
        """Return the runs with one more domain, of which none of them had any."""
        if name in self.domains:
            raise InputError(f"there is a domain {name!r} already: choose another name")
        wider = np.column_stack([self.alpha, np.zeros(len(self))])
        return replace(self, alpha=wider, domains=(*self.domains, name))

    def and_more(self, more: Runs) -> Runs:
        """Return these runs and others; both must have the same metrics, and scales or none."""
        if set(more.names) != set(self.names):
            raise InputError(
                f"the new runs have the metrics {', '.join(more.names)}; the surface has "
                f"{', '.join(self.names)}: give the same"
            )
        unknown = [name for name in more.domains if name not in self.domains]
        if unknown:
            raise InputError(
                f"the new runs have the domain {unknown[0]!r}, which the surface does not know: "
                f"call with_domain({unknown[0]!r}) first"
            )
        if (self.scale is None) != (more.scale is None):
            raise InputError("give the scale of all runs or of none: only some of them have one")
        alpha = np.zeros((len(more), len(self.domains)))
        alpha[:, [self.domains.index(name) for name in more.domains]] = more.alpha
        order = [more.names.index(name) for name in self.names]
        return replace(
            self,
            alpha=np.concatenate([self.alpha, alpha]),
            metrics=np.concatenate([self.metrics, more.metrics[:, order]]),
            labels=(*self.labels, *more.labels),
            scale=None if self.scale is None or more.scale is None else (*self.scale, *more.scale),
            notes=(*self.notes, *more.notes),
        )


def read_runs(alpha: Any, metrics: Any, scale: Any = None) -> Runs:
    """Return checked runs; frames are joined on a column `run`, `run_id` or `index` of both.

    Runs with a gap in a mixture or in a metric are left out, and a note says so.
    """
    left, right = _Table.of(alpha, "alpha", "domain"), _Table.of(metrics, "metrics", "metric")
    notes: list[str] = []
    left, right = _joined(left, right, notes)
    scales = left.scale or right.scale if scale is None else _scales(scale, len(left.values))
    values, results = left.values, right.values
    finite = np.isfinite(np.column_stack([values, results]))
    failed = finite.sum(1) < finite.shape[1]
    if failed.any():
        notes.append(_failed(failed, left, right))
    rows = np.flatnonzero(np.logical_not(failed))
    if len(rows) < LEAST_RUNS:
        gaps = (~np.isfinite(results)).sum(0)
        worst = right.columns[int(gaps.argmax())]
        raise InputError(
            f"{len(rows)} of {len(failed)} runs have all their numbers, and a surface needs at "
            f"least {LEAST_RUNS}; the metric {worst!r} has {int(gaps.max())} gaps: leave it out, "
            "or give more runs"
        )
    labels = tuple(left.labels[i] for i in rows)
    return Runs(
        alpha=_on_simplex(values[rows], labels, left.columns, notes),
        metrics=results[rows],
        domains=left.columns,
        names=right.columns,
        labels=labels,
        scale=None if scales is None else tuple(scales[i] for i in rows),
        notes=tuple(notes),
    )


@dataclass(frozen=True, eq=False)
class _Table:
    """Hold one of the two tables as it was given."""

    what: str
    values: Floats  # (n, columns), NaN where there is no number
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    keyed: str = ""  # the column that named the runs
    scale: tuple[str, ...] | None = None

    @classmethod
    def of(cls, given: Any, what: str, column: str) -> _Table:
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
        return cls(what, values, names, tuple(f"run {i + 1}" for i in range(len(values))))

    @classmethod
    def _of_frame(cls, frame: Any, what: str) -> _Table:
        names = [str(name) for name in frame.columns]
        twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
        if twice is not None:
            raise InputError(f"{what} has two columns named {twice!r}: keep one")
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
            scale = _scales(frame[frame.columns[names.index(SCALE)]], len(frame))
        kept = [j for j, name in enumerate(names) if name not in (key, SCALE)]
        columns = [_numbers(frame.iloc[:, j], what, names[j], labels) for j in kept]
        if not columns or not len(frame):
            raise InputError(f"{what} has no columns of numbers, or no rows")
        chosen = tuple(names[j] for j in kept)
        return cls(what, np.column_stack(columns), chosen, labels, key, scale)

    def taken(self, rows: Sequence[int]) -> _Table:
        return replace(
            self,
            values=self.values[list(rows)],
            labels=tuple(self.labels[i] for i in rows),
            scale=None if self.scale is None else tuple(self.scale[i] for i in rows),
        )


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


def _scales(given: Any, n: int) -> tuple[str, ...]:
    names = tuple(f"{v:g}" if isinstance(v, int | float) else str(v) for v in given)
    if len(names) != n:
        raise InputError(f"scale has {len(names)} values for {n} runs: give one per run")
    return names


def _joined(left: _Table, right: _Table, notes: list[str]) -> tuple[_Table, _Table]:
    """Return both tables with the same runs in the same order."""
    if not (left.keyed and right.keyed):
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
                f"{_some_runs(alone)} of {table.what} {'has' if len(alone) == 1 else 'have'} no "
                f"row in {other.what}, and {'is' if len(alone) == 1 else 'are'} left out."
            )
    return left.taken(both), right.taken([place[left.labels[i]] for i in both])


def _failed(failed: Any, left: _Table, right: _Table) -> str:
    rows = np.flatnonzero(failed)
    names = [left.labels[i] for i in rows]
    values = np.concatenate([left.values, right.values], 1)
    column = (*left.columns, *right.columns)[int(np.argmax(~np.isfinite(values[rows[0]])))]
    return (
        f"{_some_runs(names)} failed and {'is' if len(names) == 1 else 'are'} left out: "
        f"{'it has' if len(names) == 1 else 'they have'} a gap, {names[0]!r} in {column!r}."
    )


def _some_runs(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"Run {shown}" if len(names) == 1 else f"Runs {shown}{more}"


def _on_simplex(
    alpha: Floats, labels: Sequence[str], domains: Sequence[str], notes: list[str]
) -> Floats:
    """Return mixtures that sum to 1; rows a little off, as rounded ratios are, are scaled."""
    negative = np.argwhere(alpha < 0)
    if len(negative):
        i, j = negative[0]
        raise MixtureError(
            f"run {labels[i]!r} has the share {alpha[i, j]:g} of {domains[j]!r}: shares are at "
            "least 0"
        )
    total = alpha.sum(1)
    wrong = np.flatnonzero(np.abs(total - 1.0) > ROUNDED)
    if len(wrong):
        i = int(wrong[0])
        percent = " (are these percentages? divide them by 100)" if abs(total[i] - 100) < 2 else ""
        raise MixtureError(
            f"the shares of run {labels[i]!r} sum to {total[i]:.6g}, not to 1 ({len(wrong)} such "
            f"runs){percent}: correct them, or leave out columns that are no domains"
        )
    off = np.abs(total - 1.0) > 1e-6
    if off.any():
        notes.append(
            f"The shares of {int(off.sum())} runs sum to 1 only within rounding, such as "
            f"{total[np.argmax(off)]:.6g} for run {labels[int(np.argmax(off))]!r}: they are scaled."
        )
    return alpha / total[:, None]
