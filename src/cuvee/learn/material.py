"""Hold what maps are fitted from: solved mixtures, their oracle, and derivatives from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from torch import Tensor

from cuvee.hypothesis.base import Space
from cuvee.learn import taylor
from cuvee.learn.base import Labels
from cuvee.learn.subspace import Subspace
from cuvee.oracle import Descend, Oracle


@dataclass(frozen=True)
class Material:
    """Hold all that a map may be fitted from; costly parts are computed on first use."""

    oracle: Oracle
    labels: Labels  # in all P parameters
    space: Space
    draw: Callable[[int], Tensor]  # more mixtures like the labels', unsolved
    descend: Descend  # GD(v, α, K), for maps that descend

    @cached_property
    def subspace(self) -> Subspace:
        """Return the subspace that the labels span, where it is smaller than R^P."""
        return Subspace.of(self.labels.w)

    @cached_property
    def inside(self) -> Labels:
        """Return the labels in the coordinates of the subspace."""
        return self.subspace.encode(self.labels)

    @cached_property
    def sloped(self) -> Labels:
        """Return the labels in the coordinates of the subspace, with dw*/dα."""
        slopes = self.oracle.sensitivity(self.labels.alpha, self.labels.w)
        return self.subspace.encode(replace(self.labels, slopes=slopes))

    @cached_property
    def bends(self) -> Tensor:
        """Return d²w*/dα² of the first labels, as many as are affordable."""
        return taylor.second_derivatives(
            self.oracle, self.sloped[: taylor.n_bends(*self.labels.alpha.shape)]
        )
