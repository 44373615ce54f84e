"""One million certified logistic models on one GPU.

    PYTHONPATH=src python benchmarks/million.py

15 sources of 1,000 rows with 64 features, their own means, scales and labelling rules; a million
mixtures drawn uniformly from the simplex. Nothing but numpy and torch is needed. Times are of whole
`cuvee.solve` calls, from arrays to certified models in NumPy, after a first call that warms up;
then the gradient of every model is taken again in float64, by a plain matrix product that shares no
code with the solver.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import numpy as np
import torch

import cuvee
from cuvee.data.synthetic import shifted_sources
from cuvee.problem import Array

N, ROWS, FEATURES, L2, TOL = 15, 1000, 64, 1e-2, 1e-6


def run(
    quick: bool = False, models: int = 1_000_000, repeats: int = 5, device: str | None = None
) -> dict[str, Any]:
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    models = min(models, 2_000) if quick else models
    data, alpha = (
        shifted_sources(N, ROWS, FEATURES),
        np.random.default_rng(1).dirichlet(np.ones(N), models),
    )
    hypothesis = cuvee.Logistic(l2=L2)
    # first call: libraries load and pick kernels
    cuvee.solve(data, hypothesis, alpha, tol=TOL, device=device)
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        solution = cuvee.solve(data, hypothesis, alpha, tol=TOL, device=device)
        seconds.append(time.perf_counter() - began)
    worst = largest_gradient(data, alpha, solution.w, device)
    return {
        "benchmark": "million",
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else device,
        "torch": torch.__version__,
        "models": models,
        "rows": N * ROWS,
        "features": FEATURES,
        "seconds": round(statistics.median(seconds), 3),
        "all_seconds": [round(s, 3) for s in seconds],
        "wanted": 2.0,
        "solved": sum(s is cuvee.Status.SOLVED for s in solution.status),
        "certified": int(solution.certificate.certified.sum()),
        "largest_gradient": worst,
        "largest_distance_bound": float(solution.certificate.distance.max()),
        "median_passes": float(np.median(solution.passes)),
        "most_passes": int(solution.passes.max()),
    }


def largest_gradient(data: list[cuvee.Domain], alpha: Array, w: Array, device: str) -> float:
    """‖∇‖∞ over all models, in float64, chunk by chunk."""
    X = torch.tensor(np.stack([d.X for d in data]), device=device)  # (N, rows, features)
    y = torch.tensor(np.stack([d.y for d in data]), dtype=X.dtype, device=device)
    worst = 0.0
    for low in range(0, len(w), 50_000):
        v = torch.tensor(w[low : low + 50_000], device=device)
        a = torch.tensor(alpha[low : low + 50_000], device=device)
        slope, bias = L2 * v[:, :-1], torch.zeros_like(v[:, -1])
        for j in range(len(X)):
            residual = (torch.sigmoid(v[:, :-1] @ X[j].T + v[:, -1:]) - y[j]) * (
                a[:, j : j + 1] / len(y[j])
            )
            slope, bias = slope + residual @ X[j], bias + residual.sum(1)
        worst = max(worst, float(slope.abs().max()), float(bias.abs().max()))
    return worst


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device")
    options = parser.parse_args()
    print(json.dumps(run(models=options.models, repeats=options.repeats, device=options.device)))
