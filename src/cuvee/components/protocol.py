"""What an algorithm may ask of the data: component losses f_1..f_N of many models, and their pullback.

    losses, pullback = components.losses(w, batch)   # w (M, Q, P) -> losses (M, Q, N+1), pullback -> (M, Q, P)

`losses[i, q, j] = f_j(w_iq)` for the N sources; the last column is f_T on target i's own labelled rows.
`pullback(v)` is Σ_j v_iqj ∇f_j(w_iq); v (M, 1, N+1) serves all q. Q is whatever the caller stacks per target: a
panel of adversaries, candidate mixtures, cross-validation folds.

A `Batch` only describes rows. They are gathered where they live, and nothing outside this package holds one: sources
may be in this process, in others or at other sites, and no algorithm changes by a line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, Self

from torch import Tensor

from cuvee.hypothesis.base import Space

Pullback = Callable[[Tensor], Tensor]
Part = Literal["all", "training", "held out"]


@dataclass(frozen=True, eq=False)
class Folds:
    """Own rows dealt out into `count` parts by their labels, part `number[q]` left out of what model q sees.

    With `only`, model q sees that part and nothing else.
    """

    count: int
    number: Tensor  # (Q,)
    only: bool = False


@dataclass(frozen=True)
class Batch:
    """Which rows to average over.

    By default all of them. With a `step`, minibatch number `step` of `size` rows from every domain, drawn by a hash of
    the seed, the domain's name and the step; with `own_whole` targets give all their rows all the same. `part` keeps
    to four fifths of every domain ("training"), or to the fifth that early stopping looks at ("held out").
    """

    step: int | None = None
    size: int = 0
    own_whole: bool = False
    folds: Folds | None = None
    part: Part = "all"


ALL = Batch()


class Components(Protocol):
    """The data, bound to a hypothesis and a loss."""

    @property
    def space(self) -> Space: ...
    @property
    def counts(self) -> Tensor:
        """(N,) rows per source."""
        ...

    @property
    def own_counts(self) -> Tensor:
        """(M,) labelled rows per target."""
        ...

    def losses(self, w: Tensor, batch: Batch) -> tuple[Tensor, Pullback]:
        """Return f (M, Q, N+1) for w (M, Q, P), and its pullback (M, Q or 1, N+1) -> (M, Q, P)."""
        ...

    def values(self, w: Tensor, batch: Batch) -> Tensor:
        """Return the losses alone."""
        ...

    def own_values(self, w: Tensor, batch: Batch) -> Tensor:
        """Return f_T alone, (M, Q), without a look at the sources."""
        ...

    def narrow(self, targets: Tensor) -> Self:
        """Return the same sources with some of the targets, which see and draw what they did before."""
        ...

    def fold_weights(self, count: int) -> Tensor:
        """Return how much of each target's own sample lies in each of `count` folds: (M, count), rows sum to 1."""
        ...
