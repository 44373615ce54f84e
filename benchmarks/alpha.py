"""Seconds of `cuvee.estimate` with its defaults, against another version of cuvee and against the
search a user would write.

    CUVEE_DATA=folder CUVEE_OTHER=other/.venv/bin/python cuvee bench alpha --json

`CUVEE_OTHER` is the Python of an environment with another version; without it that column is left
out. Both versions run in processes of their own, in turns, with the same number of threads, on the
same problems from a file; importing and reading are not counted. `CUVEE_TABLES="office;mnist 784"`
names some of the tables.

The search of a user: 5 shares for the target's own rows × 5 folds of them, 25 fits of
scikit-learn's model on all sources' rows with sample weights, for each target, on as many cores as
there are threads. Two fits are timed and multiplied; the solver is the faster of lbfgs and, where
there are more rows than columns, newton-cholesky.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cuvee
from cuvee.problem import Array

WEIGHTS, FOLDS = 5, 5
REPEATS, LONG = 5, 30.0  # a side that takes longer than LONG seconds is run once
Made = tuple[cuvee.Problem, cuvee.Ridge | cuvee.Logistic]


def run(quick: bool = False) -> dict[str, Any]:
    """Seconds and ratios on every table, and their geometric means."""
    other = os.environ.get("CUVEE_OTHER")
    threads = torch.get_num_threads()
    result: dict[str, Any] = {"benchmark": "alpha", "threads": threads}
    names = (
        list(TABLES)[:1] if quick else os.environ.get("CUVEE_TABLES", ";".join(TABLES)).split(";")
    )
    for name in names:
        try:
            problem, hypothesis = TABLES[name]()
        except FileNotFoundError as error:
            result[name] = f"left out: {error}"
            continue
        result[name] = measure(problem, hypothesis, threads, other, 1 if quick else REPEATS)
        print(name, result[name], file=sys.stderr, flush=True)
    for ratio in ("times_faster", "fits_of_25"):
        known = [r[ratio] for r in result.values() if isinstance(r, dict) and ratio in r]
        if known:
            result[f"{ratio}, geometric mean"] = round(float(np.exp(np.mean(np.log(known)))), 2)
    return result


def measure(
    problem: cuvee.Problem, hypothesis: Any, threads: int, other: str | None, repeats: int
) -> dict[str, Any]:
    """Seconds of this version, of the other one, and of 25 fits per target."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        write(path, problem, hypothesis)
        sides = {"seconds": sys.executable} | ({"other_seconds": other} if other else {})
        times: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(repeats):
            for side, python in sides.items():
                if not times[side] or times[side][0] < LONG:
                    times[side] += once(python, path, threads)
    row: dict[str, Any] = {side: round(statistics.median(t), 3) for side, t in times.items()}
    row |= {"runs": {side: len(t) for side, t in times.items()}}
    if other:
        row["times_faster"] = round(row["other_seconds"] / row["seconds"], 2)
    fit = one_fit(problem, hypothesis)
    row["one_fit_seconds"] = round(fit, 4)
    search = WEIGHTS * FOLDS * fit * problem.n_targets / threads
    row["fits_of_25"] = round(row["seconds"] / search, 3)  # ≤ 1: α costs no more than 25 fits
    return row


