"""Trace the Pareto front: mixtures of which no other is better in all chosen metrics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from cuvee.mix.belief import Belief
from cuvee.mix.candidate import DTYPE
from cuvee.mix.constraints import Polytope
from cuvee.mix.goal import Goal
from cuvee.mix.prediction import Prediction
from cuvee.mix.search import QUICK, each_alone, measured_from, minimise
from cuvee.results import Floats
from cuvee.simplex import sample


@dataclass(frozen=True, eq=False)
class Front:
    """Hold the mixtures of the front and their metrics, best in the first metric first."""

    domains: tuple[str, ...]
    metrics: tuple[str, ...]  # those that were traded off
    alpha: Floats  # (p, N)
    prediction: Prediction  # of all metrics

    def to_frame(self) -> Any:
        """Return a pandas frame with a row per mixture: its shares and the metrics traded off."""
        import pandas as pd

        frame = pd.DataFrame(self.alpha, columns=list(self.domains))
        places = [self.prediction.metrics.index(name) for name in self.metrics]
        for name, k in zip(self.metrics, places, strict=True):
            # a loss is often named like the domain it is measured on
            column = f"{name} (metric)" if name in self.domains else name
            frame[column] = self.prediction.mean[:, k]
        return frame


def trace(
    goal: Goal, belief: Belief, polytope: Polytope, starts: Floats, points: int, seed: int
) -> Floats:
    """Return mixtures (p, N) of which none is better in all metrics that `goal` weighs.

    The ends are the best mixtures for each metric alone; every other point minimises the worst of
    the metrics, each with another weight.
    """
    counted = torch.nonzero(goal.weights > 0)[:, 0]
    ends = each_alone(goal, belief, polytope, starts, seed)
    goal = measured_from(goal, belief, ends)
    found = list(ends)
    for share in _directions(len(counted), points, seed):
        weights = torch.zeros_like(goal.weights)
        weights[counted] = torch.as_tensor(share, dtype=DTYPE)
        found.append(
            minimise(replace(goal, weights=weights), belief, polytope, starts, seed, QUICK)
        )
    alpha = np.array(found)
    with torch.no_grad():
        mean, spread = belief(torch.as_tensor(alpha, dtype=DTYPE))
        high = (mean + goal.risk * belief.half_mean(spread)) / belief.unit
        traded = high[:, counted].numpy()
    kept = not_dominated(traded)
    return alpha[kept[np.argsort(traded[kept, 0], kind="stable")]]


def _directions(n: int, points: int, seed: int) -> Floats:
    """Return weights of the points between the n ends: even for two metrics, drawn for more."""
    between = max(points - n, 1)
    if n == 2:
        first = np.linspace(0.0, 1.0, between + 2)[1:-1]
        return np.column_stack([first, 1.0 - first])
    return sample(between, n, seed)


def not_dominated(values: Floats) -> Any:
    """Return the rows (p,) of values (m, n) that no other row is at least as low in everywhere."""
    least = (values[:, None] <= values[None]).all(-1) & (values[:, None] < values[None]).any(-1)
    _, first = np.unique(values.round(9), axis=0, return_index=True)
    unique = np.isin(np.arange(len(values)), first)
    return np.flatnonzero(~least.any(0) & unique)
