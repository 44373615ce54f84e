"""Express wide tables, with fewer rows than columns, in coordinates that the rows span.

A part of w that is orthogonal to every row changes no score. It costs λ/2 of its square, and uses
part of the radius of W. So no minimiser has one, and an adversary gains nothing by one: rows in an
orthonormal basis of their span give the same losses, the same minimisers and the same norms, with
as many coordinates as there are rows. Intercepts stay outside.

For a w from anywhere, w = Q u + v with v orthogonal to all rows: f(w) = f(Qu) + λ/2‖v‖², and
nothing couples the two.

A basis of rows with large means would carry roundings of the size of these means, beside which
what differs from row to row is lost. So for squared loss, where an intercept that nothing holds
makes up for it, a reference row and label near the data are taken off first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cuvee.components.protocol import Reference
from cuvee.components.quadratic import reference
from cuvee.components.sites import lives_elsewhere
from cuvee.hypothesis.base import Space
from cuvee.hypothesis.linear import LinearSpace
from cuvee.problem import Domain, Problem

LEAST_COLUMNS = 100  # with fewer columns, models are solved as they are
WIDE = 0.75  # rows per column up to which other coordinates are worth their cost
ALWAYS = 512  # up to this many rows a basis costs almost nothing
# More rows only pay where enough models share the basis.
ROWS_PER_MODEL = 100


@dataclass(frozen=True)
class RowsSpace:
    """Hold a problem in the coordinates of its rows, and the way back."""

    problem: Problem  # the same names, labels and weights; X (rows, r)
    space: LinearSpace  # of models with r features
    basis: Tensor  # (features, r), orthonormal columns
    around: Reference | None = None  # what was taken off the rows and labels, in all columns

    @property
    def roundings(self) -> int:
        """Return how many roundings, at most, a product with the basis adds to a number."""
        return sum(self.basis.shape)

    def expand(self, u: Tensor) -> Tensor:
        """Return parameters (or derivatives) of all columns for those in coordinates."""
        by_output = u.unflatten(-1, (self.space.n_outputs, self.space.width))
        r = self.basis.shape[1]
        columns = by_output[..., :r] @ self.basis.T
        return torch.cat([columns, by_output[..., r:]], -1).flatten(-2)

    def split(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """Return w's coordinates, and the part of it that no row sees, both flat."""
        by_output = w.unflatten(-1, (self.space.n_outputs, -1))
        d = self.basis.shape[0]
        u = by_output[..., :d] @ self.basis
        unseen = torch.zeros_like(by_output)
        unseen[..., :d] = by_output[..., :d] - u @ self.basis.T
        return torch.cat([u, by_output[..., d:]], -1).flatten(-2), unseen.flatten(-2)


def targets_at_a_time(problem: Problem, space: Space) -> int:
    """Return how many targets' own rows may join the sources' in one such space.

    It is 0 where such a space is not worth using. Own rows may at most double the space, because
    each target pays for the coordinates of the others beside it.
    """
    if not space.linear or lives_elsewhere(problem) or space.input_shape[0] < LEAST_COLUMNS:
        return 0
    rows = sum(s.n_rows for s in problem.sources)
    longest = max((t.n_rows for t in problem.targets), default=1)
    room = int(WIDE * space.input_shape[0]) - rows
    return max(0, min(room // longest, max(1, rows // longest)))


def basis_pays(problem: Problem, space: Space, models: int | None) -> bool:
    """Return whether solving `models` of them (None: very many) repays making a basis of the rows.

    For squared loss it always does: the other way is to factorise (P, P) systems.
    """
    rows = sum(s.n_rows for s in problem.sources)
    return space.quadratic or models is None or rows <= max(ALWAYS, ROWS_PER_MODEL * models)


def of(problem: Problem, space: Any) -> RowsSpace:
    """Return the problem in a basis of the span of all its rows, the sources' first.

    So the sources' coordinates, and where adversaries start, do not depend on the targets.
    """
    domains = (*problem.sources, *problem.targets)
    rows = space.standardise(torch.as_tensor(np.concatenate([d.X for d in domains])))
    around, label, centre = None, 0.0, None
    if space.quadratic and space.intercept and space.radius is None:
        around = reference(problem.sources, space, "cpu")
        around.row[-1] = 0.0
        rows, label = rows - around.row[:-1], float(around.label)
    basis, triangle = torch.linalg.qr(rows.T)
    if around is not None:
        centre = around.row[:-1] @ basis
    parts = triangle.T.contiguous().numpy()
    shared = sum(s.n_rows for s in problem.sources)
    ends = np.cumsum([d.n_rows for d in domains])[:-1]
    expressed = [
        Domain(d.name, X, d.y if around is None else space.encode(d.y, d.name) - label, d.weight)
        for d, X in zip(domains, np.split(parts, ends), strict=True)
    ]
    sources, targets = expressed[: problem.n_sources], expressed[problem.n_sources :]
    return RowsSpace(
        Problem(sources).with_targets(targets),
        space.in_coordinates(len(rows), shared, centre),
        basis,
        around,
    )


def narrowed(problem: Problem, space: Space) -> tuple[Problem, Space]:
    """Return the problem and its space in the coordinates of the rows, where that pays.

    It is meant for losses, which are the same in both; a model found there would have to be
    expanded.
    """
    if targets_at_a_time(problem, space) >= problem.n_targets > 0:
        wide = of(problem, space)
        return wide.problem, wide.space
    return problem, space
