"""`cuvee.fit_surface` against the ways in which people choose data mixtures; a matter of quality.

    cuvee bench mix --json

Swarms whose truth is known (benchmarks/swarms.py) and the language models of
examples/mixture_of_texts.py are fitted by ours, by LightGBM, by the log-linear law and by a
Gaussian process (benchmarks/_rivals.py), all on the same runs. Reported per family and number of
runs, as means over seeds:

- `rank correlation` of predictions with the truth on fresh mixtures, the mean over metrics;
- `coverage` of the nominal 90 % intervals on fresh runs, noise included;
- `regret` of the proposal for the mean of all metrics and for single metrics: how much worse it
  truly is than the best mixture there is, in standard deviations of the objective over the design;
- `mean rank` of each method by regret, and `ours less …`: the paired difference in regret to each
  rival with its 95 % interval over seeds (negative: ours is better);
- `next runs`: the regret from runs that `next_runs` chose against random designs;
- `seconds` of a fit of 512 runs and of a proposal with every kind of constraint.

Seeds start at FIRST; those from 0 to 9 are for development. `CUVEE_SEEDS=20`, `CUVEE_SIZES=64,128`
and `CUVEE_FAMILIES="log-linear;noisy"` choose less or more; `CUVEE_CACHE=folder` keeps every cell,
so that a run goes on where it was stopped. LightGBM is in the extra `cuvee[mix]`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks import _rivals as rivals
from benchmarks import swarms
from scipy import stats

from cuvee.results import Floats

FIRST, SEEDS, SIZES = 1000, 20, (64, 128, 512)
FRESH, SINGLE = 1000, (0, 4, 8, 12)  # metrics that are also minimised alone
METHODS = ("ours", "LightGBM", "log-linear", "log-linear, KL", "Gaussian process")
Cell = tuple[str, int, int, str]  # family, runs, seed, method


def run(quick: bool = False) -> dict[str, Any]:
    """Return the comparison on every family and size."""
    seeds = range(FIRST, FIRST + (2 if quick else int(os.environ.get("CUVEE_SEEDS", SEEDS))))
    sizes = [32] if quick else _listed("CUVEE_SIZES", SIZES, ",", int)
    families = ["log-linear"] if quick else _listed("CUVEE_FAMILIES", swarms.FAMILIES, ";", str)
    methods, left_out = available()
    result: dict[str, Any] = {"benchmark": "mix", "seeds": [seeds.start, seeds.stop]}
    result |= {"domains": swarms.N, "metrics": swarms.K, "left out": left_out}
    cells = [(f, n, s, m) for n in sizes for f in families for s in seeds for m in methods]
    scores = dict(zip(cells, computed(partial(cell, quick=quick), cells), strict=True))
    for family in families:
        for n in sizes:
            table = [[scores[family, n, seed, m] for m in methods] for seed in seeds]
            result[f"{family}, {n} runs"] = summary(methods, table)
    return result


def _listed(name: str, default: Any, comma: str, kind: Callable[[str], Any]) -> list[Any]:
    given = os.environ.get(name)
    return [kind(x) for x in given.split(comma)] if given else list(default)


def available() -> tuple[list[str], dict[str, str]]:
    """Return the methods that can be run here, and why the others cannot."""
    methods, left_out = list(METHODS), {}
    if importlib.util.find_spec("lightgbm") is None:
        methods.remove("LightGBM")
        left_out["LightGBM"] = "not installed: pip install 'cuvee[mix]'"
    return methods, left_out


def computed(task: Callable[[Cell], dict[str, float]], cells: list[Cell]) -> Iterator[Any]:
    """Yield the scores of all cells, from the cache where they are there."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn"), initializer=_setup) as pool:
        yield from pool.map(partial(_cached, task), cells)


def _setup() -> None:
    torch.set_num_threads(1)


