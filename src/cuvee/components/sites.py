"""Answer for sources whose rows live elsewhere: in other processes or on other machines.

A *site* holds the rows of one source. It is asked questions by name and answers with sums over its
rows; no row ever leaves it. The few labelled rows of the targets are in this process.

    site.ask("values", handle, w, batch)     # one method is the whole transport
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import fields, replace
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from cuvee.components.answering import Introduction
from cuvee.components.bounds import RiskBounds, RowConstants
from cuvee.components.inputs import Fourier
from cuvee.components.kinds import local_kind
from cuvee.components.local import LocalComponents
from cuvee.components.protocol import Batch, Folds, Grams, Part, Pullback, Reference, Result
from cuvee.components.quadratic import QuadraticComponents, losses_by_grams, nearest_to_zero, packed
from cuvee.errors import DomainError
from cuvee.facts import KnownFacts
from cuvee.hypothesis.base import LossKind, Space
from cuvee.problem import Array, Domain, Problem


class Site(Protocol):
    """Reach the place where the rows of one source live."""

    def ask(self, question: str, *arguments: Any) -> Any:
        """Return the answer of the site's `Answerer`."""
        ...


class RemoteDomain(Domain):
    """Describe a source whose rows stay at a site; it knows its facts and whom to ask."""

    def __init__(self, site: Site) -> None:
        first: Introduction = site.ask("introduce")
        for name, value in {
            "name": first.facts.name, "weight": None, "features": first.features,
            "site": site, "_facts": first.facts, "_input_shape": tuple(first.input_shape),
        }.items():  # fmt: skip
            object.__setattr__(self, name, value)

    site: Site
    is_here = False
    _facts: KnownFacts
    _input_shape: tuple[int, ...]

    @property
    def X(self) -> Array:
        raise DomainError(
            f"the rows of {self.name!r} stay at their site, but this step needs them in this "
            "process"
        )

    @property
    def y(self) -> Array:
        raise DomainError(
            f"the labels of {self.name!r} stay at their site, but this step needs them in this "
            "process"
        )

    @property
    def n_rows(self) -> int:
        return self._facts.n_rows

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self._input_shape

    @property
    def facts(self) -> KnownFacts:  # type: ignore[override]
        return self._facts

    def components(
        self, problem: Problem, space: Space, loss: LossKind, **options: Any
    ) -> SiteComponents:
        """Return what answers for a problem whose sources are all like this one."""
        kind = SiteQuadratic if space.quadratic and loss == "trained" else SiteComponents
        return kind(problem, space, loss, **options)


def lives_elsewhere(problem: Problem) -> bool:
    """Return whether any source's rows are not in this process."""
    return not all(source.is_here for source in problem.sources)


