"""What `cuvee bench online` publishes is what `OnlineMap` does."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

import cuvee
from cuvee.data.synthetic import shifted_sources

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("row", "options"),
    [
        ("curved, certificate (default)", {}),
        ("first_order, budget", {"variant": "first_order"}),
        ("paper, coin 0.1", {"variant": "paper"}),
        ("paper_repaired, coin 0.5", {"variant": "paper_repaired", "label_budget": 0.5}),
    ],
)
@pytest.mark.parametrize("order", ["drifting", "adversarial"])
def test_a_row_of_the_table_is_an_online_map(row, options, order, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    bench = importlib.import_module("benchmarks.online")
    sources = shifted_sources(3, 200, 6)
    alpha = bench.mixtures(order, 150, 3, seed=5)
    table = bench.played(bench.solved(sources, alpha), *bench.RUNS[row])
    online = cuvee.OnlineMap(sources, cuvee.Logistic(1e-2), evaluate=True, **options)
    ledger = cuvee.run_online(alpha, online, progress=False)
    assert (ledger.labels, ledger.centres, ledger.looks) == (table["labels"], table["centres"], table["looks"])
    # Labels are solved to 1e-9 there and to a thousandth of the tolerance here.
    np.testing.assert_allclose(ledger.average_loss, table["average_loss"], rtol=1e-3)
    np.testing.assert_allclose(ledger.losses[75:].mean(), table["second_half"], rtol=1e-2)
