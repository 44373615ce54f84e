"""Compute squared losses through Gram matrices, without a pass over the rows.

Per source, f_j(w) = ½wᵀA_j w − b_jᵀw + r_j with A_j = Σ_i p_i x_i x_iᵀ, b_j = Σ_i p_i y_i x_i, r_j
= ½Σ_i p_i y_i² (p_i the row weights, summing to 1). Minibatches still go through the rows, and so
does everything where there are no more rows than the N·P rows of the matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from cuvee.components.local import LocalComponents
from cuvee.components.protocol import ALL, Batch, Folds, Grams, Part, Pullback, Reference
from cuvee.components.rows import Rows, Table, pick, row_weights, source_sums
from cuvee.errors import OptionError
from cuvee.hypothesis.base import LossKind, Space
from cuvee.numerics.parallel import each, slices
from cuvee.problem import Array, Domain, Problem

BLOCK = 1_024  # rows per block: it fits a cache, and X is never copied as a whole
PRODUCTS = 2**22  # numbers held at a time in matrices that are one per model
FIRST = 256  # rows of a source that its mean is estimated from


class QuadraticComponents(LocalComponents):
    """Answer for a quadratic space with the trained loss.

    Gram matrices are streamed from the sources' arrays: the table of all rows is stacked for
    minibatches alone.
    """

    def __init__(
        self, problem: Problem, space: Space, loss: LossKind = "trained", **options: Any
    ) -> None:
        if not space.quadratic or loss != "trained":
            raise OptionError(
                "Gram matrices describe only the squared loss; use LocalComponents for other losses"
            )
        super().__init__(problem, space, loss, **options)

    def _gather(self) -> None:
        # sums over the sources' rows, shared by everything narrowed from this
        self._sums: dict[str, Any] = {}

    @property
    def roundings(self) -> float:
        """Return how many roundings, at most, go into a number of the Gram matrices."""
        longest = max((s.n_rows for s in self._sources), default=0)
        return min(longest, BLOCK) + longest / BLOCK + self.own_rows

    def reference(self) -> Reference:
        return reference(self._sources, self.space, self._device)

    def source_grams(self, around: Reference | None = None, part: Part = "all") -> Grams:
        """Return the Gram matrices of the sources (N, …), summed in blocks."""
        if part != "all":
            return self._part(part).source_grams(around)
        grams = each(
            lambda domain: _gram(domain, self.space, self._device, around),
            self._sources,
            self._device,
            cost=2 * self.n_rows * self.space.n_params**2,
        )
        return Grams(*(torch.stack(part) for part in zip(*grams, strict=True)))

    def own_grams(
        self,
        around: Reference | None = None,
        *,
        targets: slice = slice(None),
        folds: Folds | None = None,
        models: slice = slice(None),
    ) -> Grams:
        """Return the Gram matrices of some targets' own samples, (m, 1, …).

        With `folds` they are (m, q, …), for models that leave folds out.
        """
        rows = pick(
            self._own_blocks if folds is None else self._held_out(folds, self.space.dtype), targets
        )
        X, y, weight = rows.own_X, rows.own_y, rows.own_weight
        if around is not None:
            X, y = X - around.row, y - around.label
        weight = weight if weight.shape[1] == 1 else weight[:, models]
        return own_grams(X[:, None], y.expand(-1, weight.shape[1], -1), weight)

    @cached_property
    def grams(self) -> tuple[Grams, Grams]:
        """Return the Gram matrices of sources (N, …) and own samples (M, …)."""
        if "grams" not in self._sums:
            self._sums["grams"] = self.source_grams()
        return self._sums["grams"], self.own_grams()[:, 0]

    def grams_of(self, part: Part) -> tuple[Grams, Grams]:
        """Return the same of some of the rows."""
        return self.grams if part == "all" else self._part(part).grams

    def own_grams_of(self, part: Part) -> Grams:
        """Return the Gram matrices of own samples (M, …), of some of their rows."""
        return (self if part == "all" else self._part(part)).own_grams()[:, 0]

    @property
    def _own_blocks(self) -> Rows:
        """Return the targets' rows, without stacking the sources' for them."""
        if self.space.dtype in self._tables or not self._own:
            return self._all(self.space.dtype)
        if "own" not in self._sums:
            self._sums["own"] = Table.of((), self._own, self.space, self._device).rows
        return (
            self._sums["own"] if self._targets is None else pick(self._sums["own"], self._targets)
        )

    def narrow(self, targets: Tensor) -> Self:
        other = super().narrow(targets)
        if "grams" in self.__dict__:
            sources, own = self.grams
            other.__dict__["grams"] = sources, own[targets]
        return other

    @property
    def _packed(self) -> Tensor:
        """Return ½A_j as it multiplies w_a w_b, a ≤ b: (P(P+1)/2, N)."""
        if "packed" not in self._sums:
            self._sums["packed"] = packed(self.grams[0].A)
        upper: Tensor = self._sums["packed"]
        return upper

    def losses(self, w: Tensor, batch: Batch) -> tuple[Tensor, Pullback]:
        if batch.step is None and batch.folds is None and batch.part != "all":
            return self._part(batch.part).losses(w, ALL)
        if batch != ALL:
            return super().losses(w, batch)
        if self.n_rows <= len(self.counts) * self.space.n_params:
            return _losses_by_rows(w, self._all(w.dtype))
        return losses_by_grams(w, *self.grams, self._packed)

    def values(self, w: Tensor, batch: Batch) -> Tensor:
        by_grams = batch.step is None and batch.folds is None
        return self.losses(w, batch)[0] if by_grams else super().values(w, batch)


def packed(A: Tensor) -> Tensor:
    """Return ½A_j (N, P, P) as it multiplies w_a w_b, a ≤ b: (P(P+1)/2, N)."""
    N, P, _ = A.shape
    upper = A.triu(1) + 0.5 * torch.diag_embed(A.diagonal(dim1=-2, dim2=-1))
    a, b = torch.triu_indices(P, P, device=A.device)
    return upper.view(N, P, P)[:, a, b].T.contiguous()


def losses_by_grams(
    w: Tensor, sources: Grams, own: Grams, upper: Tensor
) -> tuple[Tensor, Pullback]:
    """Return squared losses (M, Q, N or N+1) and their pullback.

    `upper` is `packed` of the sources.
    """
    M, Q, P = w.shape
    N = len(sources.r)
    flat = w.reshape(-1, P)
    size = max(1, PRODUCTS // P**2)
    models = slices(len(flat), P**2 * N, most=size)
    parts = each(
        lambda part: _squares(flat[part]) @ upper, models, w.device, cost=len(flat) * P**2 * N
    )
    squares = torch.cat(parts).view(M, Q, N)
    shared = squares - w @ sources.b.T + sources.r

    def of_sources(v: Tensor) -> Tensor:
        mixed = [_mixed(part, sources.A) for part in v[..., :N].flatten(0, 1).split(size)]
        if v.shape[1] == 1:  # all models of a target have the same mixture
            Aw = torch.cat([of @ A for of, A in zip(w.split(size), mixed, strict=True)])
        else:
            Aw = torch.cat(
                [_times(A, of) for of, A in zip(flat.split(size), mixed, strict=True)]
            ).view(M, Q, P)
        return Aw - v[..., :N] @ sources.b

    if len(own.r) == 0:
        return shared, of_sources
    own_Aw = w @ own.A  # (M, Q, P)
    own_losses = ((0.5 * own_Aw - own.b[:, None]) * w).sum(-1, keepdim=True) + own.r[:, None, None]

    def pullback(v: Tensor) -> Tensor:
        return of_sources(v) + v[..., N:] * (own_Aw - own.b[:, None])

    return torch.cat([shared, own_losses], -1), pullback


def _losses_by_rows(w: Tensor, rows: Rows) -> tuple[Tensor, Pullback]:
    """Return squared losses (M, Q, N or N+1) and their pullback from residuals, without a graph."""
    M, Q, P = w.shape
    residual = (w.reshape(-1, P) @ rows.X.T).view(M, Q, -1) - rows.y  # (M, Q, rows)
    weighted = residual * rows.weight
    shared, N = source_sums(0.5 * weighted * residual, rows), len(rows.lengths)
    own_residual = w @ rows.own_X.transpose(-1, -2) - rows.own_y  # (M, Q, k)
    own_weighted = own_residual * rows.own_weight
    own = 0.5 * (own_weighted * own_residual).sum(-1, keepdim=True)

    def pullback(v: Tensor) -> Tensor:
        v = v.to(w.dtype)
        by_row = weighted * v[..., :N].repeat_interleave(rows.lengths, -1)
        g = (by_row.reshape(M * Q, -1) @ rows.X).view(M, Q, P)
        return g if len(rows.own_X) == 0 else g + (v[..., N:] * own_weighted) @ rows.own_X

    if len(rows.own_X) == 0:
        return shared, pullback
    return torch.cat([shared, own], -1), pullback


def _squares(w: Tensor) -> Tensor:
    """Return w_a w_b for a ≤ b, (m, P(P+1)/2), of w (m, P)."""
    return torch.cat([w[:, a : a + 1] * w[:, a:] for a in range(w.shape[1])], -1)


def _mixed(v: Tensor, A: Tensor) -> Tensor:
    """Return Σ_j v_j A_j, (m, P, P), for v (m, N) and A (N, P, P)."""
    return (v @ A.view(len(A), -1)).view(-1, *A.shape[1:])


def _times(A: Tensor, x: Tensor) -> Tensor:
    """Return A x for a stack of matrices (..., a, b) and vectors (..., b).

    Small products are summed directly, because BLAS is slow for a million of them.
    """
    if A.shape[-1] * A.shape[-2] <= 512:
        return (A * x[..., None, :]).sum(-1)
    return (A @ x[..., None])[..., 0]


def reference(sources: Sequence[Domain], space: Space, device: str | torch.device) -> Reference:
    """Return a reference row and label: in each column the smallest mean.

    It is the sources' mean of smallest absolute value, over their first rows.
    """
    rows, labels = [], []
    for domain in sources:
        rows.append(space.prepare(_tensor(domain.X[:FIRST], device)).mean(0))
        labels.append(
            torch.as_tensor(space.encode(domain.y, domain.name)[:FIRST], device=device).mean()
        )
    return Reference(nearest_to_zero(torch.stack(rows)), nearest_to_zero(torch.stack(labels)))


def nearest_to_zero(means: Tensor) -> Tensor:
    """Return, entry by entry, the mean of smallest absolute value: (N, ...) -> (...).

    It is close to the data, and a single extreme source cannot carry it away.
    """
    return means.gather(0, means.abs().argmin(0, keepdim=True))[0]


def _gram(
    domain: Domain, space: Space, device: str | torch.device, around: Reference | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return A, b, r of one source."""
    labels, weights, even = (
        space.encode(domain.y, domain.name),
        row_weights(domain),
        domain.weight is None,
    )
    P = space.n_params
    A, b, r = (torch.zeros(shape, dtype=space.dtype, device=device) for shape in ((P, P), (P,), ()))
    for low in range(0, domain.n_rows, BLOCK):
        part = slice(low, low + BLOCK)
        X = space.prepare(_tensor(domain.X[part], device))
        y, weight = (
            torch.as_tensor(v[part], dtype=X.dtype, device=device) for v in (labels, weights)
        )
        if around is not None:
            X, y = X - around.row, y - around.label
        _add_block(A, b, r, X, y, weight, even=even)
    return A, b, r


