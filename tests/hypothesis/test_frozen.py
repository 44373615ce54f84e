"""A frozen backbone under a head: rows pass it once, and nothing of it is learnt."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import cuvee
from builders import make_problem, mlp
from cuvee.testing import check_hypothesis

SHAPE = (1, 4, 4)


class Counting(nn.Module):
    """Count the rows that pass."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0
        self.register_buffer("scale", torch.tensor(0.5, dtype=torch.float64))

    def forward(self, X):
        self.rows += len(X)
        return X * self.scale


def backbone() -> nn.Sequential:
    """A convolution with a batch norm, as somebody else trained it."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten())
    return nn.Sequential(*layers).double().requires_grad_(False)


def images(classes=3) -> cuvee.Problem:
    return make_problem((30, 40), (12, 9), shape=SHAPE, classes=classes)


def embedded(problem: cuvee.Problem) -> cuvee.Problem:
    def of(domain):
        with torch.no_grad():
            rows = backbone().eval()(torch.as_tensor(domain.X))
        return cuvee.Domain(domain.name, rows.numpy(), domain.y)

    return cuvee.Problem([of(s) for s in problem.sources], [of(t) for t in problem.targets])


ALPHA = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])


def test_a_head_on_a_backbone_is_the_head_on_its_embeddings():
    head = mlp(12, 3, 8)
    whole = cuvee.solve(images(), cuvee.Network(nn.Sequential(backbone(), head)), ALPHA, steps=60)
    alone = cuvee.solve(embedded(images()), cuvee.Network(head), ALPHA, steps=60)
    np.testing.assert_allclose(whole.w, alone.w, atol=1e-9)
    X = images().sources[0].X
    np.testing.assert_allclose(
        whole.models[1].predict_proba(X),
        alone.models[1].predict_proba(embedded(images()).sources[0].X),
        atol=1e-9,
    )


def test_a_row_passes_the_backbone_once_however_long_the_head_learns():
    counter = Counting()
    problem = images()
    module = nn.Sequential(counter, backbone(), mlp(12, 3, 8))
    space = cuvee.Network(module).bind(problem.facts)
    inside = space._start._layers[0]  # the space has a copy of the module
    before = inside.rows
    X = torch.as_tensor(problem.sources[0].X)
    rows = space.prepare(X)
    for _ in range(5):
        space.scores(space.start(3, 0), rows)
    assert inside.rows - before == len(X) and counter.rows == 0


def test_frozen_layers_elsewhere_stay_as_they_are():
    torch.manual_seed(1)
    parts = [mlp(3, 4, 5), nn.Linear(4, 4).double().requires_grad_(False), nn.Tanh(), mlp(4, 3, 5)]
    module, problem = nn.Sequential(*parts), make_problem(classes=3)
    given = parts[1].weight.clone()
    space = cuvee.Network(module).bind(problem.facts)
    learnt = [p for p in module.parameters() if p.requires_grad]
    assert space.n_params == sum(p.numel() for p in learnt)
    w = space.start(2, 0)
    torch.testing.assert_close(w[0], nn.utils.parameters_to_vector(learnt).detach())
    assert not torch.equal(w[0], w[1])
    X = torch.as_tensor(problem.sources[0].X)
    torch.testing.assert_close(space.scores(w[0], X), module(X).detach().T)
    check_hypothesis(cuvee.Network(module), make_problem((20, 26), (6, 5), classes=3))
    assert torch.equal(parts[1].weight, given) and parts[0][0].weight.requires_grad


def test_a_backbone_may_have_another_precision_than_its_head():
    module = nn.Sequential(backbone().float(), mlp(12, 3, 8))
    sol = cuvee.solve(images(), cuvee.Network(module), ALPHA, steps=20)
    assert sol.w.dtype == np.float64
    assert set(sol.models[0].predict(images().sources[0].X)) <= {0, 1, 2}


def test_a_module_whose_parameters_are_all_frozen_is_refused():
    with pytest.raises(cuvee.OptionError, match="no parameters to learn: it has none, or all are"):
        cuvee.Network(backbone())
    with pytest.raises(cuvee.DomainError, match=r"does not take rows of shape \(3,\)"):
        cuvee.Network(nn.Sequential(backbone(), mlp(12, 3))).bind(make_problem(classes=3).facts)
