"""The tables of `cuvee bench trees`, each as (problem, test rows of every target, hypothesis).

They are smaller than in `benchmarks.quality`, because a target costs some fifty fits of trees. Each
seed has one target:

    school        levels taken out, 20 of the other schools as sources
    parkinsons    levels taken out, 10 of the other patients as sources
    office        all other domains as sources, with at most 80 rows; 20 principal components
    mnist groups  one of the 4 targets, 15 sources of 30 images; 20 principal components
    interactions  6 sources of 120 rows: a product of two columns that all share, and a third column
                  whose sign is another in half of the sources
    linear        the same with a linear rule instead of the product
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from benchmarks import alpha as timing
from benchmarks import tables

import cuvee
from cuvee.problem import Array

Test = list[tuple[Array, Array]]
Case = tuple[cuvee.Problem, Test, Any]
COMPONENTS, COLUMNS, SPARE, TEST_ROWS = 20, 8, 20, 2000


def quantity(name: str, sources: int, seed: int, labelled: int) -> Case:
    """Return a table of a quantity with every domain's level taken out."""
    import pandas as pd

    frame = pd.read_parquet(timing.data_file(f"{name}.parquet"))
    [(problem, test)] = tables.splits_of(
        frame, seed, targets=1, labelled=labelled, least=labelled + SPARE
    )
    problem = fewer(problem, np.random.default_rng([seed, 1]), sources=sources)
    hypothesis = cuvee.Ridge(1e-2)
    return *tables.one_level(problem, test, hypothesis.l2), hypothesis


def office(seed: int, labelled: int) -> Case:
    """Return the images of office and Caltech with one domain, drawn, as the target."""
    import pandas as pd

    frame = pd.read_parquet(timing.data_file("office_caltech10.parquet"))
    [(problem, test)] = tables.splits_of(frame, seed, counts=True, targets=1, labelled=labelled)
    problem = fewer(problem, np.random.default_rng([seed, 1]), rows=80)
    return *reduced(problem, test), cuvee.Logistic(1e-2)


def mnist(seed: int, labelled: int) -> Case:
    """Return the sources of the paper's groups of digits and one of its targets, drawn."""
    from cuvee.data import mnist as images

    train, test = images.read(timing.data_file("mnist.npz"))
    made = images.groups(seed, rows=30, target_rows=labelled, images=train, test_images=test)
    i = int(np.random.default_rng([seed, 1]).integers(made.problem.n_targets))
    problem = cuvee.Problem(made.problem.sources, [made.problem.targets[i]])
    return *reduced(problem, [(made.test[i].X, made.test[i].y)]), cuvee.Logistic(1e-2)


def synthetic(kind: str, seed: int, labelled: int) -> Case:
    """Return two classes by a rule that half of the sources share with the target."""
    rng = np.random.default_rng([seed, 18])

    def draw(n: int, own: float) -> tuple[Array, Array]:
        X = rng.normal(size=(n, COLUMNS))
        shared = 3.0 * X[:, 0] * X[:, 1] if kind == "interactions" else X[:, 0] - X[:, 1]
        return X, (shared + 1.5 * own * X[:, 2] + rng.logistic(size=n) > 0).astype(int)

    sources = [cuvee.Domain(f"s{j}", *draw(120, 1.0 if j < 3 else -1.0)) for j in range(6)]
    target = cuvee.Domain("t", *draw(labelled, 1.0))
    return cuvee.Problem(sources, [target]), [draw(TEST_ROWS, 1.0)], cuvee.Logistic(1e-2)


def fewer(
    problem: cuvee.Problem, rng: np.random.Generator, *, sources: int = 0, rows: int = 0
) -> cuvee.Problem:
    """Return a problem with some of its sources, drawn, or with some rows of each; 0 keeps all."""
    kept = list(problem.sources)
    if 0 < sources < len(kept):
        kept = [kept[j] for j in np.sort(rng.choice(len(kept), sources, replace=False))]
    if rows:
        drawn = [rng.permutation(s.n_rows)[:rows] for s in kept]
        kept = [cuvee.Domain(s.name, s.X[i], s.y[i]) for s, i in zip(kept, drawn, strict=True)]
    return cuvee.Problem(kept, problem.targets)


def reduced(problem: cuvee.Problem, test: Test) -> tuple[cuvee.Problem, Test]:
    """Return everything on the first principal components of the training rows."""
    X = np.concatenate([d.X for d in (*problem.sources, *problem.targets)]).astype(float)
    mean = X.mean(0)
    basis = np.linalg.svd(X - mean, full_matrices=False)[2][:COMPONENTS].T
    scale = float(((X - mean) @ basis[:, :1]).std())  # one for all: later components stay smaller

    def put(values: Array) -> Array:
        return np.asarray((values - mean) @ basis / scale)

    sources, targets = (
        [cuvee.Domain(d.name, put(d.X), d.y) for d in domains]
        for domains in (problem.sources, problem.targets)
    )
    return cuvee.Problem(sources, targets), [(put(X), y) for X, y in test]


TABLES: dict[str, Callable[[int, int], Case]] = {
    "school": partial(quantity, "school", 20),
    "parkinsons": partial(quantity, "parkinsons", 10),
    "office": office,
    "mnist groups": mnist,
    "interactions": partial(synthetic, "interactions"),
    "linear": partial(synthetic, "linear"),
}
