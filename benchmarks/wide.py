"""Tables with more columns than rows: seconds and memory of `estimate` and `solve`, beside one fit
of scikit-learn.

    cuvee bench wide --json

`estimate` is Ridge with all its candidates and folds, 4 sources and one target; its peak is the
most that a process of its own ever held beyond what it held before the call. `solve` is one
logistic model in a budget of 64 MiB; the slow side, taken in turns with it, is `LogisticRegression`
with its default solver and the same penalty, weights and tolerance. Medians of five.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
import torch
from benchmarks._timing import compared

import cuvee

SOURCES, ROWS, OWN_ROWS = 4, 50, 20
L2, BUDGET = 1e-2, 64 * 2**20
REPEATS = 5


def run(quick: bool = False) -> dict[str, Any]:
    repeats = 1 if quick else REPEATS
    ridge, logistic = ((100,), (300,)) if quick else ((500, 1_000), (3_000,))
    return {
        "benchmark": "wide",
        "threads": torch.get_num_threads(),
        "estimate, ridge, by columns": {d: measured("estimate", d) for d in ridge},
        "solve, logistic, budget 64 MiB, by columns": {
            d: {**compared(*seconds(d, repeats)), **measured("solve", d)} for d in logistic
        },
    }


def domain(name: str, rows: int, columns: int, seed: int, *, classes: bool) -> cuvee.Domain:
    """Return rows whose label follows twenty of the columns, a little differently in
    every domain.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    score = X[:, :20].sum(1) * (1 + 0.2 * seed) / 4 + 0.3 * rng.normal(size=rows)
    return cuvee.Domain(name, X, (score > 0).astype(int) if classes else score)


def sources(columns: int, *, classes: bool) -> list[cuvee.Domain]:
    return [domain(f"s{j}", ROWS, columns, j, classes=classes) for j in range(SOURCES)]


def ask(what: str, columns: int) -> None:
    """Make the one call whose time and memory are reported."""
    if what == "solve":
        alpha = np.full((1, SOURCES), 1 / SOURCES)
        data = sources(columns, classes=True)
        cuvee.solve(data, cuvee.Logistic(L2), alpha, memory=BUDGET).raise_for_status()
    else:
        target = domain("t", OWN_ROWS, columns, SOURCES, classes=False)
        cuvee.estimate(cuvee.Problem(sources(columns, classes=False), [target]), cuvee.Ridge(L2))


def measured(what: str, columns: int) -> dict[str, Any]:
    """Return seconds and peak MiB of one call in a process of its own, which a small call has
    warmed up.
    """
    code = (
        f"import json; from benchmarks.wide import alone; print(json.dumps(alone({what!r}, "
        f"{columns})))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    return dict(json.loads(ended.stdout))


def alone(what: str, columns: int) -> dict[str, Any]:
    ask(what, 24)  # libraries are loaded; so few columns leave no mark on the peak
    before, began = peak(), time.perf_counter()
    ask(what, columns)
    return {"alone_s": round(time.perf_counter() - began, 2), "peak_MiB": round(peak() - before, 1)}


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def seconds(columns: int, repeats: int) -> tuple[list[float], list[float]]:
    """Return the seconds of `cuvee.solve` and of scikit-learn, taken in turns."""
    from sklearn.linear_model import LogisticRegression

    data = sources(columns, classes=True)
    X, y = np.concatenate([d.X for d in data]), np.concatenate([d.y for d in data])
    alpha, weight = np.full((1, SOURCES), 1 / SOURCES), np.full(len(X), 1 / len(X))
    ours, theirs = [], []
    for _ in range(repeats + 1):  # the first only warms up
        began = time.perf_counter()
        cuvee.solve(data, cuvee.Logistic(L2), alpha, memory=BUDGET)
        ours.append(time.perf_counter() - began)
        began = time.perf_counter()
        LogisticRegression(C=1 / L2, tol=1e-6, max_iter=1_000).fit(X, y, sample_weight=weight)
        theirs.append(time.perf_counter() - began)
    return ours[1:], theirs[1:]
