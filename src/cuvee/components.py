"""The seam everything stands on: component losses f_1..f_N of many models, and their pullback.

    losses, pullback = components.losses(w, rows)   # w (M, Q, P) -> losses (M, Q, N+1), pullback -> (M, Q, P)

`losses[i, q, j] = f_j(w_iq)` for the N sources; the last column is f_T on target i's own labelled rows.
`pullback(v)` is Σ_j v_iqj ∇f_j(w_iq); v (M, 1, N+1) serves all q. Q is whatever the caller stacks per target: a
panel of adversaries, candidate mixtures, cross-validation folds. Algorithms see nothing else of the data, so sources
may live elsewhere without a line of them changing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor

from cuvee.errors import DomainError
from cuvee.hypothesis.base import LossKind, Space
from cuvee.problem import Array, Domain, Problem
from cuvee.sampling import RowStream

Pullback = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Rows:
    """Rows to average over, already gathered: every source's, and each target's own block.

    A minibatch for a single target carries that target's rows as a last source and has an empty own block.
    """

    X: Tensor  # (rows, …), source after source
    y: Tensor  # (rows,)
    weight: Tensor  # (rows,), summing to 1 within each source
    lengths: Tensor  # (N,) rows of each source; (N+1,) with the single target behind them
    regular: bool  # all lengths equal, so a reshape is enough
    own_X: Tensor  # (M, k, …)
    own_y: Tensor  # (M, 1, k)
    own_weight: Tensor  # (M, 1 or Q, k), summing to 1; padding and held-out rows weigh 0


class Components(Protocol):
    """What an algorithm may ask of the data."""

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

    @property
    def everything(self) -> Rows: ...
    def minibatch(self, step: int, size: int, own: Rows | None = None) -> Rows: ...
    def losses(self, w: Tensor, rows: Rows) -> tuple[Tensor, Pullback]: ...
    def values(self, w: Tensor, rows: Rows) -> Tensor: ...
    def narrow(self, targets: Tensor) -> Self:
        """The same sources with some of the targets, as if there had never been others."""
        ...


class LocalComponents:
    """Components over tensors in this process.

    M = 0 is allowed: then w has no target axis to match and the losses have N columns.
    """

    def __init__(
        self,
        problem: Problem,
        space: Space,
        loss: LossKind = "trained",
        *,
        seed: int = 0,
        device: str | torch.device = "cpu",
    ) -> None:
        self.space, self.loss = space, loss
        sources, targets = problem.sources, problem.targets
        M, k = len(targets), max((t.n_rows for t in targets), default=0)
        self.counts = torch.tensor([s.n_rows for s in sources], device=device)
        self.own_counts = torch.tensor([t.n_rows for t in targets], dtype=torch.int64, device=device)
        # One table holds all rows: source after source, then k rows for every target (padding repeats rows with
        # weight 0). Whatever is gathered is gathered from it in one go.
        X, y, weight = _stack([*sources, *(_padded(t, k) for t in targets)], space, device)
        n = int(self.counts.sum())
        self.everything = Rows(
            X=X[:n],
            y=y[:n],
            weight=weight[:n],
            lengths=self.counts,
            regular=bool((self.counts == self.counts[0]).all()),
            own_X=X[n:].view(M, k, *X.shape[1:]),
            own_y=y[n:].view(M, 1, k),
            own_weight=weight[n:].view(M, 1, k),
        )
        counts = torch.cat([self.counts, self.own_counts])
        names = [*(f"source {s.name}" for s in sources), *(f"target {t.name}" for t in targets)]
        self._stream = RowStream(names, counts, seed)
        lengths = torch.cat([self.counts, torch.full_like(self.own_counts, k)])
        self._first = (lengths.cumsum(0) - lengths)[:, None]  # (N+M, 1) where each domain starts in the table
        # Rows are drawn uniformly, so a drawn row counts for its weight × the rows of its domain.
        self._table = X, y, weight * counts.repeat_interleave(lengths).to(weight)
        self._buffer = X[:0]

    def minibatch(self, step: int, size: int, own: Rows | None = None) -> Rows:
        """`size` rows with replacement from every source and every target, determined by seed and step.

        With `own`, its own block is taken as it is instead, with whatever rows it holds out.
        They stand in a buffer that the next call overwrites: a fresh one every step costs more than the forward.
        """
        picked = (self._stream.draw(step, size) + self._first).view(-1)
        table, labels, weights = self._table
        if len(self._buffer) != len(picked):
            self._buffer = table.new_empty(len(picked), *table.shape[1:])
        X = torch.index_select(table, 0, picked, out=self._buffer)
        y, weight = labels[picked], weights[picked]
        weight = weight / size
        M, N = len(self.own_counts), len(self.counts)
        # A single target is one more source to the forward: no second pass through the model for its rows.
        shared = N + 1 if M == 1 and own is None else N
        n = shared * size
        lengths = self.counts.new_full((shared,), size)
        left = N + M - shared  # targets with a block of their own
        return Rows(
            X=X[:n],
            y=y[:n],
            weight=weight[:n],
            lengths=lengths,
            regular=True,
            own_X=own.own_X if own else X[n:].view(left, size, *X.shape[1:]),
            own_y=own.own_y if own else y[n:].view(left, 1, size),
            own_weight=own.own_weight if own else weight[n:].view(left, 1, size),
        )

    def narrow(self, targets: Tensor) -> Self:
        """The same sources with some of the targets (their numbers), which see and draw what they did before."""
        N = len(self.counts)
        domains = torch.cat([torch.arange(N, device=targets.device), N + targets])
        other = copy(self)
        other.own_counts, other.everything = self.own_counts[targets], pick(self.everything, targets)
        other._stream, other._first, other._buffer = self._stream.of(domains), self._first[domains], self._buffer[:0]
        return other

    def losses(self, w: Tensor, rows: Rows) -> tuple[Tensor, Pullback]:
        """w (M, Q, P) -> f (M, Q, N+1) and its pullback (M, Q or 1, N+1) -> (M, Q, P).

        One forward over shared and own rows; the graph behind the pullback is walked once, when it is called.
        """
        leaf = w.detach().requires_grad_()
        with torch.enable_grad():
            losses = self._forward(leaf, rows)

        def pullback(v: Tensor) -> Tensor:
            (gradient,) = torch.autograd.grad(losses, leaf, v.to(losses.dtype).expand_as(losses))
            return gradient

        return losses.detach(), pullback

    def values(self, w: Tensor, rows: Rows) -> Tensor:
        """The losses alone, (M, Q, N+1), without keeping anything for a pullback."""
        with torch.no_grad():
            return self._forward(w, rows)

    def _forward(self, w: Tensor, rows: Rows) -> Tensor:
        space = self.space
        by_row = space.loss(self.loss, space.scores(w, rows.X), rows.y) * rows.weight  # (M, Q, rows)
        shared = source_sums(by_row, rows)  # (M, Q, N)
        if len(rows.own_X) == 0:
            return shared
        own = space.loss(self.loss, space.own_scores(w, rows.own_X), rows.own_y) * rows.own_weight  # (M, Q, k)
        return torch.cat([shared, own.sum(-1, keepdim=True)], -1)


def own_blocks(targets: Sequence[Domain], space: Space, device: str | torch.device = "cpu") -> Rows:
    """Rows of the targets' own blocks alone, with nothing shared."""
    M, k = len(targets), max((t.n_rows for t in targets), default=0)
    if M == 0:
        empty = torch.zeros(0, space.n_params, dtype=space.dtype, device=device)
        X, y, weight = empty, empty[:, 0], empty[:, 0]
    else:
        X, y, weight = _stack([_padded(t, k) for t in targets], space, device)
    return Rows(
        X=X[:0],
        y=y[:0],
        weight=weight[:0],
        lengths=torch.zeros(0, dtype=torch.int64, device=device),
        regular=True,
        own_X=X.view(M, k, *X.shape[1:]),
        own_y=y.view(M, 1, k),
        own_weight=weight.view(M, 1, k),
    )


