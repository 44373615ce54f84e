"""Propose the mixture to train on, with what it is expected to bring and to disappoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cuvee.mix.belief import Belief
from cuvee.mix.candidate import DTYPE
from cuvee.mix.constraints import Polytope
from cuvee.mix.fitted import Fit
from cuvee.mix.goal import Goal
from cuvee.mix.prediction import Prediction
from cuvee.mix.runs import Runs
from cuvee.mix.search import QUICK, broken_guards, check_guards, minimise
from cuvee.mix.shares import ROUNDED
from cuvee.results import Floats

ALSO = {"prior": "the prior", "best run": "the best run"}  # as sentences name them
MIXED = 5.0  # times as much as another that a metric may vary without a word


@dataclass(frozen=True, eq=False)
class Proposal:
    """Hold the proposed mixture and what is expected of it.

    `disappointment` says by how much the goal is expected to turn out worse than `value`, because
    the proposal was chosen for looking good: the winner's curse. It is NaN with fewer than 8 runs.

    In `value`, `high` and `compared` metrics that are to be maximised count with a minus, so that
    lower is better; words show them as they are.
    """

    domains: tuple[str, ...]
    alpha: Floats  # (N,)
    prediction: Prediction  # of one mixture
    value: float  # the goal at the mean; lower is better
    high: float  # the upper end of its interval
    disappointment: float
    compared: Mapping[str, float]  # the goal at the mean of other mixtures
    repeats: Mapping[str, float]  # how often the tokens of a domain would be seen
    notes: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()  # those of `compared` that the constraints do not allow
    goal: str = "the goal"  # in words
    direction: float = 1.0  # −1: the goal has metrics to maximise alone, and is shown negated
    same: Mapping[str, str] = field(default_factory=dict)
    """Those of `compared` that are the mixture of an earlier one, with its name."""

    @property
    def weights(self) -> dict[str, float]:
        """Return the share of every domain, by name."""
        return dict(zip(self.domains, self.alpha.tolist(), strict=True))

    def to_frame(self) -> Any:
        """Return a pandas frame with a row per domain: its share, and how often it is seen."""
        import pandas as pd

        seen = [self.repeats.get(name, np.nan) for name in self.domains]
        return pd.DataFrame({"domain": self.domains, "share": self.alpha, "repeats": seen})

    def __str__(self) -> str:
        shares = sorted(self.weights.items(), key=lambda item: -item[1])
        listed = ", ".join(f"{name} {share:.3f}" for name, share in shares if share >= 0.0005)
        luck = f", disappointment {self.disappointment:.2g}" if self.disappoints else ""
        return f"{listed}. {self.expected()}{luck}; compared with {self.others()}."

    @property
    def disappoints(self) -> bool:
        """Return whether it is known that the goal is likely to turn out worse."""
        return isfinite(self.disappointment) and self.disappointment > 0.0

    def expected(self) -> str:
        """Return in words what the goal is expected to be, larger if its metrics are maximised."""
        return (
            f"Expected {self.direction * self.value:.4g} for {self.goal}; {self.interval} "
            f"{self.end} at {self.direction * self.high:.4g}"
        )

    @property
    def end(self) -> str:
        """Return the verb for `high`: as larger metrics are better, it may be the lower end."""
        return "ends" if self.direction > 0 else "begins"

    @property
    def interval(self) -> str:
        """Return in words which interval `high` is the end of."""
        return f"the {self.prediction.level:.0%} interval for the mean of many such runs"

    def others(self) -> str:
        """Return in words what the goal is for other mixtures, and which are not allowed."""
        return self.compared_in_words(lambda value: f"{value:.4g}")

    def compared_in_words(self, written: Callable[[float], str]) -> str:
        """Return `others` with numbers as they are `written`; a mixture is said once."""
        said = []
        for name, value in self.compared.items():
            if name in self.same:
                continue
            also = "".join(f", which is also {ALSO.get(n, n)}," for n in self._names_of(name))
            mark = " (not allowed)" if name in self.forbidden else ""
            said.append(f"{name}{also} {written(self.direction * value)}{mark}")
        return ", ".join(said)

    def _names_of(self, name: str) -> list[str]:
        """Return the other names of a mixture of `compared`."""
        return [other for other, first in self.same.items() if first == name]


def same_mixtures(others: Mapping[str, Floats]) -> dict[str, str]:
    """Return the names of mixtures (N,) that an earlier one has already, with its name."""
    named = list(others)
    same = {}
    for i, name in enumerate(named):
        first = (n for n in named[:i] if np.abs(others[n] - others[name]).max() < ROUNDED)
        if earlier := next(first, None):
            same[name] = earlier
    return same


def worth(goal: Goal, belief: Belief, alpha: Floats) -> tuple[float, float]:
    """Return the goal of one mixture (N,): at the mean, and at the upper end of its interval."""
    with torch.no_grad():
        mean, spread = belief(torch.as_tensor(alpha, dtype=DTYPE)[None])
        return float(goal.shown(belief, mean, None)), float(goal.shown(belief, mean, spread))


def mixed_units(goal: Goal, belief: Belief, fits: Sequence[Fit]) -> tuple[str, ...]:
    """Return a sentence where one metric of an even mean varies far more than another."""
    unit = {fit.metric: float(belief.unit[k]) for k, fit in enumerate(fits) if fit.varies}
    if goal.worst or len(unit) < 2:
        return ()
    large, small = max(unit, key=unit.__getitem__), min(unit, key=unit.__getitem__)
    times = unit[large] / unit[small]
    if times <= MIXED:
        return ()
    return (
        f"The goal is the mean of all metrics in their own units, and {large!r} varies {times:.2g} "
        f"times as much as {small!r}, which hardly counts: name the metrics to minimise with "
        "weights, or minimise the worst.",
    )


def not_allowed(
    goal: Goal, belief: Belief, polytope: Polytope, others: Mapping[str, Floats]
) -> tuple[str, ...]:
    """Return the names of mixtures (N,) that the constraints or the guard rails forbid."""
    return tuple(
        name
        for name, alpha in others.items()
        if polytope.violation(alpha[None])[0] > ROUNDED or broken_guards(goal, belief, alpha)
    )


def best_run(
    goal: Goal, belief: Belief, runs: Runs, y: Tensor, offered: Sequence[str]
) -> Floats | None:
    """Return the mixture (N,) of the run that was best for the goal, moved to the belief's scale.

    `y` (n, K) are its metrics, lower is better. Runs that had any of a domain that is no longer
    offered are passed over; None is returned where no others are left.
    """
    gone = [j for j, name in enumerate(runs.domains) if name not in offered]
    rows = np.flatnonzero((runs.alpha[:, gone] == 0.0).all(1))
    if not len(rows):
        return None
    levels, index = belief.levels, belief.levels.places(runs)
    moved = levels.level[belief.scale] + belief.unit * levels.shaped(y, index)
    here = torch.where((index == belief.scale)[:, None], y, moved)
    value = goal.value(belief, here[rows], None)
    return runs.alpha[rows[int(value.argmin())]]


def best_mixture(
    goal: Goal,
    belief: Belief,
    polytope: Polytope,
    starts: Floats,
    names: tuple[str, ...],
    seed: int,
) -> Floats:
    """Return the best mixture (N,); raise where no mixture keeps the guard rails."""
    alpha = minimise(goal, belief, polytope, starts, seed)
    check_guards(goal, belief, alpha, names)
    return alpha


def disappointment(
    goal: Goal,
    halves: Sequence[tuple[Belief, Belief]],
    polytope: Polytope,
    chosen: Floats,
    seed: int,
) -> float:
    """Return how much worse a proposal is than it looked, measured on halves of the runs.

    A surface of one half chooses a mixture, and the surface of the other half, whose noise is
    independent, says what it is worth. With all runs, twice as many, the error is smaller by √2.
    """
    apart = []
    for pair in halves:
        for one, other in (pair, pair[::-1]):
            alpha = minimise(goal, one, polytope, chosen[None], seed, QUICK)
            x = torch.as_tensor(alpha, dtype=DTYPE)[None]
            with torch.no_grad():
                looked = goal.shown(one, one.mean(x), None)
                turned_out = goal.shown(other, other.mean(x), None)
            apart.append(float(turned_out - looked))
    return max(float(np.mean(apart)) / 2.0**0.5, 0.0) if apart else float("nan")