def once(python: str, path: Path, threads: int, *out: str) -> list[float]:
    """Seconds of one call in a process of its own, after a small one that warms up.

    α is written to `out` where it is given.
    """
    script = Path(__file__).with_name("_estimate_once.py")
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    if python != sys.executable:
        environment.pop("PYTHONPATH", None)
    ended = subprocess.run(  # noqa: S603
        [python, str(script), str(path), str(threads), "1", *out],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    seconds: list[float] = json.loads(ended.stdout)
    return seconds


def write(path: Path, problem: cuvee.Problem, hypothesis: Any) -> None:
    domains = [*problem.sources, *problem.targets]
    arrays = {f"{v}{i}": getattr(d, v) for i, d in enumerate(domains) for v in ("X", "y")}
    np.savez(
        path,
        names=[d.name for d in domains],
        kind=type(hypothesis).__name__,
        l2=hypothesis.l2,
        n_sources=problem.n_sources,
        **arrays,
    )


def one_fit(problem: cuvee.Problem, hypothesis: Any) -> float:
    """Seconds of one fit of scikit-learn's model on all rows of the sources and of one target."""
    from sklearn.linear_model import LogisticRegression, Ridge

    parts = [*problem.sources, problem.targets[0]]
    X, y = np.concatenate([d.X for d in parts]), np.concatenate([d.y for d in parts])
    weight = np.concatenate([np.full(d.n_rows, 1.0 / d.n_rows) for d in parts])
    weight *= len(weight) / weight.sum()
    if isinstance(hypothesis, cuvee.Ridge):
        models: list[Any] = [Ridge(alpha=hypothesis.l2 * len(y))]
    else:
        C = 1.0 / (hypothesis.l2 * len(y))
        solvers = ["lbfgs"] + (["newton-cholesky"] if len(X) > X.shape[1] * len(set(y)) else [])
        models = [LogisticRegression(C=C, solver=s, max_iter=1000) for s in solvers]
    return min(_fastest(lambda m=m: m.fit(X, y, sample_weight=weight)) for m in models)  # type: ignore[misc]


def _fastest(work: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def synthetic(
    n_sources: int, rows: int, columns: int, n_targets: int, classes: int, labelled: int = 60
) -> cuvee.Problem:
    """Sources and targets in three groups, each with its own rule; `classes` 0 is a quantity."""
    rng = np.random.default_rng(0)
    outputs = 1 if classes <= 2 else classes
    base, shift = rng.normal(size=(columns, outputs)), rng.normal(size=(3, columns, outputs))
    group = rng.integers(0, 3, size=n_sources + n_targets)

    def domain(name: str, n: int, g: int) -> cuvee.Domain:
        X = rng.normal(size=(n, columns)) + 0.3 * rng.normal(size=columns)
        rule = base + shift[g] + 0.2 * rng.normal(size=base.shape)
        scores = 2.0 * X @ rule / np.sqrt(columns)
        y: Array
        if classes == 0:
            y = scores[:, 0] + 0.5 * rng.normal(size=n)
        elif classes == 2:
            y = (scores[:, 0] + rng.logistic(size=n) > 0).astype(int)
        else:
            y = (scores + rng.gumbel(size=scores.shape)).argmax(1)
        return cuvee.Domain(name, X, y)

    sources = [domain(f"source {j}", rows, group[j]) for j in range(n_sources)]
    targets = [domain(f"target {i}", labelled, group[n_sources + i]) for i in range(n_targets)]
    return cuvee.Problem(sources, targets)


def school() -> Made:
    """Each of the schools as a target, with 20 labelled rows; all schools as sources."""
    import pandas as pd

    frame = pd.read_parquet(data_file("school.parquet"))
    X = frame.drop(columns=["domain", "label"]).to_numpy(float)
    X = (X - X.mean(0)) / np.where(X.std(0) == 0, 1.0, X.std(0))
    y, of = frame.label.to_numpy(float), frame.domain.to_numpy()
    rows = {str(name): np.flatnonzero(of == name) for name in sorted(frame.domain.unique())}
    sources = [cuvee.Domain(name, X[i], y[i]) for name, i in rows.items()]
    targets = [cuvee.Domain(f"{name}, 20 rows", X[i[:20]], y[i[:20]]) for name, i in rows.items()]
    return cuvee.Problem(sources, targets), cuvee.Ridge(1e-2)


def mnist() -> Made:
    from cuvee.data import mnist as images

    train, test = images.read(data_file("mnist.npz"))
    problem = images.groups(0, images=train, test_images=test).problem
    return problem, cuvee.Logistic(1e-2)


def office() -> Made:
    from benchmarks.tables import splits

    problem, _ = next(iter(splits(data_file("office_caltech10.parquet"), 0)))
    return problem, cuvee.Logistic(1e-2)


def data_file(name: str) -> Path:
    path = Path(os.environ.get("CUVEE_DATA", "data")) / name
    if not path.is_file():
        raise FileNotFoundError(f"no {name} in CUVEE_DATA")
    return path


TABLES: dict[str, Callable[[], Made]] = {
    "21 sources x 510 x 9, 8 targets": lambda: (synthetic(21, 510, 9, 8, 2), cuvee.Logistic(1e-2)),
    "100,000 rows, quantity": lambda: (synthetic(50, 2000, 50, 50, 0), cuvee.Ridge(1e-2)),
    "100,000 rows, two classes": lambda: (synthetic(50, 2000, 50, 50, 2), cuvee.Logistic(1e-2)),
    "100,000 rows, four classes": lambda: (synthetic(50, 2000, 50, 50, 4), cuvee.Logistic(1e-2)),
    "school, 139 targets": school,
    "office": office,
    "mnist 784": mnist,
}