class SiteComponents:
    """Give the same answers as local components, put together from those of the sites."""

    far = False

    def __init__(
        self,
        problem: Problem,
        space: Space,
        loss: LossKind = "trained",
        *,
        seed: int = 0,
        device: str | torch.device = "cpu",
        memory: int | None = None,
    ) -> None:
        self.space, self.loss = space, loss
        self.counts = torch.tensor([s.n_rows for s in problem.sources], dtype=torch.int64)
        self._connect(problem, seed)
        kind = local_kind(space, loss) if loss == "trained" else LocalComponents
        self._own: Any = kind.of_samples(problem.targets, space, loss, seed=seed)
        self.own_counts = self._own.own_counts

    def _connect(self, problem: Problem, seed: int) -> None:
        """Bind the sites to the space and the loss."""
        self._sites = [
            source.site for source in problem.sources if isinstance(source, RemoteDomain)
        ]
        if len(self._sites) < problem.n_sources:
            raise DomainError(
                "some sources are at sites and some in this process: put all of them at sites"
            )
        self._handles = self._all("bind", self.space, self.loss, {"seed": seed}, bound=False)

    def _all(self, question: str, *arguments: Any, bound: bool = True) -> list[Any]:
        """Return the answers of all sites to the same question, asked at the same time."""
        return self._each(question, [arguments] * len(self._sites), bound=bound)

    def _each(
        self, question: str, arguments: Sequence[tuple[Any, ...]], *, bound: bool = True
    ) -> list[Any]:
        """Return the answers of all sites, each asked with its own arguments."""
        handles = [(h,) for h in self._handles] if bound else [()] * len(self._sites)
        with ThreadPoolExecutor(len(self._sites)) as pool:
            answers = [
                pool.submit(site.ask, question, *handle, *inputs)
                for site, handle, inputs in zip(self._sites, handles, arguments, strict=True)
            ]
            return [answer.result() for answer in answers]

    def _by_source(self, question: str, *arguments: Any) -> Any:
        """Return what every source answers, (N, …); a tuple where the answer is one."""
        answers = self._all(question, *arguments)
        if isinstance(answers[0], tuple):
            return tuple(self._joined(part) for part in zip(*answers, strict=True))
        return self._joined(answers)

    def _joined(self, answers: Sequence[Tensor]) -> Tensor:
        """Return (N, …) from what the sites answer."""
        return torch.cat(list(answers))

    def _values(self, w: Tensor, batch: Batch) -> Tensor:
        """Return the losses of the sources, (M, Q, N)."""
        return torch.cat(self._all("values", w, batch), -1)

    def _shared(self, batch: Batch) -> Batch:
        """Return the batch as sources see it: without folds, which are of own rows."""
        return replace(batch, folds=None)

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())

    @property
    def own_rows(self) -> int:
        rows: int = self._own.own_rows
        return rows

    def values(self, w: Tensor, batch: Batch) -> Tensor:
        shared = self._values(w, self._shared(batch))
        if len(self.own_counts) == 0:
            return shared
        return torch.cat([shared, LocalComponents.values(self._own, w, batch).to(shared)], -1)

    def own_values(self, w: Tensor, batch: Batch) -> Tensor:
        return LocalComponents.own_values(self._own, w, batch)

    def losses(self, w: Tensor, batch: Batch) -> tuple[Tensor, Pullback]:
        def pullback(v: Tensor) -> Tensor:
            return self.pull(w, v.expand(*w.shape[:-1], -1), batch)

        return self.values(w, batch), pullback

    def _sum(self, question: str, v: Tensor, before: tuple[Any, ...], *after: Any) -> Any:
        """Return the sum of the answers of source j for its column of v.

        The own samples answer for the last column.
        """
        N = len(self.counts)
        without_folds = [self._shared(a) if isinstance(a, Batch) else a for a in after]
        parts = self._summands(question, v[..., :N], before, without_folds)
        if v.shape[-1] > N and len(self.own_counts):
            parts.append(getattr(self._own, question)(*before, v[..., N:], *after))
        if isinstance(parts[0], tuple):
            return tuple(sum(part[1:], start=part[0]) for part in zip(*parts, strict=True))
        return sum(parts[1:], start=parts[0])

    def _summands(
        self, question: str, v: Tensor, before: tuple[Any, ...], after: Sequence[Any]
    ) -> list[Any]:
        """Return the answer of every site for its own columns of v (M, Q, N)."""
        columns = [v[..., j : j + 1].contiguous() for j in range(v.shape[-1])]
        return self._each(question, [(*before, column, *after) for column in columns])

    def pull(self, w: Tensor, v: Tensor, batch: Batch) -> Tensor:
        total: Tensor = self._sum("pull", v, (w,), batch)
        return total

    def pull_with_second(self, w: Tensor, v: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        gradient, second = self._sum("pull_with_second", v, (w,), batch)
        return gradient, second

    def hessians(self, w: Tensor, v: Tensor, batch: Batch) -> Tensor:
        total: Tensor = self._sum("hessians", v, (w,), batch)
        return total

    def hessian_times(self, w: Tensor, u: Tensor, v: Tensor, batch: Batch) -> Tensor:
        total: Tensor = self._sum("hessian_times", v, (w, u), batch)
        return total

    def hessian_blocks(
        self, w: Tensor, v: Tensor, batch: Batch, output: int, only: bool = False
    ) -> Tensor:
        total: Tensor = self._sum("hessian_blocks", v, (w,), batch, output, only)
        return total

    def narrow(self, targets: Tensor) -> Self:
        other = copy(self)
        other._own = self._own.narrow(targets)
        other.own_counts = other._own.own_counts
        return other

    def without_targets(self) -> Self:
        return self.narrow(torch.zeros(0, dtype=torch.int64))

    def together(self, jobs: Sequence[Callable[[], Result]]) -> list[Result]:
        return [job() for job in jobs]

    def fold_weights(self, count: int) -> Tensor:
        weights: Tensor = self._own.fold_weights(count)
        return weights

    def bytes_per_row(self) -> int:
        return max(self._all("bytes_per_row"))

    def source_moments(self, w: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
        moments: tuple[Tensor, Tensor, Tensor] = self._by_source("source_moments", w, most)
        return moments

    def feature_means(self, features: Fourier) -> Tensor:
        by_source: Tensor = self._by_source("feature_means", features)
        return by_source

    def inputs_times(self, mean: Tensor, scale: Tensor, v: Tensor) -> Tensor:
        answers = self._all("inputs_times", mean, scale, v)
        return sum(answers[1:], start=answers[0])

    def row_constants(self) -> RowConstants:
        constants = self._all("row_constants")
        if self.own_rows:
            constants.append(self._own.row_constants())
        names = [f.name for f in fields(RowConstants)]
        return RowConstants(**{n: max(getattr(c, n) for c in constants) for n in names})

    def squared_lengths(self) -> tuple[Tensor, Tensor]:
        own = LocalComponents.squared_lengths(self._own)[1]
        return self._joined([of_rows for of_rows, _ in self._all("squared_lengths")]), own

    def risk_bounds(self, radius: float) -> RiskBounds:
        return RiskBounds(*self._by_source("risk_bounds", radius))

    # The properties and methods below are for generalised linear models.

    @property
    def roundings(self) -> float:
        return max(self._all("roundings")) + len(self.counts)

    @property
    def statistics(self) -> Tensor:
        by_source: Tensor = self._by_source("statistics")
        return by_source

    @property
    def largest(self) -> float:
        own = [self._own.largest] if self.own_rows else []
        return max(*self._all("largest"), *own)

    @property
    def longest_row(self) -> Tensor:
        own = [self._own.longest_row] if self.own_rows else []
        return torch.stack([*self._all("longest_row"), *own]).amax()

    @property
    def mean_squares(self) -> Tensor:
        share = self.counts / self.counts.sum()
        return share.to(torch.float64) @ torch.stack(self._all("mean_squares"))

    @property
    def rows_of_kind(self) -> Tensor:
        by_source: Tensor = self._by_source("rows_of_kind")
        return by_source

    @property
    def own_rows_of_kind(self) -> Tensor:
        kinds: Tensor = self._own.own_rows_of_kind
        return kinds

    @property
    def label_sizes(self) -> Tensor:
        by_source: Tensor = self._by_source("label_sizes")
        return by_source

    @property
    def own_label_sizes(self) -> Tensor:
        sizes: Tensor = self._own.own_label_sizes
        return sizes

    def means(self) -> Tensor:
        by_source: Tensor = self._by_source("means")
        return by_source

    def spread(self, reference: Tensor) -> tuple[Tensor, Tensor]:
        reach, moment = self._by_source("spread", reference)
        return reach, moment

    def own_spread(self, reference: Tensor) -> tuple[Tensor, Tensor]:
        spread: tuple[Tensor, Tensor] = self._own.own_spread(reference)
        return spread


class SiteQuadratic(SiteComponents):
    """Answer for squared losses at sites, from Gram matrices that are sent once."""

    _own: QuadraticComponents

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._sums: dict[Part, tuple[Grams, Tensor]] = {}  # shared by everything narrowed from this

    def reference(self) -> Reference:
        references = self._all("reference")
        row, label = (
            nearest_to_zero(torch.stack([getattr(r, name) for r in references]))
            for name in ("row", "label")
        )
        return Reference(row, label)

    def source_grams(self, around: Reference | None = None, part: Part = "all") -> Grams:
        return Grams(*self._by_source("source_grams", around, part))

    def own_grams(
        self,
        around: Reference | None = None,
        *,
        targets: slice = slice(None),
        folds: Folds | None = None,
        models: slice = slice(None),
    ) -> Grams:
        return self._own.own_grams(around, targets=targets, folds=folds, models=models)

    @property
    def grams(self) -> tuple[Grams, Grams]:
        return self.grams_of("all")

    def grams_of(self, part: Part) -> tuple[Grams, Grams]:
        return self._shared_grams(part)[0], self._own.own_grams_of(part)

    def _shared_grams(self, part: Part) -> tuple[Grams, Tensor]:
        """Return the sources' Gram matrices, and their halves as `losses_by_grams` needs them."""
        if part not in self._sums:
            grams = self.source_grams(part=part)
            self._sums[part] = grams, packed(grams.A)
        return self._sums[part]

    def losses(self, w: Tensor, batch: Batch) -> tuple[Tensor, Pullback]:
        if not _by_grams(batch):
            return super().losses(w, batch)
        sources, upper = self._shared_grams(batch.part)
        return losses_by_grams(w, sources, self._own.own_grams_of(batch.part), upper)

    def values(self, w: Tensor, batch: Batch) -> Tensor:
        return self.losses(w, batch)[0] if _by_grams(batch) else super().values(w, batch)

    def pull(self, w: Tensor, v: Tensor, batch: Batch) -> Tensor:
        return self.losses(w, batch)[1](v) if _by_grams(batch) else super().pull(w, v, batch)


def _by_grams(batch: Batch) -> bool:
    """Return whether Gram matrices describe the losses on these rows."""
    return batch.step is None and batch.folds is None
