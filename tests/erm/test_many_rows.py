"""Networks on many rows: checks look at some held-out rows, gradients take rows in blocks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cuvee
from builders import Wrapped, conv_net, make_problem, mlp
from cuvee.components import ALL, Batch, Folds, LocalComponents, row_blocks
from cuvee.erm.network import training as network


@pytest.mark.parametrize("module", [mlp(3, 3), Wrapped(mlp(3, 3)), conv_net(3)], ids=repr)
@pytest.mark.parametrize("own", [False, True])
def test_blocks_of_rows_give_the_gradient_of_all(module, own, monkeypatch):
    shape = (1, 4, 4) if "Conv2d" in repr(module) else (3,)
    problem = make_problem((9, 30, 2), (7, 4), shape=shape, classes=3, weighted=True)
    space = cuvee.Network(module).bind(problem.facts)
    components = LocalComponents(problem if own else problem.without_targets(), space)
    rng = np.random.default_rng(0)
    w = torch.as_tensor(rng.normal(size=(2, 5, space.n_params)))
    v = torch.as_tensor(rng.normal(size=(2, 1, 3 + own)))
    folds = Folds(5, torch.arange(5))
    batches = [ALL, Batch(part="held out"), *([Batch(folds=folds)] if own else [])]
    whole = [components.pull(w, v, batch) for batch in batches]
    sizes = []
    monkeypatch.setattr(row_blocks, "size", lambda per_row, w: sizes.append(per_row) or 4)
    for batch, expected in zip(batches, whole, strict=True):
        torch.testing.assert_close(components.pull(w, v, batch), expected)
    assert len(sizes) == len(batches) and min(sizes) > 0


def test_a_block_is_as_large_as_memory_allows():
    w = torch.zeros(2, 5, 7)
    assert row_blocks.size(1000, w) == row_blocks.GRAPH // 10_000
    assert row_blocks.size(row_blocks.GRAPH, w) == 1


def test_checks_look_at_the_same_few_held_out_rows(monkeypatch):
    problem = make_problem((900, 1200), (40, 30), classes=3)
    space = cuvee.Network(mlp(3, 3)).bind(problem.facts)
    alpha = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]], dtype=torch.float64)
    components = LocalComponents(problem, space)
    whole = network.train(components, alpha, max_steps=60)
    monkeypatch.setattr(network, "CHECKED", 100)
    asked = []
    values = LocalComponents.values

    def noted(self, w, batch):
        asked.append(batch)
        return values(self, w, batch)

    monkeypatch.setattr(LocalComponents, "values", noted)
    some = network.train(LocalComponents(problem, space), alpha, max_steps=60)
    assert {(b.step, b.size, b.own_whole, b.part) for b in asked} == {(0, 50, True, "held out")}
    losses = values(components, some.w[:, None], asked[0])[:, 0]
    torch.testing.assert_close(some.held_out, (alpha * losses).sum(-1))
    # 100 rows of 420 tell nearly the same
    torch.testing.assert_close(some.held_out, whole.held_out, rtol=0.15, atol=0.0)
