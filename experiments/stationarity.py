"""Theorem 2: Algorithm 1 finds an ε-stationary point with O(ε⁻⁴) stochastic gradients.

    cuvee reproduce stationarity

The theorem keeps β = 0.1, η and γ, lets the batch grow as B = Θ(ε⁻²), and says that T = O(ε⁻²)
steps bring the mean of ‖∇G‖² over all iterates below ε². Its own η and γ are tried, but are too
small to wait for. So the rate is tried with constant steps from a grid, chosen by a rehearsal on
seeds that are not reported; ε's unit (the gap at the start) and the constant in B = Θ(ε⁻²) come
from there too. The uncorrected method (β = 1) is met twice: with the same batch and steps, and at
the same cost. There it has twice the batch, as the correction evaluates every row twice, and each
method, for each batch, has the steps that brought it farthest in the rehearsal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import product
from math import ceil, inf
from typing import Any

import numpy as np
import pandas as pd
from experiments._game import KINDS, Seen, game, watch
from experiments._lab import Lab, Row, Unit
from experiments._stationarity_figure import draw
from experiments._stationarity_verdict import BETA, PLAIN, judge
from experiments._verdict import Verdict

from cuvee.theory import stationarity_needs

TITLE = "Theorem 2 (stationarity)"
CLAIM = (
    "Algorithm 1 finds an ε-stationary point of the minimax problem with O(ε⁻⁴) stochastic "
    "gradients."
)
VERSION = 1
_SHAPE: dict[str, Any] = {
    "N": 4,
    "targets": 4,
    "rows": 100,
    "features": 5,
    "reference": 64,
    "first": 0,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "tiny": {
        **_SHAPE,
        "eta": {"logistic": [0.1], "ridge": [0.03]},
        "gamma": {"logistic": [1.0], "ridge": [0.03]},
        "reference": 16,
        "B": [4, 16],
        "betas": [0.3],
        "steps": 15,
        "eps": {"logistic": [0.9, 0.8], "ridge": [0.9, 0.8]},
        "patience": 20,
        "rehearsals": 1,
        "seeds": 2,
    },
    "quick": {
        **_SHAPE,
        "eta": {"logistic": [0.03, 0.3], "ridge": [0.003, 0.03]},
        "gamma": {"logistic": [0.1, 1.0], "ridge": [0.01, 0.1]},
        "B": [4, 16, 64],
        "betas": [0.01, 0.3],
        "steps": 400,
        "eps": {"logistic": [2**-1.5, 2**-2, 2**-2.5, 2**-3], "ridge": [2**-1, 2**-1.5, 2**-2]},
        "patience": 250,
        "rehearsals": 1,
        "seeds": 3,
    },
    "full": {
        **_SHAPE,
        "eta": {"logistic": [0.03, 0.1, 0.3], "ridge": [0.003, 0.01, 0.03]},
        "gamma": {"logistic": [0.1, 0.3, 1.0], "ridge": [0.01, 0.03, 0.1]},
        "B": [4, 16, 64, 256],
        "betas": [0.01, 0.03, 0.3],
        "steps": 1_500,
        "eps": {
            "logistic": [2**-1.5, 2**-2, 2**-2.5, 2**-3, 2**-3.5],
            "ridge": [2**-1, 2**-1.5, 2**-2, 2**-2.5],
        },
        "patience": 250,
        "rehearsals": 2,
        "first": 10,  # earlier ones were seen while the comparison without the correction was made
        "seeds": 6,
    },
}
UNREPORTED = 1_000  # the first of their seeds
FOREVER = 10**7  # steps: patience ends first
POINTS = 14  # of a curve that are kept


def run(lab: Lab) -> Verdict:
    setting, measuring = lab.setting, partial(measure, setting=lab.setting)
    rehearsals = rehearsal_units(setting)
    first = lab.collect(rehearsals, measuring)
    found = lab.collect(
        [*rehearsals, *units(setting, first[first["part"] == "rehearsal"])], measuring
    )
    verdict = judge(found)
    draw(found, verdict, lab, f"{TITLE}: {verdict.word}")
    return verdict


def rehearsal_units(setting: dict[str, Any]) -> list[Unit]:
    """Every pair of steps for every batch, with the correction and without, at the same
    evaluations.
    """
    seeds = range(UNREPORTED, UNREPORTED + setting["rehearsals"])
    return [
        _unit("rehearsal", kind, beta, batch, (eta, gamma), 0.0, seed)
        for seed, kind, B in product(seeds, KINDS, setting["B"])
        for beta, batch in ((BETA, B), (PLAIN, 2 * B))
        for eta, gamma in product(setting["eta"][kind], setting["gamma"][kind])
    ]


def units(setting: dict[str, Any], rehearsal: pd.DataFrame) -> list[Unit]:
    """What is reported, by what the rehearsal says."""
    reference, first = setting["reference"], setting["first"]
    found: list[Unit] = []
    of = {kind: rehearsal[rehearsal["kind"] == kind] for kind in KINDS}
    plans = {kind: plan(rows, reference) for kind, rows in of.items()}
    for seed, (kind, p) in product(range(first, first + setting["seeds"]), plans.items()):
        allowed = [float(f"{share * p['start']:.4g}") for share in setting["eps"][kind]]
        for eps in allowed:
            found.append(
                _unit("rate", kind, BETA, max(1, ceil(p["batch"] / eps**2)), p["steps"], eps, seed)
            )
        for B in setting["B"]:
            for beta in (BETA, PLAIN):
                found.append(_unit("fixed", kind, beta, B, p["steps"], 0.0, seed))
            for beta, batch in ((BETA, B), (PLAIN, 2 * B)):
                found.append(
                    _unit("own", kind, beta, batch, best(of[kind], beta, batch, "late"), 0.0, seed)
                )
        for beta in setting["betas"]:
            found.append(_unit("fixed", kind, beta, reference, p["steps"], 0.0, seed))
        found.append(_unit("theory", kind, BETA, reference, (0.0, 0.0), min(allowed), seed))
    return found


def plan(rehearsal: pd.DataFrame, reference: int) -> dict[str, Any]:
    """For one kind: the steps of Algorithm 1, the gap at the start, and b of B = b/ε².

    Steps are those with the least mean square over all iterates at the reference batch. b leaves
    ε²/4 to noise.
    """
    steps = best(rehearsal, BETA, reference, "mean")
    mine = rehearsal[(rehearsal["beta"] == BETA) & (rehearsal["B"] == reference)]
    mine = mine[
        (mine["eta"] == steps[0]) & (mine["gamma"] == steps[1]) & (mine["t"] == mine["t"].max())
    ]
    start = float(np.sqrt((rehearsal.loc[rehearsal["t"] == 0, "now"] ** 2).mean()))
    return {
        "steps": steps,
        "start": start,
        "batch": 4 * reference * float((mine["late"] ** 2).mean()),
    }


def best(rehearsal: pd.DataFrame, beta: float, B: int, by: str) -> tuple[float, float]:
    """The (η, γ) that brought one method with one batch farthest."""
    rows = rehearsal[(rehearsal["beta"] == beta) & (rehearsal["B"] == B)]
    ends = rows[rows["t"] == rows["t"].max()]
    eta, gamma = (
        ends.assign(square=ends[by] ** 2).groupby(["eta", "gamma"])["square"].mean().idxmin()
    )
    return float(eta), float(gamma)


def _unit(part: str, kind: str, beta: float, B: int, steps: Any, eps: float, seed: int) -> Unit:
    eta, gamma = (float(s) for s in steps)
    return {
        "part": part,
        "kind": kind,
        "beta": beta,
        "B": B,
        "eta": eta,
        "gamma": gamma,
        "eps": eps,
        "seed": seed,
    }


def measure(unit: Unit, setting: dict[str, Any]) -> Iterator[Row]:
    """Root mean squares of the gap along one run."""
    of = game(unit["kind"], unit["seed"], setting)
    beta, B, eps = unit["beta"], unit["B"], unit["eps"]
    cost = of.evaluations(beta, B)
    if unit["part"] == "theory":
        k, (B_g, F_max) = of.constants, of.largest
        needs = stationarity_needs(k, eps, B_g=B_g, F_max=F_max)
        eta, gamma = needs.steps.eta, needs.steps.gamma
        seen = list(watch(of, beta, B, eta, gamma, setting["steps"]))
        said = {
            "eta_theory": eta,
            "gamma_theory": gamma,
            "T_theory": needs.T,
            "B_theory": needs.B,
            "L": k.L,
        }
        moved = abs(seen[-1].now / seen[0].now - 1) / 2  # of the gap, not of its square
        yield {
            "t": setting["steps"],
            "evaluations": cost * setting["steps"],
            "mu": k.mu,
            "moved": moved,
            **said,
        }
        return
    if unit["part"] == "rate":
        t, late, both = reached(
            watch(of, beta, B, unit["eta"], unit["gamma"], FOREVER), eps, setting["patience"]
        )
        yield {"t": t, "evaluations": cost * t, "late_evaluations": cost * late, "reached": both}
        return
    seen = list(watch(of, beta, B, unit["eta"], unit["gamma"], setting["steps"]))
    # of which only start and end are asked for
    points = 1 if unit["part"] == "rehearsal" else POINTS
    for i in np.unique(np.r_[0, np.geomspace(len(seen) - 1, 1, points).round().astype(int)]):
        s = seen[i]
        yield {
            "t": s.t,
            "evaluations": cost * s.t,
            "now": s.now**0.5,
            "mean": s.mean**0.5,
            "late": s.late**0.5,
        }


def reached(seen: Iterable[Seen], eps: float, patience: float) -> tuple[int, int, bool]:
    """Steps until the mean over all iterates is at or below ε², the same for their latter half, and
    whether both were.

    Patience is the factor on (gap at the start/ε)² that T = O(ε⁻²) may come with; steps are then a
    lower bound.
    """
    at: dict[str, int] = {}
    latest = inf
    for s in seen:
        if s.t == 0:
            latest = patience * s.now / eps**2
            continue
        for name, square in (("mean", s.mean), ("late", s.late)):
            if square <= eps**2:
                at.setdefault(name, s.t)
        if len(at) == 2 or s.t >= latest:
            break
    return at.get("mean", s.t), at.get("late", s.t), len(at) == 2
