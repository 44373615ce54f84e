"""What `cuvee bench online` publishes is what `OnlineMap` does."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cuvee
from cuvee.data.synthetic import shifted_sources

ROOT = Path(__file__).resolve().parents[2]


class Recorded:
    """An oracle that keeps the gradients it was asked for."""

    def __init__(self, oracle):
        self.oracle, self.gradients = oracle, []

    def gradient(self, alpha, w):
        answer = self.oracle.gradient(alpha, w)
        self.gradients.append(float(answer.abs().max()))
        return answer

    def __getattr__(self, name):
        return getattr(self.oracle, name)


@pytest.mark.sample(3)
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
    alpha = bench.mixtures(order, 150, 3, seed=10)
    stream = bench.solved(sources, alpha)
    oracle = Recorded(stream.oracle)
    table = bench.played(replace(stream, oracle=oracle), *bench.RUNS[row])
    # Labels are solved to 1e-9 there and to a thousandth of the tolerance here: no gradient may be
    # so near it that this decides.
    assert all(abs(gradient / bench.TOL - 1) > 0.02 for gradient in oracle.gradients)
    online = cuvee.OnlineMap(sources, cuvee.Logistic(1e-2), evaluate=True, **options)
    ledger = cuvee.run_online(alpha, online, progress=False)
    assert (ledger.labels, ledger.centres, ledger.looks) == (
        table["labels"],
        table["centres"],
        table["looks"],
    )
    np.testing.assert_allclose(ledger.average_loss, table["average_loss"], rtol=1e-3)
    np.testing.assert_allclose(ledger.losses[75:].mean(), table["second_half"], rtol=1e-2)
