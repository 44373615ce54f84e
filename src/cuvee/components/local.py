"""Answer from tables in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Self

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from cuvee.components import bounds, row_blocks
from cuvee.components.bounds import RiskBounds, RowConstants
from cuvee.components.inputs import Fourier, feature_mean, moment_times
from cuvee.components.protocol import Batch, Folds, Part, Pullback, Result
from cuvee.components.rows import (
    Rows,
    Table,
    deal_folds,
    hold_out,
    part_of,
    pick,
    source_sums,
)
from cuvee.components.sampling import RowStream
from cuvee.errors import OptionError
from cuvee.hypothesis.base import LossKind, Space
from cuvee.numerics.parallel import workers
from cuvee.problem import Domain, Problem


class LocalComponents:
    """Compute losses of any hypothesis by one forward and a backward through its graph.

    M = 0 is allowed: then w has no target axis to match and the losses have N columns. Rows are
    stacked when they are first needed; numbers are computed in the precision of w.
    """

    far = False

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
        self._seed, self._device = seed, torch.device(device)
        self._bind(problem.sources, problem.targets)
        self._gather()

    @classmethod
    def of_samples(
        cls, samples: Sequence[Domain], space: Space, loss: LossKind = "trained", **options: Any
    ) -> Self:
        """Return components of own samples alone, with no sources beside them."""
        other = cls.__new__(cls)
        other.space, other.loss = space, loss
        other._seed, other._device = (
            options.get("seed", 0),
            torch.device(options.get("device", "cpu")),
        )
        other._bind((), samples)
        other._gather()
        return other

    @property
    def _rows_in_all(self) -> int:
        """Return the rows of all sources, wherever they are."""
        return self.n_rows

    def _gather(self) -> None:
        """Compute what a subclass needs to know of the rows beforehand."""

    def _bind(self, sources: Sequence[Domain], targets: Sequence[Domain]) -> None:
        device = self._device
        self._sources, self._own = tuple(sources), tuple(targets)
        self.counts = torch.tensor([s.n_rows for s in sources], dtype=torch.int64, device=device)
        self.own_counts = torch.tensor(
            [t.n_rows for t in targets], dtype=torch.int64, device=device
        )
        # Counted once: every step of an algorithm asks.
        self.n_rows = sum(s.n_rows for s in sources)
        self._longest_own = max((t.n_rows for t in targets), default=0)
        self._targets: Tensor | None = None  # numbers of the targets in the problem, once narrowed
        names = [*(f"source {s.name}" for s in sources), *(f"target {t.name}" for t in targets)]
        self._stream = RowStream(names, torch.cat([self.counts, self.own_counts]), self._seed)
        # of all targets, shared by everything narrowed from this
        self._tables: dict[torch.dtype, Table] = {}
        self._chosen: dict[torch.dtype, Rows] = {}
        self._folded: tuple[Folds, torch.dtype, Rows] | None = None
        self._parts: dict[Part, Self] = {}
        self._buffer: Tensor | None = None
        self._drawn: tuple[Batch, torch.dtype, Rows] | None = None

    @property
    def own_rows(self) -> int:
        """Return the number of rows of the longest own block."""
        return self._longest_own if len(self.own_counts) else 0

    @workers(graph=True)
    def losses(self, w: Tensor, batch: Batch) -> tuple[Tensor, Pullback]:
        """Return f (M, Q, N+1) for w (M, Q, P), and its pullback to (M, Q, P).

        The pullback takes v (M, Q or 1, N+1). There is one forward over shared and own rows; the
        graph is walked back once, when the pullback is called.
        """
        leaf = w.detach().requires_grad_()
        with torch.enable_grad():
            losses = self._forward(leaf, self._rows(batch, w.dtype))

        @workers(graph=True)
        def pullback(v: Tensor) -> Tensor:
            (gradient,) = torch.autograd.grad(losses, leaf, v.to(losses.dtype).expand_as(losses))
            return gradient

        return losses.detach(), pullback

    @workers(graph=True)
    def values(self, w: Tensor, batch: Batch) -> Tensor:
        """Return the losses alone, (M, Q, N+1), without keeping anything for a pullback."""
        with torch.no_grad():
            return self._forward(w, self._rows(batch, w.dtype))

    def pull(self, w: Tensor, v: Tensor, batch: Batch) -> Tensor:
        """Return Σ_j v_j ∇f_j(w) for w (M, Q, P), v (M, Q, N or N+1).

        Networks take blocks of rows one after the other where the graph of all would be too large.
        """
        if not self.space.convex and len((rows := self._rows(batch, w.dtype)).X):
            size = row_blocks.size(self.bytes_per_row(), w)
            if len(rows.X) > size:
                return row_blocks.pull(self.space, self.loss, w, v.to(w.dtype), rows, size)
        return self.losses(w, batch)[1](v)

    @workers(graph=True)
    def hessian_times(self, w: Tensor, u: Tensor, v: Tensor, batch: Batch) -> Tensor:
        """Return Σ_j v_j ∇²f_j(w) u for w, u (M, Q, P), v (M, Q, N or N+1).

        It differentiates the gradient once more.
        """
        leaf, rows, v = w.detach().requires_grad_(), self._rows(batch, w.dtype), v.to(w.dtype)
        # (M, Q, rows)
        share = v[..., : len(rows.lengths)].repeat_interleave(rows.lengths, -1) * rows.weight
        with torch.enable_grad():  # no sums by source: torch cannot differentiate those twice
            total = leaf.new_zeros(())
            if len(rows.X):
                total = (
                    self.space.loss(self.loss, self.space.scores(leaf, rows.X), rows.y) * share
                ).sum()
            if len(rows.own_X):
                total = total + (self._own_forward(leaf, rows) * v[..., -1]).sum()
            (gradient,) = torch.autograd.grad(total, leaf, create_graph=True)
        if not gradient.requires_grad:  # losses that are linear in w
            return torch.zeros_like(w)
        (product,) = torch.autograd.grad(gradient, leaf, u, materialize_grads=True)
        return product

    def hessians(self, w: Tensor, v: Tensor, batch: Batch) -> Tensor:
        """Return Σ_j v_j ∇²f_j(w), (M, Q, P, P), column by column."""
        units = torch.eye(w.shape[-1], dtype=w.dtype, device=w.device)
        columns = [self.hessian_times(w, unit.expand_as(w), v, batch) for unit in units]
        return torch.stack(columns, -1)

    def own_values(self, w: Tensor, batch: Batch) -> Tensor:
        """Return f_T alone, (M, Q), without using the sources."""
        with torch.no_grad():
            return self._own_forward(w, self._rows(batch, w.dtype))

    def _forward(self, w: Tensor, rows: Rows) -> Tensor:
        space = self.space
        if len(rows.lengths) == 0:
            return self._own_forward(w, rows)[..., None]
        # (M, Q, rows)
        by_row = space.loss(self.loss, space.scores(w, rows.X), rows.y) * rows.weight
        shared = source_sums(by_row, rows)  # (M, Q, N)
        if len(rows.own_X) == 0:
            return shared
        return torch.cat([shared, self._own_forward(w, rows)[..., None]], -1)

    def _own_forward(self, w: Tensor, rows: Rows) -> Tensor:
        by_row = self.space.loss(self.loss, self.space.own_scores(w, rows.own_X), rows.own_y)
        return (by_row * rows.own_weight).sum(-1)

    def narrow(self, targets: Tensor) -> Self:
        """Return the same sources with the targets of these numbers only.

        They see and draw the same rows as before.
        """
        if len(self.own_counts) == 0:
            return self
        other = copy(self)
        other._targets = targets if self._targets is None else self._targets[targets]
        other.own_counts = self.own_counts[targets]
        other._stream = self._stream.of(self._domains(targets))
        other._chosen, other._folded, other._buffer, other._drawn = {}, None, None, None
        other._parts = {part: rows.narrow(targets) for part, rows in self._parts.items()}
        return other

    def without_targets(self) -> Self:
        """Return the sources alone."""
        return self.narrow(torch.zeros(0, dtype=torch.int64, device=self._device))

    def own_moments(self, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean and variance of row losses on each own sample, and Σ weight².

        Mean and variance are (M, Q), Σ weight² is (M,). w (Q, P) are the same models for every
        target.
        """
        rows, space = self._all(w.dtype), self.space
        with torch.no_grad():
            scores = space.own_scores(w.expand(len(rows.own_X), -1, -1), rows.own_X)
            by_row = space.loss(self.loss, scores, rows.own_y).double()  # (M, Q, k)
        weight = rows.own_weight.double()
        mean = (by_row * weight).sum(-1)
        variance = ((by_row - mean[..., None]).square() * weight).sum(-1)
        return mean, variance, weight[:, 0].square().sum(-1)

    def source_moments(self, w: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the same of every source's first `most` rows."""
        first = [Domain(s.name, s.X[:most], s.y[:most]) for s in self._sources]
        return LocalComponents.of_samples(
            first, self.space, self.loss, device=self._device
        ).own_moments(w)

    def together(self, jobs: Sequence[Callable[[], Result]]) -> list[Result]:
        """Return the results of jobs, one after the other: each uses all cores."""
        return [job() for job in jobs]

    def feature_means(self, features: Fourier) -> Tensor:
        """Return the mean of random features over each source's rows: (N, features)."""
        return torch.stack([feature_mean(source, features) for source in self._sources])

    def inputs_times(self, mean: Tensor, scale: Tensor, v: Tensor) -> Tensor:
        """Return Σ_j S_j v (d, p), with S_j the second moment of source j's standardised inputs."""
        return sum(
            (moment_times(source, mean, scale, v) for source in self._sources),
            start=torch.zeros_like(v),
        )

    def fold_weights(self, count: int) -> Tensor:
        """Return how much of each target's own sample lies in each of `count` folds: (M, count)."""
        rows = self._all(self.space.dtype)
        number = torch.arange(count, device=self._device)[None, :, None]
        inside = deal_folds(rows, count)[:, None] == number  # (M, count, k)
        return (inside * rows.own_weight).sum(-1)

    def row_constants(self) -> RowConstants:
        """Return G_f, L_f and the largest loss of any row, own samples included, for any w in W."""
        return bounds.row_constants(self._all(self.space.dtype), self._linear(), self.loss)

    def squared_lengths(self) -> tuple[Tensor, Tensor]:
        """Return Σ p²ρ²‖x‖² of every source (N,) and own sample (M,).

        Rademacher complexities are computed from them.
        """
        return bounds.squared_lengths(self._all(self.space.dtype), self._linear(), self.loss)

    def risk_bounds(self, radius: float) -> RiskBounds:
        """Return bounds on Hessians and gradients of the trained losses, ‖w‖ ≤ radius."""
        return bounds.risk_bounds(self._all(self.space.dtype), self._linear(), radius)

    def _linear(self) -> Any:
        if not self.space.bounds_known:
            raise OptionError(
                "the losses of a network have no known bound: use a linear model, such as Ridge"
            )
        return self.space

    def bytes_per_row(self) -> int:
        """Return how many bytes a forward keeps for every model and row.

        It is a mixed difference of the totals for two and three models and rows.
        """
        rows, space = self._all(self.space.dtype), self.space
        X, y, w = rows.X[:1].cpu(), rows.y[:1].cpu(), space.start(1, 0)

        def kept(models: int, rows: int) -> int:
            sizes = []
            first = torch.zeros(rows, dtype=torch.int64)
            with (
                saved_tensors_hooks(
                    lambda x: sizes.append(x.numel() * x.element_size()), lambda x: x
                ),
                torch.enable_grad(),
            ):
                space.trained(
                    space.scores(w.repeat(models, 1).requires_grad_(), X[first]), y[first]
                )
            return sum(sizes)

        return max(1, kept(3, 3) - kept(3, 2) - kept(2, 3) + kept(2, 2))

    # The methods below gather rows, which never leave this package.

    def _rows(self, batch: Batch, dtype: torch.dtype) -> Rows:
        """Return the rows that a batch describes, in the precision asked for."""
        if batch.part != "all":
            return self._part(batch.part)._rows(
                Batch(batch.step, batch.size, batch.own_whole, batch.folds), dtype
            )
        if batch.step is None:
            return self._all(dtype) if batch.folds is None else self._held_out(batch.folds, dtype)
        own = None
        if batch.folds is not None:
            own = self._held_out(batch.folds, dtype)
        elif batch.own_whole:
            own = self._all(dtype)
        # mostly the same batch is asked for twice, at two w
        if self._drawn is None or self._drawn[:2] != (batch, dtype):
            self._drawn = batch, dtype, self._minibatch(batch.step, batch.size, own, dtype)
        return self._drawn[2]

    def _table(self, dtype: torch.dtype) -> Table:
        native = self.space.dtype
        if native not in self._tables:
            self._tables[native] = Table.of(self._sources, self._own, self.space, self._device)
        if dtype not in self._tables:
            self._tables[dtype] = self._tables[native].to(dtype)
        return self._tables[dtype]

    def _all(self, dtype: torch.dtype) -> Rows:
        if dtype not in self._chosen:
            rows = self._table(dtype).rows
            self._chosen[dtype] = rows if self._targets is None else pick(rows, self._targets)
        return self._chosen[dtype]

    def _domains(self, targets: Tensor) -> Tensor:
        """Return the numbers of all sources and of the given targets among the domains."""
        N = len(self.counts)
        return torch.cat([torch.arange(N, device=self._device), N + targets])

    def _held_out(self, folds: Folds, dtype: torch.dtype) -> Rows:
        if self._folded is None or self._folded[0] is not folds or self._folded[1] != dtype:
            rows = self._all(dtype)
            fold = deal_folds(rows, folds.count)[:, None]  # (M, 1, k), −1 for padding
            inside = fold == folds.number.to(fold)[None, :, None]  # (M, Q, k)
            keep = inside if folds.only else ~inside & (fold >= 0)
            self._folded = folds, dtype, hold_out(rows, keep.to(rows.own_weight))
        return self._folded[2]

    def _minibatch(self, step: int, size: int, own: Rows | None, dtype: torch.dtype) -> Rows:
        """Return `size` rows with replacement from every source and every target.

        They are determined by seed and step. With `own`, its own block is taken as it is instead.
        The rows stand in a buffer that the next call overwrites: a new one in every step costs more
        than the forward.
        """
        table, M, N = self._table(dtype), len(self.own_counts), len(self.counts)
        starts = (
            table.starts if self._targets is None else table.starts[self._domains(self._targets)]
        )
        picked = self._stream.draw(step, size) + starts  # (N+M, size)
        picked = (picked if own is None else picked[:N]).reshape(-1)
        if self._buffer is None or len(self._buffer) != len(picked) or self._buffer.dtype != dtype:
            self._buffer = table.X.new_empty(len(picked), *table.X.shape[1:])
        X = torch.index_select(table.X, 0, picked, out=self._buffer)
        y, weight = table.y[picked], table.drawn_weight[picked] / size
        # A single target counts as one more source in the forward, which saves a second pass
        # through the model.
        shared = N + 1 if M == 1 and own is None else N
        n, n_blocks = shared * size, N + M - shared  # targets with a block of their own
        return Rows(
            X=X[:n],
            y=y[:n],
            weight=weight[:n],
            lengths=table.counts.new_full((shared,), size),
            regular=True,
            own_X=own.own_X if own else X[n:].view(n_blocks, size, *X.shape[1:]),
            own_y=own.own_y if own else y[n:].view(n_blocks, 1, size),
            own_weight=own.own_weight if own else weight[n:].view(n_blocks, 1, size),
        )

    def _part(self, part: Part) -> Self:
        """Return the components of the rows that belong to a part."""
        if part not in self._parts:
            present = (
                self._own
                if self._targets is None
                else [self._own[i] for i in self._targets.tolist()]
            )
            other = self.of_samples((), self.space, self.loss, seed=self._seed, device=self._device)
            other._bind(
                [part_of("source", s, self._seed, part) for s in self._sources],
                [part_of("target", t, self._seed, part) for t in present],
            )
            other._gather()
            self._parts[part] = other
        return self._parts[part]
