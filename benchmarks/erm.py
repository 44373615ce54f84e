"""M models together against scikit-learn in a loop, and M networks together against a loop over
networks.

    cuvee bench erm --json

Both sides start from arrays and end with every model at ‖∇‖∞ ≤ 1e-6, which is checked; how far
their solutions lie apart is printed. The slow side is scikit-learn in a joblib loop over all cores,
its processes started beforehand, with whichever of its solvers is fastest on these data, tried
first. A repeat runs the fast side on all M mixtures and the slow side on one of `parts` equal parts
of them, and counts its time `parts` times; over the repeats every mixture is fitted by both. Where
the fast side takes a tenth of a second, a repeat is the mean of several runs of it.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import joblib
import numpy as np
import torch
from benchmarks._networks import networks
from benchmarks._timing import compared
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

import cuvee
from cuvee.data import mnist
from cuvee.data.synthetic import shifted_sources
from cuvee.problem import Array
from cuvee.simplex import sample

TOL = 1e-6
PARTS = 5
LEAST = 0.5  # seconds of the fast side in a repeat
Fit = Callable[[Array, Array, Array], Array]  # X, y, sample_weight -> (P,)


@dataclass(frozen=True)
class Case:
    """One comparison."""

    name: str
    domains: list[tuple[str, Array, Array]]
    hypothesis: cuvee.Ridge | cuvee.Logistic | cuvee.Poisson
    alpha: Array
    solvers: dict[str, Fit]
    wanted: float
    order: Literal["C", "F"] = "C"
    """Memory order of the slow side's X: whichever is faster for it."""


def run(quick: bool = False) -> dict[str, Any]:
    result: dict[str, Any] = {
        "benchmark": "erm",
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
    }
    with joblib.Parallel(n_jobs=-1) as pool:
        for case in (ridge(quick), logistic(quick), poisson(quick), softmax(quick)):
            result[case.name] = compare(case, pool, 2 if quick else PARTS)
    result["32 networks"] = networks(quick)
    return result


