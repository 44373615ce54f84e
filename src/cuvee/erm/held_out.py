"""Rows kept aside to tell when training should end: a fifth of every domain.

Which ones is a matter of the seed and the domain's name alone, whatever other domains there are.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from cuvee.components import Rows, hold_out
from cuvee.problem import Array, Domain, Problem

SHARE = 0.2
LEAST_SOURCE, LEAST_TARGET = 3, 5
"""Domains with fewer rows stay whole and serve for both; a source must keep two rows to train on."""


@dataclass(frozen=True)
class Split:
    """The problem to train on and, per domain, the numbers of the rows held out of it."""

    training: Problem
    sources: tuple[Array, ...]
    targets: tuple[Array, ...]

    def rows(self, everything: Rows) -> Rows:
        """The held-out ones of all rows of the problem; in own blocks the others get weight 0."""
        lengths = everything.lengths
        first = lengths.cumsum(0) - lengths
        picked = torch.cat([torch.as_tensor(h).to(first) + f for h, f in zip(self.sources, first, strict=True)])
        kept = lengths.new_tensor([len(h) for h in self.sources])
        keep = torch.zeros_like(everything.own_weight)
        for i, held in enumerate(self.targets):
            keep[i, 0, torch.as_tensor(held)] = 1.0
        own = hold_out(everything, keep)
        return Rows(
            X=everything.X[picked],
            y=everything.y[picked],
            weight=_to_one(everything.weight[picked], kept),
            lengths=kept,
            regular=bool((kept == kept[0]).all()),
            own_X=own.own_X,
            own_y=own.own_y,
            own_weight=own.own_weight,
        )


def split(problem: Problem, seed: int) -> Split:
    """A training problem without the rows held out."""
    sources = tuple(_held_out(f"source {s.name}", s, seed, LEAST_SOURCE) for s in problem.sources)
    targets = tuple(_held_out(f"target {t.name}", t, seed, LEAST_TARGET) for t in problem.targets)
    training = quietly(
        [_without(s, held) for s, held in zip(problem.sources, sources, strict=True)],
        [_without(t, held) for t, held in zip(problem.targets, targets, strict=True)],
    )
    return Split(training, sources, targets)


def quietly(sources: Sequence[Domain], targets: Sequence[Domain] = ()) -> Problem:
    """A problem made of parts of one that has had its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Problem(sources, targets)


def _held_out(name: str, domain: Domain, seed: int, least: int) -> Array:
    """Sorted row numbers; all of them where the domain is too small to be split."""
    # Rows that weigh nothing tell nothing: neither part may consist of them.
    counted = np.arange(domain.n_rows) if domain.weight is None else np.flatnonzero(domain.weight)
    if len(counted) < least:
        return np.arange(domain.n_rows)
    key = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")
    order = np.random.default_rng([seed, key]).permutation(counted)
    return np.sort(order[: max(1, round(SHARE * len(counted)))])


def _without(domain: Domain, held: Array) -> Domain:
    if len(held) == domain.n_rows:
        return domain
    rows = np.setdiff1d(np.arange(domain.n_rows), held)
    return Domain(domain.name, domain.X[rows], domain.y[rows], None if domain.weight is None else domain.weight[rows])


def _to_one(weight: Tensor, lengths: Tensor) -> Tensor:
    """Row weights made to sum to 1 within each source again."""
    sums = torch.segment_reduce(weight, "sum", lengths=lengths)
    return weight / sums.repeat_interleave(lengths)
