"""Choose a predictor: candidates are fitted on some labels and compared on others.

They are compared by ‖∇f_α(ŵ)‖∞, in which the tolerance is stated: one pass over the data for a few
dozen mixtures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from cuvee.learn.base import Descending, Labels, Predictor, median_error
from cuvee.learn.material import Material
from cuvee.learn.subspace import Subspace
from cuvee.oracle import gradient_norms

HELD_OUT = 0.2  # of the labels, while candidates are compared
QUANTILE = 0.95


@dataclass(frozen=True)
class Trial:
    """Hold a candidate's name, and how it did on labels it had not seen."""

    name: str
    error: float  # median ‖ŵ − w*‖/‖w*‖
    gradient: float  # ‖∇f_α(ŵ)‖∞, at the 95th percentile
    seconds: float  # to fit


@dataclass(frozen=True)
class Chosen:
    """Hold the predictor that a map ends with, and what else was tried."""

    predictor: Predictor | Descending
    subspace: Subspace
    name: str
    trials: tuple[Trial, ...]
    diverged: bool = False


@dataclass(frozen=True)
class Candidate:
    """Name a way to fit a predictor to some of the labels."""

    name: str
    fit: Callable[[slice], Predictor]
    # whether the winner is fitted again to all labels; False where it learns mostly from other data
    again: bool = True


def best(material: Material, candidates: Iterable[Candidate], stop: float = 0.0) -> Chosen:
    """Return the most accurate candidate, or the first whose ‖∇‖∞ is at most `stop`.

    All are fitted on some labels and compared on the others; the winner is fitted again on all.
    """
    n = len(material.labels)
    fitted_on = slice(0, n - max(1, round(HELD_OUT * n)))
    held_out = material.labels[fitted_on.stop :]
    trials: list[Trial] = []
    winner: tuple[Trial, Candidate, Predictor] | None = None
    for candidate in candidates:
        began = time.perf_counter()
        predictor = candidate.fit(fitted_on)
        trial = _judge(material, candidate.name, predictor, held_out, time.perf_counter() - began)
        trials.append(trial)
        if winner is None or (trial.gradient, trial.error) < (winner[0].gradient, winner[0].error):
            winner = trial, candidate, predictor
        if trial.gradient <= stop:
            break
    assert winner is not None  # every map has a candidate
    trial, candidate, predictor = winner
    predictor = candidate.fit(slice(0, n)) if candidate.again else predictor
    return Chosen(predictor, material.subspace, trial.name, tuple(trials))


def untried(name: str, seconds: float) -> Trial:
    """Return the trial of a map that holds no labels out; its errors are measured later."""
    return Trial(name, float("nan"), float("nan"), seconds)


def _judge(
    material: Material, name: str, predictor: Predictor, labels: Labels, seconds: float
) -> Trial:
    def whole(alpha: Tensor) -> Tensor:
        return material.subspace.decode(predictor(alpha))

    gradient = _gradients(material, labels.alpha, whole(labels.alpha))
    largest = float(gradient.sort().values[round(QUANTILE * (len(labels) - 1))])
    return Trial(name, median_error(whole, labels), largest, seconds)


def _gradients(material: Material, alpha: Tensor, w: Tensor) -> Tensor:
    """Return ‖∇f_α(w)‖∞ (M,), infinite where w is not a number."""
    norms = torch.full_like(alpha[:, 0], torch.inf)
    finite = w.isfinite().all(1)
    if bool(finite.any()):
        norms[finite] = gradient_norms(
            material.oracle, material.space, alpha[finite], w[finite]
        ).to(norms)
    return norms.nan_to_num(torch.inf, torch.inf)
