"""Compute the bounded loss 1 − p_y of logistic and softmax regression without a graph.

A tile holds the class probabilities of all models on some rows, rows first: a row's label picks a
line of it, and one small product adds lines up by source. For a minibatch the probabilities are
kept for the pullback; for all rows they are computed again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cuvee.components.local import LocalComponents
from cuvee.components.protocol import Batch, Pullback
from cuvee.components.rows import Rows
from cuvee.errors import OptionError
from cuvee.hypothesis.base import LossKind
from cuvee.hypothesis.linear import LinearSpace
from cuvee.numerics import parallel
from cuvee.numerics.parallel import crowd, cut, each
from cuvee.problem import Problem

# probabilities in a tile: as many as fit a cache, or keep a GPU busy
TILE = {"cpu": 2**18, "cuda": 2**26}
KEPT = 2**24  # probabilities kept for a pullback
CHANCE = 32  # multiplications that a probability costs beside its score
PARTIAL = 2**23  # numbers in the sums of all runs of tiles
FLOAT32_PAYS = 2**16  # numbers in the sources' table from which on float32 is used
LONGEST_ODDS = -60.0  # sums of e^60 still fit float32
FLOAT32_HOLDS = 1e12  # larger entries stay in float64


# Of a tile: the chances of error; with more than two classes also the odds and the last chance.
Kept = tuple[Tensor, ...]


class BoundedComponents(LocalComponents):
    """Answer for a logistic space with the bounded loss, in float32 where rows are many."""

    space: LinearSpace

    def __init__(
        self, problem: Problem, space: LinearSpace, loss: LossKind = "bounded", **options: Any
    ) -> None:
        if not space.chances or loss != "bounded":
            raise OptionError(
                "only logistic models have this bounded loss; use LocalComponents for others"
            )
        super().__init__(problem, space, loss, **options)
        self._precision: torch.dtype | None = None

    @property
    def _inside(self) -> torch.dtype:
        """Return the precision that rows are held in."""
        if self._precision is None:
            X = self._table(self.space.dtype).X
            many = self._rows_in_all * X[:1].numel() >= FLOAT32_PAYS
            single = many and float(X.abs().amax()) < FLOAT32_HOLDS
            self._precision = torch.float32 if single else self.space.dtype
        return self._precision

    def losses(self, w: Tensor, batch: Batch) -> tuple[Tensor, Pullback]:
        M, Q, _ = w.shape
        rows, W, tiles = self._laid_out(w, batch)
        version = rows.X._version
        keep = len(rows.X) * W.shape[1] <= KEPT
        kept: list[Kept] = []
        losses = self._values(W, rows, tiles, M, Q, kept if keep else None)

        def pullback(v: Tensor) -> Tensor:
            if rows.X._version != version:
                raise RuntimeError(
                    "the rows of this minibatch have been overwritten by the next one: call the "
                    "pullback before asking for another minibatch"
                )
            return self._pull(W, rows, tiles, v.to(W.dtype).expand(M, Q, -1), kept).to(w.dtype)

        return losses.to(w.dtype), pullback

    def values(self, w: Tensor, batch: Batch) -> Tensor:
        M, Q, _ = w.shape
        rows, W, tiles = self._laid_out(w, batch)
        return self._values(W, rows, tiles, M, Q, None).to(w.dtype)

    def pull(self, w: Tensor, v: Tensor, batch: Batch) -> Tensor:
        """Return Σ_j v_j ∇f_j(w) without working out the losses first."""
        M, Q, _ = w.shape
        rows, W, tiles = self._laid_out(w, batch)
        return self._pull(W, rows, tiles, v.to(W.dtype).expand(M, Q, -1), []).to(w.dtype)

    def _laid_out(self, w: Tensor, batch: Batch) -> tuple[Rows, Tensor, list[_Tile]]:
        """Return the rows of a batch, the models in columns, and the rows' tiles."""
        rows = self._signed_labels(self._rows(batch, self._inside))
        W = self._columns(w, rows)
        return rows, W, list(_tiles(rows, W))

    def _signed_labels(self, rows: Rows) -> Rows:
        """Return the rows with −1 and 1 for the labels 1 and 0 of two classes."""
        if self.space.n_outputs > 1:
            return rows
        y, own_y = ((1 - 2 * label).to(rows.X.dtype) for label in (rows.y, rows.own_y))
        return replace(rows, y=y, own_y=own_y)

    def _columns(self, w: Tensor, rows: Rows) -> Tensor:
        """Return w (M, Q, P) as (width, scores · models), in the rows' precision.

        With two classes there is one score, of the second class. With more, the scores say how far
        the last class is ahead of each other class.
        """
        by_model = w.to(rows.X.dtype).reshape(-1, self.space.n_outputs, self.space.width)
        if self.space.n_outputs > 1:
            by_model = by_model[:, -1:] - by_model[:, :-1]
        return by_model.permute(2, 1, 0).reshape(self.space.width, -1)

    def _by_model(self, gradient: Tensor) -> Tensor:
        """Return (width, scores, M, Q) as (M, Q, outputs, width): the way back."""
        if self.space.n_outputs > 1:
            gradient = torch.cat([gradient, -gradient.sum(1, keepdim=True)], 1)
        return gradient.permute(2, 3, 1, 0)

    def _values(
        self,
        W: Tensor,
        rows: Rows,
        tiles: list[_Tile],
        M: int,
        Q: int,
        kept: list[Kept] | None,
    ) -> Tensor:
        """Return losses (M, Q, N or N+1) in float64.

        `kept` gathers what a pullback needs.
        """
        total = torch.zeros(len(rows.lengths), M * Q, dtype=torch.float64, device=W.device)

        def some(tile: _Tile) -> tuple[Kept | None, Tensor]:
            p, wrong = self._chances(tile.X, tile.y, W)
            return p if kept is not None else None, tile.sums(wrong)

        for tile, (p, sums) in zip(
            tiles, each(some, tiles, W.device, cost=_work(rows, W)), strict=True
        ):
            total[tile.sources] += sums
            if kept is not None and p is not None:
                kept.append(p)
        shared = total.T.view(M, Q, -1)
        if len(rows.own_X) == 0:
            return shared
        # wrong (M, k, Q)
        p, wrong = self._chances(rows.own_X, rows.own_y[:, 0], self._own_columns(W, M, Q))
        if kept is not None:
            kept.append(p)
        own = (wrong.transpose(-1, -2) * rows.own_weight).sum(-1, keepdim=True)
        return torch.cat([shared, own.to(shared)], -1)

    def _pull(
        self, W: Tensor, rows: Rows, tiles: list[_Tile], v: Tensor, kept: list[Kept]
    ) -> Tensor:
        """Return Σ_j v_j ∇f_j, (M, Q, P)."""
        (M, Q, _), n = v.shape, len(rows.lengths)
        by_source = v.reshape(M * Q, -1).T.contiguous()

        def some(run: slice) -> Tensor:
            gradient = torch.zeros_like(W)
            for number in range(len(tiles))[run]:
                tile = tiles[number]
                p = kept[number] if kept else self._chances(tile.X, tile.y, W)[0]
                slopes = tile.times(self._slopes(p), by_source[tile.sources])
                gradient += self._back(tile.X * tile.weight[:, None], tile.y, p, slopes)
            return gradient

        # each run of tiles has a sum of its own; they are added up in the order of the rows
        work = _work(rows, W)
        runs = cut(len(tiles), max(1, min(parallel.tiles(work), PARTIAL // W.numel())))
        gradient = torch.zeros_like(W)
        for part in each(some, runs, W.device, cost=work):
            gradient += part
        gradient = gradient.view(self.space.width, -1, M, Q)
        if len(rows.own_X):
            X, y = rows.own_X, rows.own_y[:, 0]
            p = kept[-1] if kept else self._chances(X, y, self._own_columns(W, M, Q))[0]
            # (M, k, Q)
            slopes = self._slopes(p).mul_((rows.own_weight * v[..., n:]).transpose(-1, -2))
            own = self._back(X, y, p, slopes).view(M, self.space.width, -1, Q)
            gradient = gradient + own.permute(1, 2, 0, 3)
        return self._by_model(gradient).reshape(M, Q, -1)

    def _own_columns(self, W: Tensor, M: int, Q: int) -> Tensor:
        """Return the columns of every target's models: (M, width, outputs · Q)."""
        width = self.space.width
        return W.view(width, -1, M, Q).permute(2, 0, 1, 3).reshape(M, width, -1)

    def _chances(self, X: Tensor, y: Tensor, W: Tensor) -> tuple[Kept, Tensor]:
        """Return what a pullback needs, and the chance of error (..., r, models).

        X (..., r, width) are the rows.
        """
        K = self.space.n_outputs
        if K == 1:  # the label gives a sign, and the chance of error is enough
            wrong = (_signed(X, y) @ W).sigmoid_()
            return (wrong,), wrong
        # 1 + odds of every class against the last is 1 + e^−s = 1/σ(s), and σ is faster than exp.
        odds = (X @ W).clamp_(min=LONGEST_ODDS).sigmoid_().reciprocal_().view(*y.shape, K - 1, -1)
        last = odds[..., 0, :] - (K - 2.0)
        for c in range(1, K - 1):  # torch's own sum over a middle axis takes three times as long
            last += odds[..., c, :]
        last.reciprocal_()  # the last class's chance
        own = odds.view(-1, odds.shape[-1]).index_select(0, _lines(y, odds))
        own.index_fill_(0, (y == K - 1).view(-1).nonzero()[:, 0], 2.0)
        # 1 − (own − 1) · last
        wrong = torch.addcmul(1.0 + last, own.view_as(last), last, value=-1.0)
        return (wrong, odds, last), wrong

    def _slopes(self, kept: Kept) -> Tensor:
        """Return how steep each row's loss is, (..., r, models).

        It is p(1 − p) for two classes, p_y for more.
        """
        wrong = kept[0]
        return (
            torch.addcmul(wrong, wrong, wrong, value=-1.0)
            if self.space.n_outputs == 1
            else 1.0 - wrong
        )

    def _back(self, X: Tensor, y: Tensor, kept: Kept, slopes: Tensor) -> Tensor:
        """Return the gradient (..., width, scores · models) from weighted slopes.

        The slopes are those of `_slopes` times the weight of each row.
        """
        if self.space.n_outputs == 1:
            return _signed(X, y).transpose(-1, -2) @ slopes
        _, odds, last = kept
        # p_y p_c, minus p_y where c = y
        by_class = (odds - 1.0).mul_((slopes * last).unsqueeze(-2))
        lines, others = _lines(y, odds), (y < odds.shape[-2]).view(-1).nonzero()[:, 0]
        flat = slopes.reshape(-1, slopes.shape[-1])
        by_class.view(-1, flat.shape[-1]).index_add_(0, lines[others], flat[others], alpha=-1.0)
        return X.transpose(-1, -2) @ by_class.flatten(-2)


@dataclass(frozen=True)
class _Tile:
    """Hold some rows and the sources they belong to, in order."""

    X: Tensor  # (r, width)
    y: Tensor  # (r,)
    weight: Tensor  # (r,)
    sources: slice
    source: (
        Tensor | None
    )  # (r,) each row's source; None when all have equally many rows in the tile

    def sums(self, by_row: Tensor) -> Tensor:
        """Return (sources, models) from (r, models): weighted and added up by source."""
        n = self.sources.stop - self.sources.start
        if self.source is None:
            return (self.weight.view(n, 1, -1) @ by_row.view(n, -1, by_row.shape[-1]))[:, 0]
        by_source = by_row.new_zeros(n, len(by_row)).scatter_(
            0, self.source[None], self.weight[None]
        )
        return by_source @ by_row

    def times(self, by_row: Tensor, v: Tensor) -> Tensor:
        """Return every row's line times its source's, v (sources, models); overwrites `by_row`."""
        if self.source is None:
            return by_row.view(len(v), -1, v.shape[-1]).mul_(v[:, None]).view_as(by_row)
        return by_row.mul_(v.index_select(0, self.source))


def _tiles(rows: Rows, W: Tensor) -> Iterator[_Tile]:
    """Yield tiles of as many rows as they may hold; whole sources where small and equal.

    Where that makes fewer tiles than the workers could use, they are smaller.
    """
    n, N, columns = len(rows.X), len(rows.lengths), W.shape[1]
    held = TILE["cuda"] if rows.X.is_cuda else TILE["cpu"] * crowd()
    room = max(1, int(held // max(1, columns)))
    size = room if rows.X.is_cuda else min(room, max(1, -(-n // parallel.tiles(_work(rows, W)))))
    equal = rows.regular and n // N <= room
    if equal:
        size = max(size - size % (n // N), n // N)
    ends, source = rows.lengths.cumsum(0).tolist(), None
    if not equal:
        source = torch.arange(N, device=rows.X.device).repeat_interleave(rows.lengths)
    for low in range(0, n, size):
        part = slice(low, min(low + size, n))
        sources = slice(bisect_right(ends, low), bisect_left(ends, part.stop) + 1)
        source_of = None if source is None else source[part] - sources.start
        yield _Tile(rows.X[part], rows.y[part], rows.weight[part], sources, source_of)


def _work(rows: Rows, W: Tensor) -> int:
    """Return roughly the multiplications that all rows take for W (width, columns)."""
    width, columns = W.shape
    return len(rows.X) * columns * (2 * width + CHANCE)


def _signed(X: Tensor, sign: Tensor) -> Tensor:
    """Return rows whose score is the log-odds of the wrong one of two classes."""
    return X * sign[..., None]


def _lines(y: Tensor, odds: Tensor) -> Tensor:
    """Return which line of odds (..., r, classes − 1, models) is each row's own.

    The last class has no line; its rows get the line before.
    """
    others = odds.shape[-2]
    return torch.arange(y.numel(), device=y.device) * others + y.reshape(-1).clamp(max=others - 1)
