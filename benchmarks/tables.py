"""The unattended default against simple mixtures on real multi-domain tables; a matter of quality,
not of time.

    CUVEE_DATA=folder cuvee bench tables --json

The folder holds school.parquet, parkinsons.parquet and office_caltech10.parquet with columns
`domain`, `label` and numeric features. Each target gives 20 labelled rows, its others are the test
set, all domains that are no target are sources. School and parkinsons: 10 random domains as
targets; office: each domain in turn; 5 seeds. Scores are mean test losses (½ squared error) or
accuracies over targets and seeds; for regressions also with every domain's level taken out
(`cuvee.data.levels`), from all mixtures alike.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cuvee
from cuvee import erm
from cuvee.components import ALL
from cuvee.data import levels
from cuvee.errors import OptionError
from cuvee.hypothesis import Hypothesis
from cuvee.problem import Array

LABELLED, TARGETS, SEEDS = 20, 10, 5
SIMPLE = ("uniform", "pooled", "pooled + own", "target only")


def run(quick: bool = False) -> dict[str, Any]:
    """Mean scores of the default and of four simple mixtures on every table."""
    folder = Path(os.environ.get("CUVEE_DATA", "data"))
    if not (folder / "school.parquet").is_file():
        raise OptionError(
            f"no school.parquet in {str(folder)!r}: set CUVEE_DATA to the folder with the tables"
        )
    result: dict[str, Any] = {"benchmark": "tables", "labelled_rows": LABELLED}
    tables: list[tuple[str, cuvee.Ridge | cuvee.Logistic, bool]] = [
        ("school", cuvee.Ridge(1e-2), False),
        ("school", cuvee.Ridge(1e-2), True),
        ("parkinsons", cuvee.Ridge(1e-2), False),
        ("parkinsons", cuvee.Ridge(1e-2), True),
        ("office_caltech10", cuvee.Logistic(1e-2), False),
    ]
    for name, hypothesis, levelled in tables[: 4 if quick else 5]:
        scores = [
            score(
                *(one_level(problem, test, hypothesis.l2) if levelled else (problem, test)),
                hypothesis,
            )
            for seed in range(1 if quick else SEEDS)
            for problem, test in splits(folder / f"{name}.parquet", seed)
        ]
        mean = np.concatenate(scores).mean(0)
        title = f"{name}, levels taken out" if levelled else name
        result[title] = dict(zip((*SIMPLE, "default"), mean.round(4).tolist(), strict=True))
        print(title, result[title], file=sys.stderr)
    return result


def splits(
    path: Path, seed: int, targets: int = TARGETS
) -> Iterator[tuple[cuvee.Problem, list[tuple[Array, Array]]]]:
    """Problems with the test rows of each target; features are standardised on training rows."""
    import pandas as pd

    office = path.stem.startswith("office")
    yield from splits_of(
        pd.read_parquet(path), seed, counts=office, targets=None if office else targets
    )


def splits_of(
    frame: Any,
    seed: int,
    *,
    counts: bool = False,
    targets: int | None = TARGETS,
    labelled: int = LABELLED,
    least: int = 0,
) -> Iterator[tuple[cuvee.Problem, list[tuple[Array, Array]]]]:
    """`splits` of a table in memory: `targets` random domains at once, or without a number each
    domain in turn; `labelled` rows of each, and at `least` so many rows in a target.
    """
    rng = np.random.default_rng(seed)
    X = frame.drop(columns=["domain", "label"]).to_numpy(float)
    y, domain = frame.label.to_numpy(), frame.domain.to_numpy()
    names = sorted(frame.domain.unique())
    if counts:
        # word counts of images: their sum says nothing
        X = X / np.maximum(X.sum(1, keepdims=True), 1e-9)
    groups = (
        [[t] for t in names]
        if targets is None
        else [list(rng.choice(_large(frame, names, least), targets, replace=False))]
    )
    for chosen in groups:
        order = {t: rng.permutation(np.flatnonzero(domain == t)) for t in chosen}
        sources = [s for s in names if s not in chosen]
        train = [np.flatnonzero(np.isin(domain, sources)), *(order[t][:labelled] for t in chosen)]
        mean, scale = X[np.concatenate(train)].mean(0), X[np.concatenate(train)].std(0)
        Z = (X - mean) / np.where(scale == 0, 1.0, scale)
        problem = cuvee.Problem(
            [cuvee.Domain(str(s), Z[domain == s], y[domain == s]) for s in sources],
            [cuvee.Domain(str(t), Z[order[t][:labelled]], y[order[t][:labelled]]) for t in chosen],
        )
        yield problem, [(Z[order[t][labelled:]], y[order[t][labelled:]]) for t in chosen]


def _large(frame: Any, names: list[Any], least: int) -> list[Any]:
    """Return the domains with at least so many rows."""
    rows = frame.domain.value_counts()
    return [name for name in names if rows[name] >= least]


def one_level(
    problem: cuvee.Problem, test: list[tuple[Array, Array]], l2: float
) -> tuple[cuvee.Problem, list[tuple[Array, Array]]]:
    """The same without levels; errors on test rows are those of predictions with the
    offset added.
    """
    found = levels.take_out(problem, l2)
    return found.problem, [
        (X, y - offset) for (X, y), offset in zip(test, found.offset, strict=True)
    ]


def score(problem: cuvee.Problem, test: list[tuple[Array, Array]], hypothesis: Hypothesis) -> Array:
    """(M, mixtures): mean ½ squared error or accuracy of each mixture's model on each target's test
    rows.
    """
    mixtures = [
        cuvee.estimate(problem, hypothesis, method="uniform", own=True).alpha,
        cuvee.estimate(problem, hypothesis, method="pooled", own=True).alpha,
        cuvee.estimate(problem, hypothesis, method="pooled_own").alpha,
        cuvee.estimate(problem, hypothesis, method="target_only").alpha,
        cuvee.estimate(problem, hypothesis).alpha,
    ]
    space = hypothesis.bind(problem.facts)
    components = erm.components(problem, space)
    w = erm.solve(components, ALL, torch.as_tensor(np.stack(mixtures, 1)))
    scores = []
    for models, (X, y) in zip(w, test, strict=True):
        predicted = space.predict(models, X)
        rows = 0.5 * (predicted - y) ** 2 if space.quadratic else (predicted == y).astype(float)
        scores.append(rows.mean(-1))
    return np.array(scores)
