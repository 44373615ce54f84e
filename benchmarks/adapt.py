"""One table of 100,000 rows through `cuvee adapt`, as a user would run it: seconds, memory, and
where the time goes.

    cuvee bench adapt --json

50 sources with 1,900 rows, 50 targets with 100, 29 numeric columns and one with three categories; a
quantity (ridge), two classes and four classes (logistic). Each run is a process of its own, its
start included.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

DOMAINS, ROWS, TARGET_ROWS, NUMBERS = 50, 1_900, 100, 29
KINDS = {"ridge": 0, "logistic": 2, "softmax": 4}


def run(quick: bool = False) -> dict[str, Any]:
    """Seconds, GiB and the share of each step for every kind of label."""
    result: dict[str, Any] = {
        "benchmark": "adapt",
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
    }
    domains, rows = (6, 100) if quick else (DOMAINS, ROWS)
    with tempfile.TemporaryDirectory() as folder:
        for kind, classes in KINDS.items():
            table = Path(folder) / f"{kind}.parquet"
            frame = make(domains, rows, classes)
            frame.to_parquet(table)
            result[kind] = {"rows": len(frame), **timed(table, Path(folder) / kind)}
            print(kind, result[kind], file=sys.stderr)
    return result


def make(domains: int, rows: int, classes: int, seed: int = 0) -> Any:
    """Sources in five families, a target in each; classes 0: a quantity."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    names = [f"source {j}" for j in range(domains)] + [f"target {i}" for i in range(domains)]
    sizes = [rows] * domains + [TARGET_ROWS] * domains
    place = np.repeat(np.arange(2 * domains), sizes)
    slopes = rng.normal(size=NUMBERS) + 0.5 * rng.normal(size=(5, NUMBERS))
    X = rng.normal(size=(len(place), NUMBERS))
    sex = rng.integers(3, size=len(place))
    score = np.einsum("np,np->n", X, slopes[place % 5]) + 0.5 * sex
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(NUMBERS)])
    frame["ward"] = np.array(["a", "b", "c"])[sex]
    frame["site"] = np.array(names)[place]
    noisy = score + rng.logistic(size=len(score))
    cuts = np.quantile(noisy, np.arange(1, classes) / classes) if classes else []
    frame["outcome"] = np.digitize(noisy, cuts) if classes else noisy
    return frame


def timed(table: Path, out: Path, *more: str) -> dict[str, Any]:
    """One process, from its start to its end; `more` words follow the command."""
    words = [
        sys.executable,
        "-m",
        "cuvee.cli",
        "adapt",
        str(table),
        "--domain",
        "site",
        "--label",
        "outcome",
    ]
    words += ["--targets", "target *", "--out", str(out), "--json", "--quiet", *more]
    began = time.perf_counter()
    done = subprocess.run(words, capture_output=True, text=True, check=True)  # noqa: S603 - our own command
    seconds = time.perf_counter() - began
    said = json.loads(done.stdout)
    steps: dict[str, float] = {}
    for step in json.loads((out / "manifest.json").read_text())["steps"]:
        kind = step["name"].split()[0]
        steps[kind] = steps.get(kind, 0.0) + step["seconds"]
    steps["start, reading, encoding"] = seconds - sum(steps.values())
    return {
        "seconds": round(seconds, 1),
        # the largest so far
        "GiB": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20, 2),
        "steps": {name: round(s, 1) for name, s in steps.items()},
        "gain over the best baseline": round(min(g[0] for g in said["gain"][1:]), 4),
    }
