"""Compute mixed gradients and Hessians of models whose scores are linear in w, in tiles.

    g = components.pull(w, v, batch)            # Σ_j v_j ∇f_j(w),  (M, Q, P)
    H = components.hessians(w, v, batch)        # Σ_j v_j ∇²f_j(w), (M, Q, P, P)

They are the same numbers as a pullback's, without the graph: a tile holds the scores of some models
on some rows of one source, is turned into means in place and multiplied back. Sources with v = 0
are skipped, model by model.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from cuvee.components.local import LocalComponents
from cuvee.components.protocol import Batch
from cuvee.components.rows import Rows, source_sums
from cuvee.components.tiles import TILE_ROWS, Add, Block, Tile, cut_rows, share_out
from cuvee.errors import OptionError
from cuvee.hypothesis.base import LossKind
from cuvee.hypothesis.generalised import GeneralisedSpace
from cuvee.numerics.parallel import count, crowd, each
from cuvee.problem import Problem

SPARSE = 0.7  # of the models: a source that fewer of them use is computed for those only
MANY_FEATURES, MOST_FEATURES = 256, 2048  # second moments get a rougher bound from each of these
# scores in a tile: as many as fit a cache, or keep a GPU busy; more where many workers share Python
TILE = {"cpu": 2**20, "cuda": 2**29}


class LinearComponents(LocalComponents):
    """Answer for a generalised linear space with the loss it is trained on."""

    space: GeneralisedSpace
    _room: int  # scores that a tile may hold

    def __init__(
        self,
        problem: Problem,
        space: GeneralisedSpace,
        loss: LossKind = "trained",
        *,
        memory: int | None = None,
        **options: Any,
    ) -> None:
        if not space.generalised or loss != "trained":
            raise OptionError(
                "LinearComponents are for generalised linear models with the loss they are trained "
                "on; use LocalComponents"
            )
        super().__init__(problem, space, loss, **options)
        if memory is not None:
            # a few tiles of float64 for each worker
            self._room = max(1, min(self._room, memory // (64 * count())))

    def _gather(self) -> None:
        self._room = TILE["cuda"] if self.counts.is_cuda else int(TILE["cpu"] * crowd())
        rows, lengths = self._all(self.space.dtype), self.counts.tolist()
        self._tiles = list(cut_rows(lengths, on_gpu=self.counts.is_cuda))
        self._source_of = torch.arange(len(lengths), device=self.counts.device).repeat_interleave(
            self.counts
        )
        # Rows of a source mostly have equal weights; then one number replaces a pass over the tile.
        self._even = [
            float(weight[0]) if bool((weight == weight[0]).all()) else None
            for weight in rows.weight.split(lengths)
        ]
        self.statistics = self._statistics()
        """(N, P) Σ_i p_i statistic(y_i) ⊗ x_i: the label's part of every source's gradient."""

    def _statistics(self) -> Tensor:
        """Return the statistics (N, P), summed block by block.

        Long sums lose digits.
        """
        rows, space, lengths = self._all(self.space.dtype), self.space, self.counts.tolist()
        total = rows.X.new_zeros(len(lengths), space.n_params)
        parts = (t.split(lengths) for t in (rows.X, rows.y, rows.weight))
        sources = list(zip(total, self._even, *parts, strict=True))

        def add(source: tuple[Tensor, float | None, Tensor, Tensor, Tensor]) -> None:
            sum_of, even, *rows = source
            for X, y, weight in zip(*(t.split(TILE_ROWS) for t in rows), strict=True):
                by_row = space.statistic(y) if even else space.statistic(y) * weight
                sum_of += (by_row @ X).view(-1) * (even or 1.0)

        each(add, sources, rows.X.device, cost=8 * rows.X.numel())
        return total

    @cached_property
    def largest(self) -> float:
        """Return the largest number, in absolute value, of all rows."""
        rows = self._all(self.space.dtype)
        held = [X for X in (rows.X, rows.own_X) if X.numel()]
        return max(max(float(X.amax()), -float(X.amin())) for X in held)

    @cached_property
    def longest_row(self) -> Tensor:
        """Return the largest norm of a row, ()."""
        rows = self._all(self.space.dtype)
        norms = [
            torch.linalg.vector_norm(X, dim=-1).amax() for X in (rows.X, rows.own_X) if X.numel()
        ]
        return torch.stack(norms).amax()

    @cached_property
    def mean_squares(self) -> Tensor:
        """Return the mean over all source rows of each column's square, (width,)."""
        X = self._all(self.space.dtype).X
        return torch.stack([part.square().sum(0) for part in X.split(TILE_ROWS)]).sum(0) / len(X)

    @cached_property
    def rows_of_kind(self) -> Tensor:
        """Return how many rows each source has of each kind of label, (N, kinds).

        Rows of weight 0 do not count.
        """
        N, kinds, rows = len(self.counts), self.space.n_kinds, self._all(self.space.dtype)
        weighed = (rows.weight > 0).to(rows.X)
        place = self._source_of * kinds + self.space.kinds(rows.y)
        return rows.X.new_zeros(N * kinds).index_add_(0, place, weighed).view(N, kinds)

    @property
    def own_rows_of_kind(self) -> Tensor:
        """Return the same of each target's own sample, (M, kinds)."""
        rows = self._all(self.space.dtype)
        counted = rows.own_X.new_zeros(len(self.own_counts), self.space.n_kinds)
        kinds = self.space.kinds(rows.own_y[:, 0])
        return counted.scatter_add_(1, kinds, (rows.own_weight[:, 0] > 0).to(counted))

    @cached_property
    def label_sizes(self) -> Tensor:
        """Return the average size of each source's statistics, (N,)."""
        rows = self._all(self.space.dtype)
        return source_sums(self.space.statistic(rows.y).abs().sum(-2) * rows.weight, rows)

    @property
    def own_label_sizes(self) -> Tensor:
        """Return the same of each target's own sample, (M,)."""
        rows = self._all(self.space.dtype)
        sizes = self.space.statistic(rows.own_y).abs().sum(-2)  # (M, 1, k)
        return (sizes * rows.own_weight).sum((-2, -1))

    def means(self) -> Tensor:
        """Return the mean row of every source without its intercept, (N, features)."""
        rows, lengths = self._all(self.space.dtype), self.counts.tolist()
        parts = zip(rows.X[:, :-1].split(lengths), rows.weight.split(lengths), strict=True)
        return torch.stack([weight @ X for X, weight in parts])

    def spread(self, reference: Tensor) -> tuple[Tensor, Tensor]:
        """Return each source's reach (N,) and λ_max of second moments (N,).

        The reach is the largest distance of a row from the reference row, the moment an upper
        bound. Both are of features only, without the intercept.
        """
        rows, lengths = self._all(self.space.dtype), self.counts.tolist()

        def of(source: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            X, weight = source
            centred = X - reference
            reach = torch.linalg.vector_norm(centred, dim=-1).amax()
            return reach, largest_moment(centred.mul_(weight.sqrt()[:, None]))

        sources = zip(rows.X[:, :-1].split(lengths), rows.weight.split(lengths), strict=True)
        cost = rows.X.numel() * rows.X.shape[1]
        reach, largest = zip(*each(of, sources, rows.X.device, cost=cost), strict=True)
        return torch.stack(reach), torch.stack(largest)

    def own_spread(self, reference: Tensor) -> tuple[Tensor, Tensor]:
        """Return the same for each target's own sample, (M,) twice; the moment is its trace."""
        rows = self._all(self.space.dtype)
        size = torch.linalg.vector_norm(rows.own_X[..., :-1] - reference, dim=-1)  # (M, k)
        return size.amax(-1), (rows.own_weight[:, 0] * size.square()).sum(-1)

    @property
    def roundings(self) -> float:
        """Return how many roundings may go into a number summed over all rows."""
        return self._longest + len(self._tiles) + len(self.counts)

    def pull(self, w: Tensor, v: Tensor, batch: Batch) -> Tensor:
        """Return Σ_j v_j ∇f_j(w) for w (M, Q, P), v (M, Q, N or N+1), in the precision of w."""
        if batch.step is not None or batch.part != "all":  # tiles and statistics are of all rows
            return super().pull(w, v, batch)
        return self._pass(w, v, self._rows(batch, w.dtype), second=False)[0]

    def pull_with_second(self, w: Tensor, v: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return `pull`, and Σ_j v_j ∇²f_j(w) in the intercepts alone.

        The second is (M, Q, outputs, outputs) and costs almost nothing more.
        """
        return self._pass(w, v, self._rows(batch, w.dtype), second=True)

    def _pass(self, w: Tensor, v: Tensor, rows: Rows, *, second: bool) -> tuple[Tensor, Tensor]:
        M, Q, P = w.shape
        N, K = len(self.counts), self.space.n_outputs
        flat, shares = w.reshape(-1, P), v.reshape(M * Q, v.shape[-1])[:, :N].to(w.dtype)
        gradient = -(shares @ self.statistics.to(w.dtype))
        bends = w.new_zeros(M * Q, K, K)

        def add(block: Block, g: Tensor, bend: Tensor) -> None:
            models, v = flat[block.models], shares[block.models]
            busy = (v != 0).sum(0).tolist()
            for tile in block.tiles:
                self._add(g, bend if second else None, models, v, busy, tile, rows)

        self._share_out(add, (gradient, bends), scores=K, cost=2 * P)
        gradient, bends = gradient.view(M, Q, P), bends.view(M, Q, K, K)
        if v.shape[-1] > N and M > 0:
            self._add_own(gradient, bends if second else None, w, v[..., N:].to(w.dtype), rows)
        return gradient, bends

    def _share_out(self, add: Add, totals: tuple[Tensor, ...], *, scores: int, cost: int) -> None:
        """Let workers add their blocks to the totals (models, …).

        A tile holds `scores` numbers for each of its models and rows, and takes `cost`
        multiplications for each.
        """
        size = max(1, self._room // (scores * self._longest))
        share_out(add, totals, self._tiles, size, cost * len(totals[0]) * self.n_rows)

    def _add(
        self,
        gradient: Tensor,
        bends: Tensor | None,
        w: Tensor,
        shares: Tensor,
        busy: list[int],
        tile: Tile,
        rows: Rows,
    ) -> None:
        """Add one tile to gradient (m, P) and bends (m, K, K) of the models w (m, P)."""
        space, X = self.space, rows.X[tile.low : tile.high]
        active = max(busy[tile.first : tile.last])
        if active == 0:
            return
        v, index = shares[:, tile.first : tile.last], None
        if active < SPARSE * len(w) and tile.last - tile.first == 1:
            index = v[:, 0].nonzero()[:, 0]
            w, v = w[index], v[index]
        mean = space.mean_(space.scores(w, X))  # (m, K, rows)
        even = self._even[tile.first] if tile.last - tile.first == 1 else None
        if even is not None:
            weighted, factor = mean, v * even
        else:
            source = self._source_of[tile.low : tile.high] - tile.first
            by_row = v[:, source] * rows.weight[tile.low : tile.high]
            weighted, factor = mean * by_row[:, None], torch.ones_like(v[:, :1])
        g = (weighted.view(-1, X.shape[0]) @ X).view(len(w), -1)
        if index is None and active < len(w):
            g[(v == 0).all(1)] = 0.0  # a model with v = 0 may have overflowed
        if index is None:
            gradient.addcmul_(g, factor)
        else:
            gradient.index_add_(0, index, g * factor)
        if bends is None:
            return
        bend = space.summed_curvature(weighted, mean) * factor[..., None]
        if index is None:
            bends += bend
        else:
            bends.index_add_(0, index, bend)

    def _add_own(
        self, gradient: Tensor, bends: Tensor | None, w: Tensor, v: Tensor, rows: Rows
    ) -> None:
        """Add each target's own block to gradient and bends: v (M, Q, 1)."""
        space, weight = self.space, (rows.own_weight * v).unsqueeze(-2)  # (M, Q, 1, k)
        mean = space.mean_(space.own_scores(w, rows.own_X))  # (M, Q, K, k)
        residual = (mean - space.statistic(rows.own_y).to(w.dtype)) * weight
        M, Q, K, k = residual.shape
        gradient += (residual.view(M, Q * K, k) @ rows.own_X).view(M, Q, -1)
        if bends is not None:
            bends += space.summed_curvature(mean * weight, mean)

    def hessian_times(self, w: Tensor, u: Tensor, v: Tensor, batch: Batch) -> Tensor:
        """Return Σ_j v_j ∇²f_j(w) u (M, Q, P) without any Hessian.

        w and u are (M, Q, P), v is (M, Q, N or N+1).
        """
        (M, Q, P), rows = w.shape, self._rows(batch, w.dtype)
        N, space = len(self.counts), self.space
        flat, moved, shares = (
            w.reshape(-1, P),
            u.reshape(-1, P),
            v.reshape(M * Q, v.shape[-1])[:, :N],
        )
        result = torch.zeros_like(flat)

        def add(block: Block, total: Tensor) -> None:
            chunk = block.models
            busy = (shares[chunk] != 0).any(0).tolist()
            for tile in block.tiles:
                if not any(busy[tile.first : tile.last]):
                    continue
                X, part = rows.X[tile.low : tile.high], slice(tile.low, tile.high)
                bent = space.change(
                    space.mean_(space.scores(flat[chunk], X)), space.scores(moved[chunk], X)
                )
                bent *= (shares[chunk][:, self._source_of[part]] * rows.weight[part])[:, None]
                total += (bent.view(-1, len(X)) @ X).view(-1, P)

        self._share_out(add, (result,), scores=space.n_outputs, cost=3 * P)
        result = result.view(M, Q, P)
        if v.shape[-1] > N and M > 0:
            bent = space.change(
                space.mean_(space.own_scores(w, rows.own_X)), space.own_scores(u, rows.own_X)
            )
            bent = bent * (rows.own_weight * v[..., N:])[:, :, None]
            result = result + (bent.flatten(1, 2) @ rows.own_X).view(M, Q, P)
        return result

    def hessians(self, w: Tensor, v: Tensor, batch: Batch) -> Tensor:
        """Return Σ_j v_j ∇²f_j(w) (M, Q, P, P) for w (M, Q, P), v (M, Q, N or N+1)."""
        M, Q, P = w.shape
        K, width = self.space.n_outputs, self.space.width
        H = w.new_zeros(M, Q, K, width, K, width)
        for a in range(K):
            H[:, :, a] = self.hessian_blocks(w, v, batch, a).transpose(-3, -2)
        return H.view(M, Q, P, P)

    def hessian_blocks(
        self, w: Tensor, v: Tensor, batch: Batch, output: int, only: bool = False
    ) -> Tensor:
        """Return the Hessian's rows of one output, (M, Q, K, width, width).

        With `only`, the block of this output with itself is returned alone, with K = 1.
        """
        (M, Q, P), rows = w.shape, self._rows(batch, w.dtype)
        N, width, space = len(self.counts), self.space.width, self.space
        flat, shares = w.reshape(-1, P), v.reshape(M * Q, v.shape[-1])[:, :N].to(w.dtype)
        K = 1 if only else space.n_outputs
        blocks = w.new_zeros(M * Q, K, width, width)

        def curvature(mean: Tensor) -> Tensor:
            bend = space.curvature(mean, output)
            return bend[..., output : output + 1, :] if only else bend

        def add(block: Block, total: Tensor) -> None:
            mine, share = flat[block.models], shares[block.models]
            for tile in block.tiles:
                active = (share[:, tile.first : tile.last] != 0).any(1).nonzero()[:, 0]
                X, part = rows.X[tile.low : tile.high], slice(tile.low, tile.high)
                if len(active) == 0:
                    continue
                bend = curvature(space.mean_(space.scores(mine[active], X)))  # (m, K, rows)
                bend = bend * (share[active][:, self._source_of[part]] * rows.weight[part])[:, None]
                scaled = bend[:, :, None] * X.T.contiguous()  # (m, K, width, rows)
                total[active] += (scaled.view(-1, len(X)) @ X).view(-1, K, width, width)

        self._share_out(
            add, (blocks,), scores=space.n_outputs * width, cost=(P + K * width) * width
        )
        blocks = blocks.view(M, Q, K, width, width)
        if v.shape[-1] > N and M > 0:
            bend = curvature(space.mean_(space.own_scores(w, rows.own_X)))
            bend = bend * (rows.own_weight * v[..., N:].to(w.dtype))[:, :, None]
            blocks = blocks + torch.einsum("mqck,mkp,mkr->mqcpr", bend, rows.own_X, rows.own_X)
        return blocks

    @property
    def _longest(self) -> int:
        return max((tile.high - tile.low for tile in self._tiles), default=1)


def largest_moment(R: Tensor) -> Tensor:
    """Return an upper bound on λ_max(RᵀR) for rows R (m, d).

    It comes from the smaller one of RᵀR and RRᵀ.
    """
    if min(R.shape) > MOST_FEATURES:  # either matrix would cost more than the models themselves
        return R.square().sum() * (1 + 1e-9)
    return top_eigenvalue(R @ R.T if len(R) < R.shape[1] else R.T @ R)


def top_eigenvalue(A: Tensor) -> Tensor:
    """Return an upper bound on λ_max of positive semidefinite A (..., d, d), within a few percent.

    It is ‖A^(2^s)‖_F^(1/2^s).
    """
    bound = torch.linalg.matrix_norm(A).clamp(min=torch.finfo(A.dtype).tiny)
    power, exponent = A / bound[..., None, None], 1.0
    for _ in range(5 if A.shape[-1] <= MANY_FEATURES else 2):
        power = power @ power
        norm = torch.linalg.matrix_norm(power).clamp(min=1e-300)
        power, exponent = power / norm[..., None, None], exponent / 2
        bound = bound * norm**exponent
    return bound * (1 + 1e-9)  # more than rounding can have lost
