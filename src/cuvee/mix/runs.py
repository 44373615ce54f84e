"""Check the runs of a swarm once, at the edge: mixtures, metrics, names and scales."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any

import numpy as np

from cuvee.errors import InputError, MixtureError
from cuvee.mix.run_tables import KEYS, SCALE, Table, joined, some_runs
from cuvee.mix.sizes import agreed, listed, merged
from cuvee.results import Floats

ROUNDED = 0.01  # how far a row of ratios may be from sum 1: it is scaled, and that is said
LEAST_RUNS = 4
# of a metric: squares of larger ones soon have no number, and those of smaller ones are 0
SMALLEST, LARGEST = 1e-100, 1e100


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
        check_domains([name], self.domains)
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
        again = [label for label in more.labels if label in self.labels]
        if again:
            raise InputError(
                f"the surface has a run {again[0]!r} already ({len(again)} such runs): give those "
                "that are new alone, and a repeat of a mixture a name of its own"
            )
        if (self.scale is None) != (more.scale is None):
            raise InputError("give the scale of all runs or of none: only some of them have one")
        alpha = np.zeros((len(more), len(self.domains)))
        alpha[:, [self.domains.index(name) for name in more.domains]] = more.alpha
        order = [more.names.index(name) for name in self.names]
        scale, labels = None, (*self.labels, *more.labels)
        if self.scale is not None and more.scale is not None:
            scale = merged((*self.scale, *more.scale), labels)
        return replace(
            self,
            alpha=np.concatenate([self.alpha, alpha]),
            metrics=np.concatenate([self.metrics, more.metrics[:, order]]),
            labels=labels,
            scale=scale,
            notes=(*self.notes, *more.notes),
        )


def check_domains(domains: Sequence[Any], known: Sequence[str] = ()) -> None:
    """Raise `InputError` unless these are names of domains, each another one and not yet known."""
    for i, name in enumerate(domains):
        if not isinstance(name, str) or not name.strip():
            raise InputError(f"the name of a domain is a text, such as 'web'; got {name!r}")
        if name in known or name in domains[:i]:
            raise InputError(f"there is a domain {name!r} already: choose another name")
        if name in (*KEYS, SCALE):
            held = "scale" if name == SCALE else "name"
            raise InputError(
                f"a domain cannot be called {name!r}: in tables that column holds the {held} of "
                "each run; choose another name"
            )


def check_swarm(runs: Runs) -> None:
    """Raise `InputError` unless the mixtures of the runs differ, so that they can tell anything."""
    if len(runs.domains) < 2:
        raise InputError(
            f"the runs have one domain, {runs.domains[0]!r}: a mixture needs at least two; give a "
            "column for each"
        )
    if len(np.unique(runs.alpha.round(12), axis=0)) < 2:
        raise InputError(
            f"all {len(runs)} runs have the same mixture, which tells nothing of others: add runs "
            "of other mixtures"
        )
    size = np.abs(runs.metrics).max(0)
    small = (size > 0) & (size < SMALLEST)
    if small.any():
        k = int(small.argmax())
        raise InputError(
            f"the metric {runs.names[k]!r} is {size[k]:g} at most, too small to compute with (less "
            f"than {SMALLEST:g}): multiply it by a number"
        )


def read_runs(
    alpha: Any,
    metrics: Any,
    scale: Any = None,
    *,
    known: Runs | None = None,
    offered: Sequence[str] = (),
) -> Runs:
    """Return checked runs; frames are joined on a column `run`, `run_id` or `index` of both.

    Runs with a gap in a mixture or in a metric are left out, and a note says so. Where `known` runs
    get more, one is enough, and columns of arrays are their domains, or those still `offered`.
    """
    domains, names = ((), ()) if known is None else ((known.domains, offered), (known.names,))
    left = Table.of(alpha, "alpha", "domain", domains)
    right = Table.of(metrics, "metrics", "metric", names)
    if scale is not None:
        own = listed(scale, len(left.values))
        left = replace(left, scale=agreed(own, left.scale, left.labels, ("scale=", "alpha")))
    notes: list[str] = []
    check_domains(left.columns)
    for table in (left, right):
        notes.extend(
            f"Column {name!r} of {table.what} is left out, as column {table.keyed!r} names the "
            f"runs: {'no domain' if table is left else 'no metric'} can have that name."
            for name in table.spare
        )
    left, right = joined(left, right, notes)
    scales = agreed(left.scale, right.scale, left.labels, ("alpha", "metrics"))
    values, results = left.values, right.values
    finite = np.isfinite(np.column_stack([values, results]))
    failed = finite.sum(1) < finite.shape[1]
    notes.extend(_with_gaps(failed, left, right))
    rows = np.flatnonzero(np.logical_not(failed))
    least = LEAST_RUNS if known is None else 1
    if len(rows) < least:
        raise InputError(_too_few(len(rows), least, left, right))
    labels = tuple(left.labels[i] for i in rows)
    _check_size(results[rows], labels, right.columns)
    if known is not None and not left.keyed:
        labels = _new_names(len(labels), known.labels)
    return Runs(
        alpha=_on_simplex(values[rows], labels, left, notes),
        metrics=results[rows],
        domains=left.columns,
        names=right.columns,
        labels=labels,
        scale=None if scales is None else merged([scales[i] for i in rows], labels),
        notes=tuple(notes),
    )


def _new_names(n: int, known: Sequence[str]) -> tuple[str, ...]:
    """Return names for n runs that were given without, past those that are known."""
    numbers = (f"run {i}" for i in count(len(known) + 1))
    return tuple(islice((name for name in numbers if name not in known), n))


def _check_size(metrics: Floats, labels: Sequence[str], names: Sequence[str]) -> None:
    large = np.argwhere(np.abs(metrics) > LARGEST)
    if len(large):
        i, k = large[0]
        raise InputError(
            f"the metric {names[k]!r} of run {labels[i]!r} is {metrics[i, k]:g}, too large to "
            f"compute with (more than {LARGEST:g}): divide the metric by a number, or take its "
            "logarithm"
        )


def _too_few(whole: int, least: int, left: Table, right: Table) -> str:
    """Return what is wrong where fewer than `least` runs have all their numbers."""
    n = len(left.values)
    gaps = (~np.isfinite(np.concatenate([left.values, right.values], 1))).sum(0)
    if not gaps.any():
        some = "is 1 run" if n == 1 else f"are {n} runs"
        return f"there {some} in both tables, and at least {least} are needed: give more runs"
    j = int(gaps.argmax())
    kind = "domain" if j < len(left.columns) else "metric"
    return (
        f"{whole} of {n} runs have all their numbers, and at least {least} must; the {kind} "
        f"{(*left.columns, *right.columns)[j]!r} has {int(gaps[j])} gaps: "
        f"{'fill them in' if kind == 'domain' else 'leave it out'}, or give more runs"
    )


def _with_gaps(failed: Any, left: Table, right: Table) -> Iterator[str]:
    """Yield sentences on the runs without all their shares, and on those without a metric."""
    shares = ~np.isfinite(left.values).all(1)
    for table, rows in ((left, np.flatnonzero(shares)), (right, np.flatnonzero(failed & ~shares))):
        if not len(rows):
            continue
        names = [table.labels[i] for i in rows]
        column = table.columns[int(np.argmax(~np.isfinite(table.values[rows[0]])))]
        thing, some = ("share", "some domain") if table is left else ("value", "some metric")
        if len(names) == 1:
            yield f"{some_runs(names)} has no {thing} of {column!r} and is left out."
        else:
            yield (
                f"{some_runs(names)} have no {thing} of {some} and are left out; {names[0]!r} has "
                f"none of {column!r}."
            )


def _on_simplex(alpha: Floats, labels: Sequence[str], table: Table, notes: list[str]) -> Floats:
    """Return mixtures that sum to 1; rows a little off, as rounded ratios are, are scaled."""
    negative = np.argwhere(alpha < 0)
    if len(negative):
        i, j = negative[0]
        raise MixtureError(
            f"run {labels[i]!r} has the share {alpha[i, j]:g} of {table.columns[j]!r}: shares are "
            "at least 0"
        )
    total = alpha.sum(1)
    wrong = np.flatnonzero(np.abs(total - 1.0) > ROUNDED)
    if len(wrong):
        i = int(wrong[0])
        guess = _what_they_are(total)
        spare = (
            f"; column {table.spare[0]!r} was not counted, as no domain can have that name"
            if table.spare
            else ""
        )
        raise MixtureError(
            f"the shares of run {labels[i]!r} sum to {total[i]:.6g}, not to 1 ({len(wrong)} such "
            f"runs){guess}: correct them, or leave out columns that are no domains{spare}"
        )
    off = np.abs(total - 1.0) > 1e-6
    if off.any():
        notes.append(
            f"The shares of {int(off.sum())} {'run' if off.sum() == 1 else 'runs'} sum to 1 "
            "only within rounding, such as "
            f"{total[np.argmax(off)]:.6g} for run {labels[int(np.argmax(off))]!r}: they are scaled."
        )
    return alpha / total[:, None]


def _what_they_are(total: Floats) -> str:
    """Return what shares with these sums (n,) may be in fact, and what to do."""
    if (np.abs(total - 100.0) < 2.0).all():
        return " (are these percentages? divide them by 100)"
    if (total > 2.0).all():
        return " (are these numbers of tokens? divide each row by its sum)"
    return ""
