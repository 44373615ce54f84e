"""Predict α for a new target from the losses of the sources' models on its sample.

It solves small quadratic programs and averages them as the estimator would.

**Atoms.** A panel of Q models that know nothing of the target (each source's own, the pooled, the
uniform one) has mean loss f_T(q) on the target's k labelled rows and f_j(q) on source j. In the
paper's objective the panel stands for all of W and the discrepancy is counted in standard errors of
f_T, so that one C serves all targets:

    atom(C, ρ) = argmin over α ∈ Δ^(N+1) of  mean_q (Σ_j α_j (f_j(q) − f_T(q)))² / se²  +  C (Σ_j
    α_j²/m_j + ρ α_T²/k)

on a grid of C and ρ; the own sample, last, has discrepancy 0. The simple mixtures are atoms beside
them.

**Shares.** The α predicted is an average of the atoms. Its shares are on the simplex, fitted by
least squares to the answers of the estimator so far, near ones first, and held at DEFAULT by a
ridge: a dozen answers decide between a dozen atoms, however many sources there are, and before the
first answer the shares are DEFAULT.

**Bound.** Every answer is predicted before it is learnt from. Its error, half of Σ_j |α̂_j − α_j|,
is taken in units of what makes a target hard: atoms that disagree, and statistics unlike those
answered for. The bound on the next error is the conformal quantile of these: it holds with
probability `level` if answered and new targets are exchangeable. They are not quite: answers are
asked for where the bound is large, and early ones were predicted from fewer answers, which as a
rule makes it wider than necessary. After a drift of the stream it does not hold until most answers
are from after the drift. The probability is over streams: within one stream of n answers, the share
covered is uncertain by √(level(1−level)/n).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from math import ceil
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cuvee.online.growable import Rows
from cuvee.problem import Array
from cuvee.results import Floats
from cuvee.simplex import project

GRID_C, GRID_RHO = (1e3, 1e4, 1e5), (0.03, 0.1, 0.3)
N_ATOMS = len(GRID_C) * len(GRID_RHO) + 4
# before any answer: the two atoms with the middle C and the larger two of ρ
DEFAULT = np.zeros(N_ATOMS)
DEFAULT[[4, 5]] = 0.5
HOLD = 1.0  # answers that DEFAULT counts for
# width of the kernel that weighs answers by nearness, and the weight of the farthest answer
WIDTH, FLOOR = 4.0, 0.02
# rows that the sources' loss variance counts for in a target's: one row alone has no variance
PRIOR_ROWS = 2.0
STEPS, SHARE_STEPS = 200, 100
CHUNK = 2**22  # numbers held at a time


@dataclass(frozen=True)
class Sources:
    """Hold what is known of the sources before any target comes."""

    loss: Floats  # (N, Q) f_j of panel model q
    variance: Floats  # () of row losses, within a source under one model
    rows: Floats  # (N,) m_j


@dataclass(frozen=True)
class Statistics:
    """Hold all that is asked of M targets."""

    loss: Floats  # (M, Q) f_T of panel model q
    noise: Floats  # (M,) squared standard error of f_T, the panel's mean
    rows: Floats  # (M,) k


def summarise(
    loss: Array, spread: Array, squares: Array, rows: Array, variance: float
) -> Statistics:
    """Return statistics of M targets from mean and variance of row losses (M, Q).

    Σ weight² and the number of rows k are (M,).
    """
    # an overflow is reported by the caller, who knows the target's name
    with np.errstate(over="ignore", invalid="ignore"):
        spread = (rows * spread.mean(1) + PRIOR_ROWS * variance) / (rows + PRIOR_ROWS)
        tiny = 1e-9 * (loss**2).mean(1) + 1e-300  # where every model is right on every row
        return Statistics(loss, spread * squares + tiny, rows)


def atoms(sources: Sources, targets: Statistics) -> Floats:
    """Return the atoms (M, atoms, N+1), those of the grid first."""
    N, M = len(sources.rows), len(targets.rows)
    size = max(1, CHUNK // ((N + 1) * max(N + 1, len(targets.loss.T), N_ATOMS)))
    parts = [_atoms(sources, _some(targets, slice(low, low + size))) for low in range(0, M, size)]
    return np.concatenate(parts) if parts else np.zeros((0, N_ATOMS, N + 1))


def _atoms(sources: Sources, targets: Statistics) -> Floats:
    M, N = len(targets.rows), len(sources.rows)
    gap = np.zeros((M, N + 1, targets.loss.shape[1]))
    gap[:, :N] = (sources.loss - targets.loss[:, None]) / np.sqrt(
        targets.noise * targets.loss.shape[1]
    )[:, None, None]
    gaps = torch.as_tensor(gap)
    H = gaps @ gaps.mT  # (M, N+1, N+1)
    C, rho = (torch.as_tensor(g.ravel()) for g in np.meshgrid(GRID_C, GRID_RHO, indexing="ij"))
    inverse = torch.as_tensor(1.0 / _counts(sources, targets))[:, None] * torch.ones(len(C), 1)
    inverse[..., -1] *= rho
    penalty = C[:, None] * inverse  # (M, grid, N+1)
    start = (1.0 / inverse) / (1.0 / inverse).sum(-1, keepdim=True)
    steepest = torch.linalg.eigvalsh(H)[:, -1, None, None].clamp(min=0.0) + penalty.amax(
        -1, keepdim=True
    )
    on_grid = _descend(lambda a: a @ H + penalty * a, start, steepest, STEPS)
    simple = np.zeros((M, 4, N + 1))
    simple[:, 0] = _counts(sources, targets)  # pooled + own
    simple[:, 1, :N] = sources.rows  # pooled
    simple[:, 2, :N] = 1.0  # uniform
    simple[:, 3, N] = 1.0  # target only
    return np.concatenate([on_grid.numpy(), simple / simple.sum(-1, keepdims=True)], 1)


def _counts(sources: Sources, targets: Statistics) -> Floats:
    """Return m_j and, last, k: (M, N+1)."""
    return np.column_stack([np.tile(sources.rows, (len(targets.rows), 1)), targets.rows])


def _descend(
    gradient: Callable[[Tensor], Tensor], start: Tensor, steepest: Tensor, steps: int
) -> Tensor:
    """Return the minimisers of convex quadratics over the simplex, one per row.

    They are found by accelerated projected gradient.
    """
    a = y = start
    t = torch.ones_like(steepest)
    for _ in range(steps):
        new = project(y - gradient(y) / steepest)
        moved = new - a
        # momentum is reset when it no longer helps
        uphill = ((y - new) * moved).sum(-1, keepdim=True) > 0.0
        t = torch.where(uphill, 1.0, t)
        after = 0.5 * (1.0 + (1.0 + 4.0 * t * t).sqrt())
        a, y, t = new, new + (t - 1.0) / after * moved, after
    return a


def distance(a: Array, b: Array) -> Floats:
    """Return half of Σ_j |a_j − b_j|: the share of weight that would have to move, in [0, 1]."""
    return np.asarray(0.5 * np.abs(a - b).sum(-1))


def hardness(disagreement: Floats, far: Floats) -> Floats:
    """Return the unit of errors (M,): how much atoms disagree and answers (M, answers) are far."""
    return np.asarray((0.05 + disagreement) * (1.0 + 0.25 * np.log1p(far.min(1, initial=1e6))))


@dataclass(frozen=True)
class Forecast:
    """Hold predictions for M targets."""

    alpha: Floats  # (M, N+1)
    # (M,) bound on the distance to the estimator's answer, with probability `level`; 1 is no bound
    bound: Floats
    disagreement: Floats  # (M,) of the grid's atoms with α, their mean distance
    atoms: Floats  # (M, atoms, N+1)


class MixtureLearner:
    """Predict α from the statistics of a target and the answers so far."""

    def __init__(self, sources: Sources, level: float) -> None:
        self.sources, self.level = sources, level
        N, Q = sources.loss.shape
        self._answers = {  # a row per answer
            "loss": Rows(Q),
            "noise": Rows(),
            "rows": Rows(),
            "atoms": Rows(N_ATOMS, N + 1),
            "alpha": Rows(N + 1),
            "error": Rows(),  # of the prediction made before it was learnt from
            "bound": Rows(),
            "disagreement": Rows(),
        }

    def __len__(self) -> int:
        return len(self._answers["alpha"])

    def of(self, name: str) -> Floats:
        """Return alpha (answers, N+1), error, bound (answers,), … so far."""
        return np.asarray(self._answers[name].values)

    def predict(self, targets: Statistics) -> Forecast:
        """Return α and its bound, one row per target; nothing is remembered."""
        target_atoms = atoms(self.sources, targets)
        far = self._far(targets)
        alpha = np.einsum("mg,mgj->mj", self._shares(far), target_atoms)
        disagreement = distance(target_atoms[:, : N_ATOMS - 4], alpha[:, None]).mean(1)
        bound = np.minimum(1.0, self._quantile() * hardness(disagreement, far))
        return Forecast(alpha, bound, disagreement, target_atoms)

    def learn(self, target: Statistics, forecast: Forecast, answer: Floats) -> None:
        """Learn from an answer (N+1,) of the estimator and the forecast made before it."""
        row = {
            **{f.name: getattr(target, f.name)[0] for f in fields(target)},
            "atoms": forecast.atoms[0],
            "alpha": answer,
            "error": distance(forecast.alpha[0], answer),
            "bound": forecast.bound[0],
            "disagreement": forecast.disagreement[0],
        }
        for name, value in row.items():
            self._answers[name].append(value)

    def _far(self, targets: Statistics) -> Floats:
        """Return squared distances of statistics, in standard errors: (M, answers).

        The panel counts as one number.
        """
        loss, noise, rows = (self.of(name) for name in ("loss", "noise", "rows"))
        square = (
            (targets.loss**2).mean(1)[:, None]
            + (loss**2).mean(1)
            - 2.0 * targets.loss @ loss.T / loss.shape[1]
        )
        unlike = np.maximum(square, 0.0) / (targets.noise[:, None] + noise)
        return np.asarray(unlike + np.log(targets.rows[:, None] / rows) ** 2)

    def _shares(self, far: Floats) -> Floats:
        """Return shares (M, atoms) on the simplex by least squares over the answers.

        Near answers weigh more, and a ridge holds the shares at DEFAULT.
        """
        if far.shape[1] == 0:
            return np.tile(DEFAULT, (len(far), 1))
        near = torch.as_tensor(np.exp(-0.5 * far / WIDTH) + FLOOR)  # (M, answers)
        X, y = torch.tensor(self.of("atoms")), torch.tensor(self.of("alpha"))
        H = torch.einsum("mn,ngh->mgh", near, X @ X.mT) + HOLD * torch.eye(N_ATOMS, dtype=X.dtype)
        default = torch.as_tensor(DEFAULT).expand(len(far), -1)
        b = near @ (X @ y[..., None])[..., 0] + HOLD * default
        steepest = torch.linalg.eigvalsh(H)[:, -1:]
        return np.asarray(
            _descend(lambda s: (H @ s[..., None])[..., 0] - b, default, steepest, SHARE_STEPS)
        )

    def _quantile(self) -> float:
        """Return the conformal quantile of errors in units of hardness.

        It is ∞ while there are too few answers.
        """
        n = len(self)
        rank = ceil((n + 1) * self.level - 1e-9)
        if rank > n:
            return np.inf
        # Hardness is computed again with all other answers known: a target that was far from all
        # earlier answers may now have a near one.
        far = self._far(Statistics(*(self.of(f.name) for f in fields(Statistics))))
        np.fill_diagonal(far, np.inf)
        return float(np.sort(self.of("error") / hardness(self.of("disagreement"), far))[rank - 1])

    def state(self) -> dict[str, Floats]:
        return {name: rows.values for name, rows in self._answers.items()}

    def restore(self, state: dict[str, Floats]) -> None:
        n = len(state["alpha"])
        for name, rows in self._answers.items():
            if state[name].shape != (n, *rows.shape[1:]) or not np.isfinite(state[name]).all():
                raise ValueError(f"{name} has shape {state[name].shape}, or holds NaN or infinity")
        self._answers = {name: Rows.of(state[name]) for name in self._answers}


def _some(targets: Statistics, which: slice) -> Statistics:
    return Statistics(*(getattr(targets, f.name)[which] for f in fields(targets)))


@dataclass(frozen=True, eq=False)
class MixtureLedger:
    """Hold the costs and errors of the rounds so far."""

    rounds: int
    labels: int
    """Number of answers of the oracle that were paid for, including those that failed."""
    failed: int
    # (answers,) distance of each answer to the prediction made before it
    errors: Floats = field(repr=False)
    bounds: Floats = field(repr=False)  # (answers,) the bound stated for it
    labels_at: Array = field(repr=False)  # (rounds,) paid up to and with each round
    notes: tuple[str, ...] = field(default=(), repr=False)
    """What went wrong, and in which round."""

    @property
    def coverage(self) -> float:
        """Return the share of answers within the bound stated for them.

        Only bounds below 1 count; without any it is NaN.
        """
        stated = self.bounds < 1.0
        return float((self.errors <= self.bounds)[stated].mean()) if stated.any() else np.nan

    def __str__(self) -> str:
        failed = f" ({self.failed} failed)" if self.failed else ""
        error = f", mean error {self.errors.mean():.2f}" if len(self.errors) else ""
        return f"{self.rounds:,} rounds, {self.labels:,} labels{failed}{error}"

    def draw(self, path: str | Path) -> None:
        """Draw labels over time, and the distance of each answer to its prediction, as a PNG."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.2, 4.8), layout="constrained")
        upper, lower = figure.subplots(2)
        upper.plot(
            np.arange(1, self.rounds + 1), self.labels_at, color="#2a6fb3", drawstyle="steps-post"
        )
        upper.set(xlabel="round", ylabel="labels paid", ylim=(0, None))
        upper.set_title(str(self), loc="left", fontsize=10)
        answer = np.arange(1, len(self.errors) + 1)
        lower.vlines(answer, 0.0, self.bounds, color="0.8", linewidth=4, label="stated bound")
        lower.plot(answer, self.errors, "o", color="#b3402a", label="distance to the answer")
        lower.set(xlabel="answer", ylabel="½ Σ |α̂ − α|", ylim=(0, 1))
        lower.legend(frameon=False, fontsize=9)
        for axes in (upper, lower):
            axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, dpi=150, format="png")
