"""Gather and weigh rows in this process, for the local components only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from cuvee.components.protocol import Half, Part
from cuvee.errors import DomainError
from cuvee.hypothesis.base import Space
from cuvee.problem import Array, Domain

HELD_OUT = 0.2  # of every domain, to decide when training should end
LEAST_SOURCE, LEAST_TARGET = 3, 5
"""Smaller domains are not split: all their rows serve for both parts. A source must keep two rows
to train on.
"""


@dataclass(frozen=True)
class Rows:
    """Hold the rows to average over: every source's, and each target's own block.

    A minibatch for a single target carries that target's rows as a last source and has an empty own
    block.
    """

    X: Tensor  # (rows, …), source after source
    y: Tensor  # (rows,)
    weight: Tensor  # (rows,), summing to 1 within each source
    lengths: Tensor  # (N,) rows of each source; (N+1,) with the single target behind them
    regular: bool  # all lengths equal, so a reshape is enough
    own_X: Tensor  # (M, k, …)
    own_y: Tensor  # (M, 1, k)
    own_weight: Tensor  # (M, 1 or Q, k), summing to 1; padding and held-out rows weigh 0


@dataclass(frozen=True)
class Table:
    """Hold all rows stacked: source after source, then k rows for every target.

    Shorter targets are padded by repeated rows of weight 0.
    """

    X: Tensor  # (n + M·k, …)
    y: Tensor
    weight: Tensor
    counts: Tensor  # (N,) rows of each source
    own_counts: Tensor  # (M,) rows of each target, without padding

    @classmethod
    def of(
        cls,
        sources: Sequence[Domain],
        targets: Sequence[Domain],
        space: Space,
        device: str | torch.device,
    ) -> Table:
        k = max((t.n_rows for t in targets), default=0)
        spare = next((t for t in targets if t.n_rows), None)
        padded = [_padded(t, k, spare) for t in targets] if spare is not None else []
        X, y, weight = _stack([*sources, *padded], space, device)
        counts, own_counts = (
            torch.tensor([d.n_rows for d in domains], dtype=torch.int64, device=device)
            for domains in (sources, targets)
        )
        return cls(X, y, weight, counts, own_counts)

    def to(self, dtype: torch.dtype) -> Table:
        """Return the same rows in another precision; class numbers stay integers."""
        floats = {name: getattr(self, name) for name in ("X", "y", "weight")}
        return replace(
            self, **{name: t.to(dtype) for name, t in floats.items() if t.is_floating_point()}
        )

    @cached_property
    def rows(self) -> Rows:
        """Return all rows, to average over."""
        M, k, n = len(self.own_counts), self._padded_rows, int(self.counts.sum())
        return Rows(
            X=self.X[:n],
            y=self.y[:n],
            weight=self.weight[:n],
            lengths=self.counts,
            regular=bool((self.counts == self.counts[:1]).all()),
            own_X=self.X[n:].view(M, k, *self.X.shape[1:]),
            own_y=self.y[n:].view(M, 1, k),
            own_weight=self.weight[n:].view(M, 1, k),
        )

    @cached_property
    def starts(self) -> Tensor:
        """Return where each domain starts, (N+M, 1)."""
        return (self._lengths.cumsum(0) - self._lengths)[:, None]

    @cached_property
    def drawn_weight(self) -> Tensor:
        """Return each row's weight × the rows of its domain, for rows drawn uniformly."""
        counts = torch.cat([self.counts, self.own_counts])
        return self.weight * counts.repeat_interleave(self._lengths).to(self.weight)

    @property
    def _lengths(self) -> Tensor:
        return torch.cat([self.counts, torch.full_like(self.own_counts, self._padded_rows)])

    @property
    def _padded_rows(self) -> int:
        return int(self.own_counts.max()) if len(self.own_counts) else 0


