"""Predicting models instead of solving for them: accuracy, passes over the data, speed, coverage,
and the planner.

    cuvee bench learn --json

Mixtures are uniform on the simplex; those that maps are judged on were seen by none of them. The
school table takes part where the folder with the real tables is named in CUVEE_DATA.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks._planner import planner, transition
from benchmarks._timing import compared

import cuvee
from cuvee.data.synthetic import shifted_sources
from cuvee.hypothesis.base import Hypothesis
from cuvee.simplex import sample

LABELS = (64, 256, 1_024)
METHODS: dict[str, dict[str, Any]] = {
    "network": {"method": "network"},
    "network, shared": {"method": "network", "trunk": "shared"},
    "ntf": {"method": "ntf"},
    "kernel": {"method": "kernel"},
    "surface, polynomial": {"method": "surface", "degree": 2},
    "surface": {"method": "surface"},
    "meta": {"method": "meta"},
    "auto": {"method": "auto"},
}
TEST, TEST_SEED = 2_000, 999


def run(quick: bool = False) -> dict[str, Any]:
    sources, hypothesis = shifted_sources(10, 300 if quick else 3_000, 32), cuvee.Logistic(1e-2)
    result: dict[str, Any] = {
        "benchmark": "learn",
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
    }
    result["accuracy, logistic d=32 N=10"] = accuracy(sources, hypothesis, quick)
    schools = school()
    if schools is not None:
        result["accuracy, school table"] = accuracy(schools, cuvee.Ridge(1e-2), quick)
    result["passes"] = passes(sources, hypothesis, quick)
    result["speed at 1e-3"] = predicted(sources, hypothesis, quick)
    result["speed at 1e-6"] = corrected(sources, hypothesis, quick)
    result["planner"] = planner(quick)
    if not quick:
        result["transition"] = transition()
    return result


def school() -> list[cuvee.Domain] | None:
    """Every school with all its pupils; columns scaled to unit spread over all of them."""
    folder = os.environ.get("CUVEE_DATA")
    if folder is None or not (Path(folder) / "school.parquet").is_file():
        return None
    import pandas as pd

    table = pd.read_parquet(Path(folder) / "school.parquet")
    features = table.drop(columns=["domain", "label"])
    features = (features - features.mean()) / features.std().replace(0.0, 1.0)
    labels = (table["label"] - table["label"].mean()) / table["label"].std()
    return [
        cuvee.Domain(str(name), features.loc[rows].to_numpy(), labels.loc[rows].to_numpy())
        for name, rows in table.groupby("domain").groups.items()
    ]


def accuracy(sources: list[cuvee.Domain], hypothesis: Hypothesis, quick: bool) -> dict[str, Any]:
    """Median relative error of every method on the same fresh mixtures, at equal label counts."""
    alpha = sample(200 if quick else TEST, len(sources), seed=TEST_SEED)
    exact = cuvee.solve(sources, hypothesis, alpha, tol=1e-10).w
    size = np.linalg.norm(exact, axis=1)
    table: dict[str, Any] = {}
    for name, options in METHODS.items():
        row: dict[str, Any] = {}
        for n in LABELS[:1] if quick else LABELS:
            began = time.perf_counter()
            try:
                atlas = cuvee.learn(
                    sources, hypothesis, n_labels=n, n_calibration=0, tol=1e-6, **options
                )
            except cuvee.OptionError as error:  # a quadratic in 139 variables, say
                row[str(n)] = {"not_possible": str(error)}
                continue
            seconds = time.perf_counter() - began
            w = atlas(alpha, trust="predicted").w
            row[str(n)] = {
                "median_error": float(np.median(np.linalg.norm(w - exact, axis=1) / size)),
                "seconds": round(seconds, 2),
                "map": atlas.plan.method,
            }
        table[name] = row
    at = str(LABELS[0] if quick else 256)
    ratio = table["network"][at]["median_error"] / table["auto"][at]["median_error"]
    return {
        "labels": table,
        f"auto_below_network_at_{at}": round(ratio, 1),
        "wanted": 100.0,
        "met": ratio >= 100.0,
    }


def passes(sources: list[cuvee.Domain], hypothesis: Hypothesis, quick: bool) -> dict[str, Any]:
    """Passes over the data per target for predict → certify → correct at 1e-6, and what solving
    takes.
    """
    alpha = sample(500 if quick else 10_000, len(sources), seed=TEST_SEED + 1)
    atlas = cuvee.learn(sources, hypothesis, n_labels=256, tol=1e-6)
    found = atlas(alpha, trust="corrected")
    solved = cuvee.solve(sources, hypothesis, alpha, tol=1e-6)
    mean = float(found.passes.mean())
    return {
        "map": atlas.plan.method,
        "passes_per_target": round(mean, 3),
        "passes_per_target_solved": round(float(solved.passes.mean()), 3),
        "status": {str(s): found.status.count(s) for s in dict.fromkeys(found.status)},
        "largest_gradient": float(found.certificate.gradient_norm.max()),
        "wanted": 2.0,
        "met": mean <= 2.0,
    }


def predicted(sources: list[cuvee.Domain], hypothesis: Hypothesis, quick: bool) -> dict[str, Any]:
    """100,000 mixtures with a calibrated bound at 1e-3 against solving them; and how often the
    bound holds.
    """
    M, fresh = (2_000, 500) if quick else (100_000, 10_000)
    alpha = sample(M, len(sources), seed=TEST_SEED + 2)
    began = time.perf_counter()
    atlas = cuvee.learn(
        sources, hypothesis, n_labels=500 if quick else 4_096, n_calibration=1_000, tol=1e-3
    )
    learning = time.perf_counter() - began
    result = ratios(
        lambda: atlas(alpha, trust="predicted"),
        lambda: cuvee.solve(sources, hypothesis, alpha, tol=1e-3),
        runs=20,
    )
    answer = atlas(alpha, trust="predicted")
    others = sample(fresh, len(sources), seed=TEST_SEED + 3)
    exact = cuvee.solve(sources, hypothesis, others, tol=1e-9).w
    said = atlas(others, trust="predicted")
    gradient = cuvee.certify(sources, hypothesis, others, said.w).gradient_norm
    coverage = {
        "gradient": float((gradient <= said.certificate.gradient_norm).mean()),
        "distance": float(
            (np.linalg.norm(said.w - exact, axis=1) <= said.certificate.distance).mean()
        ),
    }
    return {
        **result,
        "wanted": 100.0,
        "met": result["ratio"] >= 100.0,
        "learning_s": round(learning, 2),
        "map": atlas.plan.method,
        "bound_within_tolerance": round(
            float((answer.certificate.gradient_norm <= 1e-3).mean()), 4
        ),
        "coverage_of_95_percent_bound": coverage,
        "coverage_met": all(c >= 0.94 for c in coverage.values()),
    }


def corrected(sources: list[cuvee.Domain], hypothesis: Hypothesis, quick: bool) -> dict[str, Any]:
    """Mixtures corrected to 1e-6 against solving them."""
    M = 1_000 if quick else 50_000
    alpha = sample(M, len(sources), seed=TEST_SEED + 4)
    began = time.perf_counter()
    atlas = cuvee.learn(sources, hypothesis, n_labels=256, tol=1e-6)
    learning = time.perf_counter() - began
    result = ratios(
        lambda: atlas(alpha, trust="corrected"),
        lambda: cuvee.solve(sources, hypothesis, alpha, tol=1e-6),
        runs=1,
    )
    all_in = result["slow_s"] / (result["fast_s"] + learning)
    return {
        **result,
        "wanted": 1.0,
        "met": result["ratio"] >= 1.0,
        "learning_s": round(learning, 2),
        "ratio_with_learning": round(all_in, 2),
    }


def ratios(
    fast: Callable[[], object], slow: Callable[[], object], runs: int, repeats: int = 5
) -> dict[str, Any]:
    """Interleaved; a repeat of the fast side is the mean of several runs of it."""
    times: dict[str, list[float]] = {"fast": [], "slow": []}
    fast()
    for _ in range(repeats):
        began = time.perf_counter()
        for _ in range(runs):
            fast()
        middle = time.perf_counter()
        slow()
        times["fast"].append((middle - began) / runs)
        times["slow"].append(time.perf_counter() - middle)
    return compared(times["fast"], times["slow"])
