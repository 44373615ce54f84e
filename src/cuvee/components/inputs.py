"""Answer what may be known of inputs without their labels: means of random features.

The mean of φ(x) over the rows of a domain is its *kernel mean*, and two domains with the same law
of inputs have the same one. With random Fourier features of an RBF kernel a source is asked once,
by a description of φ, for one sum of its rows; rows stay where they are, and no label is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from cuvee.components.rows import row_weights
from cuvee.facts import Facts
from cuvee.problem import Array, Domain, Problem

DIRECTIONS = 30  # principal components of the sources that are kept of more columns
MORE = 10  # directions that the search for them carries along
ROUNDS = 3  # of that search: each asks every source once
FEATURES = 512  # frequencies of the kernel
# Rows far out are drawn in, to z/√(NEAR + ‖z‖²) with a typical row at ‖z‖ = 1: a few rows that
# stick out of a source would say more of it than all others.
NEAR = 0.3
WIDTH = 0.5  # of the kernel, squared, in units of the mean squared distance of two rows
BLOCK = 4_096  # rows at a time


@dataclass(frozen=True)
class Fourier:
    """Describe random features φ of an RBF kernel on rows s = z/√(NEAR + ‖z‖²).

    z = (x − mean) @ basis. φ(x) = (cos Ωᵀs, sin Ωᵀs)/√FEATURES has length 1, and φ(x)·φ(x′) is the
    kernel in the mean over Ω, which is drawn from the seed wherever the rows are.
    """

    mean: Tensor  # (d,)
    basis: Tensor  # (d, p): scales columns, picks directions, makes a typical row's length 1
    seed: int

    def of(self, X: Array) -> Tensor:
        """Return φ (rows, 2 · FEATURES) of rows X (rows, …)."""
        z = _centred(X, self.mean) @ self.basis
        angle = z / (NEAR + z.square().sum(1, keepdim=True)).sqrt() @ self.frequencies()
        return torch.cat([angle.cos(), angle.sin()], 1) / FEATURES**0.5

    def frequencies(self) -> Tensor:
        """Return Ω (p, FEATURES)."""
        apart = 2.0 / (1.0 + NEAR)  # squared, two typical rows
        rng = np.random.default_rng([self.seed, self.basis.shape[1]])
        drawn = torch.as_tensor(rng.normal(size=(self.basis.shape[1], FEATURES)))
        return drawn / (WIDTH * apart) ** 0.5


class InputSums(Protocol):
    """Answer questions about the inputs of all sources."""

    def feature_means(self, features: Fourier) -> Tensor:
        """Return the mean of φ over each source's rows, (N, 2 · FEATURES)."""
        ...

    def inputs_times(self, mean: Tensor, scale: Tensor, v: Tensor) -> Tensor:
        """Return Σ_j S_j v (d, p): S_j (d, d) is source j's second moment of (x − mean)/scale."""
        ...


@dataclass(frozen=True)
class InputMeans:
    """Hold the kernel means of all sources and targets, and how many rows each rests on."""

    sources: Tensor  # (N, F)
    targets: Tensor  # (M, F) of all rows of each target, labelled or not
    source_rows: Tensor  # (N,) rows of equal weight that a source is worth
    target_rows: Tensor  # (M,)
    own_rows: Tensor  # (M,) labelled rows


def input_means(sums: InputSums, problem: Problem, seed: int = 0) -> InputMeans:
    """Return the kernel means of a problem; `sums` answers for its sources."""
    features = fourier(sums, problem.facts, seed)
    return InputMeans(
        sources=sums.feature_means(features),
        targets=torch.stack([feature_mean(_all_inputs(t), features) for t in problem.targets]),
        source_rows=_numbers([s.facts.worth for s in problem.sources]),
        target_rows=_numbers([t.n_inputs for t in problem.targets]),
        own_rows=_numbers([t.n_rows for t in problem.targets]),
    )


def fourier(sums: InputSums, facts: Facts, seed: int) -> Fourier:
    """Return features for these sources: of their principal components, in units of their spread.

    Columns are standardised first; those that do not vary in the sources tell none of them from
    another, and do not count. Every source counts alike.
    """
    mean, scale = (torch.as_tensor(part.reshape(-1)) for part in facts.columns())
    varies, N = scale > 0, len(facts.sources)
    scale = torch.where(varies, scale, 1.0)
    d = int(varies.sum())

    def of_all(v: Tensor) -> Tensor:
        """Return directions (d, p) as (columns, p)."""
        return torch.zeros(len(mean), v.shape[1], dtype=v.dtype).index_put((varies,), v)

    def moments_times(v: Tensor) -> Tensor:
        return sums.inputs_times(mean, scale, of_all(v) / N)[varies]

    width = min(d, DIRECTIONS + MORE)
    # all columns, or directions that a few products turn towards those of largest variance
    v = torch.eye(d, dtype=mean.dtype)
    if width < d:
        v = torch.as_tensor(np.random.default_rng(seed).normal(size=(d, width)))
        for _ in range(ROUNDS):
            v = torch.linalg.qr(moments_times(v))[0]
    moment = v.T @ moments_times(v)
    variance, turned = torch.linalg.eigh(0.5 * (moment + moment.T))
    kept = slice(max(0, width - DIRECTIONS), None)
    length = variance[kept].clamp(min=0.0).sum().sqrt()  # of a typical row
    unit = length if length > 0 else 1.0  # no column varies
    return Fourier(mean, of_all(v) @ turned[:, kept] / scale[:, None] / unit, seed)


def feature_mean(domain: Domain, features: Fourier) -> Tensor:
    """Return the mean of φ over the rows of a domain, (2 · FEATURES,)."""
    total = torch.zeros(2 * FEATURES, dtype=torch.float64)
    for X, weight in _blocks(domain):
        total += weight @ features.of(X)
    return total


def moment_times(domain: Domain, mean: Tensor, scale: Tensor, v: Tensor) -> Tensor:
    """Return S v (d, p), with S (d, d) the second moment of (x − mean)/scale over a domain."""
    total = torch.zeros_like(v)
    for X, weight in _blocks(domain):
        z = _centred(X, mean) / scale
        total += z.T @ (weight[:, None] * (z @ v))
    return total


def _blocks(domain: Domain) -> Iterator[tuple[Array, Tensor]]:
    """Yield the rows of a domain and their weights, some at a time: X may be larger than memory."""
    weight = torch.as_tensor(row_weights(domain))
    for low in range(0, len(domain.X), BLOCK):
        yield domain.X[low : low + BLOCK], weight[low : low + BLOCK]


def _centred(X: Array, mean: Tensor) -> Tensor:
    return torch.as_tensor(X.reshape(len(X), -1), dtype=mean.dtype) - mean


def _all_inputs(target: Domain) -> Domain:
    """Return all rows of a target, labelled or not, each of the same weight."""
    X = target.X if target.unlabelled is None else np.concatenate([target.X, target.unlabelled])
    return replace(target, X=X, y=np.zeros(len(X)), weight=None, unlabelled=None)


def _numbers(values: Sequence[Any]) -> Tensor:
    return torch.tensor([float(value) for value in values], dtype=torch.float64)
