"""`cuvee bench groups --check`: a sample of the published results, done again."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.groups import command, runner, statistics
from benchmarks.groups.tables import load

from cuvee.errors import CuveeError

METHODS = ("hist_category", "lightgbm_cv", "one_hot_linear", "cuvee_linear")
TABLES = ("avocados", "grants", "heart_stay", "hpc_jobs")
MEAN, ONE = 0.02, 0.2  # log ratios may differ by so much in the mean of a table, and for one target


class Differs(CuveeError):
    """Say that a published result does not come out again."""


def repeat(threads: int) -> dict[str, Any]:
    """Repeat the first fold of the first seed of some methods and tables, and compare.

    Raises `Differs` where the results lie further apart than rounding and threads explain.
    """
    files = command._methods(",".join(METHODS))
    tables = [load(name) for name in TABLES]
    jobs = [runner.Job(f.stem, f, t, "main", ((0, 0),)) for t in tables for f in files]
    with tempfile.TemporaryDirectory() as out:
        runner.run(jobs, Path(out), runner.Limits(threads=threads), 1, lambda *_: None)
        now = runner.gather(Path(out), "targets")
    keys = ["table", "method", "seed", "fold", "target"]
    both = command.published().merge(now, on=keys, suffixes=("_then", "_now"))
    if len(both) < len(now):
        raise Differs(
            f"{len(now) - len(both)} of {len(now)} targets are not those that were published"
        )
    then, again = (
        statistics.log_ratios(
            both[["table", f"loss_{w}", f"unit_{w}"]].set_axis(["table", "loss", "unit"], axis=1)
        )
        for w in ("then", "now")
    )
    apart = pd.DataFrame({"table": both["table"], "method": both["method"], "apart": again - then})
    means = apart.groupby(["table", "method"])["apart"].agg(["mean", lambda x: x.abs().max()])
    means.columns = pd.Index(["mean", "most"])
    bad = means[(means["mean"].abs() > MEAN) | (means["most"] > ONE)]
    if len(bad):
        words = "; ".join(f"{t} {m}: {row['mean']:+.3f}" for (t, m), row in bad.iterrows())
        raise Differs(f"published results do not come out again (log ratio now less then): {words}")
    return {
        "benchmark": "groups --check",
        "pairs": len(means),
        "targets": len(both),
        "mean_apart": round(float(np.abs(means["mean"]).mean()), 5),
        "most_apart": round(float(means["most"].max()), 5),
    }
