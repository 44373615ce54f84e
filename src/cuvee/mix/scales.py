"""Put runs of several scales on one surface: a shared shape, with a level and a slope per scale.

    y_k(α, s) = level_ks + slope_ks · shape_k(α)

The shape is fitted to the runs of all scales at once. Level and slope of a scale are a regression
of its runs on the shape; with few runs the slope stays near that of the other scales.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cuvee.mix.candidate import DTYPE, ShapedRuns
from cuvee.mix.runs import Runs
from cuvee.mix.sizes import ordered, place_of

ROUNDS = 2  # of fitting the shape, then levels and slopes
ROUNDING = 1e-12  # of its largest value: deviation below which a metric is the same in all runs
PRIOR_RUNS = 4.0  # what the slope of the other scales counts for, in runs
FEW = 8  # runs of a scale below which its slope is not its own
Shape = Callable[[ShapedRuns], Tensor]
"""Returns the fitted shape (n, K) at the runs."""


@dataclass(frozen=True, eq=False)
class Levels:
    """Hold the level and slope of S scales, and how well they are known."""

    scales: tuple[str, ...]  # smallest first; one scale named "" where runs have none
    level: Tensor  # (S, K)
    slope: Tensor  # (S, K) above 0
    covariance: Tensor  # (S, K, 2, 2) of level and slope; 0 where there is one scale
    noise: Tensor  # (S,) standard deviation of the noise in units of the shape, relative
    counts: tuple[int, ...]  # (S,) runs

    def place(self, scale: str | float | None) -> int:
        """Return the index of a scale, by name or value; None stands for the largest."""
        return len(self.scales) - 1 if scale is None else place_of(scale, self.scales)

    def places(self, runs: Runs) -> Tensor:
        """Return the index (n,) of the scale of every run."""
        if runs.scale is None:
            return torch.zeros(len(runs), dtype=torch.long)
        return torch.tensor([self.scales.index(scale) for scale in runs.scale])

    def shaped(self, y: Tensor, index: Tensor) -> Tensor:
        """Return y (n, K) of runs at the scales `index` in units of the shape."""
        return (y - self.level[index]) / self.slope[index]

    def at(self, mean: Tensor, spread: Tensor, s: int) -> tuple[Tensor, Tensor]:
        """Return mean and spread (m, K) at scale s, for those of the shape."""
        known = self.covariance[s]
        variance = (self.slope[s] * spread).square()
        variance = variance + known[:, 0, 0] + 2.0 * mean * known[:, 0, 1]
        variance = variance + mean.square() * known[:, 1, 1]
        least = 1e-24 * self.slope[s].square()
        return self.level[s] + self.slope[s] * mean, variance.maximum(least).sqrt()


def one_scale(y: Tensor) -> Levels:
    """Return the levels of runs without scales: mean and standard deviation."""
    slope, K = _unit(y), y.shape[1]
    return Levels(
        ("",), y.mean(0)[None], slope[None], torch.zeros(1, K, 2, 2, dtype=DTYPE),
        torch.ones(1, dtype=DTYPE), (len(y),),
    )  # fmt: skip


def _vary(y: Tensor) -> Tensor:
    """Return whether the columns (K,) of y (n, K) differ by more than rounding."""
    return y.std(0, correction=0) > ROUNDING * y.abs().amax(0)


def _unit(y: Tensor) -> Tensor:
    """Return the deviation (K,) of the columns of y (n, K), or 1 where they are the same."""
    return torch.where(_vary(y), y.std(0, correction=0), 1.0)


def varying(y: Tensor, index: Tensor) -> Tensor:
    """Return whether each metric (K,) differs between the runs of any scale."""
    return torch.stack([_vary(y[index == s]) for s in index.unique()]).any(0)


def fit_levels(runs: Runs, y: Tensor, shape: Shape) -> tuple[Levels, Tensor]:
    """Return the levels of all scales, and the scale (n,) of every run."""
    if runs.scale is None or len(set(runs.scale)) == 1:
        levels = one_scale(y)
        names = levels.scales if runs.scale is None else (runs.scale[0],)
        index = torch.zeros(len(y), dtype=torch.long)
        return Levels(names, *_parts(levels)), index
    names = ordered(runs.scale)
    index = torch.tensor([names.index(scale) for scale in runs.scale])
    alpha = torch.as_tensor(runs.alpha, dtype=DTYPE)
    levels = _first(names, y, index)
    for _ in range(ROUNDS):
        precision = levels.noise[index].square().reciprocal()
        shaped = shape(ShapedRuns(alpha, levels.shaped(y, index), precision))
        levels = _regressed(names, y, index, shaped)
    return levels, index


def _parts(levels: Levels) -> tuple[Tensor, Tensor, Tensor, Tensor, tuple[int, ...]]:
    return levels.level, levels.slope, levels.covariance, levels.noise, levels.counts


def _first(names: tuple[str, ...], y: Tensor, index: Tensor) -> Levels:
    """Return mean and standard deviation per scale; scales with few runs borrow the deviation."""
    whole = [one_scale(y[index == s]) for s in range(len(names))]
    counts = tuple(w.counts[0] for w in whole)
    largest = int(np.argmax(counts))
    slope = torch.cat(
        [w.slope if c >= FEW else whole[largest].slope for w, c in zip(whole, counts, strict=True)]
    )
    level = torch.cat([w.level for w in whole])
    zeros = torch.zeros(*level.shape, 2, 2, dtype=DTYPE)
    return Levels(names, level, slope, zeros, torch.ones(len(names), dtype=DTYPE), counts)


def _regressed(names: tuple[str, ...], y: Tensor, index: Tensor, shape: Tensor) -> Levels:
    """Return level, slope and noise of every scale by regression on the shape (n, K)."""
    counts = tuple(int((index == s).sum()) for s in range(len(names)))
    largest = int(np.argmax(counts))
    usual = _line(y[index == largest], shape[index == largest], None, 0.0)[1]
    levels, slopes, covariances, noises = [], [], [], []
    for s in range(len(names)):
        rows = index == s
        level, slope, covariance, noise = _line(y[rows], shape[rows], usual, PRIOR_RUNS)
        levels.append(level)
        slopes.append(slope)
        covariances.append(covariance)
        noises.append((noise / slope).median())
    noise = torch.stack(noises)
    return Levels(
        names, torch.stack(levels), torch.stack(slopes), torch.stack(covariances),
        (noise / noise[largest].clamp(min=1e-9)).clamp(0.2, 5.0), counts,
    )  # fmt: skip


def _line(
    y: Tensor, shape: Tensor, usual: Tensor | None, prior: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return level, slope (K,), their covariance (K, 2, 2) and the noise (K,) of y on the shape.

    `usual` is the slope to stay near, as if `prior` runs had shown it.
    """
    n = len(y)
    ones = torch.ones_like(shape)
    design = torch.stack([ones, shape], -1)  # (n, K, 2)
    gram = torch.einsum("nki,nkj->kij", design, design)
    right = torch.einsum("nki,nk->ki", design, y)
    if usual is not None:
        gram[:, 1, 1] += prior
        right[:, 1] += prior * usual
    gram = gram + 1e-9 * torch.eye(2, dtype=DTYPE)
    inverse = torch.linalg.inv(gram)
    line = (inverse @ right[..., None])[..., 0]
    residual = y - line[:, 0] - line[:, 1] * shape
    freedom = max(n - 2.0 + (prior > 0), 1.0)
    # one run shows no noise: what it could be is taken from the slope itself
    noise = (residual.square().sum(0) / freedom).sqrt()
    least = 0.05 * (line[:, 1].abs() if usual is None else usual)
    noise = torch.maximum(noise, (1.0 if n > 2 else 6.0) * least)
    slope = line[:, 1].maximum(1e-9 * _unit(y) if usual is None else 0.05 * usual)
    return line[:, 0], slope, noise.square()[:, None, None] * inverse, noise


