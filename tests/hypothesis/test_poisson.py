"""`Poisson` through every public door: scikit-learn's numbers, certified, and nothing of its own on
the way.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import PoissonRegressor

import cuvee
from cuvee import Domain, Poisson, Problem, Status
from cuvee.errors import DomainError

SOLVED = {Status.SOLVED}


def counts(name, rows, level, beta, seed=0, **options):
    rng = np.random.default_rng([seed, rows])
    X = rng.normal(size=(rows, len(beta)))
    return Domain(name, X, rng.poisson(np.exp(level + X @ beta)), **options)


@pytest.fixture
def sources():
    """Wards with few, some and very many visits."""
    levels = {"few": -2.0, "some": 0.5, "many": 5.0}
    rng = np.random.default_rng(1)
    return [
        counts(name, 150 + 40 * i, u, 0.3 * rng.normal(size=4))
        for i, (name, u) in enumerate(levels.items())
    ]


def scikit_learn(sources, alpha, l2, intercept):
    X, y = np.concatenate([s.X for s in sources]), np.concatenate([s.y for s in sources])
    share = [a * (np.ones(s.n_rows) / s.n_rows if s.weight is None else s.weight / s.weight.sum())
             for a, s in zip(alpha, sources, strict=True)]  # fmt: skip
    model = PoissonRegressor(
        alpha=l2, fit_intercept=intercept, solver="newton-cholesky", tol=1e-12, max_iter=1000
    )
    model.fit(X, y, sample_weight=np.concatenate(share))
    return np.append(model.coef_, model.intercept_) if intercept else model.coef_


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("l2", [1e-3, 1.0])
def test_solve_is_scikit_learns(sources, intercept, l2):
    alpha = np.random.default_rng(2).dirichlet(np.ones(3), size=6)
    alpha[0] = [1.0, 0.0, 0.0]
    solution = cuvee.solve(sources, Poisson(l2, intercept), alpha, tol=1e-10)
    assert set(solution.status) == SOLVED
    for w, a in zip(solution.w, alpha, strict=True):
        np.testing.assert_allclose(w, scikit_learn(sources, a, l2, intercept), rtol=1e-6, atol=1e-6)
    assert np.isfinite(solution.certificate.distance).all()


def test_exposure_is_a_weight_and_a_rate(sources):
    """E[count] = exposure · exp(x·w + b), as by an offset of log(exposure)."""
    rng = np.random.default_rng(3)
    days = rng.uniform(0.5, 4.0, sources[1].n_rows)
    visits = rng.poisson(days * np.exp(sources[1].X @ [0.3, -0.2, 0.1, 0.0] - 0.5))
    ward = Poisson.domain("ward", sources[1].X, visits, exposure=days)
    w = cuvee.solve([ward], Poisson(1e-4), [[1.0]], tol=1e-9).w[0]
    design = np.column_stack([ward.X, np.ones(len(days))])
    mean = days * np.exp(design @ w)
    gradient = design.T @ (mean - visits) / days.sum() + 1e-4 * np.append(w[:-1], 0.0)
    assert np.abs(gradient).max() <= 1e-8


def test_a_target_learns_from_the_sources_that_are_like_it():
    rng = np.random.default_rng(4)
    like, unlike = np.array([0.6, -0.4, 0.0]), np.array([-0.6, 0.5, 0.3])
    sources = [counts("like", 120, 0.5, like), counts("unlike", 110, 0.5, unlike)]
    target = counts("target", 40, 0.5, like + 0.02 * rng.normal(size=3))
    problem = Problem(sources, [target])
    for method in ("path", "scgda", "agp", "konstantinov_lampert"):
        alpha = cuvee.estimate(problem, Poisson(), method=method, steps=100, seed=1).alpha[0]
        assert alpha[0] > 2 * alpha[1], method


@pytest.mark.parametrize("method", ["auto", "kernel", "surface", "network", "meta"])
def test_maps_predict_what_solve_finds(sources, method):
    hypothesis, alpha = Poisson(1e-2), np.random.default_rng(5).dirichlet(np.ones(3) * 2, size=20)
    atlas = cuvee.learn(sources, hypothesis, method=method, n_labels=60)
    exact = cuvee.solve(sources, hypothesis, alpha).w
    error = np.linalg.norm(atlas(alpha).w - exact, axis=1)
    assert np.median(error) < 0.05 * np.linalg.norm(exact - exact.mean(0), axis=1).mean()
    corrected = atlas(alpha, trust="corrected", tol=1e-6)
    np.testing.assert_allclose(corrected.w, exact, atol=1e-4)


def test_the_online_map_labels_and_predicts(sources):
    online = cuvee.OnlineMap(sources, Poisson(1e-2))
    stream = np.random.default_rng(6).dirichlet(np.ones(3) * 3, size=40)
    for alpha in stream:
        online.learn_one(alpha)
    exact = cuvee.solve(sources, Poisson(1e-2), stream[-5:]).w
    predicted = np.array([online.predict_one(alpha) for alpha in stream[-5:]])
    assert np.abs(predicted - exact).max() < 0.05


def test_sensitivity_is_the_derivative(sources):
    hypothesis, alpha, step = Poisson(1e-2), np.array([[0.2, 0.5, 0.3]]), 1e-5
    w = cuvee.solve(sources, hypothesis, alpha, tol=1e-11).w
    slopes = cuvee.sensitivity(sources, hypothesis, alpha, w)[0]
    moved = alpha + step * np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]])
    ends = cuvee.solve(sources, hypothesis, moved, tol=1e-11).w
    np.testing.assert_allclose(
        (ends[0] - ends[1]) / (2 * step), slopes[0] - slopes[1], rtol=1e-4, atol=1e-5
    )


def test_descent_is_slow_and_right(sources):
    alpha = [[0.4, 0.6, 0.0]]
    exact = cuvee.solve(sources, Poisson(1e-1), alpha).w
    slow = cuvee.solve(sources, Poisson(1e-1), alpha, method="descent", steps=20_000, tol=1e-9).w
    np.testing.assert_allclose(slow, exact, atol=1e-5)


def test_a_mixture_without_any_count_has_no_minimiser(sources):
    rng = np.random.default_rng(7)
    closed = Domain("closed", rng.normal(size=(40, 4)), np.zeros(40))
    solution = cuvee.solve([*sources, closed], Poisson(), [[0, 0, 0, 1.0], [0.5, 0, 0, 0.5]])
    assert list(solution.status) == [Status.ABSENT_CLASS, Status.SOLVED]
    assert np.isinf(solution.certificate.distance[0])
    assert (solution.predict(closed.X)[0] < 1e-10).all()


def test_more_columns_than_rows():
    rng = np.random.default_rng(8)
    wide = [counts(f"s{j}", 60, 0.0, 0.05 * rng.normal(size=400)) for j in range(2)]
    alpha = [[0.3, 0.7]]
    w = cuvee.solve(wide, Poisson(0.1), alpha, tol=1e-9).w[0]
    np.testing.assert_allclose(w, scikit_learn(wide, alpha[0], 0.1, True), atol=1e-6)


def test_float32_passes_end_where_float64_does(monkeypatch, sources):
    alpha = np.random.default_rng(9).dirichlet(np.ones(3), size=5)
    exact = cuvee.solve(sources, Poisson(), alpha, tol=1e-10).w
    monkeypatch.setattr("cuvee.erm.linear.solver.FLOAT32_PAYS", 0)
    rough = cuvee.solve(sources, Poisson(), alpha, tol=1e-10)
    assert set(rough.status) == SOLVED
    np.testing.assert_allclose(rough.w, exact, atol=1e-6)


def test_other_units_of_the_labels_change_only_the_intercept(sources):
    times = [Domain(s.name, s.X, 1000.0 * s.y, s.weight) for s in sources]
    alpha = [[0.2, 0.5, 0.3]]
    w, scaled = (
        cuvee.solve(d, Poisson(l2), alpha, tol=1e-9).w[0]
        for d, l2 in ((sources, 1e-2), (times, 10.0))
    )
    np.testing.assert_allclose(scaled[:-1], w[:-1], atol=1e-6)
    assert scaled[-1] - w[-1] == pytest.approx(np.log(1000.0), abs=1e-6)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([3.0, -1.0, 2.0], "domain 'a': label -1 at row 1 is below 0.*use Ridge"),
        (["a", "b", "c"], "domain 'a': label 'a' at row 0 is not a number"),
        ([0, 0, 0], "every source row has the label 0"),
    ],
)
def test_labels_that_are_no_counts_are_named(labels, message):
    with pytest.raises(DomainError, match=message):
        cuvee.solve([Domain("a", [[0.0], [1.0], [2.0]], labels)], Poisson(), [[1.0]])


def test_an_exposure_of_nothing_is_named():
    with pytest.raises(DomainError, match="domain 'w': exposure must be above 0"):
        Poisson.domain("w", [[0.0], [1.0]], [1, 2], exposure=[1.0, 0.0])


def test_theorem_one_has_numbers_for_it(sources):
    problem = Problem(sources, [counts("t", 30, 0.5, np.zeros(4))])
    bound = cuvee.risk_bound(problem, Poisson(), [[0.2, 0.5, 0.3]])
    assert np.isfinite(bound.printed.excess).all() and np.isfinite(bound.proven.excess).all()