def _stack(tables: list[Domain], space: Space, device: str | torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """X, y and row weights of all tables, one after the other."""
    X = space.prepare(_tensor(np.concatenate([d.X for d in tables]), space).to(device))
    y = _tensor(np.concatenate([space.encode(d) for d in tables]), space).to(device)
    weight = _tensor(np.concatenate([row_weights(d) for d in tables]), space).to(device)
    _check_finite(tables, X)
    return X, y, weight


def source_sums(by_row: Tensor, rows: Rows) -> Tensor:
    """(..., rows) -> (..., N), each source's rows added up."""
    if rows.regular:
        return by_row.view(*by_row.shape[:-1], len(rows.lengths), -1).sum(-1)
    lengths = rows.lengths.expand(*by_row.shape[:-1], -1).contiguous()
    return torch.segment_reduce(by_row, "sum", lengths=lengths, axis=by_row.ndim - 1)


def hold_out(rows: Rows, keep: Tensor) -> Rows:
    """The same rows with each target's own block reweighted by `keep` (M, Q, k) of 0 and 1."""
    weight = rows.own_weight * keep
    return replace(rows, own_weight=weight / weight.sum(-1, keepdim=True).clamp(min=torch.finfo(weight.dtype).tiny))


def cast(rows: Rows, dtype: torch.dtype) -> Rows:
    """The same rows in another precision; class numbers stay what they are."""
    floats = {name: getattr(rows, name) for name in ("X", "y", "weight", "own_X", "own_y", "own_weight")}
    return replace(rows, **{k: t.to(dtype) for k, t in floats.items() if t.is_floating_point()})


def pick(rows: Rows, targets: Tensor | slice) -> Rows:
    """The same shared rows with the own blocks of some targets."""
    if len(rows.own_X) == 0:
        return rows
    own = {name: getattr(rows, name)[targets] for name in ("own_X", "own_y", "own_weight")}
    return replace(rows, **own)


def _tensor(array: Array, space: Space) -> Tensor:
    """Floats in the space's own precision; class numbers stay integers."""
    return torch.as_tensor(array, dtype=space.dtype if array.dtype.kind == "f" else None)


def check_precision(domains: Sequence[Domain], space: Space) -> None:
    """Raise `DomainError` where rows are too large for the precision of the hypothesis."""
    for domain in domains if space.dtype != torch.float64 else ():
        _check_finite([domain], space.prepare(_tensor(domain.X, space)))


def _check_finite(tables: list[Domain], X: Tensor) -> None:
    """What was finite as given may overflow in the precision of the hypothesis."""
    bad = ~X.flatten(1).isfinite().all(1)
    if bool(bad.any()):
        row = int(bad.nonzero()[0, 0])
        for domain in tables:
            if row < domain.n_rows:
                raise DomainError(f"domain {domain.name!r}: row {row} of X is too large for {X.dtype}; rescale it")
            row -= domain.n_rows


def _padded(target: Domain, k: int) -> Domain:
    """The target with its rows repeated up to k, the repeats weighing nothing."""
    weight = np.zeros(k)
    weight[: target.n_rows] = row_weights(target)
    rows = np.arange(k) % target.n_rows
    return Domain(target.name, target.X[rows], target.y[rows], weight)


def row_weights(domain: Domain) -> Array:
    """(rows,) summing to 1: uniform, or the domain's own row weights."""
    if domain.weight is None:
        return np.full(domain.n_rows, 1.0 / domain.n_rows)
    weight = domain.weight / domain.weight.max()  # first, so that huge weights do not overflow
    return np.asarray(weight / weight.sum())