def ridge(quick: bool) -> Case:
    l2, n, M = 1e-2, 6_000 if quick else 100_000, 50 if quick else 1_000

    def fit(solver: str) -> Fit:
        def run(X: Array, y: Array, weight: Array) -> Array:
            model = Ridge(alpha=l2, solver=solver).fit(X, y, sample_weight=weight)
            return np.append(model.coef_, model.intercept_)

        return run

    sources = [(d.name, d.X, d.y) for d in shifted_sources(15, n // 15, 64, quantity=True)]
    solvers = {s: fit(s) for s in ("cholesky", "svd", "lsqr")}
    return Case(
        f"ridge n={n} d=64 N=15 M={M}",
        sources,
        cuvee.Ridge(l2),
        sample(M, 15, seed=1),
        solvers,
        300.0,
        "F",
    )


def logistic(quick: bool) -> Case:
    l2, n, M = 1e-2, 3_000 if quick else 30_000, 50 if quick else 1_000
    sources = [(d.name, d.X, d.y) for d in shifted_sources(15, n // 15, 64)]
    solvers = {s: classifier(s, l2) for s in ("newton-cholesky", "lbfgs", "newton-cg")}
    return Case(
        f"logistic n={n} d=64 N=15 M={M}",
        sources,
        cuvee.Logistic(l2),
        sample(M, 15, seed=1),
        solvers,
        30.0,
    )


def poisson(quick: bool) -> Case:
    """Counts whose rates follow the rows as the scores of the logistic case do."""
    l2, n, M = 1e-2, 3_000 if quick else 30_000, 50 if quick else 1_000
    rng = np.random.default_rng(0)
    sources = []
    for d in shifted_sources(15, n // 15, 64, quantity=True):
        rate = np.exp(np.clip(0.5 * (d.y - d.y.mean()) / d.y.std(), -3.0, 3.0))
        sources.append((d.name, d.X, rng.poisson(rate).astype(np.float64)))

    def fit(solver: str) -> Fit:
        def run(X: Array, y: Array, weight: Array) -> Array:
            model = PoissonRegressor(alpha=l2, solver=solver, tol=TOL, max_iter=5_000)
            model.fit(X, y, sample_weight=weight)
            return np.append(model.coef_, model.intercept_)

        return run

    solvers = {s: fit(s) for s in ("newton-cholesky", "lbfgs")}
    name = f"poisson n={n} d=64 N=15 M={M}"
    return Case(name, sources, cuvee.Poisson(l2), sample(M, 15, seed=1), solvers, 20.0)


def softmax(quick: bool) -> Case:
    """15 sources in the three groups of digits of the paper's protocol."""
    l2, M, rng = 1e-2, 10 if quick else 200, np.random.default_rng(0)
    images, labels = mnist.load()
    images = images.astype(np.float64)
    n = 600 if quick else 4_000
    sources = []
    for name, digits in mnist.GROUPS.items():
        rows = rng.permutation(np.flatnonzero(np.isin(labels, digits)))
        for k, part in enumerate(np.array_split(rows[: len(rows) * n // len(labels)], 5)):
            sources.append((f"{name} {k}", images[part], labels[part]))
    solvers = {s: classifier(s, l2) for s in ("newton-cg", "lbfgs")}
    rows_used = sum(len(y) for _, _, y in sources)
    name = f"softmax MNIST n={rows_used} d=784 K=10 N=15 M={M}"
    return Case(name, sources, cuvee.Logistic(l2), sample(M, 15, seed=1), solvers, 10.0)


def classifier(solver: str, l2: float) -> Fit:
    def run(X: Array, y: Array, weight: Array) -> Array:
        model = LogisticRegression(C=1 / l2, solver=solver, tol=TOL, max_iter=5_000).fit(
            X, y, sample_weight=weight
        )
        return np.column_stack([model.coef_, model.intercept_]).ravel()

    return run


def compare(case: Case, pool: joblib.Parallel, parts: int) -> dict[str, Any]:
    X, y = (np.concatenate([d[i] for d in case.domains]) for i in (1, 2))
    X = np.asarray(X, order=case.order)
    counts = np.array([len(d[2]) for d in case.domains])
    solver, trials = fastest(case, X, y, counts)
    fit, M = case.solvers[solver], len(case.alpha)

    def fast() -> Array:
        return solve(case).w

    def slow(rows: Array) -> Array:
        return np.array(
            pool(joblib.delayed(weighted)(fit, X, y, case.alpha[i], counts) for i in rows)
        )

    slow(np.arange(2))  # the pool has its processes and the data
    fast()
    began = time.perf_counter()
    fast()
    # a tenth of a second is too short to time once
    runs = max(1, round(LEAST / (time.perf_counter() - began)))
    times: dict[str, list[float]] = {"fast": [], "slow": []}
    theirs = np.empty((M, 0))
    for rows in np.array_split(np.arange(M), parts):
        began = time.perf_counter()
        for _ in range(runs):
            ours = fast()
        middle = time.perf_counter()
        found = slow(rows)
        times["fast"].append((middle - began) / runs)
        times["slow"].append((time.perf_counter() - middle) * M / len(rows))
        theirs = np.empty((M, found.shape[1])) if theirs.shape[1] == 0 else theirs
        theirs[rows] = found
    result = compared(times["fast"], times["slow"])
    return {
        **result,
        "wanted": case.wanted,
        "met": result["ratio"] >= case.wanted,
        "slow_side": f"scikit-learn {solver}, joblib on all cores; seconds a model tried: {trials}",
        **agreement(case, ours, theirs),
    }


def solve(case: Case) -> cuvee.Solution:
    """The fast side, from arrays."""
    domains = [cuvee.Domain(*d) for d in case.domains]
    return cuvee.solve(domains, case.hypothesis, case.alpha, tol=TOL)


def weighted(fit: Fit, X: Array, y: Array, alpha: Array, counts: Array) -> Array:
    """One model of the slow side: every row of source j weighs α_j/m_j."""
    return fit(X, y, np.repeat(alpha / counts, counts))


def fastest(case: Case, X: Array, y: Array, counts: Array) -> tuple[str, dict[str, float]]:
    """The solver with the least time on two mixtures, of those that reach the tolerance."""
    seconds = {}
    for name, fit in case.solvers.items():
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            w = np.array([weighted(fit, X, y, case.alpha[i], counts) for i in range(2)])
        took = (time.perf_counter() - began) / 2
        if largest_gradient(case, case.alpha[:2], w) <= 2 * TOL:
            seconds[name] = round(took, 4)
    return min(seconds, key=lambda s: seconds[s]), seconds


def agreement(case: Case, ours: Array, theirs: Array) -> dict[str, float]:
    """Gradients of both sides, and how far apart they are where softmax does not care about a
    shared constant.
    """
    # (M, K, features + 1)
    centred = theirs.reshape(len(theirs), -1, case.domains[0][1].shape[1] + 1).copy()
    if centred.shape[1] > 1:
        centred[..., -1] -= centred[..., -1].mean(1, keepdims=True)
    return {
        "largest_gradient_fast": largest_gradient(case, case.alpha, ours),
        "largest_gradient_slow": largest_gradient(case, case.alpha, theirs),
        "largest_difference": float(np.abs(ours - centred.reshape(ours.shape)).max()),
    }


def largest_gradient(case: Case, alpha: Array, w: Array) -> float:
    certificate = cuvee.certify([cuvee.Domain(*d) for d in case.domains], case.hypothesis, alpha, w)
    return float(certificate.gradient_norm.max())
