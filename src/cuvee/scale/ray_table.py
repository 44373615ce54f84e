"""Prepare a Parquet table for a run on Ray: workers read and encode it, and only sums come here.

It is `cuvee.data.prepare` once more, asked of many places: what is known of sources are counts,
moments and categories that are added up. The labelled rows of the targets, which are few, come to
this process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from cuvee.components.sharded import ShardedDomain, sharded
from cuvee.data.column_fit import ColumnFit
from cuvee.data.dates import made_of, spread
from cuvee.data.encode import Encoder, hides_variation, unseen_in
from cuvee.data.fingerprint import of_digests
from cuvee.data.frame import spec_of
from cuvee.data.groups import Names, assigned, taught
from cuvee.data.held_out import class_labels, divided, tested_rows
from cuvee.data.label_summary import Summary, together
from cuvee.data.labelled import LabelledFrame
from cuvee.data.medians import counted, medians_by_counts
from cuvee.data.notes import UNDONE, text_throughout
from cuvee.data.notes import notes as sentences
from cuvee.data.noticed import filled
from cuvee.data.opened import COLUMNS, decodable, inferred_of
from cuvee.data.options import Options
from cuvee.data.prepared import Members, Prepared
from cuvee.data.refused import say_missing
from cuvee.data.roles import SMALL, Pool, excluded, pool
from cuvee.data.spool import Census
from cuvee.data.targets import EACH, choose
from cuvee.data.task import Inferred, Task, check_varies
from cuvee.errors import DomainError, OptionError
from cuvee.scale.parquet import parquet_files, row_groups, stretches
from cuvee.scale.ray_cluster import address_of, connect, n_workers
from cuvee.scale.ray_crew import RayCrew
from cuvee.scale.ray_reader import TableReader, as_labels

Progress = Callable[[str, int, int], None]
Say = Callable[[str], None]


def prepare_on_ray(
    source: Any,
    options: Options,
    progress: Progress | None = None,
    say: Say | None = None,
    workers: int | None = None,
) -> Prepared:
    """Return the problems of a Parquet table whose rows stay on the workers of a Ray cluster."""
    _check_can(source, options)
    tell = progress or (lambda what, done, total: None)
    tell("reading the table", 0, 0)
    with decodable():
        table = _Table(Path(source), options, say or (lambda sentence: None), workers)
        prepared = replace(table.prepared(), fingerprint=table.fingerprint())
        return prepared.checked(tell)


def _check_can(source: Any, options: Options) -> None:
    if not isinstance(source, str | Path):
        raise OptionError(
            "on Ray a table is a path that every node sees: write the frame as Parquet first, or "
            "use cuvee.on_ray for the single steps"
        )
    if options.targets in (EACH, (EACH,)):
        raise OptionError(
            "a table on Ray cannot have every domain in turn as target: name the targets"
        )
    if options.stream:
        raise OptionError("stream reads a table in this process: leave it out, or leave out on")


class _Table:
    """Ask the workers about the table, step by step."""

    def __init__(self, path: Path, options: Options, say: Say, workers: int | None) -> None:
        self.options, self.path = options, path
        named_files = parquet_files(path)
        roles = {name: getattr(options, name) for name in COLUMNS if name != "encoding"}
        self.spec = spec_of(named_files, **roles)
        groups = row_groups(named_files)
        self.ray = connect(address_of(options.on or "ray"), say=say)
        n_bytes = 8 * sum(g.rows for g in groups) * (len(self.spec.features) + 1)
        count = n_workers(self.ray, workers, len(groups), n_bytes)
        runs = stretches(groups, self.spec, count)
        cpus = int(self.ray.cluster_resources().get("CPU", 0))
        if workers is None and len(runs) < cpus:
            say(
                f"the table has {len(groups)} row groups, so that {len(runs)} of {cpus} CPUs hold "
                "rows: smaller row groups would use more of them"
            )
        self.readers = [TableReader(run) for run in runs]
        self.crew = RayCrew(self.ray, self.readers)
        self.notes: tuple[str, ...] = ()
        self.gaps: dict[str, int] = {}  # that are filled, by column

    def prepared(self) -> Prepared:
        """Return who learns from whom, encoded; as `data.prepare.assembled` has it."""
        options = self.options
        self._take_text()
        counted = self._counted()
        sizes = counted.labelled
        left_out = excluded(list(sizes), options.exclude)
        for name in left_out:
            del sizes[name]
        small = pool(sizes, strict=options.strict)
        targets = choose(list(sizes), options.targets, left_out)
        groups, notes = assigned(sizes, small, targets, strict=options.strict)
        used = [name for name in sizes if name not in small.unused]
        self._settle(domains={name: name for name in used})
        labels = self._labels()
        inferred = inferred_of(options, labels)
        self._settle(kind=labels.kind)
        rows = self._rows_here(groups[0], small, labels, inferred)
        (group,), row_notes = taught(rows, groups, inferred.task, strict=options.strict)
        places = dict(group.targets)
        classes = class_labels(rows, places, inferred.task)
        digests = rows.digests(self.spec.features, self.spec.label, places)
        parts = divided(digests, options, classes)
        fit_on = [*(s for s in group.sources if s != SMALL or not small.names), *small.names]
        learnt = np.concatenate([at[parts[t][0]] for t, at in places.items()])
        encoder = self._encoder(fit_on, rows.frame.iloc[np.sort(learnt)])
        encoder = encoder if options.standardise else encoder.unscaled()
        members = Members(tuple(group.targets), tuple(group.sources), encoder, group.classes)
        tests = [(encoder, tested_rows(rows, members.targets, places, parts))]
        row_notes += unseen_in(tests, "test row", where="test rows", strict=options.strict)
        row_notes += filled(self.gaps)
        pooled = dict.fromkeys(small.names, SMALL)
        self._settle(domains={name: pooled.get(name, name) for name in fit_on}, encoder=encoder)
        sources = {s.name: s for s in self._introduced(members.sources)}

        def encoded(who: Members) -> dict[str, Any]:
            here = rows.encoded(encoder, {name: places[name] for name in who.targets})
            return {**{name: sources[name] for name in who.sources}, **here}

        import pandas as pd

        ends = pd.Series([labels.low, labels.high], name=options.label)
        return Prepared.of(
            options, inferred, (members,), ends, sizes=small.resized(sizes), pooled=small.names,
            divided=parts, domain=self.spec.domain,
            notes=[*counted.notes(self.spec.domain), *self.notes, *notes, *row_notes],
            n_features=len({*map(made_of, self.spec.features)}), rows=encoded,
            of_targets=class_labels(rows, places, inferred.task),
        )  # fmt: skip

    def fingerprint(self) -> str:
        """Return the digest of all files that a run in this process would have, made by workers."""
        paths, n = [file.path for file, _ in self.spec.files], len(self.readers)
        shares = [("digests", paths[k::n]) for k in range(n)]
        by_path = {
            path: one for share in self.crew.each_with("do", shares) for path, one in share.items()
        }
        return of_digests(self.spec.files, by_path)

    def _each(self, what: str, *arguments: Any) -> list[Any]:
        return self.crew.each("do", what, *arguments)

    def _settle(self, **decided: Any) -> None:
        """Tell all workers what was decided; those that replace them know it from the start."""
        self.readers = [replace(reader, **decided) for reader in self.readers]
        self.crew.settle(self.readers)

    def _take_text(self) -> None:
        """Find out which columns are text in one stretch and look like numbers in another."""
        told = [file for worker in self._each("told") for file in worker]
        again = text_throughout(told)
        remarks = [
            one for file in told for one in file if one.name not in again or one.how not in UNDONE
        ]
        dates = spread(self.spec.features, remarks)
        features = tuple(made for n in self.spec.features for made in dates.get(n, (n,)))
        self.spec = replace(self.spec, features=features)
        self._settle(text=tuple(again), features=features)
        self.notes = (*self.spec.notes, *sentences(remarks, self.spec.label))

    def _counted(self) -> Census:
        labelled, rows, homeless = Counter[str](), 0, 0
        for there in self._each("counted"):
            labelled.update(there.labelled)
            rows, homeless = rows + there.rows, homeless + there.homeless
        return Census(dict(labelled), rows, homeless)

    def _labels(self) -> Summary:
        """Return what all labels are like; raise an error where cells are missing."""
        summaries, gaps = zip(*self._each("summary"), strict=True)
        there = [one for one in summaries if one is not None]
        if not there:
            raise DomainError(f"{self.path}: no row has a label in column {self.spec.label!r}")
        if len({one.kind == "text" for one in there}) > 1:
            raise DomainError(
                f"{self.path}: column {self.spec.label!r} mixes types: labels are text or numbers "
                "throughout"
            )
        labels = together(there)
        check_varies(labels, self.spec.label)
        cells = sum((Counter(one.cells) for one in gaps), Counter[str]())
        self.gaps = {name: cells[name] for name in self.spec.features if cells[name]}
        if self.gaps and not self.options.impute:
            say_missing(self.gaps, sum(g.rows for g in gaps), sum(g.of for g in gaps), "")
        return labels

    def _rows_here(
        self, group: Names, small: Pool, labels: Summary, inferred: Inferred
    ) -> LabelledFrame:
        """Return the labelled rows of the targets, and of sources one row for each class."""
        import pandas as pd

        frame = pd.concat(self._each("rows_of", list(group.targets)))
        y = as_labels(frame[self.spec.label], labels.kind)
        indices = frame.groupby(self.spec.domain, sort=False).indices
        at = {name: indices[name] for name in group.targets}
        number, names = frame.index.to_numpy(), list(group.sources)
        if inferred.task is Task.classification:
            pooled = dict.fromkeys(small.names, SMALL)
            wanted = [*(s for s in names if s != SMALL or not small.names), *small.names]
            for of_worker in self._each("classes", wanted):
                for name, (values, rows) in of_worker.items():
                    source, low = pooled.get(name, name), len(y)
                    values = as_labels(pd.Series(values), labels.kind)
                    y, number = np.concatenate([y, values]), np.concatenate([number, rows])
                    here = np.arange(low, len(y))
                    at[source] = np.concatenate([at.get(source, here[:0]), here])
        return LabelledFrame(y, number, at, frame)

    def _encoder(self, fit_on: Sequence[str], learnt: Any) -> Encoder:
        """Return the encoder of the sources' rows and of those of targets that are learnt from.

        As in `Encoder.fit`, numbers are scaled and gaps are filled by the sources' rows, unless a
        column does not vary there.
        """
        columns, alike = self._fitted(fit_on, learnt, {})
        where = self.spec.where
        empty = next((c.name for c in columns.values() if c.gaps == c.rows), None)
        if empty is not None:
            raise DomainError(
                f"{where}: column {empty!r} is missing in every row; drop it (--drop)"
            )
        hidden = {
            c.name: c.low
            for c in columns.values()
            if c.scaler is not None and hides_variation(c.scaler, c.low, c.high)
        }
        if hidden:
            columns.update(self._fitted(fit_on, learnt, hidden)[0])
        fills: Mapping[str, float] = {}
        if self.options.impute:
            numbers = {c.name: c.rows - c.gaps for c in columns.values() if c.scaler is not None}
            names = list(numbers)
            more = learnt[names].where(np.isin(names, [*alike]), np.nan)
            fills = medians_by_counts(
                lambda digit: (
                    reduce(np.add, self._each("count", fit_on, names, digit))
                    + counted([more], names, digit)
                ),
                numbers,
            )
        impute = self.options.impute
        return Encoder(
            tuple(columns[n].rule(fills.get(n), impute, where) for n in self.spec.features)
        )

    def _fitted(
        self, fit_on: Sequence[str], learnt: Any, origins: Mapping[str, float]
    ) -> tuple[dict[str, ColumnFit], set[str]]:
        """Return what the rows say of each column, and the columns that vary in no source."""
        fits, alike = {name: ColumnFit(name) for name in origins or self.spec.features}, set[str]()
        for of_worker in self._each("fit", fit_on, origins):
            for one in of_worker:
                fits[one.name].join(one, self.spec.where)
        for fit in fits.values():
            fit.origin = origins.get(fit.name, 0.0)
            if fit.gaps == fit.rows or fit.low == fit.high:
                alike.add(fit.name)
                fit.add(learnt[fit.name], self.spec.where)
            elif fit.scaler is None:  # categories are known; which is the usual one, sources say
                fit.seen.update(dict.fromkeys(learnt[fit.name].dropna(), 0))
        return fits, alike

    def _introduced(self, sources: Sequence[str]) -> list[ShardedDomain]:
        return sharded(self.crew, self.crew.introduce(), sources)
