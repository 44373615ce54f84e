"""Problems on which Algorithm 1 is tried as Theorem 2 has it, and what is measured along a run.

One adversary, the paper's "sum" discrepancy, W a ball: Assumption 1 holds with constants that are
known. A run carries several targets, each a minimax problem of its own with the same sources;
squared gaps are averaged over them. The steps are the package's own (`cuvee.mixture.scgda`), and so
is the gap, always measured with the same η and γ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

import cuvee
from cuvee import erm
from cuvee.components import LocalComponents
from cuvee.data.synthetic import shifted_sources
from cuvee.mixture import driver, scgda
from cuvee.mixture.objective import Objective
from cuvee.mixture.players import Play, Scales, Settings
from cuvee.results import Floats
from cuvee.theory import Constants, RowConstants

MEASURED = 0.1  # η and γ of every gap: as large as a run's own, the same for all
# a gap costs as much as a step: after the first steps one in 3 % more of them will do
SPACING = 1.03
DENSE = 40  # steps that are all looked at
KINDS: dict[str, dict[str, float]] = {
    "logistic": {"radius": 3.0, "C": 20.0, "c": 1e-4},  # its bounded loss, 1 − p_y
    "ridge": {"radius": 1.0, "C": 100.0, "c": 1e-3},  # W bounds it
}


@dataclass(frozen=True)
class Game:
    """min over α, max over w, for every target; seed fixes rows, minibatches and where w starts."""

    kind: str
    components: LocalComponents
    objective: Objective
    seed: int

    @property
    def n_sources(self) -> int:
        return len(self.components.counts)

    @cached_property
    def constants(self) -> Constants:
        """Of Assumption 1, row by row as it asks, on W."""
        counts, how = self.components.counts, KINDS[self.kind]
        return Constants(
            n_sources=self.n_sources,
            m_min=int(counts.min()),
            m_max=int(counts.max()),
            C=how["C"],
            G_f=self._rows.G_f,
            L_f=self._rows.L_f,
            L_g=how["c"] ** -0.5,
        )

    @property
    def largest(self) -> tuple[float, float]:
        """(B_g, F_max): bounds on g(f_T − f_j) and on F."""
        return self.constants.largest_values(self._rows.largest_loss)

    @cached_property
    def _rows(self) -> RowConstants:
        return self.components.row_constants()

    def evaluations(self, beta: float, B: int) -> int:
        """What a step costs a target: a row's loss or gradient at one w is one. The correction
        evaluates at w^{t−1} too, which is counted in full though it needs no gradient; without it
        (β = 1) nobody would.
        """
        return (1 if beta == 1.0 else 2) * B * (self.n_sources + 1)


def game(kind: str, seed: int, setting: dict[str, Any]) -> Game:
    """Sources and targets with their own means, scales and rules; columns, and labels of ridge,
    standardised.
    """
    N, how = setting["N"], KINDS[kind]
    domains = shifted_sources(
        N + setting["targets"],
        setting["rows"],
        setting["features"],
        seed=seed,
        quantity=kind == "ridge",
    )
    problem = cuvee.Problem(domains[:N], domains[N:])
    hypothesis = (cuvee.Ridge if kind == "ridge" else cuvee.Logistic)(
        l2=0.0, intercept=False, radius=how["radius"]
    )
    space = hypothesis.bind(problem.facts, standardised=True)
    components = erm.components(
        problem, space, "trained" if kind == "ridge" else "bounded", seed=seed
    )
    objective = Objective("sum", how["c"], how["C"], 1.0 / components.counts.double()[None])
    return Game(kind, components, objective, seed)


def gap(of: Game, players: Play) -> Floats:
    """(M,) Definition 1 on full data, with η = γ = MEASURED whatever the run itself uses."""
    fixed = Scales(
        *(torch.full_like(p.step, MEASURED).double() for p in (players.eta, players.gamma))
    )
    found, _, _ = driver.stationarity(
        of.components, of.objective, players, Settings(average=False), fixed
    )
    return np.asarray(found)


@dataclass(frozen=True)
class Seen:
    """After t steps, squares averaged over targets."""

    t: int
    now: float
    mean: float
    """Over the iterates 1..t: what Theorem 2 bounds."""
    late: float
    """Over the latter half of them: where the run is by now."""


def watch(of: Game, beta: float, B: int, eta: float, gamma: float, steps: int) -> Iterator[Seen]:
    """Algorithm 1 with constant η and γ; what is seen at t = 0, 1, 2, … and later at growing
    distances.
    """
    settings = Settings(
        beta=beta,
        batch_size=B,
        eta=eta,
        gamma=gamma,
        adversaries=1,
        steps=steps,
        average=False,
        seed=of.seed,
    )
    state = scgda.init(of.components, of.objective, settings)
    start = float((gap(of, state.play) ** 2).mean())
    yield Seen(0, start, start, start)
    # Σ of squares up to each time; a look stands for the steps since the last one
    times, sums = [0], [0.0]
    wanted = looks(steps)
    for t in range(1, steps + 1):
        state = scgda.step(state, of.components, of.objective, settings)
        if t not in wanted:
            continue
        now = float((gap(of, state.play) ** 2).mean())
        sums.append(sums[-1] + now * (t - times[-1]))
        times.append(t)
        half = t // 2
        late = (sums[-1] - float(np.interp(half, times, sums))) / (t - half)
        yield Seen(t, now, sums[-1] / t, late)


def looks(steps: int) -> set[int]:
    """The steps after which the gap is looked at, the last one among them."""
    found, t = set(), 0
    while t < steps:
        t = min(steps, t + 1 if t < DENSE else int(np.ceil(SPACING * t)))
        found.add(t)
    return found
