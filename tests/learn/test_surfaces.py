"""Polynomials, Taylor pieces, reduced components and the subspace: each against what it
stands for.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import prod

import numpy as np
import pytest
import torch

import cuvee
from cuvee import Logistic, Problem, Ridge, erm, simplex
from cuvee.learn import kernel, reduced, taylor
from cuvee.learn.base import Labels
from cuvee.learn.subspace import Subspace
from cuvee.numerics import polynomial
from hypothesis import given, settings
from hypothesis import strategies as st
from learn_builders import make_sources, relative, train

RISKS = {
    "ridge": (0, Ridge(0.1)),
    "ridge-no-intercept": (0, Ridge(0.1, intercept=False)),
    "binary": (2, Logistic(0.1)),
    "softmax": (3, Logistic(0.1)),
    "softmax-no-intercept": (3, Logistic(0.1, intercept=False)),
}
risks = pytest.mark.parametrize("name", RISKS)


def mixtures(n: int, n_sources: int = 3, seed: int = 0) -> torch.Tensor:
    return torch.as_tensor(simplex.sample(n, n_sources, seed))


def bound_to(name: str, n_sources: int = 3, **options):
    """Sources, hypothesis and oracle."""
    classes, hypothesis = RISKS[name]
    sources = make_sources(classes, n_sources, **options)
    problem = Problem(sources)
    space = hypothesis.bind(problem.facts)
    return sources, hypothesis, erm.family(problem, space, own=False, device="cpu", memory=2**28)


def solved(sources, hypothesis, alpha) -> torch.Tensor:
    return torch.as_tensor(cuvee.solve(sources, hypothesis, alpha, tol=1e-12).w)


def labels_of(sources, hypothesis, oracle, n: int, seed: int = 0, slopes: bool = False) -> Labels:
    # where there is room on every side
    alpha = 0.9 * mixtures(n, len(sources), seed) + 0.1 / len(sources)
    w = solved(sources, hypothesis, alpha)
    return Labels(alpha, w, oracle.sensitivity(alpha, w) if slopes else None)


# ---- polynomials ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n_sources", [1, 2, 3, 5])
@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4])
def test_monomials_are_all_products(n_sources, degree):
    alpha = torch.as_tensor(np.random.default_rng(0).normal(size=(7, n_sources)))
    found = polynomial.monomials(alpha, degree)
    wanted = [
        [prod((float(row[j]) for j in f), start=1.0) for row in alpha]
        for f in combinations_with_replacement(range(n_sources), degree)
    ]
    assert len(found) == polynomial.n_features(n_sources, degree)
    torch.testing.assert_close(
        found, torch.tensor(wanted, dtype=torch.float64), rtol=1e-12, atol=1e-14
    )
    assert polynomial.monomials(alpha[:0], degree).shape == (len(wanted), 0)


@pytest.mark.parametrize("n_sources", [1, 2, 4])
@pytest.mark.parametrize("degree", [1, 2, 3])
def test_raised_is_where_a_product_with_one_more_stands(n_sources, degree):
    alpha = torch.as_tensor(np.random.default_rng(0).normal(size=(6, n_sources)))
    index = polynomial.raised(n_sources, degree)
    below, above = polynomial.monomials(alpha, degree), polynomial.monomials(alpha, degree + 1)
    assert index.shape == (len(below), n_sources)
    for f, j in np.ndindex(*index.shape):
        torch.testing.assert_close(above[index[f, j]], below[f] * alpha[:, j])


@pytest.mark.parametrize("degree", [1, 2, 3, 5])
def test_derivatives_of_monomials_are_slopes_along_the_simplex(degree):
    alpha, h = mixtures(6, 4), 1e-6
    found = polynomial._derivatives(alpha, degree).view(6, 4, -1)
    for j in range(4):
        u = torch.full((4,), -1 / 4, dtype=torch.float64)
        u[j] += 1
        ahead, back = (polynomial.monomials(alpha + s * h * u, degree).T for s in (1, -1))
        torch.testing.assert_close(found[:, j], (ahead - back) / (2 * h), rtol=0, atol=1e-8)


@given(
    n_sources=st.integers(2, 5),
    degree=st.integers(1, 4),
    sloped=st.booleans(),
    seed=st.integers(0, 2**16),
    power=st.integers(-6, 6),
)
@settings(deadline=None, max_examples=40)
def test_a_polynomial_is_found_again(n_sources, degree, sloped, seed, power):
    """Of any degree up to the one fitted, from twice as many equations as it has monomials, in
    whatever unit.
    """
    rng = np.random.default_rng(seed)
    true_degree = int(rng.integers(0, degree + 1))
    C = torch.as_tensor(
        rng.normal(size=(polynomial.n_features(n_sources, true_degree), 3)) * 10.0**power
    )

    def value(alpha):
        return polynomial.monomials(alpha, true_degree).T @ C

    n = 2 * polynomial.n_features(n_sources, degree) + 3
    alpha, unseen = mixtures(n, n_sources, seed), mixtures(20, n_sources, seed + 1)
    slopes = None
    if sloped:
        slopes = differences(value, alpha)
    found = polynomial.fit(alpha, value(alpha), slopes, degree)
    scale = float(value(torch.cat([alpha, unseen])).abs().max())
    torch.testing.assert_close(found(unseen), value(unseen), rtol=0, atol=1e-5 * scale)
    torch.testing.assert_close(found(alpha), value(alpha), rtol=0, atol=1e-6 * scale)


def differences(value, alpha, step=1e-5):
    """d value / dα_j (n, N, P), by central differences."""
    directions = step * torch.eye(alpha.shape[1], dtype=alpha.dtype)
    return torch.stack([(value(alpha + d) - value(alpha - d)) / (2 * step) for d in directions], 1)


def test_slopes_make_up_for_labels():
    """Fewer labels than monomials, but N times as many equations."""
    rng = np.random.default_rng(0)
    C = torch.as_tensor(rng.normal(size=(polynomial.n_features(4, 3), 2)))  # 20 monomials
    alpha, unseen = mixtures(12, 4), mixtures(50, 4, 1)
    slopes = differences(lambda a: polynomial.monomials(a, 3).T @ C, alpha)
    w = polynomial.monomials(alpha, 3).T @ C
    wanted = polynomial.monomials(unseen, 3).T @ C
    with_slopes = polynomial.fit(alpha, w, slopes, 3)
    torch.testing.assert_close(with_slopes(unseen), wanted, rtol=0, atol=1e-4)
    assert float((polynomial.fit(alpha, w, None, 3)(unseen) - wanted).abs().max()) > 1e-2


def test_least_squares_with_duplicates_zeros_and_too_few_rows_stays_finite():
    for A in (
        torch.ones(3, 10, dtype=torch.float64),
        torch.zeros(5, 3, dtype=torch.float64),
        mixtures(2).repeat(4, 1),
        1e-200 * mixtures(9),
        1e200 * mixtures(9),
    ):
        found = polynomial.least_squares(A, torch.ones(len(A), 2, dtype=torch.float64))
        assert found.isfinite().all() and found.shape == (A.shape[1], 2)


def test_chunks_cover_every_row_once(monkeypatch):
    monkeypatch.setattr(polynomial, "CHUNK", 20)
    for M, width in ((0, 3), (1, 3), (7, 3), (40, 6), (5, 1000), (5, 0)):
        rows = [i for some in polynomial.chunks(M, width) for i in range(M)[some]]
        assert rows == list(range(M))
    found = polynomial.fit(mixtures(20), torch.sin(mixtures(20)), None, 2)
    torch.testing.assert_close(
        found(mixtures(50)),
        torch.cat([found(a[None]) for a in mixtures(50)]),
        rtol=1e-12,
        atol=1e-14,
    )


# ---- Taylor pieces -------------------------------------------------------------------------------


def centred(name, u):
    """Without what softmax cannot tell: a shift of all intercepts."""
    if name != "softmax":
        return u
    table = u.view(*u.shape[:-1], 3, -1).clone()
    table[..., -1] -= table[..., -1].mean(-1, keepdim=True)
    return table.flatten(-2)


@risks
def test_second_derivatives_against_differences_of_solved_models(name):
    sources, hypothesis, oracle = bound_to(name)
    known = labels_of(sources, hypothesis, oracle, 3, slopes=True)
    bends = taylor.second_derivatives(oracle, known)
    n, N, P = known.slopes.shape
    assert bends.shape == (n, N, N, P)
    torch.testing.assert_close(
        bends, bends.transpose(1, 2), rtol=0, atol=1e-12 * float(bends.abs().max())
    )
    rng, h = np.random.default_rng(0), 2e-3
    for _ in range(3):
        u = rng.normal(size=N)
        u -= u.mean()
        u = torch.as_tensor(u / np.linalg.norm(u))
        ahead, back = (solved(sources, hypothesis, known.alpha + s * h * u) for s in (1, -1))
        slow = centred(name, (ahead - 2 * known.w + back) / h**2)
        fast = centred(name, torch.einsum("j,njkp,k->np", u, bends, u))
        torch.testing.assert_close(fast, slow, rtol=0, atol=2e-4 * float(slow.abs().max()) + 1e-5)


@risks
@pytest.mark.parametrize("order", [1, 2])
def test_pieces_are_wrong_by_the_next_power_of_the_step(name, order):
    sources, hypothesis, oracle = bound_to(name)
    known = labels_of(sources, hypothesis, oracle, 1, slopes=True)
    pieces = taylor.fit(known, taylor.second_derivatives(oracle, known) if order == 2 else None)
    u = torch.tensor([[1.0, -0.4, -0.6]], dtype=torch.float64) / 2
    steps = np.array([0.2, 0.1, 0.05, 0.025])
    away = []
    for h in steps:
        alpha = known.alpha + h * u * float(known.alpha.min())
        away.append(
            float(
                torch.linalg.vector_norm(
                    centred(name, pieces(alpha) - solved(sources, hypothesis, alpha))
                )
            )
        )
    rate = np.polyfit(np.log(steps), np.log(away), 1)[0]
    assert rate == pytest.approx(order + 1, abs=0.15), away


def test_pieces_pass_through_their_anchors_and_the_nearest_speaks():
    sources, hypothesis, oracle = bound_to("binary")
    known = labels_of(sources, hypothesis, oracle, 40, slopes=True)
    for bends in (
        None,
        taylor.second_derivatives(oracle, known),
        taylor.second_derivatives(oracle, known[:7]),
    ):
        pieces = taylor.fit(known, bends)
        anchors = known if bends is None else known[: len(bends)]
        assert len(pieces.alpha) == len(anchors)
        torch.testing.assert_close(pieces(anchors.alpha), anchors.w, rtol=0, atol=1e-10)
        unseen = mixtures(30, seed=3)
        nearest = (unseen[:, None] - anchors.alpha).square().sum(-1).argmin(1)
        u = unseen - anchors.alpha[nearest]
        slow = anchors.w[nearest] + torch.einsum("mn,mnp->mp", u, anchors.slopes[nearest])
        if bends is not None:
            slow = slow + 0.5 * torch.einsum("mj,mjkp,mk->mp", u, bends[nearest], u)
        torch.testing.assert_close(pieces(unseen), slow, rtol=0, atol=1e-10)
    assert taylor.second_derivatives(oracle, known[:0]).shape == (0, 3, 3, known.w.shape[1])


def test_a_second_order_is_better_than_a_first():
    sources, hypothesis, oracle = bound_to("softmax")
    known = labels_of(sources, hypothesis, oracle, 30, slopes=True)
    unseen = mixtures(100, seed=1)
    wanted = solved(sources, hypothesis, unseen).numpy()
    first = relative(taylor.fit(known)(unseen), wanted)
    second = relative(taylor.fit(known, taylor.second_derivatives(oracle, known))(unseen), wanted)
    assert np.median(second) < 0.3 * np.median(first)


# ---- reduced components --------------------------------------------------------------------------


def fit_reduced(name: str, n: int = 40, degree: int = 3, n_sources: int = 3, **options):
    sources, hypothesis, oracle = bound_to(name, n_sources, **options)
    alpha = mixtures(n, n_sources)
    known = Labels(alpha, solved(sources, hypothesis, alpha))
    space = hypothesis.bind(Problem(sources).facts)
    more = mixtures(300, n_sources, 50)
    penalty = space.l2 * space.penalised
    found = reduced.fit(
        oracle, known, more, penalty, oracle.flat, degree=degree, quadratic=space.quadratic
    )
    return sources, hypothesis, found


@pytest.mark.parametrize("name", ["ridge", "ridge-no-intercept"])
def test_reduced_components_are_exact_for_ridge(name):
    sources, hypothesis, found = fit_reduced(name, n=6)
    unseen = torch.cat([mixtures(50, seed=1), torch.eye(3, dtype=torch.float64)])
    torch.testing.assert_close(
        found(unseen), solved(sources, hypothesis, unseen), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize(
    ("name", "limit"), [("binary", 2e-3), ("softmax", 1e-2), ("softmax-no-intercept", 1e-2)]
)
def test_reduced_components_are_accurate(name, limit):
    sources, hypothesis, found = fit_reduced(name)
    unseen = mixtures(100, seed=1)
    wanted = solved(sources, hypothesis, unseen)
    away = relative(centred(name, found(unseen)), centred(name, wanted).numpy())
    assert np.median(away) < limit and np.quantile(away, 0.8) < 10 * limit
    rough = fit_reduced(name, degree=1)[2]
    plain = relative(centred(name, rough(unseen)), centred(name, wanted).numpy())
    assert np.median(away) < np.median(plain) or np.median(plain) < 1e-6, (
        "the step on the components' gradients helps"
    )


@pytest.mark.parametrize("name", ["ridge", "binary", "softmax-no-intercept", "softmax"])
def test_newton_steps_are_close_to_newtons(name):
    sources, hypothesis, found = fit_reduced(name)
    _, _, oracle = bound_to(name)
    alpha = mixtures(30, seed=1)
    best = solved(sources, hypothesis, alpha)
    w = best + 0.01 * torch.as_tensor(np.random.default_rng(0).normal(size=best.shape))
    w = hypothesis.bind(Problem(sources).facts).canonical(w) if name.startswith("softmax") else w
    g = oracle.certify(alpha, w, tol=1.0).vector
    true_step = -oracle.hessian_solve(alpha, w, g[:, None])[:, 0]
    step = found.newton(alpha, w, g) - w
    away = torch.linalg.vector_norm(centred(name, step - true_step), dim=1)
    off = away / torch.linalg.vector_norm(true_step, dim=1)
    assert off.median() < 0.05 and off.max() < 0.5
    before, after = (
        torch.linalg.vector_norm(centred(name, x - best), dim=1) for x in (w, w + step)
    )
    assert (after / before).median() < 0.1 and (after < 0.5 * before).all()


def test_a_map_of_reduced_components_needs_few_passes():
    """The issue's promise: at most 2 data passes per target on average at tol 1e-6, for what "auto"
    chooses.
    """
    sources = make_sources(2, 4, d=5, rows=100)
    atlas = cuvee.learn(sources, Logistic(0.1), n_labels=64, n_calibration=0, tol=1e-6)
    sol = atlas(simplex.sample(100, 4, 5), trust="corrected")
    assert all(s.ok for s in sol.status) and sol.passes.mean() <= 2.5


# ---- subspace ------------------------------------------------------------------------------------


def test_a_subspace_holds_what_spans_it():
    rng = np.random.default_rng(0)
    w = torch.as_tensor(rng.normal(size=(6, 3)) @ rng.normal(size=(3, 40)) + rng.normal(size=40))
    inside = Subspace.of(w)
    assert inside.basis.shape == (3, 40) and not inside.whole
    torch.testing.assert_close(
        inside.basis @ inside.basis.T, torch.eye(3, dtype=torch.float64), rtol=0, atol=1e-13
    )
    slopes = torch.as_tensor(rng.normal(size=(6, 4, 40)))
    known = inside.encode(Labels(mixtures(6), w, slopes))
    assert known.w.shape == (6, 3) and known.slopes.shape == (6, 4, 3)
    torch.testing.assert_close(inside.decode(known.w), w, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        known.slopes @ inside.basis, slopes @ inside.basis.T @ inside.basis, rtol=0, atol=1e-12
    )
    assert inside.decode(known.w[:0]).shape == (0, 40)


@pytest.mark.parametrize("shape", [(5, 5), (6, 5), (30, 5)])
def test_as_many_models_as_parameters_need_no_subspace(shape):
    w = torch.as_tensor(np.random.default_rng(0).normal(size=shape))
    inside = Subspace.of(w)
    assert inside.whole and torch.equal(inside.decode(w), w)
    known = Labels(mixtures(shape[0]), w)
    assert inside.encode(known) is known


def test_models_that_are_all_alike_are_given_back():
    w = torch.ones(4, 9, dtype=torch.float64)
    inside = Subspace.of(w)
    known = inside.encode(Labels(mixtures(4), w))
    torch.testing.assert_close(inside.decode(known.w), w)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_directions_of_unlike_size_survive(scale):
    rng = np.random.default_rng(0)
    w = scale * torch.as_tensor(
        rng.normal(size=(5, 4)) * [1, 1e-3, 1e-5, 1e-7] @ rng.normal(size=(4, 30))
    )
    inside = Subspace.of(w)
    known = inside.encode(Labels(mixtures(5), w))
    torch.testing.assert_close(inside.decode(known.w), w, rtol=0, atol=1e-8 * scale)


@pytest.mark.parametrize("method", ["auto", "kernel", "surface", "ntf", "network"])
def test_more_parameters_than_labels(method):
    """Softmax over 40 columns: 123 parameters from 12 labels; predictions stay in what the labels
    span.
    """
    sources = make_sources(3, 3, d=40, rows=60)
    options = {"network": {"trunk": "shared", "steps": 300}, "ntf": {"trunk": "shared"}}.get(
        method, {}
    )
    hypothesis = Logistic(0.5)
    atlas = cuvee.learn(
        sources, hypothesis, method=method, n_labels=12, n_calibration=60, tol=1e-3, **options
    )
    alpha = simplex.sample(40, 3, 9)
    sol, best = atlas(alpha, trust="predicted"), cuvee.solve(sources, hypothesis, alpha, tol=1e-9)
    w = atlas.labels.w.numpy()
    assert w.shape == (12, 123)
    _, size, rows = np.linalg.svd(w - w.mean(0), full_matrices=False)
    rows = rows[size > 1e-9 * size[0]]
    rest = sol.w - w.mean(0)
    np.testing.assert_allclose(rest - rest @ rows.T @ rows, 0.0, atol=1e-8)
    assert np.median(relative(sol.w, best.w)) < (0.5 if method == "network" else 0.2)
    corrected = atlas(alpha, trust="corrected", tol=1e-6)
    assert all(s.ok for s in corrected.status)
    assert (
        np.linalg.norm(corrected.w - best.w, axis=1) <= corrected.certificate.distance + 1e-6
    ).all()


def test_second_order_pieces_of_a_subspace_are_refused_by_name():
    sources = make_sources(3, 3, d=40, rows=60)
    with pytest.raises(cuvee.OptionError, match="order"):
        cuvee.learn(sources, Logistic(0.5), method="surface", order=2, n_labels=12, n_calibration=0)
    atlas = cuvee.learn(
        sources, Logistic(0.5), method="surface", order=1, n_labels=12, n_calibration=0
    )
    assert "order 1" in atlas.method


@pytest.mark.slow
def test_a_million_parameters_are_practical():
    """Labels span few directions: fits and predictions happen there, whatever P is."""
    rng = np.random.default_rng(0)
    A = torch.as_tensor(rng.normal(size=(polynomial.n_features(3, 2), 1_000_000)))

    def value(alpha):
        return polynomial.monomials(alpha, 2).T @ A

    alpha, unseen = mixtures(24, 3), mixtures(5, 3, 1)
    labels = Labels(alpha, value(alpha))
    inside = Subspace.of(labels.w)
    assert inside.basis.shape == (5, 1_000_000)  # six monomials, one of which the mean takes
    for predictor in (
        polynomial.fit(labels.alpha, inside.encode(labels).w, None, 2),
        kernel.fit_kernel(inside.encode(labels)),
        train(alpha, inside.encode(labels).w, trunk="shared", width=64, steps=5).predictor,
    ):
        found = inside.decode(predictor(unseen))
        assert found.shape == (5, 1_000_000) and found.isfinite().all()
    found = inside.decode(polynomial.fit(labels.alpha, inside.encode(labels).w, None, 2)(unseen))
    torch.testing.assert_close(found, value(unseen), rtol=0, atol=1e-6)
