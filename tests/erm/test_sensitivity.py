"""dw*/dα against re-solving a little to either side."""

from __future__ import annotations

import numpy as np
import pytest

import cuvee
from cuvee import Domain, Logistic, OptionError, Problem, Ridge
from cuvee.erm.linear.family import GeneralisedFamily

pytestmark = pytest.mark.sample(2)

CLASSES = {"ridge": 0, "binary": 2, "softmax": 3}
STEP = 1e-4


def make(kind, rng, sizes=(60, 40, 50), targets=(), mean=1.0, d=3):
    def domain(name, rows):
        X = rng.normal(size=(rows, d)) + mean * rng.normal(size=d)
        score = (X - X.mean(0)) @ rng.normal(size=d) + 0.7 * rng.normal(size=rows)
        if CLASSES[kind]:
            score = np.digitize(score, {"binary": [0.1], "softmax": [-0.5, 0.5]}[kind])
            score[: CLASSES[kind]] = np.arange(CLASSES[kind])
        return Domain(name, X, score)

    return Problem(
        *(
            [domain(f"{r}{j}", n) for j, n in enumerate(s)]
            for r, s in (("s", sizes), ("t", targets))
        )
    )


def hypothesis_of(kind, l2=0.05, **options):
    return Ridge(l2, **options) if kind == "ridge" else Logistic(l2, **options)


def tight(problem, hypothesis, alpha):
    # where rounding ends it earlier, it is close enough
    return cuvee.solve(problem, hypothesis, alpha, tol=1e-12).w


def directions(rng, M, N):
    """Along the simplex, (M, N) of length 1."""
    delta = rng.normal(size=(M, N))
    delta -= delta.mean(1, keepdims=True)
    return delta / np.linalg.norm(delta, axis=1, keepdims=True)


def check(problem, hypothesis, alpha, rng, rtol=1e-5, step=STEP):
    w = tight(problem, hypothesis, alpha)
    derivative = cuvee.sensitivity(problem, hypothesis, alpha, w)
    assert derivative.shape == (*alpha.shape, w.shape[1])
    for _ in range(2):
        delta = directions(rng, *alpha.shape)
        ahead, behind = (tight(problem, hypothesis, alpha + s * step * delta) for s in (1, -1))
        wanted = (ahead - behind) / (2 * step)
        got = np.einsum("mn,mnp->mp", delta, derivative)
        error = np.linalg.norm(got - wanted, axis=1) / np.linalg.norm(wanted, axis=1)
        assert (error < rtol).all(), error
        # Which is what it is for: the first-order prediction beats the old model by orders of
        # magnitude.
        far = 20 * step
        there = tight(problem, hypothesis, alpha + far * delta)
        zeroth, first = (
            np.linalg.norm(there - w, axis=1),
            np.linalg.norm(there - w - far * got, axis=1),
        )
        assert (first < 0.05 * zeroth).all()
    return w, derivative


@pytest.mark.parametrize("kind", list(CLASSES))
@pytest.mark.parametrize("intercept", [True, False])
def test_against_solving_again(kind, intercept):
    rng = np.random.default_rng(0)
    problem = make(kind, rng)
    check(
        problem,
        hypothesis_of(kind, intercept=intercept),
        rng.dirichlet(np.full(3, 5.0), size=4),
        rng,
    )


@pytest.mark.parametrize("kind", list(CLASSES))
def test_with_the_own_samples(kind):
    rng = np.random.default_rng(1)
    problem = make(kind, rng, targets=(9, 20, 5))
    check(problem, hypothesis_of(kind), rng.dirichlet(np.full(4, 5.0), size=3), rng)


@pytest.mark.parametrize("kind", list(CLASSES))
@pytest.mark.parametrize(("intercept", "own"), [(True, True), (False, False)])
def test_where_the_ball_binds(kind, intercept, own):
    rng = np.random.default_rng(2)
    problem = make(kind, rng, targets=(9, 20, 5) if own else ())
    alpha = rng.dirichlet(np.full(3 + own, 5.0), size=3)
    free = hypothesis_of(kind, intercept=intercept)
    norms = np.sort(np.linalg.norm(tight(problem, free, alpha), axis=1))
    radius = 0.5 * (norms[0] + norms[1])  # binds for two of three
    bound = hypothesis_of(kind, intercept=intercept, radius=radius)
    w, derivative = check(problem, bound, alpha, rng, rtol=1e-5)
    active = np.linalg.norm(w, axis=1) > radius * (1 - 1e-9)
    assert active.sum() == 2
    along = np.einsum("mnp,mp->mn", derivative, w)[active]
    assert (np.abs(along) < 1e-8 * np.abs(derivative).max()).all()  # it stays on the sphere


