"""Answer for sources whose rows lie in shards at workers: the driver's side.

A *crew* reaches the workers. A question goes to all of them at once, parameters in one copy, and
the sums that come back are added up in the order of the workers.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from itertools import count
from typing import Any, Protocol
from uuid import uuid4

import torch
from torch import Tensor

from cuvee.components.linear import top_eigenvalue
from cuvee.components.protocol import Batch
from cuvee.components.shards import Binding, Laid, ShardIntroduction
from cuvee.components.sites import RemoteDomain, SiteComponents, SiteQuadratic
from cuvee.errors import DomainError
from cuvee.facts import KnownFacts, merged
from cuvee.hypothesis.base import LossKind, Space
from cuvee.problem import Problem

_numbers = count()


class Crew(Protocol):
    """Reach the workers that hold the shards of all sources."""

    def ask(
        self,
        binding: Binding,
        workers: Sequence[int],
        question: str,
        shared: tuple[Any, ...],
        own: Sequence[tuple[Any, ...]],
    ) -> list[Any]:
        """Return the answers of these workers.

        Worker k is asked with (*shared, *own[k]); `shared` travels once.
        """
        ...

    def release(self, binding: Binding) -> None:
        """Tell all workers that nobody will ask about this binding again."""
        ...


class ShardedDomain(RemoteDomain):
    """Describe a source whose rows lie in shards at the workers of a crew."""

    def __init__(
        self,
        crew: Crew,
        facts: KnownFacts,
        input_shape: tuple[int, ...],
        features: tuple[str, ...],
        laid: Sequence[Laid | None],
        level: float = 0.0,
    ) -> None:
        for name, value in {
            "name": facts.name, "weight": None, "features": features, "crew": crew, "laid": laid,
            "level": level, "_facts": facts, "_input_shape": input_shape,
        }.items():  # fmt: skip
            object.__setattr__(self, name, value)

    crew: Crew
    laid: Sequence[Laid | None]  # of every worker: its shard of this source
    level: float  # what the workers take off the labels

    def lowered(self, level: float) -> ShardedDomain:
        return ShardedDomain(
            self.crew, self._facts.lowered(level), self._input_shape, self.features, self.laid,
            self.level + level,
        )  # fmt: skip

    def components(
        self, problem: Problem, space: Space, loss: LossKind, **options: Any
    ) -> ShardComponents:
        kind = ShardQuadratic if space.quadratic and loss == "trained" else ShardComponents
        return kind(problem, space, loss, **options)


def sharded(
    crew: Crew, introductions: Sequence[Sequence[ShardIntroduction]], order: Sequence[str]
) -> list[ShardedDomain]:
    """Return the sources in the given order; `introductions` are those of every worker."""
    by_worker = [{one.facts.name: one for one in said} for said in introductions]
    return [_sharded(crew, [said.get(name) for said in by_worker]) for name in order]


def _sharded(crew: Crew, shards: Sequence[ShardIntroduction | None]) -> ShardedDomain:
    """Return one source from what every worker says of its shard."""
    there = [s for s in shards if s is not None]
    heaviest = max(s.largest for s in there)
    if heaviest <= 0.0:
        raise DomainError(f"domain {there[0].facts.name!r}: all row weights are 0")
    weights = [0.0 if s is None else s.total * (s.largest / heaviest) for s in shards]
    rows, whole = sum(s.facts.n_rows for s in there), sum(weights)
    laid, first = list[Laid | None](), 0
    for shard, weight in zip(shards, weights, strict=True):
        laid.append(None if shard is None else Laid(first, rows, weight / whole))
        first += 0 if shard is None else shard.facts.n_rows
    facts = merged([s.facts for s in there], [one.share for one in laid if one is not None])
    return ShardedDomain(crew, facts, there[0].input_shape, there[0].features, laid)


class _Token:
    """Stand for a binding as long as any components use it."""


class ShardComponents(SiteComponents):
    """Give the same answers as local components, put together from those of workers."""

    def _connect(self, problem: Problem, seed: int) -> None:
        sources = [s for s in problem.sources if isinstance(s, ShardedDomain)]
        if len(sources) < problem.n_sources or len({id(s.crew) for s in sources}) > 1:
            raise DomainError(
                "some sources are at workers and some elsewhere: bring all of them to the same "
                "workers"
            )
        crew = self._crew = sources[0].crew
        laid = [
            {s.name: one for s in sources if (one := s.laid[k]) is not None}
            for k in range(len(sources[0].laid))
        ]
        number = {source.name: j for j, source in enumerate(sources)}
        self._workers = [k for k, shards in enumerate(laid) if shards]
        # of every worker: the sources that it has shards of, in the order of the problem
        self._held = [torch.tensor(sorted(number[name] for name in laid[k])) for k in self._workers]
        self._binding = Binding(
            f"{uuid4().hex}-{next(_numbers)}", {s.name: s.level for s in sources}, self.space,
            self.loss, seed, self.n_rows, laid,
        )  # fmt: skip
        self._token = _Token()  # shared by everything narrowed from this
        weakref.finalize(self._token, crew.release, self._binding)

    def _all(self, question: str, *arguments: Any, bound: bool = True) -> list[Any]:
        return self._crew.ask(
            self._binding, self._workers, question, arguments, [()] * len(self._workers)
        )

    def _joined(self, answers: Sequence[Tensor]) -> Tensor:
        """Return (N, …), the sum of the workers' (shards, …)."""
        total = answers[0].new_zeros(len(self.counts), *answers[0].shape[1:])
        for held, answer in zip(self._held, answers, strict=True):
            total.index_add_(0, held, answer)
        return total

    def _values(self, w: Tensor, batch: Batch) -> Tensor:
        answers = self._all("values", w, batch)
        total = answers[0].new_zeros(*w.shape[:-1], len(self.counts))
        for held, answer in zip(self._held, answers, strict=True):
            total.index_add_(-1, held, answer)
        return total

    def _summands(
        self, question: str, v: Tensor, before: tuple[Any, ...], after: Sequence[Any]
    ) -> list[Any]:
        own = [(v[..., held].contiguous(), *after) for held in self._held]
        return self._crew.ask(self._binding, self._workers, question, before, own)

    def source_moments(self, w: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
        answers = self._all("first_moments", w, most)
        rows = self._joined([rows for rows, _, _ in answers]).double()
        share = [
            (n.double() / rows[held])[:, None]
            for (n, _, _), held in zip(answers, self._held, strict=True)
        ]
        mean = self._joined([p * m for p, (_, m, _) in zip(share, answers, strict=True)])
        variance = self._joined(
            [
                p * (v + (m - mean[held]).square())
                for p, (_, m, v), held in zip(share, answers, self._held, strict=True)
            ]
        )
        return mean, variance, 1.0 / rows

    def spread(self, reference: Tensor) -> tuple[Tensor, Tensor]:
        answers = self._all("widths", reference)
        reach = reference.new_zeros(len(self.counts))
        for held, (far, _) in zip(self._held, answers, strict=True):
            reach[held] = torch.maximum(reach[held], far)
        moments = self._joined([moment for _, moment in answers])
        # largest eigenvalues of summands add up to a bound on that of the sum
        return reach, moments if moments.ndim == 1 else top_eigenvalue(moments)

    @property
    def mean_squares(self) -> Tensor:
        rows = torch.tensor([float(n) for n in self._all("n_rows")], dtype=torch.float64)
        return (rows / rows.sum()) @ torch.stack(self._all("mean_squares"))

    @property
    def roundings(self) -> float:
        return super().roundings + len(self._workers)


class ShardQuadratic(ShardComponents, SiteQuadratic):
    """Answer for squared losses at workers, from Gram matrices that are sent once."""