def _cached(task: Callable[[Cell], dict[str, float]], key: Cell) -> dict[str, float]:
    folder = os.environ.get("CUVEE_CACHE")
    if not folder:
        return task(key)
    path = Path(folder) / ("_".join(map(str, key)).replace(" ", "-") + ".json")
    if not path.is_file():
        score = task(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(score))
        print(*key, score, file=sys.stderr, flush=True)
    return dict(json.loads(path.read_text()))


def cell(key: Cell, quick: bool = False) -> dict[str, float]:
    """Return one method's scores on one swarm."""
    family, n, seed, method = key
    swarm = swarms.swarm(family, seed)
    alpha = swarm.design(n, 0)
    started = time.perf_counter()
    made = fitted(method, alpha, swarm.runs(alpha, 0), swarm.prior, seed, quick)
    seconds = time.perf_counter() - started
    fresh = swarm.fresh[:FRESH]
    mean, width = made.predict(fresh)
    truth = swarm.truth(fresh)
    ranks = [stats.spearmanr(mean[:, k], truth[:, k]).statistic for k in range(truth.shape[1])]
    score = {"rank correlation": float(np.mean(ranks)), "seconds": seconds}
    if width is not None:
        covered = np.abs(swarm.runs(fresh, 7) - mean) <= width
        score["coverage"] = float(covered.mean())
        score["width"] = float((width / swarm.spread).mean())
    equal = np.full(swarms.K, 1.0 / swarms.K)
    score["regret"] = swarm.regret(made.best(equal), equal)
    alone = [swarm.regret(made.best(w), w) for w in np.eye(swarms.K)[list(SINGLE)]]
    return score | {"single regret": float(np.mean(alone))}


def fitted(
    method: str, alpha: Floats, metrics: Floats, prior: Floats, seed: int, quick: bool = False
) -> rivals.Rival:
    """Return the method after it has seen the runs."""
    if method == "LightGBM":
        return rivals.LightGBM(alpha, metrics, prior, seed, 1000 if quick else rivals.DRAWS)
    if method == "Gaussian process":
        return rivals.GaussianProcess(alpha, metrics, prior)
    if method.startswith("log-linear"):
        return rivals.LogLinear(alpha, metrics, prior, rivals.KL if "KL" in method else 0.0)
    return Ours(alpha, metrics, prior)


class Ours:
    """`cuvee.fit_surface` with everything at its default."""

    def __init__(self, alpha: Floats, metrics: Floats, prior: Floats):
        import cuvee

        self.surface = cuvee.fit_surface(alpha, metrics)

    def predict(self, alpha: Floats) -> tuple[Floats, Floats]:
        raise NotImplementedError

    def best(self, weights: Floats) -> Floats:
        raise NotImplementedError


def summary(methods: list[str], table: list[list[dict[str, float]]]) -> dict[str, Any]:
    """Return means over seeds per method, ranks and paired differences of regret."""
    result: dict[str, Any] = {}
    for name in ("rank correlation", "coverage", "width", "regret", "single regret"):
        result[name] = {
            m: round(float(np.mean([row[i][name] for row in table])), 4)
            for i, m in enumerate(methods)
            if name in table[0][i]
        }
    for name in ("regret", "single regret"):
        values = np.array([[score[name] for score in row] for row in table])  # (seeds, methods)
        places = stats.rankdata(values.round(6), axis=1).mean(0)
        result[f"mean rank by {name}"] = dict(zip(methods, places.round(2).tolist(), strict=True))
        for i, m in enumerate(methods[1:], 1):
            if methods[0] == "ours":
                result[f"{name}, ours less {m}"] = paired(values[:, 0] - values[:, i])
    return result


def paired(difference: Floats) -> list[float]:
    """Return [mean, and the ends of its 95 % interval] over seeds."""
    half = stats.t.ppf(0.975, len(difference) - 1) * stats.sem(difference)
    middle = difference.mean()
    return [round(float(x), 4) for x in (middle, middle - half, middle + half)]
