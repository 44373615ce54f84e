"""The table of `cuvee bench adapt` through `cuvee adapt --model trees` with a budget: seconds and
memory of a process of its own, and how much of the judging the budget allowed.

    cuvee bench adapt_trees --json

100,000 rows: 50 sources with 1,900, 50 targets with 100; 30 columns, two classes. The budget ends
the judging of mixtures. A model for every target and the five that its scores are beside come on
top. Options, as variables: `CUVEE_BUDGET=600` (seconds), `CUVEE_MODEL=trees`.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
from benchmarks import adapt

BUDGET = 600.0


def run(quick: bool = False) -> dict[str, Any]:
    """Seconds, GiB, the share of each step, and the share of mixtures that were judged in time."""
    model = os.environ.get("CUVEE_MODEL", "trees")
    budget = 20.0 if quick else float(os.environ.get("CUVEE_BUDGET", BUDGET))
    domains, rows = (3, 100) if quick else (adapt.DOMAINS, adapt.ROWS)
    with tempfile.TemporaryDirectory() as folder:
        table, out = Path(folder) / "table.parquet", Path(folder) / "run"
        frame = adapt.make(domains, rows, classes=2)
        frame.to_parquet(table)
        measured = adapt.timed(table, out, "--model", model, "--budget", str(budget))
        judged = judged_share(pd.read_parquet(out / "candidates.parquet"))
    return {
        "benchmark": "adapt_trees",
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "cores": os.cpu_count(),
        "model": model,
        "budget": budget,
        "rows": len(frame),
        "sources": domains,
        "targets": domains,
        "judged": judged,
        **measured,
    }


def judged_share(candidates: pd.DataFrame) -> float:
    """Return the share of the targets' mixtures that have a held-out loss."""
    return round(float(candidates["cv_loss"].notna().mean()), 3)
