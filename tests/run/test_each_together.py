"""With every domain in turn as target, the weights of many are found together."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pandas as pd
import pytest

import cuvee
from cuvee.data import prepare


@pytest.fixture
def sites():
    rng = np.random.default_rng(0)
    names = np.repeat([f"site {i}" for i in range(6)], 24)
    rule = np.repeat(np.where(np.arange(6) % 2, 2.0, -2.0), 24)
    age = rng.normal(size=len(names))
    cost = rule * age + 0.3 * rng.normal(size=len(names))
    return pd.DataFrame({"age": age, "site": names, "cost": cost, "sick": cost > 0})


@pytest.mark.parametrize("label", ["cost", pytest.param("sick", marks=pytest.mark.slow)])
def test_together_is_like_one_by_one(sites, tmp_path, monkeypatch, label):
    frame = sites[["age", "site", label]]
    how = {"label": label, "domain": "site", "targets": "each", "test": 0.25}
    calls = []
    module = import_module("cuvee.run.adapt")  # the name in the package is the function
    estimate = module.estimate
    monkeypatch.setattr(module, "estimate", lambda *a, **k: calls.append(a) or estimate(*a, **k))
    monkeypatch.setattr(prepare, "MANY", 6)
    together = cuvee.adapt(frame, tmp_path / "a", **how)
    assert len(calls) == 1
    monkeypatch.setattr(prepare, "MANY", 1_000)
    one_by_one = cuvee.adapt(frame, tmp_path / "b", **how)
    assert len(calls) == 7
    assert together.targets == one_by_one.targets
    assert (np.isnan(together.alpha) == np.isnan(one_by_one.alpha)).all()
    apart = np.nansum(np.abs(together.alpha - one_by_one.alpha), 1)
    assert apart.mean() < 0.1 and apart.max() < 0.4


def test_rows_for_scores_lend_no_label_to_a_targets_own_weights(sites, monkeypatch):
    """A target's held-out labels are in no row that its weights learn from as its own sample."""
    monkeypatch.setattr(prepare, "MANY", 6)
    how = {"label": "cost", "domain": "site", "targets": "each", "test": 0.25}
    prepared = prepare.prepare(sites[["age", "site", "cost"]], cuvee.data.options.Options(**how))
    members = prepared.together
    group = prepared.group(members)
    for target, test in zip(group.problem.targets, group.test, strict=True):
        assert target.n_rows == 18 and test.n_rows == 6
    assert members.excluded == {name: [name] for name in members.targets}
