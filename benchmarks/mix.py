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
and `CUVEE_FAMILIES="log-linear;noisy"` choose less or more, `CUVEE_SIZES=` the next runs and the
seconds alone; `CUVEE_CACHE=folder` keeps every cell, so that a run goes on where it was stopped.
LightGBM is in the extra `cuvee[mix]`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks import _real_swarms as real
from benchmarks import _rivals as rivals
from benchmarks import swarms
from scipy import stats

import cuvee
from cuvee.results import Floats

FIRST, SEEDS, SIZES = 2000, 20, (64, 128, 512)
MODELS, PUBLISHED = "language models", "RegMix, published"
REAL: dict[str, Any] = {MODELS: real.Models, PUBLISHED: real.Published}
METHODS = ("ours", "LightGBM", "log-linear", "log-linear, KL", "Gaussian process")
LARGEST = {MODELS: 128}  # runs of a seed; its pool is not much larger
START, BATCH, BATCHES = 32, 32, {"chosen": 3, "random": 4}  # 32, 64, 96 and as far as 128 runs
QUICK, SMALL = {"chosen": 2, "random": 1}, (6, 3)  # batches; domains and metrics
Cell = tuple[str, int, int, str]  # family, runs, seed, method


def run(quick: bool = False) -> dict[str, Any]:
    """Return the comparison on every family and size."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("CUVEE_CACHE", folder)
        try:
            return compared(quick)
        finally:
            if os.environ["CUVEE_CACHE"] == folder:
                del os.environ["CUVEE_CACHE"]


def compared(quick: bool) -> dict[str, Any]:
    """Return what `run` does, with cells kept in CUVEE_CACHE."""
    seeds = range(FIRST, FIRST + (2 if quick else int(os.environ.get("CUVEE_SEEDS", SEEDS))))
    sizes = [24] if quick else _listed("CUVEE_SIZES", SIZES, ",", int)
    methods, families, left_out = available()
    families = ["log-linear"] if quick else _listed("CUVEE_FAMILIES", families, ";", str)
    result: dict[str, Any] = {"benchmark": "mix", "seeds": [seeds.start, seeds.stop]}
    size = SMALL if quick else (swarms.N, swarms.K)
    result |= {"domains": size[0], "metrics": size[1], "left out": left_out}
    tables = [(f, n) for n in sizes for f in families if n <= LARGEST.get(f, n)]
    cells = [(f, n, s, m) for f, n in tables for s in seeds for m in methods]
    scores = dict(zip(cells, computed(partial(cell, quick=quick), cells), strict=True))
    for family, n in tables:
        table = [[scores[family, n, seed, m] for m in methods] for seed in seeds]
        result[f"{family}, {n} runs"] = summary(methods, table)
        print(family, n, result[f"{family}, {n} runs"], file=sys.stderr, flush=True)
    simulated = [family for family in families if family not in REAL]
    grown = [(f, START, s, "next runs") for f in simulated for s in seeds]
    curves = dict(zip(grown, computed(partial(growth, quick=quick), grown), strict=True))
    for family in simulated:
        by_seed = [curves[family, START, seed, "next runs"] for seed in seeds]
        result[f"{family}, next runs"] = followed(by_seed)
    result["seconds"] = seconds(opened("saturation", FIRST, quick), 48 if quick else 512)
    return result


def _listed(name: str, default: Any, comma: str, kind: Callable[[str], Any]) -> list[Any]:
    given = os.environ.get(name)
    return list(default) if given is None else [kind(x) for x in given.split(comma) if x]


def available() -> tuple[list[str], list[str], dict[str, str]]:
    """Return the methods and families that there are here, and why others are left out."""
    methods, families = list(METHODS), [*swarms.FAMILIES, *REAL]
    left_out = {}
    if importlib.util.find_spec("lightgbm") is None:
        methods.remove("LightGBM")
        left_out["LightGBM"] = "not installed: pip install 'cuvee[mix]'"
    if not (real.Published.folder() / real.TRAIN[0]).is_file():
        families.remove(PUBLISHED)
        left_out[PUBLISHED] = "its files are not in CUVEE_DATA/regmix"
    return methods, families, left_out


def computed(task: Callable[[Cell], dict[str, float]], cells: list[Cell]) -> Iterator[Any]:
    """Yield the scores of all cells, from the cache where they are there."""
    processes = len(os.sched_getaffinity(0))  # one thread each
    with ProcessPoolExecutor(processes, get_context("spawn"), _setup) as pool:
        yield from pool.map(partial(_cached, task), cells)


def _setup() -> None:
    torch.set_num_threads(1)


def _cached(task: Callable[[Cell], dict[str, float]], key: Cell) -> dict[str, float]:
    path = Path(os.environ["CUVEE_CACHE"]) / ("_".join(map(str, key)).replace(" ", "-") + ".json")
    if not path.is_file():
        score = task(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(score))
        print(*key, score, file=sys.stderr, flush=True)
    return dict(json.loads(path.read_text()))


def opened(family: str, seed: int, quick: bool) -> Any:
    """Return the family's swarm of a seed, a small one if it has to be quick."""
    if family in REAL:
        return REAL[family](seed)
    return swarms.swarm(family, seed, *(SMALL if quick else (swarms.N, swarms.K)))