@pytest.mark.parametrize("kind", ["binary", "softmax"])
@pytest.mark.parametrize(("ball", "own"), [(False, False), (True, True)])
def test_by_conjugate_gradients(kind, ball, own, monkeypatch):
    rng = np.random.default_rng(3)
    problem = make(kind, rng, targets=(9, 5) if own else ())
    alpha = rng.dirichlet(np.full(3 + own, 5.0), size=2)
    w = tight(problem, hypothesis_of(kind), alpha)
    radius = 0.8 * np.linalg.norm(w, axis=1).min() if ball else None
    hypothesis = hypothesis_of(kind, radius=radius)
    w = tight(problem, hypothesis, alpha)
    dense = cuvee.sensitivity(problem, hypothesis, alpha, w)
    monkeypatch.setattr(GeneralisedFamily, "_dense", False)
    cg = cuvee.sensitivity(problem, hypothesis, alpha, w)
    np.testing.assert_allclose(cg, dense, rtol=1e-6, atol=1e-7 * np.abs(dense).max())
    check(problem, hypothesis, alpha, rng)


def test_columns_of_other_units_by_conjugate_gradients(monkeypatch):
    rng = np.random.default_rng(4)
    problem = make("binary", rng)
    scaled = Problem([Domain(s.name, s.X * [1e3, 1.0, 1e-2], s.y) for s in problem.sources])
    alpha = rng.dirichlet(np.ones(3), size=2)
    w = cuvee.solve(scaled, Logistic(1e-3), alpha, tol=1e-9).w
    dense = cuvee.sensitivity(scaled, Logistic(1e-3), alpha, w)
    monkeypatch.setattr(GeneralisedFamily, "_dense", False)
    cg = cuvee.sensitivity(scaled, Logistic(1e-3), alpha, w)
    np.testing.assert_allclose(cg, dense, rtol=1e-5, atol=1e-9 * np.abs(dense).max())


@pytest.mark.parametrize("kind", list(CLASSES))
def test_a_source_like_the_mixture_moves_nothing_by_itself(kind):
    """Σ_j α_j dw*/dα_j is the answer to more data risk against the same penalty: with l2 = 0 it is
    0.
    """
    rng = np.random.default_rng(5)
    problem = make(kind, rng)
    alpha = rng.dirichlet(np.full(3, 5.0), size=3)
    w = cuvee.solve(problem, hypothesis_of(kind, 0.0), alpha, tol=1e-11).w
    derivative = cuvee.sensitivity(problem, hypothesis_of(kind, 0.0), alpha, w)
    assert np.isfinite(derivative).all()
    total = np.einsum("mn,mnp->mp", alpha, derivative)
    assert np.abs(total).max() < 1e-7 * np.abs(derivative).max()
    check(problem, hypothesis_of(kind, 0.0), alpha, rng)


def test_at_a_corner_an_unused_source_still_has_a_derivative():
    rng = np.random.default_rng(6)
    problem = make("binary", rng)
    alpha = np.eye(3)[[0]]
    w = tight(problem, Logistic(0.05), alpha)
    derivative = cuvee.sensitivity(problem, Logistic(0.05), alpha, w)[0]
    delta = np.array([-1.0, 1.0, 0.0])
    steps = [tight(problem, Logistic(0.05), alpha + h * delta)[0] for h in (1e-4, 2e-4)]
    one_sided = (4 * steps[0] - steps[1] - 3 * w[0]) / 2e-4
    np.testing.assert_allclose(delta @ derivative, one_sided, rtol=1e-4, atol=1e-6)


def test_singular_systems_give_finite_derivatives():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(30, 2))
    X = np.column_stack([X, X[:, 0]])  # a column twice, l2 = 0
    for y, hypothesis in (
        (X[:, 1], Ridge(0.0)),
        ((X[:, 1] + rng.normal(size=30) > 0) * 1, Logistic(0.0)),
    ):
        problem = [Domain("a", X[:20], y[:20]), Domain("b", X[10:], y[10:])]
        sol = cuvee.solve(problem, hypothesis, [[0.5, 0.5]])
        assert np.isfinite(cuvee.sensitivity(problem, hypothesis, [[0.5, 0.5]], sol.w)).all()


def test_networks_have_none():
    from builders import make_problem, mlp

    problem = make_problem(targets=(), classes=3)
    hypothesis = cuvee.Network(mlp(3, 3))
    with pytest.raises(OptionError, match="convex"):
        cuvee.sensitivity(
            problem,
            hypothesis,
            [[0.2, 0.3, 0.5]],
            np.zeros((1, hypothesis.bind(problem.facts).n_params)),
        )
