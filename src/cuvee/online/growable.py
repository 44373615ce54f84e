"""Provide an array that grows by rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class Rows:
    """Hold an array (n, …) with room to grow.

    Appending copies only the row, except when the room is doubled.
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
        """Return a writable view of the rows, which is out of date after the next append."""
        return self._room[: self._n]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def __len__(self) -> int:
        return self._n
