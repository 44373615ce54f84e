"""`cuvee adapt` against simple mixtures on real multi-domain tables: a matter of quality, not of
time.

    CUVEE_DATA=folder cuvee bench results --json

The folder holds school.parquet, parkinsons.parquet and office_caltech10.parquet with columns
`domain`, `label` and numeric features. 20 labelled rows of each target are learnt from, its others
are for scores, all domains that are no target are sources. School and parkinsons: 10 random domains
as targets; office: each domain in turn. Scores are means over targets and seeds of what the run
folders say. Beside the baselines on the labels as they are stand the same mixtures with each
domain's level taken out, as `adapt` does it for itself.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from cuvee.errors import OptionError
from cuvee.results import Floats
from cuvee.run import Options, adapt
from cuvee.run.scores import METHODS, simple_mixtures

LABELLED, TARGETS = 20, 10
ASKED = 5  # seeds
# more, where five leave it open
TABLES = {"school": 20, "parkinsons": 20, "office_caltech10": ASKED}


def run(quick: bool = False) -> dict[str, Any]:
    """Mean score and mean rank of every method on every table."""
    folder = Path(os.environ.get("CUVEE_DATA", "data"))
    if not (folder / "school.parquet").is_file():
        raise OptionError(
            f"no school.parquet in {str(folder)!r}: set CUVEE_DATA to the folder with the tables"
        )
    result: dict[str, Any] = {"benchmark": "results", "labelled_rows": LABELLED}
    for name, seeds in list(TABLES.items())[: 2 if quick else 3]:
        runs = [scores(folder / f"{name}.parquet", seed) for seed in range(1 if quick else seeds)]
        result[name] = summary(runs[:ASKED])
        if len(runs) > ASKED:
            result[f"{name}, {len(runs)} seeds"] = summary(runs)
        print(name, result[name], file=sys.stderr)
    places = [result[name]["rank of the mean"] for name in TABLES if name in result]
    result["mean rank over tables"] = {
        m: round(float(np.mean([p[m] for p in places])), 2) for m in METHODS
    }
    return result


def scores(path: Path, seed: int) -> dict[str, Any]:
    """One run's metrics: "scores" (M, methods) beside what they are."""
    import pandas as pd

    frame = pd.read_parquet(path)
    names = sorted(frame["domain"].unique())
    if path.stem.startswith("office"):
        counts = frame.drop(columns=["domain", "label"])
        total = counts.sum(axis=1).clip(lower=1e-9)
        # their sum says nothing
        frame = pd.concat([frame[["domain", "label"]], counts.div(total, axis=0)], axis=1)
        targets: Any = "each"
    else:
        targets = tuple(map(str, np.random.default_rng(seed).choice(names, TARGETS, replace=False)))
    options = Options(targets=targets, labelled=LABELLED, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        run = adapt(frame, Path(folder) / "run", options=options)
        metrics = {**run.metrics, "methods": list(METHODS)}
        each = np.array(metrics["scores"], dtype=float)[:, : len(METHODS), 0]  # (M, methods)
        if not metrics["higher_is_better"]:
            found = run.findings
            simple = simple_mixtures(found.source_rows, found.learn_rows)
            for k, name in enumerate(metrics["methods"][1:]):
                given = adapt(frame, Path(folder) / f"{k}", options=options, alpha=simple[:, k])
                each = np.column_stack(
                    [each, np.array(given.metrics["scores"], dtype=float)[:, 0, 0]]
                )
                metrics["methods"] = [*metrics["methods"], f"{name}, levels"]
    mean = dict(zip(metrics["methods"], each.mean(0).round(3).tolist(), strict=True))
    print(path.stem, seed, mean, file=sys.stderr)
    return {**metrics, "scores": each}


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over targets and seeds, and the paired difference to the best baseline with its
    standard error.
    """
    from scipy.stats import rankdata

    methods, sign = runs[0]["methods"], 1.0 if runs[0]["higher_is_better"] else -1.0
    each: Floats = np.concatenate([r["scores"] for r in runs])  # (targets · seeds, methods)
    mean, plain = each.mean(0), len(METHODS)
    ranks = rankdata(-sign * each[:, :plain], axis=1).mean(0)
    return {
        "metric": runs[0]["metric"],
        "mean": dict(zip(methods, mean.round(4).tolist(), strict=True)),
        "mean squared": {}
        if sign > 0
        else dict(zip(methods, (each**2).mean(0).round(4).tolist(), strict=True)),
        "mean rank over targets": dict(zip(METHODS, ranks.round(2).tolist(), strict=True)),
        "rank of the mean": dict(
            zip(METHODS, rankdata(-sign * mean[:plain]).tolist(), strict=True)
        ),
        "against the best baseline": gain(sign * each[:, :plain], methods),
        "against the best of all": gain(sign * each, methods),
    }


def gain(each: Floats, methods: list[str]) -> dict[str, Any]:
    """How much better the first is than the best of the others on the mean, with the standard error
    of that.
    """
    best = 1 + int(np.argmax(each[:, 1:].mean(0)))
    more = each[:, 0] - each[:, best]
    return {
        "it is": methods[best],
        "gain": round(float(more.mean()), 4),
        "standard error": round(float(more.std(ddof=1) / np.sqrt(len(more))), 4),
    }
