"""Tables with more columns than rows get the same models and proofs as in all columns, in less time
and memory.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_certificates import CLASSES, HYPOTHESES, oracle_of

import cuvee
from builders import mlp
from cuvee import Domain, Logistic, Network, Problem, Ridge, erm
from cuvee.components import Batch, Folds, rows_space
from cuvee.erm.linear.family import GeneralisedFamily
from cuvee.erm.ridge import compensated
from cuvee.erm.ridge import solver as ridge
from cuvee.erm.ridge.family import RidgeFamily
from cuvee.erm.wide_family import WideFamily
from cuvee.mixture.exact import Quadratics
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.sample(5)

AGREE = 1e-7  # two solvers, each to ‖∇‖∞ ≤ 1e-10


def hypothesis_of(kind, l2=0.1, **options):
    return HYPOTHESES[kind](l2, **options)


def domain(rng, name, rows, d, kind, mean=0.0):
    X = rng.normal(size=(rows, d)) + mean
    score = X[:, :5].sum(1) + rng.normal(size=rows) - 5 * mean
    y = rng.poisson(np.exp(np.clip(0.3 * score, -3.0, 3.0))) if kind == "poisson" else score
    if CLASSES[kind]:
        y = np.digitize(score, [0.0] if kind == "binary" else [-1.0, 1.0])
        y[: CLASSES[kind]] = np.arange(CLASSES[kind])
    return Domain(name, X, y, weight=rng.uniform(0.2, 2, rows) if name == "s1" else None)


def problem_of(kind, seed=0, d=120, sizes=(12, 9, 15), targets=(5, 4, 6), mean=0.0):
    rng = np.random.default_rng(seed)
    sources = [domain(rng, f"s{j}", n, d, kind, mean) for j, n in enumerate(sizes)]
    return Problem(sources, [domain(rng, f"t{i}", k, d, kind, mean) for i, k in enumerate(targets)])


def in_all_columns(problem, space, *, own):
    family = (
        RidgeFamily if isinstance(space, cuvee.hypothesis.ridge.RidgeSpace) else GeneralisedFamily
    )
    return family(
        problem if own else problem.without_targets(), space, own=own, device="cpu", memory=2**30
    )


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("radius", [None, 0.5])
@pytest.mark.parametrize("kind", list(CLASSES))
def test_a_wide_family_answers_like_one_in_all_columns(kind, radius, intercept):
    if kind == "poisson" and radius is not None:
        pytest.skip("a ball takes a generalised linear model many solves; softmax has shown it")
    problem, N = problem_of(kind), 3
    space = hypothesis_of(kind, intercept=intercept, radius=radius).bind(problem.facts)
    rng = np.random.default_rng(1)
    for own in (False, True):
        wide = erm.family(problem, space, own=own, device="cpu", memory=2**30)
        plain = in_all_columns(problem, space, own=own)
        assert isinstance(wide, WideFamily)
        alpha = torch.as_tensor(rng.dirichlet(np.ones(N + own), size=3))
        a, b = (f.solve(alpha, tol=1e-10) for f in (wide, plain))
        torch.testing.assert_close(a.w, b.w, rtol=0, atol=AGREE)
        assert list(a.status) == list(b.status)
        w = a.w + 0.1 * torch.as_tensor(rng.normal(size=a.w.shape))  # with a part that no row sees
        torch.testing.assert_close(
            wide.certify(alpha, w, tol=1e-6).vector,
            plain.certify(alpha, w, tol=1e-6).vector,
            rtol=0,
            atol=AGREE,
        )
        for ask in (
            lambda f, alpha=alpha, w=b.w: f.sensitivity(alpha, w),
            lambda f, alpha=alpha, w=w: f.hessian_solve(alpha, w, w[:, None].expand(-1, 2, -1)),
            lambda f, w=w: f.component_gradients(w),
            lambda f, w=w: f.component_hessians(w[0]),
            lambda f, alpha=alpha: f.without_minimiser(alpha),
            lambda f: f.flat,
        ):
            torch.testing.assert_close(ask(wide), ask(plain), rtol=1e-6, atol=1e-6)


def test_targets_are_taken_a_few_at_a_time_and_join_in_order():
    problem = problem_of("binary", targets=(5,) * 20)
    space = Logistic(0.1).bind(problem.facts)
    wide = erm.family(problem, space, own=True, device="cpu", memory=2**30)
    assert isinstance(wide, WideFamily) and len(list(wide._parts())) > 1
    alpha = torch.as_tensor(np.random.default_rng(0).dirichlet(np.ones(4), size=20))
    expected = in_all_columns(problem, space, own=True).solve(alpha, tol=1e-10)
    torch.testing.assert_close(wide.solve(alpha, tol=1e-10).w, expected.w, rtol=0, atol=AGREE)


@pytest.mark.parametrize("mean", [0.0, 20.0])
@pytest.mark.parametrize("l2", [1e-3, 1.0])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", list(CLASSES))
def test_certificates_hold_against_long_doubles(kind, intercept, l2, mean):
    problem = problem_of(kind, seed=3, d=100, targets=(), mean=mean)
    rng = np.random.default_rng(4)
    alpha = rng.dirichlet(np.ones(3), size=3)
    hypothesis = hypothesis_of(kind, l2, intercept=intercept)
    solution = cuvee.solve(problem, hypothesis, alpha)
    assert isinstance(
        erm.family(problem, solution.space, own=False, device="cpu", memory=2**30), WideFamily
    )
    nearby = solution.w + rng.normal(size=solution.w.shape) * 10.0 ** rng.uniform(-12, 0, (3, 1))
    for w, proof in (
        (solution.w, solution.certificate),
        (nearby, cuvee.certify(problem, hypothesis, alpha, nearby)),
    ):
        for i in range(3):
            oracle = oracle_of(kind, problem.sources, alpha[i], l2, intercept)
            best = oracle.minimiser(w[i])
            given = w[i]
            # a constant that all intercepts share changes nothing
            if kind == "softmax" and intercept:
                given = given.reshape(3, -1).astype(np.longdouble)
                given[:, -1] += (best.reshape(3, -1)[:, -1] - given[:, -1]).mean()
                given = given.reshape(-1)
            distance = np.sqrt(((given - best) ** 2).sum())
            assert distance <= proof.distance[i] * (1 + 1e-9)
            assert oracle.risk(w[i]) - oracle.risk(best) <= proof.excess_risk[i] + 1e-17
            true = np.abs(oracle.derivatives(w[i].astype(np.longdouble))[0]).max()
            assert abs(float(true) - proof.gradient_norm[i]) <= 1e-6 * float(true) + 1e-10 * (
                1 + mean**2
            )


def test_an_unpenalised_or_narrow_or_nonlinear_space_stays_in_its_columns():
    problem = problem_of("ridge")
    narrow = problem_of("ridge", d=20)
    module = mlp(120, 1)
    for data, hypothesis in (
        (problem, Ridge(l2=0.0)),
        (narrow, Ridge()),
        (problem, Network(module, loss="squared")),
    ):
        space = hypothesis.bind(data.facts)
        assert not isinstance(
            erm.family(data, space, own=False, device="cpu", memory=2**30), WideFamily
        )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**16), st.integers(1, 6), st.booleans())
def test_coordinates_keep_products_norms_and_the_way_back(seed, repeated, standardised):
    rng = np.random.default_rng(seed)
    problem = problem_of("softmax", seed=seed, d=80, targets=(3,))
    X = problem.sources[0].X.copy()
    X[1 : 1 + repeated] = X[0]  # rows that span less than their number
    problem = Problem(
        [Domain("s0", X, problem.sources[0].y), *problem.sources[1:]], problem.targets
    )
    space = Logistic().bind(problem.facts, standardised=standardised)
    wide = rows_space.of(problem, space)
    w = torch.as_tensor(rng.normal(size=(2, space.n_params)))
    u, unseen = wide.split(w)
    torch.testing.assert_close(wide.expand(u) + unseen, w, rtol=0, atol=1e-12)
    for given_domain, reduced in zip(problem.sources, wide.problem.sources, strict=True):
        scores = space.scores(w, space.prepare(torch.as_tensor(given_domain.X)))
        torch.testing.assert_close(
            wide.space.scores(u, wide.space.prepare(torch.as_tensor(reduced.X))),
            scores,
            rtol=0,
            atol=1e-10,
        )
    norm = torch.linalg.vector_norm
    torch.testing.assert_close(norm(wide.expand(u), dim=-1), norm(u, dim=-1), rtol=1e-12, atol=0)


@pytest.mark.parametrize("kind", ["ridge", "binary"])
def test_weights_of_a_batch_are_those_of_its_targets_one_by_one(kind):
    problem = problem_of(kind, targets=(5, 4, 6))
    options = {"method": "agp", "steps": 40, "adversaries": 3}
    together = cuvee.estimate(problem, hypothesis_of(kind), **options).alpha
    for i, target in enumerate(problem.targets):
        alone = cuvee.estimate(
            Problem(problem.sources, [target]), hypothesis_of(kind), **options
        ).alpha
        np.testing.assert_allclose(alone[0], together[i], atol=1e-9)


def test_the_worst_adversary_is_as_strong_in_the_coordinates_of_the_rows():
    problem = problem_of("ridge")
    space = Ridge().bind(problem.facts, standardised=True)
    games = [
        Quadratics.of(erm.components(*pair), C=5.0, discrepancy="mixture")
        for pair in ((problem, space), rows_space.narrowed(problem, space))
    ]
    assert games[1].A.shape[-1] < games[0].A.shape[-1]
    for alpha in np.random.default_rng(0).dirichlet(np.ones(3), size=5):
        values = [game.worst(alpha)[0] for game in games]
        np.testing.assert_allclose(values[1], values[0], rtol=1e-9)


def test_the_systems_of_candidates_and_folds_are_worked_on_a_few_at_a_time():
    problem = problem_of("ridge", d=900, sizes=(80, 80, 80), targets=(20,))
    components = erm.components(*rows_space.narrowed(problem, Ridge().bind(problem.facts)))
    sources, _ = components.grams
    rng = np.random.default_rng(0)
    alpha = torch.as_tensor(rng.dirichlet(np.ones(4), size=(1, 30)))
    number = torch.as_tensor(rng.integers(0, 5, size=30))
    chunks = ridge._chunks(alpha, sources, 2**30)
    P = sources.b.shape[1]
    assert all((s.stop - s.start) * 24 * P**2 <= ridge.CACHE for _, s in chunks) and len(chunks) > 1
    together = erm.solve(components, Batch(folds=Folds(5, number)), alpha)
    for q in (0, 7, 29):
        one = slice(q, q + 1)
        alone = erm.solve(components, Batch(folds=Folds(5, number[one])), alpha[:, one])
        torch.testing.assert_close(together[:, one], alone, rtol=0, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9)), min_size=1, max_size=40))
def test_compensated_sums_have_twice_the_digits(pairs):
    from fractions import Fraction

    a, b = (torch.tensor(v, dtype=torch.float64) for v in zip(*pairs, strict=True))
    total, left_out = compensated.dot(a, b)
    exact = sum((Fraction(x) * Fraction(y) for x, y in pairs), Fraction(0))
    size = sum((abs(Fraction(x) * Fraction(y)) for x, y in pairs), Fraction(0))
    error = abs(Fraction(total.item()) + Fraction(left_out.item()) - exact)
    assert error <= size * Fraction(len(pairs) ** 2, 2**100) + Fraction(1, 2**900)


def with_large_means(columns):
    rng, sources = np.random.default_rng(0), []
    for name, rows in (("a", 60), ("b", 80)):
        X = 6e3 + 50 * rng.normal(size=(rows, columns))
        y = 1.7e7 + X @ rng.normal(size=columns) * 300 + 1e3 * rng.normal(size=rows)
        sources.append(Domain(name, X, y))
    return sources


def test_the_gradient_of_ridge_is_that_of_the_model_handed_out():
    """Large means and labels: what rounding b costs is in the gradient, and no float64 b is much
    better.
    """
    sources = with_large_means(6)
    alpha = np.array([[0.3, 0.7], [1.0, 0.0]])
    solution = cuvee.solve(sources, Ridge(l2=1e-2), alpha)
    for i in range(2):
        oracle = oracle_of("ridge", sources, alpha[i], 1e-2, True)
        true = float(np.abs(oracle.derivatives(solution.w[i].astype(np.longdouble))[0]).max())
        reported = solution.certificate.gradient_norm[i]
        assert abs(reported - true) <= 0.5 * true + 1e-6
        ulp = np.spacing(abs(solution.w[i, -1]))
        assert reported <= 6.5e3 * ulp
        np.testing.assert_allclose(
            cuvee.certify(sources, Ridge(l2=1e-2), alpha, solution.w).gradient_norm[i],
            reported,
            rtol=0.5,
        )
    assert all(s.ok for s in solution.status)


@pytest.mark.parametrize("intercept", [True, False])
def test_the_gradient_in_all_columns_counts_the_rounding_of_w(intercept):
    """A wide table is solved in other coordinates: what it costs to leave them is reported too."""
    sources = with_large_means(200)
    alpha, hypothesis = np.array([[0.3, 0.7]]), Ridge(l2=1e-2, intercept=intercept)
    solution = cuvee.solve(sources, hypothesis, alpha)
    oracle = oracle_of("ridge", sources, alpha[0], 1e-2, intercept)
    true = float(np.abs(oracle.derivatives(solution.w[0].astype(np.longdouble))[0]).max())
    reported = solution.certificate.gradient_norm[0]
    assert true <= 30 * reported and reported <= 30 * true  # it was hundreds of times too small
    again = cuvee.certify(sources, hypothesis, alpha, solution.w)
    np.testing.assert_allclose(again.gradient_norm[0], reported, rtol=0.5)
    assert solution.status[0].ok


def test_alpha_is_found_in_as_many_columns_as_there_are_rows(monkeypatch):
    seen = []

    def components(problem, space, *arguments, **options):
        seen.append(space.n_params)
        return bind(problem, space, *arguments, **options)

    bind = erm.components
    monkeypatch.setattr(erm, "components", components)
    problem = problem_of("ridge", d=400)
    cuvee.estimate(problem, Ridge())
    rows = sum(d.n_rows for d in (*problem.sources, *problem.targets))
    assert seen and max(seen) <= rows + 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "most"), [("estimate", 1024), ("solve", 128)]
)  # MiB: 5.6 GB and 1.2 GB before
def test_wide_tables_need_little_memory(what, most):
    from benchmarks import wide

    columns = {"estimate": 1000, "solve": 3000}[what]
    assert wide.measured(what, columns)["peak_MiB"] <= most