def cell(key: Cell, quick: bool = False) -> dict[str, float]:
    """Return one method's scores on one swarm."""
    family, n, seed, method = key
    swarm = opened(family, seed, quick)
    alpha, metrics = swarm.observed(n)
    started = time.perf_counter()
    made = fitted(method, alpha, metrics, swarm.prior, seed, quick)
    score = {"seconds": time.perf_counter() - started}
    fresh, truth, runs = swarm.judged()
    mean, low, high = made.predict(fresh)
    ranks = [stats.spearmanr(mean[:, k], truth[:, k]).statistic for k in range(truth.shape[1])]
    score["rank correlation"] = float(np.mean(ranks))
    if low is not None and high is not None:
        score["coverage"] = float(((low <= runs) & (runs <= high)).mean())
        score["width"] = float(((high - low) / (2 * swarm.spread)).mean())
    for name, objectives in swarm.objectives().items():
        score[name] = float(np.mean([swarm.regret(made.best(w), w) for w in objectives]))
    return score


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
    return Ours(alpha, metrics)


class Ours:
    """`cuvee.fit_surface` with everything at its default."""

    def __init__(self, alpha: Floats, metrics: Floats):
        self.surface = cuvee.fit_surface(alpha, metrics)

    def predict(self, alpha: Floats) -> tuple[Floats, Floats, Floats]:
        answer = self.surface.predict(alpha)
        return answer.mean, answer.low, answer.high

    def best(self, weights: Floats, **wishes: Any) -> Floats:
        return self.surface.best(minimise=self._named(weights), **wishes).alpha

    def next_runs(self, k: int, weights: Floats) -> Floats:
        return self.surface.next_runs(k, minimise=self._named(weights)).alpha

    def _named(self, weights: Floats) -> dict[str, float]:
        return {m: float(w) for m, w in zip(self.surface.metrics, weights, strict=True) if w}


def summary(methods: list[str], table: list[list[dict[str, float]]]) -> dict[str, Any]:
    """Return means over seeds per method, ranks and paired differences of regret."""
    result: dict[str, Any] = {}
    for name in ("rank correlation", "coverage", "width", "regret", "single regret"):
        result[name] = {
            m: round(float(np.mean([row[i][name] for row in table])), 4)
            for i, m in enumerate(methods)
            if name in table[0][i]
        }
    for name in ("rank correlation", "regret", "single regret"):
        if name not in table[0][0]:
            continue
        values = np.array([[score[name] for score in row] for row in table])  # (seeds, methods)
        places = stats.rankdata((values if "regret" in name else -values).round(6), axis=1).mean(0)
        result[f"mean rank by {name}"] = dict(zip(methods, places.round(2).tolist(), strict=True))
        for i, m in enumerate(methods[1:], 1):
            result[f"{name}, ours less {m}"] = paired(values[:, 0] - values[:, i])
    return result


def paired(difference: Floats) -> list[float]:
    """Return [mean, and the ends of its 95 % interval] over seeds."""
    half = stats.t.ppf(0.975, len(difference) - 1) * stats.sem(difference)
    middle = difference.mean()
    return [round(float(x), 4) for x in (middle, middle - half, middle + half)]


def growth(key: Cell, quick: bool = False) -> dict[str, float]:
    """Return the regret after START random runs and after each batch that `next_runs` chose, and
    after as many random runs.
    """
    family, _, seed, _ = key
    swarm = opened(family, seed, quick)
    (weights,) = swarm.objectives()["regret"]
    curve = {}
    for arm, batches in (QUICK if quick else BATCHES).items():
        alpha = swarm.design(START, 40)
        metrics = swarm.runs(alpha, 40)
        for batch in range(batches):
            made = Ours(alpha, metrics)
            curve[f"{arm} {len(alpha)}"] = swarm.regret(made.best(weights), weights)
            if batch + 1 < batches:
                chosen = arm == "chosen"
                more = made.next_runs(BATCH, weights) if chosen else swarm.design(BATCH, 41, batch)
                alpha = np.concatenate([alpha, more])
                metrics = np.concatenate([metrics, swarm.runs(more, 42, batch)])
    return curve


def followed(by_seed: list[dict[str, float]]) -> dict[str, Any]:
    """Return mean regrets by the number of runs, paired differences, and the share of runs that
    chosen ones need to be as good as the most random ones.
    """
    names = list(by_seed[0])
    values = {name: np.array([curve[name] for curve in by_seed]) for name in names}
    result: dict[str, Any] = {name: round(float(values[name].mean()), 4) for name in names}
    most = max((name for name in names if name.startswith("random")), key=_runs)
    enough = [n for n in names if n.startswith("chosen") and result[n] <= result[most]]
    needed = min(map(_runs, enough)) / _runs(most) if enough else None
    result[f"share of runs to reach {most}"] = needed
    for name in names:
        if name.startswith("chosen") and 2 * _runs(name) == _runs(most):
            result[f"{name} less {most}"] = paired(values[name] - values[most])
    return result


def _runs(name: str) -> int:
    return int(name.split()[1])


def seconds(swarm: swarms.Swarm, n: int) -> dict[str, float]:
    """Return the seconds of a fit of n runs, and of a proposal under every kind of constraint."""
    alpha, metrics = swarm.observed(n)
    started = time.perf_counter()
    surface = cuvee.fit_surface(alpha, metrics)
    fit = time.perf_counter() - started
    names, first = surface.domains, surface.metrics[0]
    limits = cuvee.Constraints(
        tokens={name: 1e9 * share for name, share in zip(names, swarm.prior, strict=True)},
        budget=5e8,
        repeat=4.0,
        fixed={names[0]: 0.05},
        minimum={names[1]: 0.02},
        maximum=0.6,
        groups={"three": (names[2:5], 0.1, 0.5)},
    )
    bound = float(metrics[:, 0].max())  # a guard rail: no worse than the worst run
    started = time.perf_counter()
    surface.best(constraints=limits, keep={first: bound}, prior=swarm.prior, pull=0.05)
    return {
        f"fit of {n} runs": round(fit, 2),
        "constrained proposal": round(time.perf_counter() - started, 2),
    }
