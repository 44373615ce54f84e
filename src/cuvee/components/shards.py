"""Answer for shards of sources: runs of rows whose other rows lie in other places.

A worker holds one shard of each of some sources and answers with sums over them. Rows weigh what
they weigh in the whole source, so that sums of several workers only have to be added up.
Minibatches and parts are those of the whole source: every worker finds out which of their rows it
has.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from cuvee.components.answering import QUESTIONS, asked
from cuvee.components.bounded import BoundedComponents
from cuvee.components.kinds import local_kind
from cuvee.components.linear import MANY_FEATURES, LinearComponents, largest_moment
from cuvee.components.local import LocalComponents
from cuvee.components.protocol import Part
from cuvee.components.quadratic import QuadraticComponents
from cuvee.components.rows import Rows, numbers_in_part
from cuvee.components.sampling import RowStream
from cuvee.errors import DomainError
from cuvee.facts import KnownFacts
from cuvee.hypothesis.base import LossKind, Space
from cuvee.problem import Array, Domain

MOST_BOUND = 16  # bindings that a worker keeps; it makes others again when they are asked for

ASKED = QUESTIONS | {"first_moments", "widths", "n_rows"}

Columns = Callable[[], tuple[Array, Array | None]]
"""Return labels and weights of all rows of a source."""


@dataclass(frozen=True, eq=False)
class Shard(Domain):
    """Hold the rows `first`, `first` + 1, … of a source that has more of them elsewhere."""

    first: int = 0
    held: int = 0  # rows here: 0 where X holds a row of weight 0, as there may not be none
    rows_of_source: int = 0
    share: float = 1.0  # of the source's weight
    columns: Columns | None = None

    def part(self, seed: int, part: Part) -> Shard:
        """Return what is here of a part of the source."""
        numbers = numbers_in_part(
            f"source {self.name}", self.rows_of_source, self._columns, seed, part
        )
        if numbers is None:
            return self
        low, high = np.searchsorted(numbers, [self.first, self.first + self.held]).tolist()
        here = numbers[low:high] - self.first
        share = (high - low) / len(numbers)
        if self.weight is not None:
            weight = np.asarray(self._columns()[1])
            weight = weight / weight.max()
            share = float(weight[numbers[low:high]].sum() / weight[numbers].sum())
        return self.of_rows(here, low, len(numbers), share)

    def of_rows(self, here: Array, first: int, rows_of_source: int, share: float) -> Shard:
        """Return some of the rows, as a shard of a source with so many rows."""
        counts = share > 0.0  # rows that weigh nothing are as good as none
        at = here if counts else np.zeros(1, np.int64)
        weight = None if self.weight is None or not counts else self.weight[at]
        return Shard(
            self.name, self.X[at], self.y[at], weight, first=first,
            held=len(here) if counts else 0, rows_of_source=rows_of_source, share=share,
        )  # fmt: skip

    def _columns(self) -> tuple[Array, Array | None]:
        return (self.y, self.weight) if self.columns is None else self.columns()


class ShardRows(LocalComponents):
    """Gather minibatches and parts of whole sources from the shards that are here."""

    _sources: tuple[Shard, ...]
    _whole: int  # rows of all sources, wherever they are

    @classmethod
    def of_shards(
        cls, shards: Sequence[Shard], space: Space, loss: LossKind, *, seed: int, n_rows: int
    ) -> Self:
        """Return the components of these shards; the sources have `n_rows` rows in all."""
        other = cls.__new__(cls)
        other.space, other.loss, other._seed = space, loss, seed
        other._device, other._whole, other._precision = torch.device("cpu"), n_rows, None
        other._bind(shards, ())
        other._gather()
        return other

    _precision: torch.dtype | None  # of `BoundedComponents`

    @property
    def _rows_in_all(self) -> int:
        return self._whole

    def _bind(self, sources: Sequence[Domain], targets: Sequence[Domain]) -> None:
        super()._bind(sources, targets)
        of = torch.tensor([s.rows_of_source for s in self._sources], dtype=torch.int64)
        self._stream = RowStream([f"source {s.name}" for s in sources], of, self._seed)
        self._rows_of_source = of
        self._first, self._held = (
            torch.tensor([getattr(s, name) for s in self._sources], dtype=torch.int64)[:, None]
            for name in ("first", "held")
        )

    def _minibatch(self, step: int, size: int, own: Rows | None, dtype: torch.dtype) -> Rows:
        """Return those rows of the sources' minibatches that are here: more of some than of others.

        Where none is, a row of weight 0 stands for them.
        """
        table = self._table(dtype)
        place = self._stream.draw(step, size) - self._first  # (shards, size)
        here = (place >= 0) & (place < self._held)
        picked, lengths = (place + table.starts)[here], here.sum(1)
        times = (self._rows_of_source.double() / size).to(table.weight).repeat_interleave(lengths)
        if len(picked) == 0:
            picked, times = torch.zeros(1, dtype=torch.int64), table.weight.new_zeros(1)
            lengths[0] = 1
        empty = table.rows
        return Rows(
            table.X[picked], table.y[picked], table.weight[picked] * times, lengths, False,
            empty.own_X, empty.own_y, empty.own_weight,
        )  # fmt: skip

    def _part(self, part: Part) -> Self:
        if part not in self._parts:
            shards = [shard.part(self._seed, part) for shard in self._sources]
            n_rows = int(sum(s.rows_of_source for s in shards))
            whole = self._whole * n_rows // max(1, int(self._rows_of_source.sum()))
            self._parts[part] = self.of_shards(
                shards, self.space, self.loss, seed=self._seed, n_rows=whole
            )
        return self._parts[part]

    def first_moments(self, w: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return rows (shards,), mean and variance (shards, Q) of row losses.

        They are of those of each source's first `most` rows that are here; 0 where there are none.
        """
        Q = len(w)
        rows = (most - self._first[:, 0]).clamp(min=0).minimum(self._held[:, 0])
        mean, variance = (torch.zeros(len(rows), Q, dtype=torch.float64) for _ in range(2))
        at = rows.nonzero()[:, 0]
        if len(at):
            first = [
                Domain(s.name, s.X[:n], s.y[:n])
                for s, n in ((self._sources[i], int(rows[i])) for i in at.tolist())
            ]
            some = LocalComponents.of_samples(first, self.space, self.loss)
            mean[at], variance[at], _ = some.own_moments(w)
        return rows, mean, variance

    def widths(self, reference: Tensor) -> tuple[Tensor, Tensor]:
        """Return each shard's reach (shards,) and second moments around the reference.

        These are matrices (shards, d, d), or bounds on λ_max (shards,) where columns are many.
        """
        rows, lengths = self._all(self.space.dtype), self.counts.tolist()
        reach, moments = [], []
        parts = zip(rows.X[:, :-1].split(lengths), rows.weight.split(lengths), strict=True)
        for shard, (X, weight) in zip(self._sources, parts, strict=True):
            centred = X - reference
            far = torch.linalg.vector_norm(centred, dim=-1).amax()
            reach.append(far if shard.held else torch.zeros_like(far))
            weighted = centred.mul_(weight.sqrt()[:, None])
            wide = weighted.shape[1] > MANY_FEATURES
            moments.append(largest_moment(weighted) if wide else weighted.T @ weighted)
        return torch.stack(reach), torch.stack(moments)


