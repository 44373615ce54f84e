"""A convex hypothesis that declares nothing but its losses is solved, certified, differentiated and
learnt.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import cuvee
from cuvee import Domain, Problem, Status
from cuvee.hypothesis.base import Space


@dataclass(frozen=True)
class PseudoHuber:
    """Linear regression that outliers do not move far: √(1 + r²) − 1, every parameter penalised."""

    l2: float = 1e-2
    radius: float | None = None

    def bind(self, facts, *, standardised=False):
        return PseudoHuberSpace(facts, self)


class PseudoHuberSpace(Space):
    dtype = torch.float64
    n_outputs = 1

    def __init__(self, facts, spec):
        self.input_shape, (self.n_params,) = facts.input_shape, facts.input_shape
        self.l2, self.radius = spec.l2, spec.radius

    def prepare(self, X):
        return X.to(self.dtype)

    def encode(self, y, name):
        return y.astype(float)

    def scores(self, w, X):
        return (w @ X.T).unsqueeze(-2)

    def own_scores(self, w, X):
        return (w @ X.mT).unsqueeze(-2)

    def trained(self, scores, y):
        return torch.sqrt(1 + (scores.squeeze(-2) - y) ** 2) - 1

    def bounded(self, scores, y):
        loss = self.trained(scores, y)
        return loss / (1 + loss)

    def decide(self, scores):
        return np.asarray(scores.squeeze(-2))

    def start(self, n_models, seed):
        rows = [
            np.random.default_rng([seed, k]).normal(size=self.n_params) for k in range(n_models)
        ]
        return self.project(torch.as_tensor(np.array(rows).reshape(n_models, self.n_params)))


def domain(name, beta, rows=60, seed=0):
    rng = np.random.default_rng([seed, rows])
    X = rng.normal(size=(rows, len(beta)))
    return Domain(name, X, X @ beta + rng.standard_t(2, size=rows))


@pytest.fixture
def sources():
    rng = np.random.default_rng(0)
    return [domain(f"s{j}", rng.normal(size=3), 50 + 10 * j) for j in range(3)]


def best(sources, alpha, l2):
    def risk(w):
        losses = [np.mean(np.sqrt(1 + (s.X @ w - s.y) ** 2) - 1) for s in sources]
        return alpha @ losses + l2 / 2 * w @ w

    return minimize(risk, np.zeros(3), tol=1e-12).x


def test_solve_and_certify(sources):
    alpha = np.random.default_rng(1).dirichlet(np.ones(3), size=5)
    solution = cuvee.solve(sources, PseudoHuber(), alpha, tol=1e-9)
    assert set(solution.status) == {Status.SOLVED}
    truth = np.array([best(sources, a, 1e-2) for a in alpha])
    np.testing.assert_allclose(solution.w, truth, atol=1e-5)
    moved = solution.w + 0.01
    bound = cuvee.certify(sources, PseudoHuber(), alpha, moved)
    assert (bound.distance >= 0.999 * np.linalg.norm(moved - solution.w, axis=1)).all()
    assert "λ-strong convexity" in str(bound.rests_on)


def test_own_samples_and_memory(sources):
    targets = [domain(f"t{i}", np.ones(3), 5, seed=i) for i in range(60)]
    alpha = np.random.default_rng(2).dirichlet(np.ones(4), size=60)
    problem = Problem(sources, targets)
    whole = cuvee.solve(problem, PseudoHuber(), alpha, tol=1e-9)
    chunked = cuvee.solve(problem, PseudoHuber(), alpha, tol=1e-9, memory=2**20)
    np.testing.assert_allclose(chunked.w, whole.w, atol=1e-8)
    alone = cuvee.solve(problem.with_targets(targets[3:4]), PseudoHuber(), alpha[3:4], tol=1e-9)
    np.testing.assert_allclose(alone.w[0], whole.w[3], atol=1e-8)


def test_a_ball_binds(sources):
    alpha = [[0.5, 0.3, 0.2]]
    free = np.linalg.norm(cuvee.solve(sources, PseudoHuber(), alpha).w)
    solution = cuvee.solve(sources, PseudoHuber(radius=0.5 * free), alpha, tol=1e-8)
    assert np.linalg.norm(solution.w) == pytest.approx(0.5 * free, rel=1e-9)
    assert set(solution.status) == {Status.SOLVED}


def test_sensitivity_is_the_derivative(sources):
    alpha, step = np.array([[0.2, 0.5, 0.3]]), 1e-4
    w = cuvee.solve(sources, PseudoHuber(), alpha, tol=1e-10).w
    slopes = cuvee.sensitivity(sources, PseudoHuber(), alpha, w)[0]
    moved = alpha + step * np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]])
    ends = cuvee.solve(sources, PseudoHuber(), moved, tol=1e-10).w
    np.testing.assert_allclose((ends[0] - ends[1]) / (2 * step), slopes[0] - slopes[1], atol=1e-5)


def test_more_parameters_than_a_hessian_is_kept_for(sources, monkeypatch):
    alpha = [[0.2, 0.5, 0.3]]
    w = cuvee.solve(sources, PseudoHuber(), alpha, tol=1e-8).w
    slopes = cuvee.sensitivity(sources, PseudoHuber(), alpha, w)
    monkeypatch.setattr("cuvee.erm.convex.solver.DENSE_P", 2)
    monkeypatch.setattr("cuvee.erm.convex.family.MOST_DENSE", 2)
    np.testing.assert_allclose(cuvee.solve(sources, PseudoHuber(), alpha, tol=1e-8).w, w, atol=1e-6)
    np.testing.assert_allclose(
        cuvee.sensitivity(sources, PseudoHuber(), alpha, w), slopes, atol=1e-6
    )


def test_estimate_and_learn(sources):
    problem = Problem(sources, [Domain("t", sources[1].X[:20] + 0.0, sources[1].y[:20] + 0.01)])
    for method in ("path", "agp"):
        mixtures = cuvee.estimate(problem, PseudoHuber(radius=3.0), method=method, steps=60)
        assert mixtures.alpha[0, :3].argmax() == 1
    alpha = np.random.default_rng(3).dirichlet(np.ones(3), size=10)
    for method in ("auto", "network"):
        atlas = cuvee.learn(sources, PseudoHuber(), method=method, n_labels=40)
        exact = cuvee.solve(sources, PseudoHuber(), alpha).w
        np.testing.assert_allclose(atlas(alpha, trust="corrected", tol=1e-6).w, exact, atol=1e-3)


class LogCoshSpace(PseudoHuberSpace):
    """log cosh r: farther than some 20 from the label its second derivative is 0 but for rounding,
    and farther than some 350 torch cannot compute it.
    """

    def trained(self, scores, y):
        r = scores.squeeze(-2) - y
        return torch.logaddexp(r, -r) - log(2.0)


@dataclass(frozen=True)
class LogCosh(PseudoHuber):
    def bind(self, facts, *, standardised=False):
        return LogCoshSpace(facts, self)


@pytest.mark.parametrize("most_dense", [256, 2])
@pytest.mark.parametrize("l2", [1e-2, 0.0])
def test_labels_far_out_where_the_loss_is_nearly_straight(sources, l2, most_dense, monkeypatch):
    monkeypatch.setattr("cuvee.erm.convex.solver.DENSE_P", most_dense)
    far = [Domain(s.name, s.X, 100.0 * s.y) for s in sources]
    alpha = np.random.default_rng(4).dirichlet(np.ones(3), size=5)
    solution = cuvee.solve(far, LogCosh(l2), alpha, tol=1e-7)
    assert set(solution.status) == {Status.SOLVED}

    def slope(w, a):
        parts = [s.X.T @ np.tanh(s.X @ w - s.y) / s.n_rows for s in far]
        return a @ parts + l2 * w

    for w, a in zip(solution.w, alpha, strict=True):
        assert np.abs(slope(w, a)).max() <= 1.1e-7


@pytest.mark.parametrize("hypothesis", [PseudoHuber(), LogCosh()])
def test_descent_needs_no_limit_of_the_curvature(sources, hypothesis):
    far = [Domain(s.name, s.X, 10.0 * s.y) for s in sources]
    alpha = np.random.default_rng(4).dirichlet(np.ones(3), size=5)
    solution = cuvee.solve(far, hypothesis, alpha, method="descent", tol=1e-6)
    assert set(solution.status) == {Status.SOLVED}


class WithIntercept(PseudoHuberSpace):
    intercept = True

    def __init__(self, facts, spec):
        super().__init__(facts, spec)
        self.n_params += 1

    @property
    def penalised(self):
        return torch.cat([torch.ones(self.n_params - 1), torch.zeros(1)]).double()

    def prepare(self, X):
        return torch.nn.functional.pad(X.to(self.dtype), (0, 1), value=1.0)


@dataclass(frozen=True)
class FreeIntercept(PseudoHuber):
    def bind(self, facts, *, standardised=False):
        return WithIntercept(facts, self)


def test_what_is_not_certified_says_why_and_what_to_do(sources):
    def rests_on(hypothesis):
        return cuvee.solve(sources, hypothesis, [[0.2, 0.5, 0.3]]).certificate.rests_on

    assert rests_on(PseudoHuber(0.0)) == (
        "not certified: l2 = 0 leaves no strong convexity; set l2 above 0"
    )
    assert rests_on(FreeIntercept(0.1)) == (
        "not certified: the intercept is not penalised, which leaves no strong convexity; set "
        "intercept=False for a certificate"
    )
    assert rests_on(FreeIntercept(0.0)).endswith("; set l2 above 0 and intercept=False")
    assert rests_on(cuvee.Ridge(0.0)).endswith("; set l2 above 0")  # its intercept is no obstacle


def test_newton_steps_alone_come_down_from_far_out(sources, monkeypatch):
    """Damping serves those whom L-BFGS leaves far out, where the Hessian is 0 or not a number."""
    monkeypatch.setattr("cuvee.erm.convex.solver.MAX_PASSES", 1)
    far = [Domain(s.name, s.X, 100.0 * s.y) for s in sources]
    alpha = [[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]]
    assert set(cuvee.solve(far, LogCosh(), alpha, tol=1e-7).status) == {Status.SOLVED}
