"""Every family answers the one protocol between α and w; here its gradient, which nothing else
gives any more.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cuvee
from builders import CASES, make_problem, mlp, models, slow_scores
from cuvee import Logistic, Network, Ridge, erm
from cuvee.oracle import stationarity
from learn_builders import KINDS, make_sources

pytestmark = pytest.mark.sample(8)

MEMORY = 2**28
FAR = 1e3  # columns with means so large that plain float64 loses digits


def family_of(problem, hypothesis, own):
    space = hypothesis.bind(problem.facts)
    return space, erm.family(problem, space, own=own, device="cpu", memory=MEMORY)


def by_autograd(problem, hypothesis, space, alpha, w):
    """∇ of Σ_j α_j f_j(w) + λ/2‖w‖², one model after the other, from single-model scores on the
    given rows.
    """
    found = []
    for i, (shares, one) in enumerate(zip(alpha, w, strict=True)):
        one = one.detach().clone().requires_grad_(True)
        domains = [
            *problem.sources,
            *([problem.targets[i]] if len(shares) > problem.n_sources else []),
        ]
        risk = 0.5 * space.l2 * (space.penalised * one.square()).sum()
        for share, domain in zip(shares, domains, strict=True):
            scores = slow_scores(hypothesis, one, torch.as_tensor(domain.X))
            losses = space.trained(scores, torch.as_tensor(space.encode(domain.y, domain.name)))
            weight = torch.as_tensor(
                np.ones(domain.n_rows) if domain.weight is None else domain.weight
            )
            risk = risk + share * (weight * losses).sum() / weight.sum()
        found.append(torch.autograd.grad(risk, one)[0])
    return torch.stack(found)


@pytest.mark.parametrize("own", [False, True], ids=["sources", "own"])
@pytest.mark.parametrize("case", CASES, ids=repr)
def test_the_gradient_is_autograds(case, own):
    problem = case.problem((9, 14, 6), (4, 5, 3), weighted=True)
    space, family = family_of(problem, case.hypothesis, own)
    alpha = torch.as_tensor(np.random.default_rng(0).dirichlet(np.ones(3 + own), size=3))
    alpha[1] = torch.eye(3 + own)[2]
    w = models(space, 3)
    wanted = by_autograd(problem, case.hypothesis, space, alpha, w)
    torch.testing.assert_close(family.gradient(alpha, w), wanted, rtol=1e-10, atol=1e-10)
    assert family.gradient(alpha[:0], w[:0]).shape == (0, space.n_params)


@pytest.mark.parametrize("own", [False, True], ids=["sources", "own"])
@pytest.mark.parametrize("radius", [None, 0.5])
@pytest.mark.parametrize("columns", [3, 150])
@pytest.mark.parametrize(("classes", "hypothesis"), [(0, Ridge), (2, Logistic), (3, Logistic)])
def test_the_gradient_is_the_one_a_certificate_rests_on(classes, hypothesis, columns, radius, own):
    """150 columns of 29 rows are worked on in the space of the rows; with a radius, certificates
    look at P_W(w).
    """
    problem = make_problem((9, 14, 6), (4, 5), shape=(columns,), classes=classes)
    if hypothesis is Ridge and columns == 3:
        problem = cuvee.Problem(*(
            [cuvee.Domain(d.name, d.X + FAR, d.y) for d in side] for side in (problem.sources, problem.targets)
        ))  # fmt: skip
    space, family = family_of(problem, hypothesis(0.1, radius=radius), own)
    assert (type(family).__name__ == "WideFamily") == (columns == 150)
    alpha = torch.as_tensor(np.random.default_rng(0).dirichlet(np.ones(3 + own), size=2))
    solved = family.solve(alpha, tol=1e-8).w
    for w in (solved, space.project(solved + 0.1 * models(space, 2))):
        seen, gradient = family.certify(alpha, w, tol=1.0), family.gradient(alpha, w)
        size = 1e-13 * (1.0 + seen.vector.abs().max() + (FAR**2 if columns == 3 else 0.0))
        torch.testing.assert_close(gradient, seen.vector, rtol=1e-11, atol=float(size))
        torch.testing.assert_close(
            stationarity(space, w, gradient), seen.gradient, rtol=1e-9, atol=float(size)
        )


@pytest.mark.parametrize("memory", [2**16, MEMORY])
def test_the_gradient_of_a_network_is_the_one_that_is_reported(memory):
    problem = make_problem((9, 14, 6), (), classes=3)
    space = Network(mlp(3, 3)).bind(problem.facts)
    family = erm.family(problem, space, own=False, device="cpu", memory=memory)
    alpha = torch.as_tensor(np.random.default_rng(0).dirichlet(np.ones(3), size=60))
    w = models(space, 60)
    gradient = family.gradient(alpha, w)
    assert gradient.shape == w.shape and family.certify(alpha, w, tol=1.0).vector.shape == (60, 0)
    torch.testing.assert_close(
        stationarity(space, w, gradient), family.certify(alpha, w, tol=1.0).gradient
    )


class Unasked:
    """An oracle that proves nothing: who asks it for a certificate has asked the wrong question."""

    def __init__(self, oracle):
        self.oracle = oracle

    def certify(self, *args, **options):
        raise AssertionError("a certificate was asked for, where a gradient would do")

    def __getattr__(self, name):
        return getattr(self.oracle, name)


@pytest.fixture
def unasked(monkeypatch):
    family = erm.family
    monkeypatch.setattr(erm, "family", lambda *args, **options: Unasked(family(*args, **options)))


@pytest.mark.parametrize("kind", list(KINDS))
def test_learning_a_map_asks_for_no_certificate(kind, unasked):
    atlas = cuvee.learn(
        make_sources(2, 3), Logistic(0.1), n_labels=16, n_calibration=80, **KINDS[kind]
    )
    assert atlas.calibration.largest.isfinite().all()
    assert atlas([[0.2, 0.3, 0.5]], trust="predicted").w.shape == (1, 4)


@pytest.mark.parametrize(
    "options", [{}, {"variant": "paper", "K": 5}, {"variant": "first_order"}], ids=repr
)
def test_online_rounds_ask_for_no_certificate(options, unasked):
    online = cuvee.OnlineMap(make_sources(2, 3), Logistic(0.1), label_budget=1.0, **options)
    for alpha in cuvee.simplex.sample(6, 3):
        online.predict_one(alpha)
        if online.wants_label(alpha):
            online.learn_one(alpha)
    assert online.ledger.labels > 0 and online.ledger.failed == 0 and online.ledger.notes == ()