class ShardLocal(ShardRows):
    """Answer for any hypothesis."""


class ShardQuadratics(ShardRows, QuadraticComponents):
    """Answer for squared losses."""


class ShardLinear(ShardRows, LinearComponents):
    """Answer for generalised linear models."""


class ShardBounded(ShardRows, BoundedComponents):
    """Answer for bounded losses."""


_KINDS: dict[type[LocalComponents], type[ShardRows]] = {
    LocalComponents: ShardLocal,
    QuadraticComponents: ShardQuadratics,
    LinearComponents: ShardLinear,
    BoundedComponents: ShardBounded,
}


def shard_kind(space: Space, loss: LossKind) -> type[ShardRows]:
    """Return the class of components for shards in this process."""
    return _KINDS[local_kind(space, loss)]


@dataclass(frozen=True)
class Laid:
    """Say where a shard lies in its source."""

    first: int
    rows_of_source: int
    share: float


@dataclass(frozen=True, eq=False)
class Binding:
    """Describe sources bound to a hypothesis and a loss, for all workers alike."""

    key: str
    levels: Mapping[str, float]  # of every source: what is taken off its labels
    space: Space
    loss: LossKind
    seed: int
    n_rows: int  # of all these sources
    laid: Sequence[Mapping[str, Laid]]  # of every worker: its shards by source


