"""How often the score of a target without labels lies in the interval that `adapt` prints; a matter
of quality, not of time.

    CUVEE_DATA=folder cuvee bench expected --json

In every table some targets have 20 labelled rows and others none. `adapt` says what to expect of
the latter, from how the former do without their labels. The truth is the score of its models on the
labels that were hidden. Tables: two synthetic ones of `cuvee bench unlabelled`, in which labels
follow one rule ("inputs shift"), or each target has a rule of its own ("rule shifts"); one in which
targets without labels alone have rules of their own ("hidden rules"), of which nothing in the table
tells; school and parkinsons with random targets, whose truths rest on all their rows, a few dozen
to 250. The interval is one of 95 %. Seeds start at FIRST: nothing was chosen on these.
`CUVEE_TABLES="school;parkinsons"` names some of the tables, `CUVEE_SEEDS=20` their number.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from benchmarks.alpha import data_file
from benchmarks.unlabelled import regions
from scipy.stats import beta

import cuvee
from cuvee.problem import Array

FIRST, SEEDS = 9300, 40
LABELLED, SHOWN = 20, 120  # rows of a target: with a label, and in the table
SEEN, HIDDEN = 8, 4  # targets with labels, and without
KEYS = ("truth", "expected", "low", "high")


class Case(NamedTuple):
    """A table with empty labels, its targets without labels, and rows with labels to score on."""

    frame: pd.DataFrame
    hidden: list[str]
    truth: pd.DataFrame
    levels: bool


def run(quick: bool = False) -> dict[str, Any]:
    """How often intervals hold the truth on every table."""
    asked = os.environ.get("CUVEE_TABLES", ";".join(TABLES))
    names = ["inputs shift"] if quick else asked.split(";")
    seeds = range(FIRST, FIRST + (2 if quick else int(os.environ.get("CUVEE_SEEDS", SEEDS))))
    result: dict[str, Any] = {"benchmark": "expected", "seeds": [seeds.start, seeds.stop]}
    for name in names:
        result[name] = summary([of_case(TABLES[name](seed), seed) for seed in seeds])
        print(name, result[name], file=sys.stderr, flush=True)
    return result


def of_case(case: Case, seed: int) -> Array:
    """Return KEYS of every target without labels, (targets, 4)."""
    with tempfile.TemporaryDirectory() as folder:
        made = cuvee.adapt(
            case.frame, f"{folder}/run", targets="t *", levels=case.levels, method="matching",
            seed=seed,
        )  # fmt: skip
        assert made.metrics["label_free"]["targets"] == case.hidden
        found = made.metrics["label_free"]["expected"]
        scores = []
        for name in case.hidden:
            rows = case.truth[case.truth.domain == name]
            answers = made.predict(rows).prediction.to_numpy()
            if made.metrics["higher_is_better"]:
                scores.append(float((answers == rows.label.to_numpy()).mean()))
            else:
                scores.append(float(np.sqrt(((answers - rows.label.to_numpy()) ** 2).mean())))
    return np.array([[truth, *found] for truth in scores])


def summary(by_seed: list[Array]) -> dict[str, Any]:
    """Means over targets and seeds, and how often the interval holds, with a 95 % interval of it.

    That of Clopper and Pearson; targets of a seed share an interval, so that it is too short by
    something.
    """
    truth, middle, low, high = np.concatenate(by_seed).T
    inside, n = int(((low <= truth) & (truth <= high)).sum()), len(truth)
    ends = beta.ppf((0.025, 0.975), (inside, inside + 1), (n - inside + 1, n - inside))
    return {
        "targets": n,
        "inside": [round(float(x), 3) for x in (inside / n, *np.nan_to_num(ends, nan=1.0))],
        "truth": round(float(truth.mean()), 4),
        "expected": round(float(middle.mean()), 4),
        "width": round(float((high - low).mean()), 4),
    }


def synthetic(own: int, seed: int) -> Case:
    """Return sources and targets in three regions of ten columns, two classes.

    The last `own` targets have rules of their own; those without labels come last.
    """
    ((problem, test, _),) = regions(True, seed, targets=SEEN + HIDDEN, own=own)
    names = [f"t {i}" for i in range(SEEN + HIDDEN)]
    # the first two labels of every draw are set, so that no class is absent
    drawn = {name: (X[2:], y[2:].astype(float)) for name, (X, y) in zip(names, test, strict=True)}
    rows = {s.name: (s.X, s.y.astype(float)) for s in problem.sources}
    for i, (name, (X, y)) in enumerate(drawn.items()):
        labels = np.where(np.arange(SHOWN) < (LABELLED if i < SEEN else 0), y[:SHOWN], np.nan)
        rows[name] = X[:SHOWN], labels
    truth = {name: (X[SHOWN:], y[SHOWN:]) for name, (X, y) in drawn.items()}
    return Case(_frame(rows), names[SEEN:], _frame(truth), False)


def _frame(rows: dict[str, tuple[Array, Array]]) -> pd.DataFrame:
    parts = []
    for name, (X, y) in rows.items():
        part = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
        classes = np.array(["no", "yes"], dtype=object)[np.nan_to_num(y).astype(int)]
        parts.append(part.assign(domain=name, label=np.where(np.isnan(y), None, classes)))
    return pd.concat(parts, ignore_index=True)


def real(name: str, seed: int) -> Case:
    """Return a table with random domains as targets, each with or without labels."""
    frame = pd.read_parquet(data_file(f"{name}.parquet"))
    rng = np.random.default_rng([seed, 92])
    domains = frame.domain.unique().tolist()
    drawn = rng.permutation(len(domains))[: SEEN + HIDDEN]
    new = {domains[k]: f"t {i}" for i, k in enumerate(drawn)}
    frame = frame.assign(domain=frame.domain.map(lambda one: new.get(one, one)))
    frame = frame.sample(frac=1.0, random_state=seed).reset_index(drop=True)
    number = frame.groupby("domain").cumcount()
    hidden = [f"t {i}" for i in range(SEEN, SEEN + HIDDEN)]
    kept = ~frame.domain.str.startswith("t ") | (number < LABELLED)
    kept &= ~frame.domain.isin(hidden)
    order = [one for one in frame.domain.unique() if one in hidden]
    return Case(frame.assign(label=frame.label.where(kept)), order, frame, True)


TABLES: dict[str, Callable[[int], Case]] = {
    "inputs shift": partial(synthetic, 0),
    "rule shifts": partial(synthetic, SEEN + HIDDEN),
    "hidden rules": partial(synthetic, HIDDEN),
    "school": partial(real, "school"),
    "parkinsons": partial(real, "parkinsons"),
}
