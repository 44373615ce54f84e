"""One way from a table to problems: for `adapt`, for the single steps, and (from arrays) for
scikit-learn.

`open_table` reads the rows, `assigned` and `taught` say who learns from whom, and `assembled`
encodes columns and takes levels out. `adapt` and `cuvee weights` call `prepare`, which asks who the
targets are; `cuvee.data.blends` starts from the names of an α instead, for what already has
weights.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cuvee.data.dates import made_of
from cuvee.data.encode import Encoder, unseen_in
from cuvee.data.files import files
from cuvee.data.fingerprint import fingerprint_of
from cuvee.data.frame import Table, located
from cuvee.data.groups import Names, Taught, assigned, taught
from cuvee.data.held_out import (
    Divided,
    class_labels,
    divided,
    tested_rows,
)
from cuvee.data.labelled import LabelledFrame
from cuvee.data.noticed import bare_note, noticed, repeated_ids, skewed
from cuvee.data.opened import OpenedTable, decodable, open_table
from cuvee.data.options import LINEAR, Options
from cuvee.data.prepared import Members, Prepared
from cuvee.data.refused import check_missing
from cuvee.data.roles import label_free_notes
from cuvee.data.streamed import streamed
from cuvee.data.task import Task
from cuvee.data.unlabelled import Unlabelled
from cuvee.errors import DomainError, InputError, OptionError
from cuvee.problem import Array

MANY = 20  # domains in turn whose weights are found together
LARGE = 2**30  # bytes of files that are not read whole


def prepare(
    source: Any,
    options: Options,
    scratch: Path | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Prepared:
    """Return the problems of a table from anywhere, validated; nothing is learnt yet.

    Files that are too large to be read whole are encoded into others in `scratch`; without it all
    are read whole.
    """
    if isinstance(source, str) and not source:
        raise InputError("no table is named: give a file, a folder or a frame")
    tell = progress or (lambda what, done, total: None)
    tell("reading the table", 0, 0)
    with decodable():
        if scratch is not None and _is_large(source, options):
            prepared, frame = streamed(source, options, scratch), None
        else:
            opened = open_table(source, options, label_free=True)
            prepared, frame = _of_targets(opened), opened.table.frame
        prepared = replace(prepared, fingerprint=fingerprint_of(source, frame, options.encoding))
        return prepared.checked(tell)


def _of_targets(opened: OpenedTable) -> Prepared:
    """Return the problems of the targets that the options name."""
    strict = opened.options.strict
    targets, in_turn = opened.targets(opened.options.targets)
    groups, notes = assigned(
        opened.domains,
        opened.small,
        targets,
        in_turn=in_turn,
        strict=strict,
        label_free=opened.label_free,
    )
    notes += label_free_notes(opened.domains, opened.label_free)
    return assembled(opened, groups, notes)


def assembled(opened: OpenedTable, groups: Sequence[Names], notes: Sequence[str]) -> Prepared:
    """Return the problems of these groups: their targets' rows divided, their columns encoded.

    An encoder is fitted on the rows of a group that are learnt from, in the order of the table:
    numbers are scaled by those of its sources.
    """
    options, table, rows, used = opened.options, opened.table, opened.rows, opened.used
    if not options.impute:  # told of all rows at once, not of those learnt from first
        check_missing([used[name] for name in table.features], "", to_fit=True)
    with located(opened.source, options.encoding):
        kept, row_notes = taught(rows, groups, opened.inferred.task, strict=options.strict)
    places = {name: at for group in kept for name, at in group.targets.items()}
    labels = class_labels(rows, places, opened.inferred.task)
    parts = divided(rows.digests(table.features, table.label, places), options, labels)
    encoders = _Encoders(rows, table.features, options)
    members = tuple(_members(encoders, group, parts) for group in kept)
    more = Unlabelled.of(table, set(places), opened.label_free, options)
    members, unusable = _with_inputs(members, more, opened.label_free)
    row_notes += unusable
    with located(opened.source, options.encoding):
        tests = ((who.encoder, tested_rows(rows, who.targets, places, parts)) for who in members)
        row_notes += unseen_in(tests, "test row", where="test rows", strict=options.strict)
        row_notes += unseen_in(more.by_encoder(members), "unlabelled row")

    row_notes += repeated_ids(*_ids(table, rows, members, places, parts))

    def encoded(who: Members) -> dict[str, tuple[Array, Array]]:
        with located(opened.source, options.encoding):
            wanted = {name: rows.at[name] for name in who.sources} | {
                name: places[name] for name in who.targets
            }
            return rows.encoded(who.encoder, wanted)

    others = [name for name in opened.domains if name not in places]
    theirs = table.frame[table.label][table.frame[table.domain].isin(others)]
    row_notes += bare_note(int(theirs.isna().sum()), len(theirs), "sources")
    row_notes += [*more.notes, *noticed(used, table.features, table.label, options.impute)]
    linear = options.model == LINEAR and options.hypothesis != "poisson"
    if linear and opened.inferred.task is Task.regression:
        row_notes += skewed(used[table.label])
    with located(opened.source, options.encoding):
        return Prepared.of(
            options, opened.inferred, members, used[table.label], sizes=opened.sizes,
            pooled=opened.small.names, divided=parts, notes=[*table.notes, *notes, *row_notes],
            domain=table.domain, n_features=len({*map(made_of, table.features)}), rows=encoded,
            together=_together(encoders, members, places), unlabelled=more.encoded,
            of_targets=class_labels(rows, places, opened.inferred.task),
        )  # fmt: skip


def _ids(
    table: Table,
    rows: LabelledFrame,
    members: Sequence[Members],
    places: Mapping[str, Array],
    parts: Divided,
) -> tuple[Mapping[str, Any], Array, Array, Array, Array]:
    """Return what `repeated_ids` goes by, of all labelled rows."""
    domains = np.zeros(len(rows.y), dtype=np.int64)
    taught, learnt, tested = (np.zeros(len(rows.y), dtype=bool) for _ in range(3))
    sources = {name for who in members for name in who.sources}
    for i, (name, at) in enumerate(rows.at.items()):
        domains[at], taught[at] = i, name in sources
    for who in members:
        for name in who.targets:
            learn, test = parts[name]
            learnt[places[name][learn]] = tested[places[name][test]] = True
    columns = {name: rows.frame[name] for name in table.features}
    more = {} if table.ids is None else {c: table.ids[c].loc[rows.number] for c in table.ids}
    return {**columns, **more}, domains, taught, learnt, tested


class _Encoders:
    """Encoders that are fitted on some of the rows, each once.

    With every domain in turn as target, groups often have the same rows.
    """

    def __init__(self, rows: LabelledFrame, features: Sequence[str], options: Options) -> None:
        self.rows, self._features, self._options = rows, features, options
        self._fitted: dict[bytes, Encoder] = {}

    def fitted(self, sources: Sequence[Array], others: Sequence[Array] = ()) -> Encoder:
        """Return the encoder of these rows."""
        frame, scaling = self.rows.rows([*sources, *others]), self.rows.rows(sources).index
        of_sources = frame.index.isin(scaling)
        key = hashlib.sha256(frame.index.to_numpy().tobytes() + of_sources.tobytes()).digest()
        if key not in self._fitted:
            encoder = Encoder.fit(
                frame, self._features, impute=self._options.impute, of_sources=of_sources
            )
            self._fitted[key] = encoder if self._options.standardise else encoder.unscaled()
        return self._fitted[key]


def _members(encoders: _Encoders, group: Taught, parts: Divided) -> Members:
    learnt = [at[parts[t][0]] for t, at in group.targets.items()]
    encoder = encoders.fitted(
        [encoders.rows.at[s] for s in group.sources], [*learnt, *group.others.values()]
    )
    return Members(tuple(group.targets), tuple(group.sources), encoder, group.classes)


def _with_inputs(
    members: tuple[Members, ...], more: Unlabelled, label_free: Collection[str]
) -> tuple[tuple[Members, ...], list[str]]:
    """Return the groups without label-free targets none of whose rows can be used, and notes."""
    kept, notes = [], list[str]()
    for who in members:
        bare = tuple(t for t in who.targets if t in label_free)
        lost = {*bare} - {*more.encoded(replace(who, targets=bare))}
        notes += [
            f"target {name!r} gets no model: it has no labels to learn from, and each of its rows "
            "has a gap (--impute fills them)"
            for name in who.targets
            if name in lost
        ]
        left = replace(who, targets=tuple(t for t in who.targets if t not in lost))
        if left.targets or not who.targets:
            kept.append(left)
    if not kept:
        raise DomainError(f"no target is left: {notes[-1]}")
    return tuple(kept), notes


def _together(
    encoders: _Encoders, members: Sequence[Members], places: Mapping[str, Array]
) -> Members | None:
    """Return all targets in one group with all sources, where each is a source of every other.

    None where they are few, or where some rows of a target are not to be learnt from. Columns are
    encoded by the rows of all domains; what is held out of a target gives its columns, not its
    labels.
    """
    targets = tuple(t for who in members for t in who.targets)
    sources, rows = {s for who in members for s in who.sources}, encoders.rows
    if (
        len(members) < MANY
        or len(targets) != len(members)
        or any({*who.sources} != sources - {*who.targets} for who in members)
        or any(t not in rows.at or len(places[t]) != len(rows.at[t]) for t in targets)
        or len({None if m.classes is None else (*m.classes.tolist(),) for m in members}) > 1
    ):
        return None
    ordered = tuple(name for name in rows.at if name in sources)
    encoder = encoders.fitted([rows.at[name] for name in ordered])
    return Members(targets, ordered, encoder, members[0].classes)


def _is_large(source: Any, options: Options) -> bool:
    """Return whether files are to be read batch by batch.

    `stream` says so, or else their size and the hypothesis.
    """
    is_path = isinstance(source, str | Path)
    if options.stream is not None:
        if options.stream and not is_path:
            raise OptionError("stream reads files: give a path, or leave stream out")
        return options.stream
    return (
        is_path
        and _bytes(Path(source), options.encoding) > LARGE
        and options.hypothesis in ("auto", "ridge")
    )


def _bytes(path: Path, encoding: str) -> int:
    return sum(file.path.stat().st_size for file, _ in files(path, encoding))
