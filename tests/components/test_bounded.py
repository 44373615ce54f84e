from __future__ import annotations

import numpy as np
import pytest
import torch

from builders import CASES, models
from cuvee.components import ALL, Batch, BoundedComponents, LocalComponents, bounded
from cuvee.hypothesis import Logistic
from rounding import ROUNDING, assert_rounded

pytestmark = pytest.mark.sample(24)

LOGISTIC = [case for case in CASES if isinstance(case.hypothesis, Logistic)]
SHAPES = {
    "unequal": {"sources": (5, 7, 4), "targets": (3, 2)},
    "equal": {"sources": (4, 4), "targets": (3, 3, 3)},
    "weighted": {"sources": (5, 3), "targets": (1, 4, 3), "weighted": True},
    "one target": {"sources": (3, 6), "targets": (4,), "weighted": True},
}


@pytest.mark.parametrize("case", LOGISTIC, ids=repr)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("tile", [1, 12, 2**19])
@pytest.mark.parametrize("kept", [0, 2**24])
@pytest.mark.parametrize("pays", [1, 2**20], ids=["float32", "float64"])
def test_losses_and_pullback_are_those_of_the_graph(case, shape, tile, kept, pays, monkeypatch):
    monkeypatch.setitem(bounded.TILE, "cpu", tile)
    monkeypatch.setattr(bounded, "KEPT", kept)
    monkeypatch.setattr(bounded, "FLOAT32_PAYS", pays)
    problem = case.problem(**shape)
    space = case.hypothesis.bind(problem.facts)
    fast, slow = BoundedComponents(problem, space), LocalComponents(problem, space, "bounded")
    some = torch.tensor([problem.n_targets - 1])
    w = models(space, problem.n_targets, 3)
    close = {"rtol": 1e-4, "atol": 1e-5} if pays == 1 else {"rtol": 1e-10, "atol": 1e-12}
    for a, b, at in ((fast, slow, w), (fast.narrow(some), slow.narrow(some), w[some])):
        for rows in (ALL, Batch(3, 4)):
            losses, pullback = a.losses(at, rows)
            expected, pull_slow = b.losses(at, rows)
            torch.testing.assert_close(losses, expected, **close)
            torch.testing.assert_close(a.values(at, rows), expected, **close)
            v = torch.as_tensor(np.random.default_rng(1).normal(size=losses.shape))
            g = pullback(v)
            assert g.dtype == at.dtype
            torch.testing.assert_close(g, pull_slow(v), **close)
            assert_rounded(
                pullback(v[:, :1]), pullback(v[:, :1].expand_as(v)), 1e-6 if pays == 1 else ROUNDING
            )


def test_a_stale_minibatch_refuses():
    case = LOGISTIC[0]
    problem = case.problem(**SHAPES["unequal"])
    components = BoundedComponents(problem, case.hypothesis.bind(problem.facts))
    w = models(components.space, 2, 2)
    losses, pullback = components.losses(w, Batch(0, 4))
    components.values(w, Batch(1, 4))
    with pytest.raises(RuntimeError, match="overwritten"):
        pullback(torch.ones_like(losses))


@pytest.mark.parametrize("case", LOGISTIC, ids=repr)
def test_models_may_be_a_view_that_is_not_contiguous(case):
    problem = case.problem(sources=(5, 7), targets=(3, 2))
    space = case.hypothesis.bind(problem.facts)
    components = BoundedComponents(problem, space)
    w = models(space, 2, 3)
    view = w.mT.contiguous().mT
    assert not view.is_contiguous()
    losses, _ = components.losses(view, ALL)
    assert_rounded(losses, components.losses(w, ALL)[0])
    assert_rounded(components.values(view, ALL), losses)
