"""Rows per second of passes on Ray workers, beside the same cores in one process, and growth.

    cuvee bench ray --json

`passes`: the sums that solvers ask for, over all rows: losses and a pullback of 64 logistic models,
their gradient alone, and the Gram matrices of ridge. For 1, 2, 4, 8 and 16 workers, as far as there
are cores, Ray has so many workers and this process so many threads; both in turns. `ratio` is rows
per second on Ray over those in this process, and `gain` the speed of the most workers over one.

`overhead_s`: seconds of a pass over almost no rows: what asking the workers takes.

`adapt`: seconds of `cuvee adapt` from a Parquet file to the report, in this process and on Ray with
a worker for each core; the workers' start, which takes seconds, is part of it.
"""

from __future__ import annotations

import logging
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

REPEATS = 5
WORKERS = (1, 2, 4, 8, 16)
WANTED = 0.8
MODELS, SOURCES, COLUMNS = 64, 20, 30


def run(quick: bool = False) -> dict[str, Any]:
    """Return all tables."""
    import ray

    cores = len(os.sched_getaffinity(0))
    rows = 40_000 if quick else 2_000_000
    repeats = 2 if quick else REPEATS
    own_cluster = not ray.is_initialized()
    if own_cluster:
        ray.init(
            address="local", num_cpus=cores, object_store_memory=max(2**28, 600 * rows),
            include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR,
        )  # fmt: skip
    try:
        counts = [n for n in WORKERS if n <= cores]
        passes = {
            kind: grown(kind, rows, counts, repeats) for kind in ("losses", "gradient", "grams")
        }
        return {
            "benchmark": "ray",
            "cores_allowed": cores,
            "rows": rows,
            "columns": COLUMNS,
            "models": MODELS,
            "wanted_ratio": WANTED,
            "passes": passes,
            "overhead_s": overhead(counts[-1], repeats),
            "adapt": adapted(20_000 if quick else rows, 1 if quick else 3),
        }
    finally:
        if own_cluster:
            ray.shutdown()


def problem(kind: str, rows: int) -> Any:
    import cuvee

    rng, sources = np.random.default_rng(0), []
    for j in range(SOURCES):
        X = rng.normal(size=(rows // SOURCES, COLUMNS))
        score = X @ rng.normal(size=COLUMNS) / COLUMNS**0.5 + 0.3 * rng.normal(size=len(X))
        sources.append(cuvee.Domain(f"s{j}", X, score if kind == "grams" else score > 0))
    return cuvee.Problem(sources)


def asked(kind: str, data: Any) -> Callable[[], Any]:
    """Return one pass over all rows of a problem, wherever they are."""
    import torch

    import cuvee
    from cuvee.components import ALL, bind

    hypothesis = cuvee.Ridge() if kind == "grams" else cuvee.Logistic()
    space = hypothesis.bind(data.facts)
    components = bind(data, space, "bounded" if kind == "losses" else "trained")
    w = space.start(MODELS, 0)[:, None]
    v = torch.full((MODELS, 1, data.n_sources), 1.0 / data.n_sources, dtype=w.dtype)

    def losses() -> Any:
        values, pullback = components.losses(w, ALL)
        return values, pullback(v)

    return {
        "losses": losses,
        "gradient": lambda: components.pull(w, v, ALL),
        "grams": lambda: components.source_grams(),
    }[kind]


def grown(kind: str, rows: int, counts: list[int], repeats: int) -> dict[str, Any]:
    """Return seconds of one pass for each number of workers, and of threads in this process."""
    import torch

    import cuvee
    from cuvee.numerics.parallel import workers

    near, threads = problem(kind, rows), torch.get_num_threads()
    table = {}
    for count in counts:
        far = cuvee.on_ray(near, workers=count)
        sides = {"ray": asked(kind, far), "local": asked(kind, near)}
        seconds: dict[str, list[float]] = {"ray": [], "local": []}
        torch.set_num_threads(count)
        for _ in range(repeats + 1):  # the first binds and warms up
            for name, work in sides.items():
                began = time.perf_counter()
                with workers():  # as every public call has it
                    work()
                seconds[name].append(time.perf_counter() - began)
        torch.set_num_threads(threads)
        del sides, far
        ray_s, local_s = (statistics.median(seconds[name][1:]) for name in ("ray", "local"))
        ratios = sorted(
            b / a for a, b in zip(seconds["ray"][1:], seconds["local"][1:], strict=True)
        )
        table[count] = {
            "ray_s": round(ray_s, 4),
            "local_s": round(local_s, 4),
            "ray_rows_per_s": round(rows / ray_s),
            "local_rows_per_s": round(rows / local_s),
            "ratio": round(statistics.median(ratios), 2),
            "ratio_low": round(ratios[0], 2),
            "ratio_high": round(ratios[-1], 2),
        }
    first, last = table[counts[0]], table[counts[-1]]
    return {"by_workers": table, "gain": round(first["ray_s"] / last["ray_s"], 2)}


def overhead(workers: int, repeats: int) -> float:
    import cuvee

    far = cuvee.on_ray(problem("losses", 2 * SOURCES * workers), workers=workers)
    work, seconds = asked("losses", far), []
    for _ in range(20 * repeats):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return round(statistics.median(seconds) / 2, 5)  # losses and pullback are asked for in turn


def adapted(rows: int, repeats: int) -> dict[str, Any]:
    """Return seconds of whole runs, in turns."""
    import cuvee

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        write_table(path, rows)
        seconds: dict[str, list[float]] = {"local": [], "ray": []}
        for i in range(repeats):
            for name, on in (("local", None), ("ray", "ray")):
                began = time.perf_counter()
                cuvee.adapt(path, Path(folder) / f"{name}-{i}", targets=["s0", "s1"], on=on)
                seconds[name].append(time.perf_counter() - began)
    medians = {f"{name}_s": round(statistics.median(s), 2) for name, s in seconds.items()}
    return {"rows": rows, **medians, "ratio": round(medians["local_s"] / medians["ray_s"], 2)}


def write_table(path: Path, rows: int, sources: int = 50, columns: int = COLUMNS) -> None:
    """Write a table of a quantity, batch by batch; the first two domains have 500 rows each."""
    import pyarrow as pa
    from pyarrow import parquet

    rng, size = np.random.default_rng(0), 100_000
    slopes = rng.normal(size=(sources, columns)) / columns**0.5
    schema = pa.schema(
        [*((f"x{i}", pa.float64()) for i in range(columns)), ("domain", pa.string()),
         ("label", pa.float64())]
    )  # fmt: skip
    names = np.array([f"s{j}" for j in range(sources)])
    with parquet.ParquetWriter(path, schema) as writer:
        for low in range(0, rows, size):
            n = min(size, rows - low)
            whose = rng.integers(2, sources, n)
            if low == 0:
                whose[: min(1_000, n // 2)] = np.arange(min(1_000, n // 2)) % 2
            X = rng.normal(size=(n, columns))
            y = np.einsum("ij,ij->i", X, slopes[whose]) + whose + rng.normal(size=n)
            columns_of = [*X.T, names[whose], y]
            writer.write_table(
                pa.Table.from_arrays([pa.array(c) for c in columns_of], schema=schema)
            )