def _stack(
    tables: list[Domain], space: Space, device: str | torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Return X, y and row weights of all tables, one after the other."""
    if not tables:
        empty = torch.zeros(0, space.n_params, dtype=space.dtype, device=device)
        return empty, empty[:, 0], empty[:, 0]
    X = space.prepare(_tensor(np.concatenate([d.X for d in tables]), space).to(device))
    y = _tensor(np.concatenate([space.encode(d.y, d.name) for d in tables]), space).to(device)
    weight = _tensor(np.concatenate([row_weights(d) for d in tables]), space).to(device)
    _check_finite(tables, X)
    return X, y, weight


def _tensor(array: Array, space: Space) -> Tensor:
    """Return floats in the space's own precision; class numbers stay integers."""
    return torch.as_tensor(array, dtype=space.dtype if array.dtype.kind == "f" else None)


def check_precision(domains: Sequence[Domain], space: Space) -> None:
    """Raise `DomainError` where rows are too large for the precision of the hypothesis."""
    for domain in domains if space.dtype != torch.float64 else ():
        if not domain.is_here:  # checked there, once they are bound
            continue
        _check_finite([domain], space.prepare(_tensor(domain.X, space)))


def _check_finite(tables: list[Domain], X: Tensor) -> None:
    """Raise `DomainError` for a row that overflows in the precision of the hypothesis."""
    bad = ~X.flatten(1).isfinite().all(1)
    if bool(bad.any()):
        row = int(bad.nonzero()[0, 0])
        for domain in tables:
            if row < domain.n_rows:
                raise DomainError(
                    f"domain {domain.name!r}: row {row} of X holds a number that is too large for "
                    f"{X.dtype}; rescale it"
                )
            row -= domain.n_rows


class _Spare(Domain):
    """Hold rows in place of those that a target does not have; they weigh nothing."""

    share = 0.0


def _padded(target: Domain, k: int, spare: Domain) -> Domain:
    """Return the target with its rows repeated up to k; the repeats have weight 0.

    A target without labelled rows has those of a spare one, all of weight 0.
    """
    if target.n_rows == 0:
        rows = np.arange(k) % spare.n_rows
        return _Spare(target.name, spare.X[rows], spare.y[rows])
    weight = np.zeros(k)
    weight[: target.n_rows] = row_weights(target)
    rows = np.arange(k) % target.n_rows
    return Domain(target.name, target.X[rows], target.y[rows], weight)


def row_weights(domain: Domain) -> Array:
    """Return weights (rows,): uniform, or the domain's own.

    They sum to the domain's share, which is 1 unless it is a part of another.
    """
    if domain.weight is None:
        return np.full(domain.n_rows, domain.share / domain.n_rows)
    weight = domain.weight / domain.weight.max()  # first, so that huge weights do not overflow
    return np.asarray(weight * (domain.share / weight.sum()))


def source_sums(by_row: Tensor, rows: Rows) -> Tensor:
    """Return (..., N) from (..., rows), each source's rows added up."""
    if len(rows.lengths) == 0:
        return by_row.new_zeros(*by_row.shape[:-1], 0)
    if rows.regular:
        return by_row.view(*by_row.shape[:-1], len(rows.lengths), -1).sum(-1)
    lengths = rows.lengths.expand(*by_row.shape[:-1], -1).contiguous()
    return torch.segment_reduce(by_row, "sum", lengths=lengths, axis=by_row.ndim - 1)


def hold_out(rows: Rows, keep: Tensor) -> Rows:
    """Return the same rows with own blocks reweighted by `keep` (M, Q, k) of 0 and 1."""
    weight = rows.own_weight * keep
    least = torch.finfo(weight.dtype).tiny
    return replace(rows, own_weight=weight / weight.sum(-1, keepdim=True).clamp(min=least))


def pick(rows: Rows, targets: Tensor | slice) -> Rows:
    """Return the same shared rows with the own blocks of the given targets."""
    if len(rows.own_X) == 0:
        return rows
    own = {name: getattr(rows, name)[targets] for name in ("own_X", "own_y", "own_weight")}
    return replace(rows, **own)


def deal_folds(rows: Rows, count: int) -> Tensor:
    """Return a fold number for every own row (M, k), −1 for padding.

    Rows are sorted by label and assigned in turn. Sorting stratifies classes and quantities alike.
    A target with fewer rows than folds gets one fold per row; with a single row that row is its own
    fold, and models see it only through their sources.
    """
    real = rows.own_weight[:, 0] > 0  # (M, k)
    label = torch.where(real, rows.own_y[:, 0].double(), torch.inf)
    rank = label.argsort(dim=-1, stable=True).argsort(-1)
    most = real.sum(-1, keepdim=True).clamp(max=count)
    return torch.where(real, rank % most, -1)


def part_of(role: str, domain: Domain, seed: int, part: Part) -> Domain:
    """Return the rows of a domain that belong to a part; all of them if it is small."""
    numbers = numbers_in_part(
        f"{role} {domain.name}", domain.n_rows, lambda: (domain.y, domain.weight), seed, part
    )
    return domain if numbers is None else _of_rows(domain, numbers)


def numbers_in_part(
    name: str,
    n_rows: int,
    columns: Callable[[], tuple[Array, Array | None]],
    seed: int,
    part: Part,
) -> Array | None:
    """Return the sorted numbers of the rows that belong to a part; None: all of them.

    `name` is role and name of the domain. A domain too small to be split gives all its rows. Which
    rows they are depends only on the seed and the name, not on other domains; `columns` returns
    labels and weights.
    """
    if part == "all":
        return None
    y, weight = columns()
    # No part may consist only of rows with weight 0, so these are not drawn.
    counted = np.arange(n_rows) if weight is None else np.flatnonzero(weight)
    if len(counted) < (LEAST_SOURCE if name.startswith("source ") else LEAST_TARGET):
        return None
    key = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")
    if isinstance(part, Half):
        order = np.random.default_rng([seed, key, part.split]).permutation(counted)
        # Sorted by label and dealt in turn: both halves have all classes, large labels and small.
        dealt = order[np.argsort(np.unique(y[order], return_inverse=True)[1], kind="stable")]
        return np.sort(dealt[part.side :: 2])
    order = np.random.default_rng([seed, key]).permutation(counted)
    held = np.sort(order[: max(1, round(HELD_OUT * len(counted)))])
    return held if part == "held out" else np.setdiff1d(np.arange(n_rows), held)


def _of_rows(domain: Domain, rows: Array) -> Domain:
    weight = None if domain.weight is None else domain.weight[rows]
    return Domain(domain.name, domain.X[rows], domain.y[rows], weight)
