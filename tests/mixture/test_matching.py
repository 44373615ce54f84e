"""Weights from inputs alone: on the simplex, right where the blend is known, blind to labels."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cuvee
from cuvee import Domain, Problem, Ridge
from cuvee.components import input_sums
from cuvee.components.inputs import FEATURES, fourier
from cuvee.mixture.matching import MATCHED, Fit, InputMeans
from hypothesis import given, settings
from hypothesis import strategies as st

CENTRES = 2.0 * np.eye(4)[:3]


def drawn(rng, n, shares):
    return CENTRES[rng.choice(3, size=n, p=shares)] + rng.normal(size=(n, 4))


def blended(shares, rows=400, seed=0, labels=np.zeros):
    """Return three sources, one around each centre, and a target with these shares of them."""
    rng = np.random.default_rng(seed)
    sources = [
        Domain(f"s{j}", drawn(rng, rows, np.eye(3)[j]), rng.normal(size=rows)) for j in range(3)
    ]
    X = drawn(rng, 8, shares)
    return Problem(sources, [Domain("t", X, labels(8), unlabelled=drawn(rng, 2000, shares))])


@pytest.mark.parametrize("shares", [(0.6, 0.3, 0.1), (1.0, 0.0, 0.0), (0.2, 0.2, 0.6)])
def test_a_target_drawn_from_a_blend_gets_that_blend(shares):
    alpha = cuvee.estimate(blended(shares), Ridge(), method="matching").alpha
    np.testing.assert_allclose(alpha[0], shares, atol=0.06)


def test_no_label_of_a_target_is_used():
    alphas = [
        cuvee.estimate(blended((0.5, 0.5, 0.0), labels=labels), Ridge(), method="matching").alpha
        for labels in (np.zeros, lambda n: 1e6 * np.arange(n))
    ]
    assert np.array_equal(*alphas)  # the same numbers go through the same steps


def test_an_own_sample_joins_in_proportion_to_its_rows():
    own = cuvee.estimate(blended((0.6, 0.3, 0.1)), Ridge(), method="matching", own=True).alpha[0]
    assert 0.0 < own[-1] < 0.1  # it has the right law, but 8 rows beside 1,200
    alone = cuvee.estimate(blended((0.6, 0.3, 0.1)), Ridge(), method="matching").alpha[0]
    np.testing.assert_allclose(own[:3] / own[:3].sum(), alone, atol=0.02)


def test_an_excluded_source_has_no_weight():
    problem = blended((0.6, 0.3, 0.1))
    alpha = cuvee.estimate(problem, Ridge(), method="matching", exclude={"t": ["s0"]}).alpha[0]
    assert alpha[0] == 0.0 and alpha[1] > 0.2
    assert alpha.sum() == pytest.approx(1.0)


def test_features_are_of_unit_length_and_their_products_a_kernel():
    problem = blended((0.6, 0.3, 0.1))
    features = fourier(input_sums(problem, Ridge().bind(problem.facts)), problem.facts, seed=0)
    phi = features.of(problem.targets[0].X)
    assert phi.shape == (8, 2 * FEATURES)
    np.testing.assert_allclose((phi @ phi.T).diagonal(), 1.0, atol=1e-12)
    near = features.of(problem.targets[0].X + 1e-3)
    assert float((phi * near).sum(1).min()) > 0.999


def test_wide_rows_are_matched_by_their_principal_components():
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(60, 60)))[0][:4]
    narrow = blended((0.6, 0.3, 0.1))

    def wide(domain):
        unlabelled = None if domain.unlabelled is None else spread(domain.unlabelled)
        return Domain(domain.name, spread(domain.X), domain.y, unlabelled=unlabelled)

    def spread(X):
        return 3.0 * X @ turn + 0.1 * rng.normal(size=(len(X), 60))

    problem = Problem([wide(s) for s in narrow.sources], [wide(t) for t in narrow.targets])
    alpha = cuvee.estimate(problem, Ridge(), method="matching").alpha
    np.testing.assert_allclose(alpha[0], (0.6, 0.3, 0.1), atol=0.1)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 6), st.integers(1, 4), st.integers(0, 10**6), st.booleans(), st.floats(0.1, 100)
)
def test_weights_lie_on_the_simplex_and_none_nearby_is_better(N, M, seed, own, C):
    rng = np.random.default_rng(seed)
    means = [torch.as_tensor(rng.normal(size=(n, 12)) / 4.0) for n in (N, M)]
    rows = [torch.as_tensor(rng.integers(2, 500, size=n).astype(float)) for n in (N, M, M)]
    rows[2][rng.random(M) < 0.3] = 0.0  # targets without any label
    fit = Fit.of(InputMeans(*means, *rows))
    closed = torch.zeros(M, N + own, dtype=torch.bool)
    if own:
        closed[:, -1] = rows[2] == 0
    alpha = fit.least(C, closed)
    assert (alpha >= 0).all() and np.allclose(alpha.sum(1), 1.0)
    assert (alpha[closed.numpy()] == 0).all()
    if C < 1.0:  # unbiased lengths may leave the problem without curvature
        return
    inverse = np.where(closed, 0.0, fit.inverse[:, : N + own].numpy())
    others = rng.dirichlet(np.full(N, 0.5), size=(M, 50))
    if own:
        others = np.concatenate([others, np.zeros((M, 50, 1))], -1)
    beside = 0.9 * alpha[:, None] + 0.1 * others

    def value(a):
        return fit.distance(a) + C * (np.broadcast_to(inverse[:, None], a.shape) * a**2).sum(-1)

    assert (value(alpha[:, None]) <= value(beside) + 1e-7).all()


# ---- what the default makes of unlabelled rows ---------------------------------------------------


def regional(seed, unlabelled):
    """Return sources in three regions with one rule each, and a target with 8 labels in the first."""
    rng = np.random.default_rng(seed)
    rules = rng.normal(size=(3, 4))

    def labelled(j, n):
        X = drawn(rng, n, np.eye(3)[j])
        return X, X @ rules[j] + rng.normal(size=n)

    sources = [Domain(f"s{j}", *labelled(j, 150)) for j in range(3)]
    targets = [
        Domain(
            f"t{i}", *labelled(0, 8), unlabelled=labelled(0, 300)[0] if i in unlabelled else None
        )
        for i in range(2)
    ]
    return Problem(sources, targets)


def test_unlabelled_rows_move_weight_to_sources_with_like_inputs():
    gained = []
    for seed in range(4):
        problem = regional(seed, (0, 1))
        bare = problem.with_targets([Domain(t.name, t.X, t.y) for t in problem.targets])
        seen, unseen = (cuvee.estimate(p, Ridge()) for p in (problem, bare))
        assert MATCHED in [c.name for c in seen.candidates]
        assert MATCHED not in [c.name for c in unseen.candidates]
        gained.append(seen.alpha[:, 0] - unseen.alpha[:, 0])
    assert np.mean(gained) > 0.05


def test_a_target_without_unlabelled_rows_gets_what_it_did():
    some, none = (cuvee.estimate(regional(1, which), Ridge()) for which in ((1,), ()))
    np.testing.assert_allclose(some.alpha[0], none.alpha[0], atol=1e-9)
    (matched,) = (c for c in some.candidates if c.name == MATCHED)
    assert matched.share[0] == 0.0 < matched.share[1]


@pytest.mark.parametrize("wide", [0, 60])
def test_a_column_that_varies_in_no_source_changes_nothing(wide):
    """As a category that only another target has."""
    rng = np.random.default_rng(0)

    turn = rng.normal(size=(4, wide)) if wide else np.eye(4)

    def changed(domain, change):
        unlabelled = None if domain.unlabelled is None else change(domain.unlabelled)
        return Domain(domain.name, change(domain.X), domain.y, unlabelled=unlabelled)

    def alphas(*of_targets):
        """With a column that is 1 in every source, and these in the targets; () leaves it out."""
        given = regional(2, (0, 1))
        sources, targets = (
            [
                changed(d, lambda X, at=at: np.insert(X @ turn, [2] * len(at), at, axis=1))
                for d, at in zip(domains, values, strict=True)
            ]
            for domains, values in (
                (given.sources, [(1.0,) * bool(of_targets[0])] * 3),
                (given.targets, of_targets),
            )
        )
        return cuvee.estimate(Problem(sources, targets), Ridge()).alpha

    np.testing.assert_allclose(alphas((1.0,), (0.0,))[0], alphas((), ())[0], atol=1e-8)


def test_inputs_that_tell_nothing_leave_the_matched_blend_out():
    rng = np.random.default_rng(0)
    sources = [Domain(f"s{j}", X := rng.normal(size=(100, 4)), X @ np.eye(4)[j]) for j in range(3)]
    X = rng.normal(size=(20, 4))
    target = Domain("t", X, X @ np.eye(4)[0], unlabelled=rng.normal(size=(300, 4)))
    mix = cuvee.estimate(Problem(sources, [target]), Ridge())
    (matched,) = (c for c in mix.candidates if c.name == MATCHED)
    assert matched.share[0] == 0.0
