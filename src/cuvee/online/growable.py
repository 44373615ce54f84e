"""An array that grows by rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class Rows:
    """(n, …), with room for twice as many: appending costs a copy of the row, now and then of
    everything.
    """

    def __init__(self, *shape: int, dtype: npt.DTypeLike = np.float64) -> None:
        self._room = np.empty((16, *shape), dtype)
        self._n = 0

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> Rows:
        rows = cls(0)
        rows._room, rows._n = np.array(values), len(values)
        return rows

    def append(self, row: npt.ArrayLike) -> None:
        if self._n == len(self._room):
            self._room = np.concatenate(
                [self._room, np.empty_like(self._room, shape=(self._n + 16, *self.shape[1:]))]
            )
        self._room[self._n] = row
        self._n += 1

    @property
    def values(self) -> npt.NDArray[Any]:
        """A view: it may be written to, and is of the past after the next row."""
        return self._room[: self._n]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def __len__(self) -> int:
        return self._n