def _tensor(block: Array, device: str | torch.device) -> Tensor:
    """Return the block as a tensor, without a copy where possible.

    A read-only memory map is copied, because torch needs memory that it may write to.
    """
    return torch.as_tensor(block if block.flags.writeable else block.copy(), device=device)


def _add_block(
    A: Tensor, b: Tensor, r: Tensor, X: Tensor, y: Tensor, weight: Tensor, *, even: bool = False
) -> None:
    """Add the part of these rows to A, b and r.

    `even` says that all rows have the same weight, so that no scaled copy of them is needed.
    """
    # Each block is summed by itself first: long sums lose digits.
    A.add_(X.T @ (X if even else X * weight[:, None]), alpha=float(weight[0]) if even else 1.0)
    b.add_(X.T @ (weight * y))
    r.add_(0.5 * (weight * y.square()).sum())


def own_grams(X: Tensor, y: Tensor, weight: Tensor) -> Grams:
    """Return the Gram matrices (M, …) of own blocks X (M, k, P), y (M, k), weight (M, k)."""
    weighted = X * weight[..., None]
    return Grams(
        A=weighted.transpose(-1, -2) @ X,
        b=(weighted * y[..., None]).sum(-2),
        r=0.5 * (weight * y.square()).sum(-1),
    )
