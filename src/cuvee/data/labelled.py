"""The labelled rows of a table, and whose each is.

They are gathered in one pass, so that 10⁵ small domains cost what a few large ones do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from cuvee.data.columns import plain_labels
from cuvee.data.encode import Encoder
from cuvee.data.fingerprint import row_digests
from cuvee.data.frame import Table
from cuvee.data.roles import SMALL
from cuvee.errors import DomainError
from cuvee.problem import Array


@dataclass(frozen=True, eq=False)
class Labelled:
    """Labelled rows: their labels, and the places of each domain's rows among them."""

    y: Array  # (rows,) labels
    number: Array  # (rows,) where each row stands in the table, for errors
    at: Mapping[str, Array]  # name -> places, for every domain of the table

    @property
    def sizes(self) -> dict[str, int]:
        """Return the number of labelled rows of every domain."""
        return {name: len(places) for name, places in self.at.items()}

    def pooled(self, names: Sequence[str]) -> Self:
        """Return the same with the rows of these domains as the domain SMALL, in table order."""
        if not names:
            return self
        left = dict(self.at)
        places = [left.pop(name) for name in names]
        return replace(self, at={**left, SMALL: np.sort(np.concatenate(places))})


@dataclass(frozen=True, eq=False)
class LabelledFrame(Labelled):
    """Labelled rows of a frame, whose columns an encoder turns into numbers."""

    frame: Any  # pandas.DataFrame of these rows

    @classmethod
    def of(cls, table: Table) -> LabelledFrame:
        """Return the rows of a table that have a label."""
        frame = table.frame[table.frame[table.label].notna()]
        frame = frame.assign(**{table.label: plain_labels(frame[table.label])})
        places = frame.groupby(table.domain, sort=False).indices
        at = {name: places.get(name, np.zeros(0, np.int64)) for name in table.names}
        return cls(frame[table.label].to_numpy(), frame.index.to_numpy(), at, frame)

    def rows(self, places: Iterable[Array]) -> Any:
        """Return a frame of all these rows, each once, in the order of the table.

        What is fitted on them is then the same to the last bit, whoever of them is a target.
        """
        asked = np.zeros(len(self.frame), dtype=bool)
        for at in places:
            asked[at] = True
        return self.frame.iloc[np.flatnonzero(asked)]

    def digests(
        self, features: Sequence[str], label: str, places: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return name -> digests (rows,) of what these rows hold."""
        joined = np.concatenate([np.zeros(0, np.int64), *places.values()])
        digests = row_digests(self.frame[[*features, label]].iloc[joined])
        ends = np.cumsum([len(rows) for rows in places.values()])
        return dict(zip(places, np.split(digests, ends)[:-1], strict=True))

    def encoded(
        self, encoder: Encoder, places: Mapping[str, Array]
    ) -> dict[str, tuple[Array, Array]]:
        """Return name -> X (rows, d), y (rows,)."""
        joined = np.concatenate([np.zeros(0, np.int64), *places.values()])
        try:
            X, y = encoder(self.frame.iloc[joined]), self.y[joined]
        except DomainError:
            for name, rows in places.items():  # once more, for an error that names the domain
                encoder(self.frame.iloc[rows], where=name)
            raise
        ends = np.cumsum([len(rows) for rows in places.values()]).tolist()
        return {
            name: (X[a:b], y[a:b]) for name, a, b in zip(places, [0, *ends[:-1]], ends, strict=True)
        }
