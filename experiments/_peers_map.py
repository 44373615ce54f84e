"""LibMOON's own question: a map from preferences α to models, beside `cuvee.learn` and
`cuvee.solve`.

Logistic regression on sources that differ. All are asked for the models of the same fresh mixtures,
uniform on the simplex, which is what LibMOON trains on; the score is the mean excess risk f_α(ŵ) −
f_α(w*).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from experiments import _peers_moon as moon
from experiments._fit import mean_interval
from experiments._lab import Row, Unit, seed_of
from experiments._peers_moon import BUILD, MOON

import cuvee
from cuvee.data.synthetic import shifted_sources
from cuvee.problem import Domain
from cuvee.results import Floats
from cuvee.simplex import sample

MAPS = "(maps)"  # stands where units of this have no table
LEARN, SOLVE = "cuvee.learn", "cuvee.solve"
EXACT = 1e-10  # of ‖∇‖∞, for w*


def measure_map(unit: Unit, setting: dict[str, Any]) -> Iterator[Row]:
    """Excess risk, seconds to make the map, seconds for all models: of this project, or of LibMOON
    as it trains.
    """
    asked, seed = setting["map"], unit["seed"]
    sources = shifted_sources(asked["sources"], asked["rows"], asked["features"], seed=seed)
    hypothesis = cuvee.Logistic(setting["l2"], intercept=False)
    alpha = sample(asked["mixtures"], asked["sources"], seed=seed_of("fresh", seed))
    least = risk(
        sources, setting["l2"], alpha, cuvee.solve(sources, hypothesis, alpha, tol=EXACT).w
    )

    def row(peer: str, epochs: int, w: Floats, fit_s: float, models_s: float) -> Row:
        excess = float((risk(sources, setting["l2"], alpha, w) - least).mean())
        return {
            "peer": peer,
            "epochs": epochs,
            "excess": max(excess, 0.0),
            "fit_s": fit_s,
            "models_s": models_s,
        }

    if unit["by"] == MOON:
        found = moon.train(sources, hypothesis, alpha, asked["epochs"], seed)
        for epochs, w, seconds in zip(asked["epochs"], found["w"], found["seconds"], strict=True):
            yield row(MOON, epochs, w, float(seconds), float(found["predict_s"]))
        return
    began = time.perf_counter()
    atlas = cuvee.learn(sources, hypothesis, seed=seed)
    learnt = time.perf_counter()
    predicted = atlas(alpha).w
    ended = time.perf_counter()
    yield row(LEARN, 0, predicted, learnt - began, ended - learnt)
    began = time.perf_counter()
    solved = cuvee.solve(sources, hypothesis, alpha).w
    yield row(SOLVE, 0, solved, 0.0, time.perf_counter() - began)


def risk(sources: list[Domain], l2: float, alpha: Floats, w: Floats) -> Floats:
    """f_α(w) (K,) of models w (K, P) without intercept: mean logistic losses mixed by α (K, N), and
    l2/2‖w‖².
    """
    losses = []
    for source in sources:
        scores = w @ source.X.T  # (K, rows)
        losses.append((np.logaddexp(0.0, scores) - scores * source.y).mean(1))
    mixed: Floats = (alpha * np.stack(losses, 1)).sum(1) + 0.5 * l2 * (w**2).sum(1)
    return mixed


def judge_map(found: pd.DataFrame) -> tuple[str, dict[str, Any]]:
    """What there is to say, and numbers per map; excess risks are means over seeds."""
    rows = found[found["table"] == MAPS]
    numbers: dict[str, Any] = {
        MOON: None if (rows["peer"] == MOON).any() else f"not there; to build it: {BUILD}"
    }
    if rows.empty:
        return "maps were not measured", numbers
    for (peer, epochs), some in rows.groupby(["peer", "epochs"], sort=False):
        mean, low, high = mean_interval(some["excess"])
        seconds = {"fit_s": some["fit_s"].mean(), "models_s": some["models_s"].mean()}
        key = f"{peer}, {int(epochs)} epochs" if peer == MOON else peer
        numbers[key] = {"excess": mean, "low": low, "high": high, "seeds": len(some), **seconds}
    learn, solve = numbers[LEARN], numbers[SOLVE]
    ours = (
        f"as a map from α to models cuvee.learn has an excess risk of {learn['excess']:.1g} after "
        f"{learn['fit_s']:.2g} "
        f"s and cuvee.solve of {solve['excess']:.1g} in {solve['models_s']:.2g} s for all"
    )
    trained = rows[rows["peer"] == MOON]
    if trained.empty:
        return f"{ours}, LibMOON was not there", numbers
    del numbers[MOON]
    # equal time: a seed's last epochs before its own cuvee.learn had ended, or its first
    equal = [
        _until(trained[trained["seed"] == seed], float(one["fit_s"].iloc[0]))
        for seed, one in rows[rows["peer"] == LEARN].groupby("seed")
        if (trained["seed"] == seed).any()
    ]
    last = trained[trained["epochs"] == trained["epochs"].max()]
    numbers["LibMOON, equal time"] = {"excess": float(np.mean([e for e, _ in equal]))}
    return (
        f"{ours}, LibMOON's network of {np.mean([e for e, _ in equal]):.1g} in about the time of "
        "cuvee.learn "
        f"({np.mean([s for _, s in equal]):.2g} s) and {last['excess'].mean():.1g} after "
        f"{last['fit_s'].mean():.2g} s"
    ), numbers


def _until(trained: pd.DataFrame, seconds: float) -> tuple[float, float]:
    """(excess, seconds) of the last checkpoint within the time, or of the first."""
    ordered = trained.sort_values("epochs")
    within = ordered[ordered["fit_s"] <= seconds]
    chosen = within.iloc[-1] if len(within) else ordered.iloc[0]
    return float(chosen["excess"]), float(chosen["fit_s"])
