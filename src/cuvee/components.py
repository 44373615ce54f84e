"""The seam everything stands on: component losses f_1..f_N of many models, and their pullback.

    losses, pullback = components.losses(w, rows)   # w (M, Q, P) -> losses (M, Q, N+1), pullback -> (M, Q, P)

`losses[i, q, j] = f_j(w_iq)` for the N sources; the last column is f_T on target i's own labelled rows.
`pullback(v)` is Σ_j v_iqj ∇f_j(w_iq). Q is whatever the caller stacks per target: a panel of adversaries,
candidate mixtures, cross-validation folds. Algorithms see nothing else of the data, so sources may live
elsewhere without a line of them changing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from cuvee.hypothesis.base import LossKind, Space
from cuvee.problem import Array, Domain, Problem
from cuvee.sampling import RowStream

Pullback = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Rows:
    """Rows to average over, already gathered: every source's, and each target's own block."""

    X: Tensor  # (rows, …), source after source
    y: Tensor  # (rows,)
    weight: Tensor  # (rows,), summing to 1 within each source
    lengths: Tensor  # (N,) rows of each source
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
    def minibatch(self, step: int, size: int) -> Rows: ...
    def losses(self, w: Tensor, rows: Rows) -> tuple[Tensor, Pullback]: ...


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
        device = torch.device(device)
        self.counts = torch.tensor([s.n_rows for s in sources], device=device)
        self.own_counts = torch.tensor([t.n_rows for t in targets], dtype=torch.int64, device=device)
        self._first = self.counts.cumsum(0) - self.counts  # (N,) where each source starts
        self._stream = RowStream([f"source {s.name}" for s in sources], self.counts, seed)
        self._own_stream = RowStream([f"target {t.name}" for t in targets], self.own_counts, seed)
        X = np.concatenate([s.X for s in sources])
        y = np.concatenate([space.encode(s) for s in sources])
        weight = np.concatenate([_row_weights(s) for s in sources])
        own_X, own_y, own_weight = self._own_block(problem)
        self.everything = Rows(
            X=space.prepare(_tensor(X, space).to(device)),
            y=_tensor(y, space).to(device),
            weight=_tensor(weight, space).to(device),
            lengths=self.counts,
            regular=bool((self.counts == self.counts[0]).all()),
            own_X=space.prepare(own_X.to(device)),
            own_y=own_y.to(device),
            own_weight=own_weight.to(device),
        )

    def _own_block(self, problem: Problem) -> tuple[Tensor, Tensor, Tensor]:
        """Every target's rows in one block, padded to the longest; padding repeats rows with weight 0."""
        space, targets = self.space, problem.targets
        k = max((t.n_rows for t in targets), default=0)
        X = np.zeros((len(targets), k, *problem.input_shape))
        y = np.zeros((len(targets), k), dtype=space.encode(problem.sources[0]).dtype)
        weight = np.zeros((len(targets), k))
        for i, target in enumerate(targets):
            rows = np.arange(k) % target.n_rows
            X[i], y[i] = target.X[rows], space.encode(target)[rows]
            weight[i, : target.n_rows] = _row_weights(target)
        return _tensor(X, space), _tensor(y, space)[:, None], _tensor(weight, space)[:, None]

    def minibatch(self, step: int, size: int) -> Rows:
        """`size` rows with replacement from every source and every target, determined by seed and step."""
        full = self.everything
        picked = (self._stream.draw(step, size) + self._first[:, None]).reshape(-1)
        own = self._own_stream.draw(step, size)  # (M, size)
        target = torch.arange(len(own), device=own.device)[:, None]
        # Rows are drawn uniformly; what row weights they have is made up for by their size here.
        weight = full.weight[picked] * (self.counts.repeat_interleave(size) / size)
        own_weight = full.own_weight[target, 0, own] * (self.own_counts[:, None] / size)
        return Rows(
            X=full.X[picked],
            y=full.y[picked],
            weight=weight.to(full.weight.dtype),
            lengths=torch.full_like(self.counts, size),
            regular=True,
            own_X=full.own_X[target, own],
            own_y=full.own_y[target, 0, own][:, None],
            own_weight=own_weight.to(full.weight.dtype)[:, None],
        )

    def losses(self, w: Tensor, rows: Rows) -> tuple[Tensor, Pullback]:
        """w (M, Q, P) -> f (M, Q, N+1) and its pullback (M, Q, N+1) -> (M, Q, P).

        One forward over shared and own rows; the graph behind the pullback is walked once, when it is called.
        """
        leaf = w.detach().requires_grad_()
        with torch.enable_grad():
            losses = self._forward(leaf, rows)

        def pullback(v: Tensor) -> Tensor:
            (gradient,) = torch.autograd.grad(losses, leaf, v)
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


def source_sums(by_row: Tensor, rows: Rows) -> Tensor:
    """(..., rows) -> (..., N), each source's rows added up."""
    if rows.regular:
        return by_row.view(*by_row.shape[:-1], len(rows.lengths), -1).sum(-1)
    lengths = rows.lengths.expand(*by_row.shape[:-1], -1).contiguous()
    return torch.segment_reduce(by_row, "sum", lengths=lengths, axis=by_row.ndim - 1)


def hold_out(rows: Rows, keep: Tensor) -> Rows:
    """The same rows with each target's own block reweighted by `keep` (M, Q, k) of 0 and 1."""
    weight = rows.own_weight * keep
    return replace(rows, own_weight=weight / weight.sum(-1, keepdim=True).clamp(min=1e-300))


def _tensor(array: Array, space: Space) -> Tensor:
    """Floats in the space's own precision; class numbers stay integers."""
    return torch.as_tensor(array, dtype=space.dtype if array.dtype.kind == "f" else None)


def _row_weights(domain: Domain) -> Array:
    """(rows,) summing to 1: uniform, or the domain's own row weights."""
    if domain.weight is None:
        return np.full(domain.n_rows, 1.0 / domain.n_rows)
    return np.asarray(domain.weight / domain.weight.sum())