@dataclass(frozen=True, eq=False)
class ShardIntroduction:
    """Hold what a worker says of one of its shards at first."""

    facts: KnownFacts
    input_shape: tuple[int, ...]
    features: tuple[str, ...]
    largest: float  # weight of a row
    total: float  # of all weights, relative to the largest


class ShardAnswerer:
    """Hold the shards of one worker and answer questions about them.

    All that it knows beside the rows came with a question, so that another worker with the same
    rows can take its place at any time.
    """

    def __init__(
        self, number: int, rows: Mapping[str, Plain], columns: Callable[[str], Columns]
    ) -> None:
        self._number, self._columns = number, columns
        self._rows = dict(rows)
        self._bound = OrderedDict[str, tuple[Binding, ShardRows]]()

    def introduce(self) -> list[ShardIntroduction]:
        """Return what may be known of every shard."""
        return [_introduced(name, rows) for name, rows in self._rows.items()]

    def labels(self, name: str) -> tuple[Array, Array | None]:
        """Return labels and weights of a shard, for other workers with rows of the same source."""
        rows = self._rows[name]
        return rows.y, rows.weight

    def answer(self, binding: Binding, question: str, *inputs: Any) -> Any:
        """Return the answer to one question; only QUESTIONS may be asked of the rows."""
        if question not in ASKED:
            raise DomainError(f"a worker does not answer {question!r}")
        return asked(self._components(binding), question, inputs)

    def known(self, key: str) -> Binding | None:
        """Return a binding that was asked about before."""
        return self._bound[key][0] if key in self._bound else None

    def release(self, key: str) -> None:
        """Forget a binding."""
        self._bound.pop(key, None)

    def _components(self, binding: Binding) -> ShardRows:
        if binding.key not in self._bound:
            laid = binding.laid[self._number]
            shards = [
                self._shard(name, level, laid[name])
                for name, level in binding.levels.items()
                if name in laid
            ]
            components = shard_kind(binding.space, binding.loss).of_shards(
                shards, binding.space, binding.loss, seed=binding.seed, n_rows=binding.n_rows
            )
            self._bound[binding.key] = binding, components
            while len(self._bound) > MOST_BOUND:  # those of a driver that is gone
                self._bound.popitem(last=False)
        self._bound.move_to_end(binding.key)
        return self._bound[binding.key][1]

    def _shard(self, name: str, level: float, laid: Laid) -> Shard:
        rows, columns = self._rows[name], self._columns(name)

        def lowered(y: Array) -> Array:
            return y.astype(np.float64) - level if level else y

        def whole() -> tuple[Array, Array | None]:
            y, weight = columns()
            return lowered(y), weight

        counts = laid.share > 0.0
        at = slice(None) if counts else slice(1)
        return Shard(
            name, rows.X[at], lowered(rows.y[at]), rows.weight if counts else None,
            first=laid.first, held=len(rows.y) if counts else 0,
            rows_of_source=laid.rows_of_source, share=laid.share, columns=whole,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Plain:
    """Hold the rows of a shard as they were read."""

    X: Array
    y: Array
    weight: Array | None = None
    features: tuple[str, ...] = ()


def _introduced(name: str, rows: Plain) -> ShardIntroduction:
    weight, largest, total = rows.weight, 1.0, float(len(rows.y))
    if weight is not None:
        largest = float(weight.max())
        total = float((weight / (largest or 1.0)).sum())
        weight = weight if largest > 0.0 else None
    shard = Domain(name, rows.X, rows.y, weight, rows.features)
    return ShardIntroduction(shard.facts.known(), shard.input_shape, shard.features, largest, total)
