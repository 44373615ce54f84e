"""Algorithm 3, the reference, agrees with the exact solvers."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

import cuvee
from builders import make_problem, mlp
from cuvee import Domain, Logistic, Network, Ridge, Status, erm
from cuvee.components import ALL
from cuvee.erm import descent
from cuvee.hypothesis import Hypothesis

pytestmark = pytest.mark.sample(6)

CASES = {
    "ridge": (0, Ridge(0.1)),
    "ridge-no-intercept": (0, Ridge(0.1, intercept=False)),
    "ridge-ball": (0, Ridge(0.1, radius=0.3)),
    "logistic": (2, Logistic(0.1)),
    "logistic-ball": (2, Logistic(0.1, radius=0.1)),
    "softmax": (4, Logistic(0.1)),
    "softmax-no-intercept": (4, Logistic(0.1, intercept=False)),
    "softmax-ball": (4, Logistic(0.1, radius=0.1)),
}


@pytest.fixture(params=list(CASES))
def case(request) -> tuple[int, Hypothesis]:
    return CASES[request.param]


@pytest.mark.parametrize("own", [False, True])
def test_descent_ends_where_the_exact_solver_does(case, own):
    classes, hypothesis = case
    problem = make_problem((12, 20, 9), (5, 8) if own else (), classes=classes, weighted=True)
    alpha = np.random.default_rng(0).dirichlet(np.ones(3 + own), size=2)
    alpha[1] = np.eye(3 + own)[1]
    exact = cuvee.solve(problem, hypothesis, alpha, tol=1e-10)
    slow = cuvee.solve(problem, hypothesis, alpha, method="descent", tol=1e-8, steps=4_000)
    assert set(slow.status) == {Status.SOLVED}, slow
    np.testing.assert_allclose(slow.w, exact.w, atol=1e-6)
    error = np.linalg.norm(slow.w - exact.w, axis=1)
    assert (error <= slow.certificate.distance + 1e-9).all()


def test_too_few_steps_are_told(case):
    classes, hypothesis = case
    problem = make_problem((12, 20, 9), (), classes=classes)
    sol = cuvee.solve(problem, hypothesis, [[0.2, 0.3, 0.5]], method="descent", steps=1, tol=1e-9)
    assert sol.status == (Status.ITERATION_LIMIT,)
    assert sol.certificate.gradient_norm[0] > 1e-9


def smoothness(components, w, alpha):
    return descent.smoothness(partial(descent.gradient, components), components.space, w, alpha)


def true_curvature(problem, space, alpha, w):
    """λ_max of central differences of the gradient, (M,)."""
    components = erm.components(problem, space)
    step, H = 1e-5, []
    for e in step * torch.eye(space.n_params, dtype=torch.float64):
        ahead, behind = (descent.gradient(components, alpha, w + s * e) for s in (1, -1))
        H.append((ahead - behind) / (2 * step))
    return torch.linalg.eigvalsh(torch.stack(H, 1))[..., -1]


def test_smoothness_is_no_less_than_the_largest_eigenvalue(case):
    classes, hypothesis = case
    problem = make_problem((12, 20, 9), (), classes=classes)
    space = hypothesis.bind(problem.facts)
    alpha = torch.as_tensor(np.random.default_rng(0).dirichlet(np.ones(3), size=20))
    zero = torch.zeros(20, space.n_params, dtype=torch.float64)
    L = smoothness(erm.components(problem, space), zero, alpha)
    for w in (
        zero,
        *(torch.as_tensor(np.random.default_rng(k).normal(size=zero.shape)) for k in range(3)),
    ):
        assert (true_curvature(problem, space, alpha, w) * (1 - 1e-6) <= L).all()


def test_classes_that_are_rare_do_not_make_it_oscillate():
    """Softmax bends most where two classes share all mass, not at 0: 1/2 against 1/K."""
    rng = np.random.default_rng(0)
    y = np.arange(1000) % 2
    y[:8] = np.arange(2, 10)
    sources = [Domain("a", rng.normal(size=(1000, 2)) * 0.1, y)]
    exact = cuvee.solve(sources, Logistic(1e-2), [[1.0]])
    errors = []
    for steps in (100, 1000):
        sol = cuvee.solve(sources, Logistic(1e-2), [[1.0]], method="descent", steps=steps)
        errors.append(np.linalg.norm(sol.w - exact.w))
    space = Logistic(1e-2).bind(cuvee.Problem(sources).facts)
    components = erm.components(cuvee.Problem(sources), space)
    alpha = torch.ones(1, 1, dtype=torch.float64)
    L = smoothness(components, torch.zeros(1, space.n_params, dtype=torch.float64), alpha)
    assert (
        true_curvature(cuvee.Problem(sources), space, alpha, torch.as_tensor(exact.w)) <= L
    ).all()
    assert errors[1] < 0.8 * errors[0]


def test_networks_descend_too():
    problem = make_problem((12, 20, 9), (), classes=3)
    hypothesis = Network(mlp(3, 3))
    components = erm.components(problem, hypothesis.bind(problem.facts))
    alpha = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    risks = []
    for steps in (1, 200):
        sol = cuvee.solve(problem, hypothesis, alpha, method="descent", steps=steps)
        losses = components.values(torch.as_tensor(sol.w).to(components.space.dtype)[:, None], ALL)
        risks.append((losses[:, 0].numpy() * alpha).sum(1))
        assert (
            np.isinf(sol.certificate.distance).all() and np.isinf(sol.certificate.excess_risk).all()
        )
    assert (risks[1] < risks[0]).all()
