"""Answer for sources whose rows live elsewhere: in other processes or on other machines.

A *site* holds the rows of one source. It is asked questions by name and answers with sums over its
rows; no row ever leaves it. The few labelled rows of the targets are in this process.

    site.ask("values", handle, w, batch)     # one method is the whole transport
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from cuvee.components.kinds import local_kind
from cuvee.components.local import LocalComponents
from cuvee.components.protocol import Batch, Folds, Grams, Part, Pullback, Reference
from cuvee.components.quadratic import QuadraticComponents, losses_by_grams, nearest_to_zero, packed
from cuvee.errors import DomainError
from cuvee.facts import KnownFacts
from cuvee.hypothesis.base import LossKind, Space
from cuvee.problem import Array, Domain, Problem

QUESTIONS = frozenset(
    { "values", "pull", "pull_with_second", "hessians", "hessian_times", "hessian_blocks",
    "statistics", "largest", "longest_row", "mean_squares", "rows_of_kind", "label_sizes", "means",
    "spread", "source_grams", "reference", "source_moments", "bytes_per_row", "roundings", }
)  # fmt: skip
"""What a site may be asked once it is bound to a hypothesis: sums, maxima, means over its rows."""


@dataclass(frozen=True)
class Introduction:
    """Hold what a site says of itself at first."""

    facts: KnownFacts
    input_shape: tuple[int, ...]
    features: tuple[str, ...]


class Site(Protocol):
    """Reach the place where the rows of one source live."""

    def ask(self, question: str, *arguments: Any) -> Any:
        """Return the answer of the site's `Answerer`."""
        ...


class Answerer:
    """Hold the rows of a site and answer questions about them."""

    def __init__(self, domain: Domain) -> None:
        self._domain, self._bound = domain, list[LocalComponents]()

    def answer(self, question: str, *arguments: Any) -> Any:
        """Return the answer to one question; only QUESTIONS may be asked of the rows."""
        if question == "introduce":
            return Introduction(
                self._domain.facts.known(), self._domain.X.shape[1:], self._domain.features
            )
        if question == "bind":
            space, loss, options = arguments
            self._bound.append(
                local_kind(space, loss)(Problem([self._domain]), space, loss, **options)
            )
            return len(self._bound) - 1
        if question not in QUESTIONS:
            raise DomainError(
                f"domain {self._domain.name!r}: its site does not answer {question!r}; it answers "
                f"{', '.join(sorted(QUESTIONS))}"
            )
        handle, *inputs = arguments
        attribute = getattr(self._bound[handle], question)
        return attribute(*inputs) if callable(attribute) else attribute


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


def lives_elsewhere(problem: Problem) -> bool:
    """Return whether any source's rows are not in this process."""
    return not all(source.is_here for source in problem.sources)


class SiteComponents:
    """Give the same answers as local components, put together from those of the sites."""

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
        self._sites = [
            source.site for source in problem.sources if isinstance(source, RemoteDomain)
        ]
        if len(self._sites) < problem.n_sources:
            raise DomainError(
                "some sources are at sites and some in this process: put all of them at sites"
            )
        self.counts = torch.tensor([s.n_rows for s in problem.sources], dtype=torch.int64)
        self._handles = self._all("bind", space, loss, {"seed": seed}, bound=False)
        kind = local_kind(space, loss) if loss == "trained" else LocalComponents
        self._own: Any = kind.of_samples(problem.targets, space, loss, seed=seed)
        self.own_counts = self._own.own_counts

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
        shared = torch.cat(self._all("values", w, self._shared(batch)), -1)
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
        parts = self._each(
            question, [(*before, v[..., j : j + 1].contiguous(), *without_folds) for j in range(N)]
        )
        if v.shape[-1] > N and len(self.own_counts):
            parts.append(getattr(self._own, question)(*before, v[..., N:], *after))
        if isinstance(parts[0], tuple):
            return tuple(sum(part[1:], start=part[0]) for part in zip(*parts, strict=True))
        return sum(parts[1:], start=parts[0])

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

    def fold_weights(self, count: int) -> Tensor:
        weights: Tensor = self._own.fold_weights(count)
        return weights

    def bytes_per_row(self) -> int:
        return max(self._all("bytes_per_row"))

    def source_moments(self, w: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
        mean, variance, squares = zip(*self._all("source_moments", w, most), strict=True)
        return torch.cat(mean), torch.cat(variance), torch.cat(squares)

    # The properties and methods below are for generalised linear models.

    @property
    def roundings(self) -> float:
        return max(self._all("roundings")) + len(self.counts)

    @property
    def statistics(self) -> Tensor:
        return torch.cat(self._all("statistics"))

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
        return torch.cat(self._all("rows_of_kind"))

    @property
    def own_rows_of_kind(self) -> Tensor:
        kinds: Tensor = self._own.own_rows_of_kind
        return kinds

    @property
    def label_sizes(self) -> Tensor:
        return torch.cat(self._all("label_sizes"))

    @property
    def own_label_sizes(self) -> Tensor:
        sizes: Tensor = self._own.own_label_sizes
        return sizes

    def means(self) -> Tensor:
        return torch.cat(self._all("means"))

    def spread(self, reference: Tensor) -> tuple[Tensor, Tensor]:
        reach, moment = zip(*self._all("spread", reference), strict=True)
        return torch.cat(reach), torch.cat(moment)

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
        grams = self._all("source_grams", around, part)
        return Grams(*(torch.cat([getattr(g, name) for g in grams]) for name in ("A", "b", "r")))

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
