"""The labelled rows of a table as numbers, in one pass: 10⁵ small domains cost what a few large ones do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuvee.data.encode import Encoder
from cuvee.data.frame import Table
from cuvee.errors import DomainError
from cuvee.problem import Array


@dataclass(frozen=True, eq=False)
class Labelled:
    """One frame, and where the rows of each domain stand in it."""

    frame: Any
    label: str
    at: Mapping[str, Array]  # name -> places, for every domain of the table

    @classmethod
    def of(cls, table: Table) -> Labelled:
        frame = table.frame[table.frame[table.label].notna()]
        if str(frame[table.label].dtype) == "Int64":  # whole numbers beside gaps; here are none any more
            frame = frame.astype({table.label: np.int64})
        found = frame.groupby(table.domain, sort=False).indices
        return cls(frame, table.label, {name: found.get(name, np.zeros(0, np.int64)) for name in table.names})

    def pooled(self, names: Iterable[str], name: str) -> Labelled:
        """Return the same with the rows of some domains, in the order of the table, as one domain."""
        left = dict(self.at)
        places = [left.pop(one) for one in names]
        return Labelled(self.frame, self.label, {**left, name: np.sort(np.concatenate(places))})

    def rows(self, places: Iterable[Array]) -> Any:
        """A frame of all these rows."""
        return self.frame.iloc[np.concatenate([np.zeros(0, np.int64), *places])]

    def encoded(self, encoder: Encoder, places: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
        """name -> X (rows, d), y (rows,)."""
        rows = self.rows(places.values())
        try:
            X, y = encoder(rows), rows[self.label].to_numpy()
        except DomainError:
            for name, some in places.items():  # once more, for an error that names the domain
                encoder(self.frame.iloc[some], where=name)
            raise
        ends = np.cumsum([len(some) for some in places.values()]).tolist()
        return {name: (X[a:b], y[a:b]) for name, a, b in zip(places, [0, *ends[:-1]], ends, strict=True)}
