"""What it costs that a run can be killed at any moment: the share of `cuvee adapt` that goes into
checkpoints.

    cuvee bench checkpoint --json

Everything counts that a run held in memory alone would not do: packing a step's numbers, writing
and confirming its files and the manifest, tidying up, and reading the parts back with their
checksums. The clock stands around these calls in the run itself, so that both sides are one run;
medians of five runs, with the lowest and the highest share. The budget is 3 % of a run. The last
table is the worst case: weights that take no time to find, and 80 parts to keep.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from cuvee.run import Options, adapt, alpha_file, models
from cuvee.run.folder import Parts, RunFolder

REPEATS, FEATURES, BUDGET = 5, 20, 0.03
TABLES: dict[str, tuple[int, int, dict[str, Any]]] = {  # domains, rows of each, what is asked
    "20,000 rows, 20 sources, 20 targets": (40, 500, {"targets": "new *"}),
    "20,000 rows, 10 sources, each in turn": (10, 2_000, {"targets": "each"}),
    "120 rows, 3 sources, 1 target": (4, 30, {"targets": "new 1"}),
    "2,000 rows, 39 sources, each in turn, uniform weights": (
        40,
        50,
        {"targets": "each", "method": "uniform"},
    ),
}


class Clock:
    """Seconds inside the functions that it stands around, those within others counted once; and how
    many commits.
    """

    def __init__(self) -> None:
        self.seconds, self.commits, self._depth = 0.0, 0, 0

    def around(self, function: Callable[..., Any], commit: bool = False) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            began, self._depth = time.perf_counter(), self._depth + 1
            try:
                return function(*args, **kwargs)
            finally:
                self._depth -= 1
                self.commits += commit
                self.seconds += 0.0 if self._depth else time.perf_counter() - began

        return timed


@contextmanager
def watched() -> Iterator[Clock]:
    """A clock around all that checkpoints need."""
    clock = Clock()
    with (
        mock.patch.object(RunFolder, "commit", clock.around(RunFolder.commit, commit=True)),
        mock.patch.object(Parts, "read", clock.around(Parts.read)),
        mock.patch.object(alpha_file, "pack", clock.around(alpha_file.pack)),
        mock.patch.object(alpha_file, "unpack", clock.around(alpha_file.unpack)),
        mock.patch.object(models.Delivered, "pack", clock.around(models.Delivered.pack)),
        mock.patch.object(models.Delivered, "unpack", clock.around(models.Delivered.unpack)),
    ):
        yield clock


def run(quick: bool = False) -> dict[str, Any]:
    """The share of every table."""
    chosen = {
        name: TABLES[name] for name in TABLES if not quick or name.startswith(("120 ", "2,000 "))
    }
    found = {name: share(*about, repeats=1 if quick else REPEATS) for name, about in chosen.items()}
    return {
        "benchmark": "checkpoint",
        "threads": torch.get_num_threads(),
        "budget": BUDGET,
        **found,
    }


def share(domains: int, rows: int, asked: dict[str, Any], repeats: int) -> dict[str, Any]:
    """Of a run on a table of numbers."""
    frame, runs = table(domains, rows), []
    with tempfile.TemporaryDirectory() as folder:  # where that is memory, set TMPDIR to a disk
        for i in range(repeats + 1):  # the first only warms up
            began = time.perf_counter()
            with watched() as clock:
                adapt(frame, Path(folder) / str(i), options=Options(**asked))
            runs.append(
                (
                    clock.seconds / (time.perf_counter() - began),
                    clock.seconds,
                    time.perf_counter() - began,
                )
            )
    shares, checkpoint, whole = (list(part) for part in zip(*runs[1:], strict=True))
    return {
        "run_s": round(statistics.median(whole), 3),
        "checkpoint_s": round(statistics.median(checkpoint), 4),
        "commits": clock.commits,
        "share": round(statistics.median(shares), 4),
        "share_low": round(min(shares), 4),
        "share_high": round(max(shares), 4),
        "repeats": repeats,
    }


def table(domains: int, rows: int, seed: int = 0) -> Any:
    """Half of the domains are called new; each has its own effects."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    X = rng.normal(size=(domains * rows, FEATURES))
    site = np.repeat(np.arange(domains), rows)
    effect = rng.normal(size=FEATURES) + 0.5 * rng.normal(size=(domains, FEATURES))
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(FEATURES)])
    frame["label"] = (X * effect[site]).sum(1) + rng.normal(size=len(X))
    names = np.array([f"new {i}" if i % 2 else f"old {i}" for i in range(domains)])
    return frame.assign(domain=names[site])