def spearman(a: Tensor, b: Tensor) -> Tensor:
    """Return the rank correlation (K,) of columns of a and b (n, K), ties sharing their rank."""
    from scipy.stats import rankdata

    first, second = (torch.as_tensor(rankdata(x.numpy(), axis=0)) for x in (a, b))
    first, second = first - first.mean(0), second - second.mean(0)
    size = (first.square().sum(0) * second.square().sum(0)).sqrt().clamp(min=1e-12)
    return (first * second).sum(0) / size


@dataclass(frozen=True, eq=False)
class Transfer:
    """Say how well a smaller scale tells of the largest one, on mixtures that were run at both."""

    small: str
    large: str
    mixtures: int  # run at both
    rank: Tensor  # (K,) Spearman; NaN below three mixtures, and for a metric that never varies
    level: Tensor  # (K,) root mean square of y at the large scale minus level and slope applied


def transfers(runs: Runs, y: Tensor, index: Tensor, levels: Levels) -> tuple[Transfer, ...]:
    """Return how every smaller scale transfers to the largest."""
    large, measured = len(levels.scales) - 1, []
    mixtures = [tuple(row) for row in runs.alpha.round(9).tolist()]
    shaped = levels.shaped(y, index)
    for s in range(large):
        at_small = {m: i for i, m in enumerate(mixtures) if index[i] == s}
        pairs = [
            (at_small[m], i) for i, m in enumerate(mixtures) if index[i] == large and m in at_small
        ]
        nothing = torch.full((y.shape[1],), torch.nan, dtype=DTYPE)
        rank, level = nothing, nothing
        if pairs:
            first, second = (torch.tensor(rows) for rows in zip(*pairs, strict=True))
            apart = levels.slope[large] * (shaped[second] - shaped[first])
            level = apart.square().mean(0).sqrt()
            if len(pairs) >= 3:
                same = ~(_vary(y[first]) & _vary(y[second]))
                rank = spearman(y[first], y[second]).masked_fill(same, torch.nan)
        measured.append(Transfer(levels.scales[s], levels.scales[large], len(pairs), rank, level))
    return tuple(measured)


def unknown(runs: Runs, levels: Levels, measured: Sequence[Transfer]) -> tuple[str, ...]:
    """Return sentences on what is not known at the largest scale."""
    if len(levels.scales) < 2:
        return ()
    large, count = levels.scales[-1], levels.counts[-1]
    said = []
    if count < FEW:
        said.append(
            f"Scale {large} has {count} {'run' if count == 1 else 'runs'}: its level rests on "
            f"{'it' if count == 1 else 'them'}, and its slope mostly on the smaller scales."
        )
    for transfer in measured:
        if transfer.mixtures < 3:
            said.append(
                f"{transfer.mixtures} mixtures were run at both scale {transfer.small} and scale "
                f"{large}: whether their order is the same there is not known. Run at least 3 of "
                "the same mixtures at both."
            )
            continue
        rank = transfer.rank.nan_to_num(1.0)
        if float(rank.min()) < 0.5:
            name = runs.names[int(rank.argmin())]
            said.append(
                f"The order of mixtures at scale {transfer.small} is not that at scale {large} for "
                f"{name!r} (rank correlation {float(rank.min()):.2f} on "
                f"{transfer.mixtures} mixtures): do not choose by it there."
            )
    return tuple(said)
