"""What more threads gain, and what a competing process on one of two cores costs.

    cuvee bench threads --json

`cores`: seconds of `solve` and `estimate` with 1, 2, 4, 8 and 16 threads, where this process may
use so many cores; all in one process and in turns. `gain` is the time with one thread over the
time with the most, `slower` the largest factor by which any step to more threads lost time.

`busy`: a process of its own may use two cores. In turns it runs alone, and beside a process that
does nothing but count, tied to one of the two.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks._timing import compared

REPEATS = 5
THREADS = (1, 2, 4, 8, 16)
WANTED_GAIN, WANTED_BUSY = 6.0, 2.5
COUNT = "while True: pass"
ROOT = Path(__file__).resolve().parents[1]


def run(quick: bool = False) -> dict[str, Any]:
    """Both tables."""
    repeats = 2 if quick else REPEATS
    result: dict[str, Any] = {"benchmark": "threads", "cores_allowed": len(allowed())}
    result["cores"] = {name: scaled(case, repeats) for name, case in cases(quick).items()}
    if len(allowed()) < 2:
        return {**result, "busy": "needs two cores"}
    with tempfile.TemporaryDirectory() as folder:
        result["busy"] = {
            name: busy_ratio(beside(name, quick, repeats, Path(folder)))
            for name in ("logistic solve", "adapt on the sample table")
        }
    return result


def allowed() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def cases(quick: bool) -> dict[str, Callable[[], Any]]:
    """Every computation, from arrays or a problem to its result."""
    solves = {
        f"{kind} solve n={3_000 if quick else 30_000} d=64 N=15 M={50 if quick else 1_000}": solve(
            kind, quick
        )
        for kind in ("ridge", "logistic")
    }
    sizes = [(8, 21, 510, 9)] if quick else [(8, 21, 510, 9), (50, 50, 2_000, 50)]
    return solves | {
        f"{kind} estimate {M} targets x {N} sources x {rows} rows x {d} columns": estimate(
            kind, M, N, rows, d
        )
        for M, N, rows, d in sizes
        for kind in ("ridge", "logistic")
    }


def solve(kind: str, quick: bool = False) -> Callable[[], Any]:
    import cuvee
    from cuvee.data.synthetic import shifted_sources
    from cuvee.simplex import sample

    n, M = (3_000, 50) if quick else (30_000, 1_000)
    sources = [
        (d.name, d.X, d.y) for d in shifted_sources(15, n // 15, 64, quantity=kind == "ridge")
    ]
    alpha, model = sample(M, 15, seed=1), _model(kind)
    return lambda: cuvee.solve([cuvee.Domain(*d) for d in sources], model, alpha, tol=1e-6)


def estimate(kind: str, M: int, N: int, rows: int, d: int) -> Callable[[], Any]:
    import cuvee
    from cuvee.data.synthetic import shifted_sources

    domains = shifted_sources(N + M, rows, d, quantity=kind == "ridge")
    targets = [cuvee.Domain(f"target {t.name}", t.X[:60], t.y[:60]) for t in domains[N:]]
    problem, model = cuvee.Problem(domains[:N], targets), _model(kind)
    return lambda: cuvee.estimate(problem, model)


def _model(kind: str) -> Any:
    import cuvee

    return cuvee.Ridge(1e-2) if kind == "ridge" else cuvee.Logistic(1e-2)


def scaled(case: Callable[[], Any], repeats: int) -> dict[str, Any]:
    """Median seconds for every number of threads."""
    import torch

    before = torch.get_num_threads()
    numbers = [n for n in THREADS if n <= len(allowed())]
    seconds: dict[int, list[float]] = {n: [] for n in numbers}
    try:
        for repeat in range(repeats + 1):  # the first one, in which libraries load, does not count
            for n in numbers:
                torch.set_num_threads(n)
                took = timed(case)
                if repeat:
                    seconds[n].append(took)
    finally:
        torch.set_num_threads(before)
    median = {n: statistics.median(s) for n, s in seconds.items()}
    steps = [median[more] / median[fewer] for fewer, more in pairwise(numbers)]
    return {
        "seconds": {str(n): round(s, 4) for n, s in median.items()},
        "gain": round(median[numbers[0]] / median[numbers[-1]], 2),
        "wanted": WANTED_GAIN,
        "slower": round(max([1.0, *steps]), 2),
        "repeats": repeats,
    }


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def beside(name: str, quick: bool, repeats: int, folder: Path) -> list[tuple[float, float]]:
    """Seconds alone and seconds beside the other process, measured by a process on two cores."""
    words = [sys.executable, "-m", "benchmarks.threads", name, str(folder), str(repeats)]
    environment = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    done = subprocess.run(  # noqa: S603 - our own command
        [*words, *(["--quick"] if quick else [])],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2_000:]}")
    return [(alone, busy) for alone, busy in json.loads(done.stdout)]


def busy_ratio(pairs: list[tuple[float, float]]) -> dict[str, Any]:
    """Medians of both, and of the paired ratios."""
    alone, busy = ([pair[i] for pair in pairs] for i in range(2))
    row = compared(alone, busy)
    seconds = {"alone_s": row.pop("fast_s"), "busy_s": row.pop("slow_s")}
    return {**seconds, **row, "wanted": WANTED_BUSY, "met": row["ratio"] <= WANTED_BUSY}


@contextmanager
def competitor(core: int) -> Iterator[None]:
    """Keep one core busy with another process."""
    words = [sys.executable, "-c", f"import os; os.sched_setaffinity(0, [{core}])\n{COUNT}"]
    other = subprocess.Popen(words)  # noqa: S603 - our own command
    time.sleep(0.3)  # until it counts
    try:
        yield
    finally:
        other.kill()
        other.wait()


def adapt(folder: Path) -> Callable[[], Any]:
    """`cuvee adapt` on the sample table, as in the README; each run is a process of its own."""
    table, number = folder / "visits.csv", iter(range(1_000))

    def command(*words: str) -> None:
        whole = [sys.executable, "-m", "cuvee.cli", *words, "--quiet"]
        subprocess.run(whole, check=True, capture_output=True)  # noqa: S603 - our own command

    command("sample", str(table), "--force")
    words = ["--domain", "hospital", "--label", "readmitted", "--targets", "fir,oak"]
    words += ["--drop", "visit", "--labelled", "20"]
    return lambda: command("adapt", str(table), *words, "--out", str(folder / f"run{next(number)}"))


def main(name: str, folder: str, repeats: str, *flags: str) -> None:
    """Print pairs of seconds, alone and busy, taken in turns on two cores."""
    two = allowed()[:2]
    os.sched_setaffinity(0, two)  # before torch is loaded, so that its threads are tied too
    work = (
        adapt(Path(folder)) if name.startswith("adapt") else solve("logistic", "--quick" in flags)
    )
    work()
    pairs = []
    for _ in range(int(repeats)):
        alone = timed(work)
        with competitor(two[1]):
            pairs.append((alone, timed(work)))
    print(json.dumps(pairs))


if __name__ == "__main__":
    main(*sys.argv[1:])
