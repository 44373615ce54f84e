"""How often the calibrated bounds of a learnt map hold, by the law that mixtures are asked from; a
matter of quality, not of time.

    cuvee bench coverage --json

A map of each problem is learnt as `cuvee.learn` does by default, and asked without a look at the
data for mixtures of six laws, none of which it was told: uniform on the simplex, sparse (Dirichlet
.3), nearly uniform weights (Dirichlet 100), pairs of sources, one dominant source, and mixtures
around ten random ones. A cell has the share of the mixtures with a bound that keep to each of the
three bounds, the least of the three, over all maps of the problem; `bounded` has the share that got
a bound at all, and `sharpness` the median of the bound on ‖∇‖∞ over the largest but 5 % of the true
ones. `least map` is the least share of a single map in any cell. Seeds start at FIRST: nothing was
chosen on these. `CUVEE_SEEDS=20` says how many maps of each problem.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import cuvee
from cuvee.learn.base import Labels
from cuvee.problem import Array
from cuvee.simplex import sample

FIRST, SEEDS = 9600, 6
ASKED = 500  # mixtures of each law that each map is asked for
WANTED = 0.93
EXACT = 1e-12  # the tolerance of true models, and what rounding may add to an error
Made = tuple[list[cuvee.Domain], Any, dict[str, Any]]


def run(quick: bool = False) -> dict[str, Any]:
    """Coverage in each cell, problem by law."""
    seeds = range(FIRST, FIRST + (2 if quick else int(os.environ.get("CUVEE_SEEDS", SEEDS))))
    coverage: dict[str, dict[str, float]] = {}
    bounded: dict[str, dict[str, float]] = {}
    sharpness: dict[str, dict[str, float]] = {}
    single = 1.0
    for problem, make in PROBLEMS.items():
        maps = [of_map(*make(seed), seed) for seed in seeds]
        for table, k in ((coverage, 0), (bounded, 1), (sharpness, 2)):
            table[problem] = {
                law: round(float(np.mean([cells[law][k] for cells in maps])), 3) for law in LAWS
            }
        single = min(single, *(cells[law][0] for cells in maps for law in LAWS))
        print(problem, coverage[problem], file=sys.stderr, flush=True)
    least = min(min(row.values()) for row in coverage.values())
    return {
        "benchmark": "coverage",
        "seeds": [seeds.start, seeds.stop],
        "coverage": coverage,
        "bounded": bounded,
        "sharpness": sharpness,
        "least map": round(single, 3),
        "least": least,
        "wanted": WANTED,
        "met": least >= WANTED,
    }


def of_map(
    sources: list[cuvee.Domain], hypothesis: Any, options: dict[str, Any], seed: int
) -> dict[str, tuple[float, float, float]]:
    """Return, by law: how many bounds hold, how many there are, and how sharp they are."""
    atlas = cuvee.learn(sources, hypothesis, seed=seed, **options)
    cells = {}
    for number, (law, draw) in enumerate(LAWS.items()):
        alpha = draw(np.random.default_rng([seed, number]), len(sources), ASKED)
        answer = atlas(alpha, trust="predicted")
        said = np.stack(
            [
                answer.certificate.distance,
                answer.certificate.excess_risk,
                answer.certificate.gradient_norm,
            ]
        )
        true = errors(atlas, alpha)
        has = np.isfinite(said[2])
        holds = (true <= said + EXACT)[:, has].mean(1).min() if has.any() else 1.0
        tail = np.quantile(true[2], 0.95) + EXACT
        cells[law] = (float(holds), float(has.mean()), float(np.median(said[2]) / tail))
    return cells


def errors(atlas: cuvee.ModelMap, alpha: Array) -> Array:
    """Return ‖ŵ − w*‖, f(ŵ) − f(w*) and ‖∇f(ŵ)‖∞ of each prediction: (3, M).

    The risk between two models is taken along the line between them, for small differences of
    large risks are lost in rounding.
    """
    mixtures, oracle = torch.as_tensor(alpha), atlas.bound.oracle
    best = Labels(mixtures, oracle.solve(mixtures, tol=EXACT).w.double())
    w = atlas.predicted(mixtures).double()
    away = w - best.w
    nodes, weights = np.polynomial.legendre.leggauss(4)
    excess = torch.zeros_like(away[:, 0])
    for x, c in zip(nodes.tolist(), weights.tolist(), strict=True):
        between = oracle.gradient(mixtures, best.w + 0.5 * (x + 1.0) * away)
        excess += 0.5 * c * (between * away).sum(1)
    gradient = cuvee.certify(atlas.bound.problem, atlas.bound.hypothesis, alpha, w.numpy())
    return np.stack(
        [torch.linalg.vector_norm(away, dim=1).numpy(), excess.numpy(), gradient.gradient_norm]
    )


def made(kind: str, n_sources: int, rows: int, features: int, seed: int) -> list[cuvee.Domain]:
    """Return sources whose rules and rows are shifted around common ones."""
    rng = np.random.default_rng([seed, n_sources, features])
    common, domains = rng.normal(size=(features, 4)), []
    for j in range(n_sources):
        X = rng.normal(size=(rows, features)) * rng.uniform(0.5, 1.5, size=features)
        X += 0.7 * rng.normal(size=features)
        score = X @ (common + 0.8 * rng.normal(size=common.shape)) / np.sqrt(features)
        y: Array
        if kind == "quantity":
            y = score[:, 0] + 0.3 * rng.normal(size=rows)
        elif kind == "count":
            y = rng.poisson(np.exp(np.clip(0.5 * score[:, 0] + 0.3, -3.0, 3.0)))
        elif kind == "two classes":
            y = (1.5 * score[:, 0] + rng.logistic(size=rows) > 0).astype(int)
        else:
            y = (1.5 * score + rng.gumbel(size=score.shape)).argmax(1)
        domains.append(cuvee.Domain(f"source {j}", X, y))
    return domains


def pairs(rng: np.random.Generator, n_sources: int, n: int) -> Array:
    """Return mixtures of two random sources each, their shares uniform."""
    alpha, share = np.zeros((n, n_sources)), rng.random(n)
    two = rng.random((n, n_sources)).argsort(1)[:, :2]
    alpha[np.arange(n), two[:, 0]], alpha[np.arange(n), two[:, 1]] = share, 1.0 - share
    return alpha


def around(rng: np.random.Generator, n_sources: int, n: int) -> Array:
    """Return mixtures in ten groups, each around a random one."""
    centres = rng.dirichlet(np.full(n_sources, 0.5), size=10)
    return np.concatenate([rng.dirichlet(300.0 * c + 0.05, size=n // 10) for c in centres])


LAWS: dict[str, Callable[[np.random.Generator, int, int], Array]] = {
    "uniform": lambda rng, N, n: rng.dirichlet(np.ones(N), size=n),
    "Dirichlet .3": lambda rng, N, n: sample(n, N, int(rng.integers(2**30)), 0.3),
    "nearly equal": lambda rng, N, n: rng.dirichlet(np.full(N, 100.0), size=n),
    "pairs": pairs,
    "one dominant": lambda rng, N, n: (
        0.8 * np.eye(N)[rng.integers(N, size=n)] + 0.2 * rng.dirichlet(np.ones(N), size=n)
    ),
    "around ten": around,
}
PROBLEMS: dict[str, Callable[[int], Made]] = {
    "logistic, 5 sources": lambda s: (made("two classes", 5, 300, 8, s), cuvee.Logistic(1e-2), {}),
    "logistic, 30 sources": lambda s: (
        made("two classes", 30, 100, 6, s),
        cuvee.Logistic(1e-2),
        {},
    ),
    "softmax, 4 sources": lambda s: (made("classes", 4, 200, 5, s), cuvee.Logistic(1e-2), {}),
    "ridge by a kernel, 12 sources": lambda s: (
        made("quantity", 12, 200, 6, s),
        cuvee.Ridge(1e-2),
        {"method": "kernel"},  # the default is exact
    ),
    "Poisson, 3 sources": lambda s: (made("count", 3, 200, 4, s), cuvee.Poisson(1e-2), {}),
}
