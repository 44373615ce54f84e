"""The rows of targets that have no label: their inputs count in the weights, in nothing else."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cuvee.data.columns import count, listed
from cuvee.data.encode import Encoder
from cuvee.data.fingerprint import drawn, row_digests
from cuvee.data.frame import Table
from cuvee.data.options import Options
from cuvee.problem import Array

MOST = 5_000  # of a target: more say hardly more of a mean


class HasEncoder(Protocol):
    """Know the targets of a group and what makes numbers of its columns."""

    @property
    def targets(self) -> tuple[str, ...]: ...
    @property
    def encoder(self) -> Encoder: ...


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """The rows without a label that targets have, and what is to be said of them."""

    frames: Mapping[str, Any]  # name -> pandas.DataFrame of at most MOST rows
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        table: Table,
        targets: Collection[str],
        label_free: Collection[str],
        options: Options,
    ) -> Unlabelled:
        """Return these rows of a table, drawn by the seed where a target has more than MOST.

        Of targets that are `label_free` all rows are taken, as their labels are not used.
        """
        whose = table.frame[table.domain]
        bare = table.frame[table.label].isna() | whose.isin(label_free)
        frame = table.frame[bare & whose.isin(targets)]
        every = len(frame)
        if not options.impute:
            frame = frame[frame[[*table.features]].notna().all(axis=1)]
        frames, many = {}, []
        for name, rows in frame.groupby(table.domain, sort=False):
            if len(rows) > MOST:
                many.append(str(name))
                order = drawn(row_digests(rows[[*table.features]]), options.seed)
                rows = rows.iloc[np.sort(order[:MOST])]
            frames[str(name)] = rows
        notes = []
        if frames:
            which = "target" if len(frames) == 1 else "targets"
            notes.append(
                f"{count(len(frame), 'row')} of {which} {listed(list(frames))} without a label: "
                "their inputs count in the weights where they tell sources apart "
                "(docs/unlabelled.md)"
            )
        if gappy := every - len(frame):
            notes.append(
                f"{count(gappy, 'row')} of targets without a label left out, for gaps (--impute "
                "fills them)"
            )
        if many:
            notes.append(f"of {listed(many)}, {MOST:,} such rows each are drawn, by the seed")
        return cls(frames, tuple(notes))

    def encoded(self, members: HasEncoder) -> dict[str, Array]:
        """Return name -> X (rows, d) of the targets of a group that have such rows."""
        there = [name for name in members.targets if name in self.frames]
        return {name: members.encoder(self.frames[name], where=name) for name in there}

    def by_encoder(self, groups: Iterable[HasEncoder]) -> Iterator[tuple[Encoder, Any]]:
        """Yield the rows of every target, with the encoder of its group."""
        for members in groups:
            for name in members.targets:
                if name in self.frames:
                    yield members.encoder, self.frames[name]
