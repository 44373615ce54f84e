"""`cuvee bench unlabelled`: who sees which rows, and its differences are counted right."""

from __future__ import annotations

import numpy as np
import pytest

unlabelled = pytest.importorskip("benchmarks.unlabelled", reason="run from the repository's root")


def test_no_scored_row_is_seen():
    ((problem, test, _),) = unlabelled.regions(False, 500)
    seen, held = unlabelled.with_unlabelled(problem, test)
    for target, (X, y) in zip(seen.targets, held, strict=True):
        assert target.n_rows == unlabelled.LABELLED and len(target.unlabelled) == 1000
        rows = {row.tobytes() for row in (*target.X, *target.unlabelled)}
        assert not rows & {row.tobytes() for row in X} and len(X) == len(y) == 1000


def test_differences_are_paired():
    by_seed = [
        {name: (1.0 + i, 0.1 * i + 0.01 * seed) for i, name in enumerate(unlabelled.OURS)}
        | {"nearest": (np.nan, 0.3), "nearest + own": (np.nan, 0.2)}
        for seed in range(4)
    ]
    row = unlabelled.summary(by_seed)
    assert row["no labels − uniform"] == [0.2, 0.2, 0.2]
    assert row["unlabelled rows − labels alone"] == [0.1, 0.1, 0.1]
    assert row["loss, unlabelled rows / labels alone"] == [1.25, 1.25, 1.25]
    middle, low, high = row["unlabelled rows − nearest + own"]
    assert middle == pytest.approx(0.215) and low < 0.215 < high


def test_without_labels_nothing_else_is_computed():
    found = unlabelled._of_seed(unlabelled.regions(False, 500), bare=True)
    assert tuple(found) == unlabelled.BARE
    row = unlabelled.without_labels([found, found])
    assert set(row) == {"accuracy", "no labels − uniform", "no labels − pooled"}
    assert row["no labels − uniform"][0] > 0
