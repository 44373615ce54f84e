"""Find the nearest of many centres on Δ exactly, while their number grows.

Centres stand in blocks in the order they came: where a stream drifts, a block is small in space,
and its bounding box rules it out. The others are screened in float32 and checked again in float64,
so that every answer is, to the bit, that of the plain formula over all centres. Where boxes rule
out too little, one screening pass over everything is still faster than float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from cuvee.results import Floats

# These choose the fastest method, as measured with N = 15 on one thread; answers do not depend on
# them.
PLAIN = 250  # centres up to which the plain formula is used
PRUNE = 20_000  # centres up to which one screening pass is used
BLOCK = 512
LOOK = 5_000  # searching one block costs about as much as this many centres in a pass
PAUSE = 63  # queries that go without boxes, at most, after boxes ruled out too little


class Centres:
    """Hold a growing number of points of the simplex, and find the nearest one exactly.

    >>> centres = Centres.of(np.eye(3))
    >>> centres.nearest(np.array([0.0, 0.5, 0.5]))
    (1, 0.7071067811865476)
    """

    def __init__(self, n_sources: int) -> None:
        self._n = 0
        self._points = np.empty((0, n_sources))
        # For screening, a column per centre: x = c − anchor, then |x|²/2.
        self._columns = np.empty((n_sources + 1, 0), np.float32)
        self._anchor = np.zeros(
            n_sources
        )  # in the middle of the centres: small numbers have small rounding errors
        self._radius = 0.0  # of all centres around it
        # A squared distance to a box is, term by term and as rounded, no more than that to a centre
        # inside; summed with these weights it is no more in any order of summing.
        self._less = np.full(n_sources, 1 - (2 * n_sources + 1) * 2.0**-52)
        # Two corners of each block's box, a column per block.
        self._low = np.empty((n_sources, 0))
        self._high = np.empty((n_sources, 0))
        # These affect the speed, never the answer: the block of the last one, and whether boxes
        # have helped.
        self._last = 0
        self._pause = self._paused = 0

    @classmethod
    def of(cls, points: Floats) -> Centres:
        """Return centres at the rows of points (n, N), in their order."""
        n, n_sources = points.shape
        self = cls(n_sources)
        self._reserve(n)
        self._points[:n] = points
        self._n = n
        if n > PLAIN:
            self._index()
        return self

    def __len__(self) -> int:
        return self._n

    @property
    def points(self) -> Floats:
        """Return all centres (n, N), a view, in the order they were added."""
        return self._points[: self._n]

    def add(self, alpha: Floats) -> int:
        """Add one more centre (N,) and return its number."""
        n = self._n
        if n == len(self._points):
            self._reserve(2 * n + 1)
        self._points[n] = alpha
        self._n = n + 1
        if n == PLAIN:
            self._index()
        elif n > PLAIN:
            x = alpha - self._anchor
            squared = float(x @ x)
            self._columns[:-1, n] = x
            self._columns[-1, n] = squared / 2
            self._radius = max(self._radius, math.sqrt(squared))
            low, high = self._low[:, n // BLOCK], self._high[:, n // BLOCK]
            np.minimum(low, alpha, out=low)
            np.maximum(high, alpha, out=high)
        return n

    def nearest(self, alpha: Floats) -> tuple[int, float]:
        """Return the number of the centre nearest to α (N,) and its Euclidean distance.

        Among ties it is the lowest number.
        """
        if not self._n:
            raise ValueError("there is no centre yet")
        squared, number = _plain(self.points, alpha) if self._n <= PLAIN else self._screened(alpha)
        return number, math.sqrt(squared)

    def _screened(self, alpha: Floats) -> tuple[float, int]:
        """Return |c − α|² of the nearest centre, and its number."""
        search = _Search(alpha, self._anchor, self._radius)
        if self._n > PRUNE:
            if self._paused:
                self._paused -= 1
            elif self._among_boxes(search):
                self._pause = 0
                return search.best
            else:
                self._paused = self._pause = min(2 * self._pause + 1, PAUSE)
        self._look(search, 0, self._n)
        return search.best

    def _among_boxes(self, search: _Search) -> bool:
        """Search only the blocks that can hold the nearest; return False if too many."""
        n_blocks = -(-self._n // BLOCK)
        alpha = search.alpha[:, None]
        gap = np.maximum(self._low[:, :n_blocks], alpha)
        # the point of each box that is nearest to α
        np.minimum(gap, self._high[:, :n_blocks], out=gap)
        gap -= alpha
        gap *= gap
        bound = self._less @ gap
        first = int(bound.argmin())
        # boxes overlap, and the next α is mostly near the last
        if bound[self._last] <= bound[first]:
            first = self._last
        self._look(search, first * BLOCK, first * BLOCK + BLOCK)
        blocks = (bound <= search.best[0]).nonzero()[0]
        if len(blocks) * LOOK > self._n:
            return False
        self._last = first
        if len(blocks) > 1:
            for block in blocks[bound[blocks].argsort()].tolist():
                if block != first and bound[block] <= search.best[0]:
                    self._look(search, block * BLOCK, block * BLOCK + BLOCK)
            self._last = search.best[1] // BLOCK
        return True

    def _look(self, search: _Search, start: int, stop: int) -> None:
        """Update the search with the nearest of these centres, where it is nearer."""
        score = search.query @ self._columns[:, start : min(stop, self._n)]
        lowest = int(score.argmin())
        if score[lowest] <= search.score + search.margin:
            search.score = min(search.score, score[lowest])
            numbers = (score <= search.score + search.margin).nonzero()[0]
            if len(numbers) == 1:  # the same as `_plain` for one row, in half the time
                x = self._points[lowest + start] - search.alpha
                x *= x
                nearest = float(x.sum()), lowest + start
            else:
                squared, k = _plain(self._points[numbers + start], search.alpha)
                nearest = squared, int(numbers[k]) + start
            search.best = min(search.best, nearest)  # of equals, the lower number

    def _index(self) -> None:
        """Compute columns and boxes of all centres."""
        n, points = self._n, self.points
        self._anchor = points.mean(0)
        x = points - self._anchor
        squared = (x * x).sum(1)
        self._columns[:-1, :n] = x.T
        self._columns[-1, :n] = squared / 2
        self._radius = math.sqrt(squared.max())
        blocks = np.arange(0, n, BLOCK)
        self._low[:, : len(blocks)] = np.minimum.reduceat(points, blocks).T
        self._high[:, : len(blocks)] = np.maximum.reduceat(points, blocks).T

    def _reserve(self, n: int) -> None:
        """Make room for n centres."""
        n_blocks = -(-n // BLOCK)
        n_sources = len(self._anchor)
        self._points = _grown(self._points, n_blocks * BLOCK, n_sources)
        self._columns = _grown(self._columns, n_sources + 1, n_blocks * BLOCK)
        self._low = _grown(self._low, n_sources, n_blocks, fill=np.inf)
        self._high = _grown(self._high, n_sources, n_blocks, fill=-np.inf)


class _Search:
    """Hold a query and its nearest centre so far."""

    def __init__(self, alpha: Floats, anchor: Floats, radius: float) -> None:
        self.alpha = alpha
        x = anchor - alpha
        self.query = np.empty(len(x) + 1, np.float32)
        self.query[:-1] = x
        self.query[-1] = 1.0
        # A score is query·column = (d² − |x|²)/2, wrong by less than (N + 5)·2⁻²⁴·(radius +
        # |x|)²/2: N + 1 products of rounded factors, summed in any order. Two scores are compared;
        # what is added covers float64 and underflow.
        reach = radius + math.sqrt(x @ x)
        self.margin = np.float32((len(x) + 8) * (2.0**-24 * reach * reach + 2.0**-120))
        self.score = np.float32(np.inf)  # the lowest so far
        self.best = (math.inf, -1)  # |c − α|² and number of the nearest so far


def _plain(points: Floats, alpha: Floats) -> tuple[float, int]:
    """Return the least |c − α|² over points (n, N), and the first that has it, by definition."""
    squared = ((points - alpha) ** 2).sum(1)
    k = int(squared.argmin())
    return float(squared[k]), k


def _grown(array: npt.NDArray[Any], *shape: int, fill: float = 0.0) -> npt.NDArray[Any]:
    grown = np.full(shape, fill, array.dtype)
    grown[tuple(map(slice, array.shape))] = array
    return grown
