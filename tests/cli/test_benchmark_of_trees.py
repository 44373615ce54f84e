"""`cuvee bench trees`: its tables hold what they say, and its summary is counted right."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

trees = pytest.importorskip("benchmarks.trees", reason="run from the repository's root")
made = importlib.import_module("benchmarks._tree_tables")


def record(seed, auto, others, chosen="linear"):
    losses = {name: [value, value / 2] for name, value in zip(trees.PAIRS, others, strict=True)}
    losses |= {"auto": [auto, auto / 2], trees.DEFAULT: [2.0, 1.0]}
    return {"seed": seed, "chosen": chosen, "losses": losses}


def test_the_summary_puts_auto_beside_the_best_pair():
    others = np.linspace(1.0, 2.1, len(trees.PAIRS))
    cell = [record(0, 0.9, others), record(1, 1.35, others, "trees"), record(2, 1.05, others)]
    row = trees.summary(cell)
    assert row["best_pair"] == trees.PAIRS[0] and row["best"] == 1.0
    assert row["auto"] == row["over_best"][0] == 1.1 and row["over_default"][0] == 0.55
    half = 4.302653 * 0.229129 / 3**0.5  # of Student's t with two degrees of freedom
    np.testing.assert_allclose(row["over_best"][1:], [1.1 - half, 1.1 + half], atol=1e-4)
    assert row["mean_rank"] == pytest.approx((1 + 5 + 2) / 3, abs=0.01)
    assert row["chosen"] == {"linear": 2, "trees": 1, "forest": 0}
    assert row["wrong"]["auto"] == 0.55


def test_simple_mixtures_are_what_their_names_say():
    by_name = dict(zip(trees.MIXTURES, trees._simple(np.array([30.0, 50.0, 20.0])), strict=True))
    np.testing.assert_allclose(by_name["own only"], [0, 0, 1])
    np.testing.assert_allclose(by_name["pooled"], [0.3, 0.5, 0.2])
    np.testing.assert_allclose(by_name["uniform"], [1 / 3] * 3)
    np.testing.assert_allclose(by_name["half own"], [0.1875, 0.3125, 0.5])


@pytest.mark.parametrize("kind", ["interactions", "linear"])
def test_trees_or_linear_models_suit_a_synthetic_table(kind):
    problem, [(X, y)], _ = made.synthetic(kind, 500, 80)
    assert [d.n_rows for d in problem.sources] == [120] * 6 and problem.targets[0].n_rows == 80
    like = problem.sources[:3]  # those with the target's own rule
    rows = np.concatenate([d.X for d in like]), np.concatenate([d.y for d in like])
    right = [
        model.fit(*rows).score(X, y)
        for model in (LogisticRegression(), HistGradientBoostingClassifier(max_leaf_nodes=8))
    ]
    assert (right[0] > right[1]) == (kind == "linear")


@pytest.mark.slow
def test_the_quick_form_runs():
    row = trees.run(quick=True)["linear, 20 rows"]
    assert row["losses"].keys() == {"auto", *trees.PAIRS}
    assert sum(row["chosen"].values()) == 2
