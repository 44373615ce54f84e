"""α as weights of rows: an estimator that takes weights then minimises the risk of the mixture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse, vstack

from cuvee.problem import Array
from cuvee.results import Floats


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows a target may learn from: those of N sources, and its own."""

    X: Any  # (rows, …) an array or a frame
    y: Array  # (rows,) numbers of classes, or quantities
    block: Array  # (rows,) the source of each row; N for the target's own
    worth: Floats  # (rows,) what a row counts within its domain
    n_sources: int

    @property
    def own(self) -> Array:
        """Return the numbers (k,) of the target's own rows."""
        return np.flatnonzero(self.block == self.n_sources)

    @property
    def counts(self) -> Floats:
        """Return the rows (N+1,) of every source and of the target."""
        return np.bincount(self.block, minlength=self.n_sources + 1).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of all sources, put together once for all targets."""

    X: Any
    y: Array
    block: Array
    worth: Floats
    n_sources: int

    @classmethod
    def of(
        cls, X: Sequence[Any], y: Sequence[Array], worth: Sequence[Floats | None] | None = None
    ) -> Table:
        """Return the rows of sources with features X, labels y, and row weights where they have
        some.
        """
        counts = [len(one) for one in y]
        return cls(
            stacked(X),
            np.concatenate(list(y)),
            np.repeat(np.arange(len(counts)), counts),
            np.concatenate(
                [_worth(w, n) for w, n in zip(worth or [None] * len(y), counts, strict=True)]
            ),
            len(counts),
        )

    def with_own(self, X: Any, y: Array, worth: Floats | None = None) -> Rows:
        """Return the rows of the sources, and after them a target's own."""
        N, k = self.n_sources, len(y)
        return Rows(
            stacked([self.X, X]),
            np.concatenate([self.y, y]),
            np.concatenate([self.block, np.full(k, N)]),
            np.concatenate([self.worth, _worth(worth, k)]),
            N,
        )


def _worth(worth: Floats | None, n_rows: int) -> Floats:
    return np.ones(n_rows) if worth is None else np.asarray(worth, dtype=np.float64)


def row_weights(rows: Rows, alpha: Floats, kept: Array | None = None) -> Floats:
    """Return the weight (rows,) that α (N+1,) gives each row: α_j/m_j to every row of source j.

    The target's own rows share the last entry of α. Rows that are not `kept` (rows,) weigh 0, and
    the others of their domain share what it has. Weights sum to what the rows that have one are
    worth, which is their number, so that what an estimator counts in rows, such as the least weight
    of a leaf, keeps its meaning.

    >>> rows = Table.of([np.zeros((2, 1))], [np.zeros(2)]).with_own(np.zeros((1, 1)), np.zeros(1))
    >>> row_weights(rows, np.array([0.5, 0.5])).tolist()
    [0.75, 0.75, 1.5]
    """
    worth = rows.worth if kept is None else np.where(kept, rows.worth, 0.0)
    total = np.bincount(rows.block, worth, minlength=rows.n_sources + 1)
    share = alpha / np.where(total > 0, total, np.inf)
    weight = share[rows.block] * worth
    return np.asarray(weight * (worth[weight > 0].sum() / max(weight.sum(), 1e-300)))


def take(X: Any, rows: Array) -> Any:
    """Return some rows of an array, a sparse one too, or of a frame."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def stacked(parts: Sequence[Any]) -> Any:
    """Return arrays or frames, one below the other."""
    if hasattr(parts[0], "iloc"):
        import pandas as pd

        return pd.concat(list(parts), ignore_index=True)
    return vstack(list(parts), format="csr") if issparse(parts[0]) else np.concatenate(list(parts))
