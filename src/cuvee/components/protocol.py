"""Define what an algorithm may ask of the data: losses f_1..f_N of many models, and pullbacks.

    losses, pullback = components.losses(w, batch)   # w (M, Q, P) -> losses (M, Q, N+1), pullback
    -> (M, Q, P)

`losses[i, q, j] = f_j(w_iq)` for the N sources; the last column is f_T on target i's own labelled
rows. `pullback(v)` is Σ_j v_iqj ∇f_j(w_iq); v (M, 1, N+1) serves all q. Q is whatever the caller
stacks per target: a panel of adversaries, candidate mixtures, cross-validation folds.

A `Batch` only describes rows. They are gathered where they live, and nothing outside this package
holds one: sources may be in this process, in others or at other sites, and no algorithm has to
change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, Self, TypeVar

from torch import Tensor

from cuvee.hypothesis.base import LossKind, Space
from cuvee.hypothesis.generalised import GeneralisedSpace

Pullback = Callable[[Tensor], Tensor]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Half:
    """Describe one half of every domain's rows: side 0 or 1 of a random split of this number."""

    split: int
    side: int


Part = Literal["all", "training", "held out"] | Half


@dataclass(frozen=True, eq=False)
class Folds:
    """Describe `count` parts of the own rows, of which model q does not see part `number[q]`.

    Rows are assigned to parts by their labels. With `only`, model q sees that part and nothing
    else.
    """

    count: int
    number: Tensor  # (Q,)
    only: bool = False


@dataclass(frozen=True)
class Batch:
    """Describe which rows to average over.

    By default it is all of them. With a `step`, it is minibatch number `step` of `size` rows from
    every domain, drawn by a hash of the seed, the domain's name and the step; with `own_whole`
    targets still give all their rows. `part` restricts every domain to four fifths ("training"), to
    the fifth that early stopping is checked on ("held out"), or to one half of its rows.
    """

    step: int | None = None
    size: int = 0
    own_whole: bool = False
    folds: Folds | None = None
    part: Part = "all"

    def of_models(self, models: Tensor) -> Batch:
        """Return what these of the Q models see."""
        if self.folds is None:
            return self
        return replace(self, folds=replace(self.folds, number=self.folds.number[models]))


ALL = Batch()


class Components(Protocol):
    """Answer questions about the data, bound to a hypothesis and a loss."""

    @property
    def space(self) -> Space: ...
    @property
    def loss(self) -> LossKind: ...
    @property
    def counts(self) -> Tensor:
        """Return the number of rows per source, (N,)."""
        ...

    @property
    def own_counts(self) -> Tensor:
        """Return the number of labelled rows per target, (M,)."""
        ...

    @property
    def n_rows(self) -> int:
        """Return the number of rows of all sources together."""
        ...

    @property
    def own_rows(self) -> int:
        """Return the number of rows of the longest own sample."""
        ...

    def losses(self, w: Tensor, batch: Batch) -> tuple[Tensor, Pullback]:
        """Return f (M, Q, N+1) for w (M, Q, P), and its pullback (M, Q or 1, N+1) -> (M, Q, P)."""
        ...

    def values(self, w: Tensor, batch: Batch) -> Tensor:
        """Return the losses alone."""
        ...

    def own_values(self, w: Tensor, batch: Batch) -> Tensor:
        """Return f_T alone, (M, Q), without using the sources."""
        ...

    def pull(self, w: Tensor, v: Tensor, batch: Batch) -> Tensor:
        """Return Σ_j v_j ∇f_j(w), (M, Q, P)."""
        ...

    def hessian_times(self, w: Tensor, u: Tensor, v: Tensor, batch: Batch) -> Tensor:
        """Return Σ_j v_j ∇²f_j(w) u, (M, Q, P)."""
        ...

    def hessians(self, w: Tensor, v: Tensor, batch: Batch) -> Tensor:
        """Return Σ_j v_j ∇²f_j(w), (M, Q, P, P)."""
        ...

    def narrow(self, targets: Tensor) -> Self:
        """Return the same sources with the given targets, which see and draw what they did."""
        ...

    def without_targets(self) -> Self:
        """Return the sources alone."""
        ...

    def fold_weights(self, count: int) -> Tensor:
        """Return the share of each own sample in each of `count` folds: (M, count).

        Rows sum to 1.
        """
        ...

    def bytes_per_row(self) -> int:
        """Return how many bytes a forward keeps for every model and row."""
        ...

    @property
    def far(self) -> bool:
        """Return whether every question is a round of messages: few and large ones are best."""
        ...

    def together(self, jobs: Sequence[Callable[[], Result]]) -> list[Result]:
        """Return the results of jobs that do not wait for one another.

        Where questions travel far, those of all jobs travel together.
        """
        ...

    def source_moments(self, w: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean and variance (N, Q) of row losses, and Σ weight² (N,).

        They are of each source's first `most` rows.
        """
        ...


@dataclass(frozen=True)
class Grams:
    """Hold quadratic forms, one per leading index: A (..., P, P), b (..., P), r (...)."""

    A: Tensor
    b: Tensor
    r: Tensor

    def __getitem__(self, index: Any) -> Grams:
        return Grams(self.A[index], self.b[index], self.r[index])


@dataclass(frozen=True)
class Reference:
    """Hold a row and a label near the data.

    Sums are taken around them, so that squares of large means do not drown what varies.
    """

    row: Tensor  # (P,)
    label: Tensor  # ()


class QuadraticSums(Components, Protocol):
    """Answer for squared losses too: Gram matrices describe them completely."""

    @property
    def grams(self) -> tuple[Grams, Grams]:
        """Return the Gram matrices of sources (N, …) and of own samples (M, …)."""
        ...

    @property
    def roundings(self) -> float: ...
    def reference(self) -> Reference: ...
    def grams_of(self, part: Part) -> tuple[Grams, Grams]: ...
    def source_grams(self, around: Reference | None = None, part: Part = "all") -> Grams: ...
    def own_grams(
        self,
        around: Reference | None = None,
        *,
        targets: slice = slice(None),
        folds: Folds | None = None,
        models: slice = slice(None),
    ) -> Grams: ...


class LinearSums(Components, Protocol):
    """Answer for generalised linear models too: closed forms, and what certificates need."""

    @property
    def space(self) -> GeneralisedSpace: ...
    @property
    def roundings(self) -> float: ...
    @property
    def statistics(self) -> Tensor: ...
    @property
    def largest(self) -> float: ...
    @property
    def longest_row(self) -> Tensor: ...
    @property
    def mean_squares(self) -> Tensor: ...
    @property
    def rows_of_kind(self) -> Tensor: ...
    @property
    def own_rows_of_kind(self) -> Tensor: ...
    @property
    def label_sizes(self) -> Tensor: ...
    @property
    def own_label_sizes(self) -> Tensor: ...
    def pull_with_second(self, w: Tensor, v: Tensor, batch: Batch) -> tuple[Tensor, Tensor]: ...
    def hessian_blocks(
        self, w: Tensor, v: Tensor, batch: Batch, output: int, only: bool = False
    ) -> Tensor: ...
    def means(self) -> Tensor: ...
    def spread(self, reference: Tensor) -> tuple[Tensor, Tensor]: ...
    def own_spread(self, reference: Tensor) -> tuple[Tensor, Tensor]: ...
