"""What runs on a Ray worker: it reads its shards there and answers questions about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

import cuvee
from cuvee.components.shards import (
    Binding,
    Columns,
    Plain,
    ShardAnswerer,
    ShardIntroduction,
)
from cuvee.problem import Array
from cuvee.scale.ray_cluster import engine

Labels = Mapping[str, Sequence[Any]]  # of a source: references to its labels at every worker


class Reader(Protocol):
    """Read the shards of one worker, again after each restart."""

    def read(self) -> Mapping[str, Plain]:
        """Return the rows by the names of their sources."""
        ...


@dataclass(frozen=True, eq=False)
class FromStore:
    """Take rows from the object store: rows low:high of sources that lie there whole."""

    pieces: Sequence[tuple[str, Any, int, int]]  # name, reference to a `Plain`, low, high

    def read(self) -> Mapping[str, Plain]:
        ray, rows = engine(), {}
        for name, reference, low, high in self.pieces:
            whole: Plain = ray.get(reference)
            weight = None if whole.weight is None else whole.weight[low:high]
            rows[name] = Plain(whole.X[low:high], whole.y[low:high], weight, whole.features)
        return rows


class Worker:
    """Hold the shards of one worker in a process of Ray.

    What it knows can all be had again from what it was made with and what it is asked with.
    """

    def __init__(self, number: int, reader: Any) -> None:
        torch.set_num_threads(1)
        self._number, self._reader = number, reader
        self._labels: Sequence[Any] = ()
        self._whole: dict[str, tuple[Array, Array | None]] = {}

    @cached_property
    def _answerer(self) -> ShardAnswerer:
        return ShardAnswerer(self._number, self._reader.read(), self._columns)

    def version(self) -> str:
        """Return the version of cuvee on this node."""
        return cuvee.__version__

    def introduce(self) -> list[ShardIntroduction]:
        """Return what may be known of every shard."""
        return self._answerer.introduce()

    def labels(self, name: str) -> tuple[Array, Array | None]:
        """Return the labels and weights of a shard, for workers with other shards of the source."""
        return self._answerer.labels(name)

    def settle(self, reader: Any) -> None:
        """Take a reader that knows more of the whole table."""
        self._reader = self._reader.settled(reader)

    def do(self, what: str, *arguments: Any) -> Any:
        """Return what the reader answers: a table's reader is asked before there are shards."""
        return getattr(self._reader, what)(*arguments)

    def answer(
        self, key: str, binding: Sequence[Any], labels: Sequence[Any], question: str, *inputs: Any
    ) -> Any:
        """Return the packed answer to one question.

        `binding` and `labels` hold references, which are followed only where they are needed.
        """
        self._labels = labels
        arguments = [unpacked(one) for given in inputs for one in given]
        known: Binding = self._answerer.known(key) or engine().get(binding[0])
        return packed(self._answerer.answer(known, question, *arguments))

    def release(self, key: str) -> None:
        """Forget a binding."""
        self._answerer.release(key)

    def _columns(self, name: str) -> Columns:
        """Return what fetches the labels of a whole source from the workers that have them."""

        def whole() -> tuple[Array, Array | None]:
            if name not in self._whole:
                ray = engine()
                labels: Labels = ray.get(self._labels[0])
                if name not in labels:  # all of it is here
                    return self._answerer.labels(name)
                parts = ray.get(list(labels[name]))
                y = np.concatenate([y for y, _ in parts])
                weighed = parts[0][1] is not None
                self._whole[name] = y, np.concatenate([w for _, w in parts]) if weighed else None
            return self._whole[name]

        return whole


def packed(value: Any) -> Any:
    """Return tensors as arrays, which Ray moves without copying them."""
    if isinstance(value, Tensor):
        return value.numpy()
    return tuple(map(packed, value)) if isinstance(value, tuple) else value


def unpacked(value: Any) -> Any:
    """Return arrays as tensors; what lies in the object store may not be written to."""
    if isinstance(value, np.ndarray):
        return torch.tensor(value)
    return tuple(map(unpacked, value)) if isinstance(value, tuple) else value


__all__ = ["FromStore", "Labels", "Reader", "Worker", "packed", "unpacked"]
