"""Time against M and n, and memory at M = 100,000: `cuvee.solve` from arrays to certified models.

    cuvee bench growth --json

Memory is the most that a process of its own ever held, beyond what it held just before the call;
the stated budget is for work beside the data and the result.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import torch

import cuvee
from cuvee.data.synthetic import shifted_sources
from cuvee.simplex import sample

N, FEATURES, L2 = 15, 64, 1e-2
REPEATS = 5


def run(quick: bool = False) -> dict[str, Any]:
    scale, repeats = (20, 1) if quick else (1, REPEATS)
    ridge_M, logistic_M, rows = (
        (100, 1_000, 10_000, 100_000),
        (100, 1_000, 10_000),
        (15_000, 30_000, 60_000, 120_000),
    )
    return {
        "benchmark": "growth",
        "threads": torch.get_num_threads(),
        "repeats": repeats,
        "ridge, n=100,000, seconds by M": {
            m: seconds("ridge", 100_000 // scale, m // scale, repeats) for m in ridge_M
        },
        "ridge, M=1,000, seconds by n": {
            n: seconds("ridge", n // scale, 1_000 // scale, repeats) for n in rows
        },
        "logistic, n=15,000, seconds by M": {
            m: seconds("logistic", 15_000 // scale, m // scale, repeats) for m in logistic_M
        },
        "logistic, M=1,000, seconds by n": {
            n: seconds("logistic", n // scale, 1_000 // scale, repeats) for n in rows
        },
        "memory at M=100,000, MiB": {
            "ridge, n=100,000": peak("ridge", 100_000 // scale, 100_000 // scale),
            "logistic, n=3,000": peak("logistic", 3_000 // scale, 100_000 // scale),
        },
    }


def job(kind: str, n: int, M: int) -> tuple[list[cuvee.Domain], cuvee.Ridge | cuvee.Logistic, Any]:
    domains = shifted_sources(N, max(20, n // N), FEATURES, quantity=kind == "ridge")
    return domains, cuvee.Ridge(L2) if kind == "ridge" else cuvee.Logistic(L2), sample(M, N, seed=1)


def seconds(kind: str, n: int, M: int, repeats: int) -> float:
    domains, hypothesis, alpha = job(kind, n, M)
    arrays = [(d.name, d.X, d.y) for d in domains]
    times = []
    for _ in range(repeats + 1):  # the first only warms up
        began = time.perf_counter()
        cuvee.solve([cuvee.Domain(*a) for a in arrays], hypothesis, alpha)
        times.append(time.perf_counter() - began)
    return round(statistics.median(times[1:] or times), 4)


def peak(kind: str, n: int, M: int) -> dict[str, float]:
    """Run in a fresh process; MiB."""
    code = f"from benchmarks.growth import held; held({kind!r}, {n}, {M})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def held(kind: str, n: int, M: int) -> None:
    """Print what a solve of this size adds to the most this process ever held."""
    domains, hypothesis, alpha = job(kind, n, M)
    # libraries are loaded, buffers of the data have been made once
    cuvee.solve(domains, hypothesis, alpha[:10])
    before = _resident()
    began = time.perf_counter()
    solution = cuvee.solve(domains, hypothesis, alpha)
    took = time.perf_counter() - began
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result = (solution.w.nbytes + 5 * 8 * M) / 2**20
    data = sum(d.X.nbytes for d in domains) / 2**20
    figures = {
        "added": most - before,
        "result": result,
        "data": data,
        "budget": 1024.0,
        "seconds": took,
    }
    figures["within"] = float(most - before <= 1024.0 + result + 2 * data)
    print(json.dumps({k: round(v, 1) for k, v in figures.items()}))


def _resident() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20
