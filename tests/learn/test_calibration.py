"""Bounds that no data were looked at for: they hold as often as they say, or are infinite."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
import torch

import cuvee
from cuvee import Logistic, Status, simplex
from cuvee.data.synthetic import shifted_sources
from cuvee.learn.calibrate import (
    CONFIDENCE,
    Errors,
    Shape,
    alike,
    calibrated,
    least_mixtures,
    places,
    rank,
)
from cuvee.learn.mixtures import spread
from learn_builders import make_sources

pytestmark = pytest.mark.sample(4)

LEVEL = 0.95


def mixtures(n: int, n_sources: int = 3, seed: int = 0, concentration: float = 1.0) -> torch.Tensor:
    return torch.as_tensor(simplex.sample(n, n_sources, seed, concentration))


def at_least(k: int, n: int, p: float) -> float:
    """P(at least k of n uniform draws are ≤ p), term by term."""
    return sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))


# ---- the rank ------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 22, 44, 45, 46, 60, 100, 230, 384])
def test_the_rank_is_the_smallest_that_covers_nine_times_out_of_ten(n, level):
    """The k-th of n uniforms exceeds `level` exactly when fewer than k of them are ≤ level."""
    covers = [1 - at_least(k, n, level) for k in range(1, n + 1)]
    wanted = next((k for k, c in enumerate(covers, 1) if c >= CONFIDENCE), n + 1)
    assert rank(n, level) == wanted


def test_the_rank_by_counting():
    """The same by simulation: how often the k-th smallest of 60 uniforms is at least 0.95."""
    drawn = np.sort(np.random.default_rng(0).uniform(size=(40_000, 60)), axis=1)
    k = rank(60, LEVEL)
    assert (drawn[:, k - 1] >= LEVEL).mean() >= CONFIDENCE - 0.01
    assert (drawn[:, k - 2] >= LEVEL).mean() < CONFIDENCE


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
def test_the_least_number_of_mixtures_is_the_least(level):
    n = least_mixtures(level)
    assert rank(n, level) == n and rank(n - 1, level) == n  # that is, none of the n − 1


def test_more_mixtures_never_need_a_larger_share():
    shares = [rank(n, LEVEL) / n for n in (50, 100, 200, 400, 800, 3200)]
    assert all(LEVEL < share <= 1.0 for share in shares) and shares == sorted(shares, reverse=True)


# ---- coverage of made-up errors ------------------------------------------------------------------


def made_up(alpha: torch.Tensor, power: float, rng) -> torch.Tensor:
    """Errors that grow with the distance from the centre, with noise of a heavy tail."""
    away = (alpha - 1 / alpha.shape[1]).square().sum(1).sqrt() + 1e-3
    return away**power * torch.as_tensor(rng.lognormal(sigma=1.0, size=len(alpha)))


def made_up_calibration(n: int, seed: int, power: float):
    """A calibration on n mixtures, and a sampler of the same law."""
    rng = np.random.default_rng([7, seed])

    def draw(m: int):
        alpha = torch.as_tensor(rng.dirichlet(np.ones(3), size=m))
        error = made_up(alpha, power, rng)
        return alpha, Errors(error, error.square(), 2 * error)

    (held_out, measured), (learnt, _) = draw(n), draw(100)
    return calibrated(learnt, held_out, measured, LEVEL), draw


def flat(alpha: torch.Tensor, value: float = 1.0) -> Errors:
    error = torch.full((len(alpha),), value, dtype=torch.float64)
    return Errors(error, error, error)


@pytest.mark.parametrize("power", [0.0, 3.0])
def test_coverage_of_made_up_errors(power):
    """64 of 400 bound a mixture: k = 64, so that coverage is Beta(64, 1) where errors hang on the
    place alone, mean 98.5 %; the larger of two such bounds covers a little more. 96 % of such
    groups reach 95 %, and a map has several.
    """
    assert alike(400, LEVEL) == rank(64, LEVEL) == 64
    covered = []
    for seed in range(60):
        bound, draw = made_up_calibration(400, seed, power)
        alpha, errors = draw(4_000)
        said = bound.bounds(alpha)
        covered.append(
            [
                float((e <= s).double().mean())
                for e, s in zip(vars(errors).values(), vars(said).values(), strict=True)
            ]
        )
    shares = np.array(covered)  # (seeds, 3)
    assert (shares.mean(0) > 0.975).all() and (shares.mean(0) < 0.998).all()
    assert ((shares >= LEVEL).mean(0) >= 0.95).all()
    # One event, three scales: excess is the square of the distance here, and the gradient twice it.
    np.testing.assert_allclose(shares[:, 0], shares[:, 1], atol=0.02)
    np.testing.assert_allclose(shares[:, 0], shares[:, 2], atol=0.02)


def test_a_bound_that_grows_is_sharper_near_the_centre():
    """Where errors grow with the distance, so does the bound: fewer mixtures near the centre are
    turned away.
    """
    bound, draw = made_up_calibration(400, 0, 3.0)
    alpha, errors = draw(4_000)
    away = (alpha - 1 / 3).square().sum(1)
    near, said = away < away.quantile(0.25), bound.bounds(alpha).distance
    assert said[near].median() < 0.5 * errors.distance.quantile(LEVEL)
    assert said[near].median() < 0.2 * said[away > away.quantile(0.75)].median()


def test_errors_where_few_mixtures_went_are_known_by_those():
    """One law of errors near the centre, another elsewhere: each place has its own bound."""
    alpha = torch.cat([mixtures(800, 5, 1), mixtures(100, 5, 2, concentration=100.0)])
    even = alpha.square().sum(1) < 0.21
    error = torch.where(even, 100.0, 1.0).double()
    bound = calibrated(mixtures(100, 5), alpha, Errors(error, error, error), LEVEL)
    assert (bound.bounds(mixtures(500, 5, 3, concentration=150.0)).gradient >= 100.0).all()
    assert float((bound.bounds(mixtures(500, 5, 4)).gradient < 2.0).double().mean()) > 0.9


def test_how_many_sources_are_weighed_tells_errors_apart():
    """A pair weighed 90 to 10 is as uneven as many mixtures of five sources, but its error is not
    theirs.
    """
    rng = np.random.default_rng(0)
    first = rng.uniform(0.5, 1.0, 150)
    pair = torch.as_tensor(np.column_stack([first, 1 - first, *np.zeros((3, 150))]))
    alpha = torch.cat([mixtures(2_000, 5, 1, concentration=0.3), pair])
    error = torch.where(alpha[:, 2:].sum(1) == 0, 50.0, 1.0).double()
    bound = calibrated(mixtures(100, 5), alpha, Errors(error, error, error), LEVEL)
    assert (bound.bounds(pair[:50, [1, 0, 2, 3, 4]]).gradient >= 50.0).all()


@pytest.mark.parametrize("n", [0, 1, 10, least_mixtures(LEVEL) - 1])
def test_too_few_mixtures_bound_nothing(n):
    alpha = mixtures(100)
    errors = torch.rand(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    bound = calibrated(alpha, mixtures(n, seed=1), Errors(errors, errors, errors), LEVEL)
    said = bound.bounds(alpha)
    assert all(torch.isinf(x).all() for x in vars(said).values())
    enough = mixtures(least_mixtures(LEVEL), seed=1)
    bound = calibrated(alpha, enough, flat(enough), LEVEL)
    assert bound.bounds(enough).gradient.isfinite().all()


def test_an_error_that_is_no_number_counts_as_infinite():
    alpha, held_out = mixtures(100), mixtures(200, seed=1)
    assert rank(alike(200, LEVEL), LEVEL) == 64  # one such error is enough for those like it
    for bad in (torch.nan, torch.inf):
        errors = torch.ones(200, dtype=torch.float64)
        errors[:3] = bad
        bound = calibrated(alpha, held_out, Errors(errors, errors, errors), LEVEL)
        said = bound.bounds(held_out).distance
        assert said[:3].isinf().all() and not said.isnan().any()
        np.testing.assert_allclose(said[said.isfinite()], 1.0, rtol=2e-3)


def test_outside_of_those_seen_nothing_is_said():
    inner = mixtures(300, seed=1, concentration=30.0)
    bound = calibrated(inner[:100], inner[100:], flat(inner[100:]), LEVEL)
    assert bound.bounds(inner[100:]).gradient.isfinite().all()
    assert bound.bounds(torch.eye(3, dtype=torch.float64)).gradient.isinf().all()
    assert bound.bounds(torch.full((1, 3), 1 / 3, dtype=torch.float64)).gradient.isfinite().all()


def test_far_inside_of_those_seen_nothing_is_said():
    """Of ten sources hardly any mixture of a uniform law is near the centre."""
    held_out = mixtures(500, 10, seed=1)
    bound = calibrated(mixtures(200, 10), held_out, flat(held_out), LEVEL)
    assert bound.bounds(mixtures(100, 10, 2, concentration=200.0)).gradient.isinf().all()


def test_where_no_mixture_went_nothing_is_said():
    """All mixtures on an edge of the simplex: a step off it is far out at once."""
    edge = torch.cat([mixtures(200, 2, seed=1), torch.zeros(200, 1, dtype=torch.float64)], 1)
    bound = calibrated(edge, edge, flat(edge), LEVEL)
    off = torch.tensor([[0.4, 0.4, 0.2]], dtype=torch.float64)
    assert bound.bounds(edge).gradient.isfinite().all() and bound.bounds(off).gradient.isinf().all()


def test_shapes_of_degenerate_samples():
    for alpha in (mixtures(1), mixtures(1).expand(5, -1), torch.eye(3, dtype=torch.float64)):
        shape = Shape.of(alpha)
        assert shape.whiten.isfinite().all() and (shape.alone(alpha) >= 0).all()
        many = alpha.repeat(100, 1)
        bound = calibrated(alpha, many, flat(many, 0.0), LEVEL)
        assert (bound.bounds(alpha).gradient == 0).all()


def test_very_many_mixtures_are_grouped_within_bounded_memory():
    held_out = mixtures(20_000, seed=1)
    bound = calibrated(mixtures(100), held_out, flat(held_out), LEVEL)
    assert bound.largest.shape[1] <= 1_024 and alike(20_000, LEVEL) == 1_024
    np.testing.assert_allclose(bound.bounds(held_out).gradient, 1.0, rtol=2e-3)


def test_a_group_is_the_mixtures_nearest_in_each_order():
    """The slow oracle: look for the 64 nearest places by hand, in both orders."""
    held_out, asked = mixtures(150, 4, 1, 0.5), mixtures(80, 4, 2, 0.5)
    rng = np.random.default_rng(0)
    error = torch.as_tensor(rng.lognormal(size=150))
    bound = calibrated(mixtures(60, 4, 3, 0.5), held_out, Errors(error, error, error), LEVEL)
    said = bound.bounds(asked).gradient
    known, wanted = places(held_out), places(asked)
    for i in np.flatnonzero(said.isfinite().numpy()):
        nearest = [(known[o] - wanted[o, i]).abs().argsort()[:64] for o in (0, 1)]
        slow = max(float(error[near].max()) for near in nearest)
        assert float(said[i]) == pytest.approx(slow, rel=2e-3)


def test_mixtures_to_calibrate_on_are_spread_over_the_simplex():
    for n_sources in (2, 3, 10, 100):
        alpha = spread(256, n_sources, 0)
        np.testing.assert_allclose(alpha.sum(1), 1.0, atol=1e-12)
        assert alpha.shape == (256, n_sources) and (alpha >= 0).all()
        number = (alpha > 0).sum(1)
        assert (number == 1).sum() >= 4 and (number == 2).sum() >= 8
        assert (number == n_sources).mean() >= 0.4
        effective = 1 / (alpha**2).sum(1)
        assert effective.max() > 0.99 * n_sources
    np.testing.assert_array_equal(spread(100, 4, 3), spread(100, 4, 3))
    assert spread(0, 3, 0).shape == (0, 3) and spread(1, 3, 0).shape == (1, 3)


# ---- maps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_calibration", [0, 1, 3, 40])
def test_a_map_with_too_few_calibration_mixtures_trusts_nothing(n_calibration):
    sources = make_sources(2, 3)
    atlas = cuvee.learn(sources, Logistic(0.1), n_labels=20, n_calibration=n_calibration, tol=0.1)
    alpha = simplex.sample(20, 3, 5)
    sol = atlas(alpha, trust="predicted", tol=1e6)
    assert set(sol.status) == {Status.OFF_TOLERANCE}
    assert (
        np.isinf(sol.certificate.distance).all() and np.isinf(sol.certificate.gradient_norm).all()
    )
    with pytest.raises(cuvee.StatusError):
        sol.raise_for_status()
    looked = atlas(alpha)
    assert (
        Status.PREDICTED not in looked.status
        and all(s.ok for s in looked.status)
        and (looked.passes > 0).all()
    )


def test_a_map_learnt_in_the_middle_trusts_nothing_at_the_corners():
    sources = make_sources(2, 3)
    atlas = cuvee.learn(
        sources,
        Logistic(0.1),
        n_labels=20,
        n_calibration=200,
        concentration=50.0,
        tol=1e-3,
        method="surface",
    )
    assert set(atlas(simplex.sample(50, 3, 5, 50.0), trust="predicted", tol=0.1).status) == {
        Status.PREDICTED
    }
    corners = atlas(np.eye(3), trust="predicted")
    assert set(corners.status) == {Status.OFF_TOLERANCE}
    true = cuvee.certify(sources, Logistic(0.1), np.eye(3), corners.w).gradient_norm
    assert (corners.certificate.gradient_norm >= true).all()
    assert (atlas(np.eye(3)).passes > 0).all()


@pytest.mark.parametrize("where", ["corners", "clusters"])
def test_a_map_learnt_on_either_side_trusts_nothing_in_between(where):
    sources, hypothesis, rng = make_sources(2, 4), Logistic(0.1), np.random.default_rng(0)
    corners = np.eye(4).repeat(60, 0)
    given = (
        corners
        if where == "corners"
        else 0.9 * corners[:120] + 0.1 * rng.dirichlet(np.ones(4), 120)
    )
    atlas = cuvee.learn(
        sources, hypothesis, mixtures=given, n_labels=len(given) // 3, n_calibration=200, tol=1e-3
    )
    between = 0.5 * given[:30] + 0.5 * given[60:90]
    sol = atlas(between)
    assert cuvee.certify(sources, hypothesis, between, sol.w).gradient_norm.max() <= 1e-3
    like = atlas(given, trust="predicted")
    assert np.isfinite(like.certificate.gradient_norm).mean() > 0.9


def test_whether_there_is_a_bound_does_not_depend_on_the_batch():
    """Mixtures of quarters: many are exactly as far from the others as any."""
    grid = np.round(4 * simplex.sample(400, 4, 3)) / 4
    grid = grid[grid.sum(1) == 1]
    atlas = cuvee.learn(
        make_sources(2, 4), Logistic(0.1), mixtures=grid, n_labels=60, n_calibration=190, tol=1e-2
    )
    points = np.unique(grid, axis=0)
    whole = atlas(points.repeat(3, 0), trust="predicted").certificate.gradient_norm[::3]
    alone = np.concatenate(
        [atlas(p[None], trust="predicted").certificate.gradient_norm for p in points]
    )
    np.testing.assert_array_equal(np.isinf(whole), np.isinf(alone))


@pytest.mark.parametrize("method", ["auto", "surface", "kernel"])
def test_realised_coverage_of_fresh_mixtures(method):
    """200 calibration mixtures, the 64 most alike bound: Beta(64, 1) has mean 98.5 %, sd 1.5 %."""
    hypothesis, shares = Logistic(0.1), []
    assert rank(alike(200, LEVEL), LEVEL) == 64
    for seed in range(6):
        sources = make_sources(2, 3, rows=40, seed=seed)
        atlas = cuvee.learn(
            sources, hypothesis, method=method, n_labels=24, n_calibration=200, tol=1e-3, seed=seed
        )
        alpha = simplex.sample(1_000, 3, [seed, 12345])
        sol, best = (
            atlas(alpha, trust="predicted"),
            cuvee.solve(sources, hypothesis, alpha, tol=1e-10),
        )
        found = cuvee.certify(sources, hypothesis, alpha, sol.w)
        bound = sol.certificate
        shares.append(
            [
                (found.gradient_norm <= bound.gradient_norm).mean(),
                (np.linalg.norm(sol.w - best.w, axis=1) <= bound.distance).mean(),
                (
                    risk(sources, hypothesis, alpha, sol.w)
                    - risk(sources, hypothesis, alpha, best.w)
                    <= bound.excess_risk + 1e-15
                ).mean(),
            ]
        )
    shares = np.array(shares)
    assert (shares.mean(0) > 0.95).all() and (shares.mean(0)[:2] < 1).all(), shares
    assert (shares > 0.92).all(), shares


def risk(sources, hypothesis, alpha, w):
    """f_α(w) (M,) for a binary logistic with an intercept, row by row."""
    total = 0.5 * hypothesis.l2 * (w[:, :-1] ** 2).sum(1)
    for j, s in enumerate(sources):
        scores = w[:, :-1] @ s.X.T + w[:, -1:]
        total = total + alpha[:, j] * np.logaddexp(0.0, np.where(s.y == 1, -scores, scores)).mean(1)
    return total


def test_it_says_what_it_was_calibrated_on():
    atlas = cuvee.learn(
        make_sources(2, 3), Logistic(0.1), n_labels=20, n_calibration=120, tol=1e-3, level=0.8
    )
    said = atlas(simplex.sample(3, 3), trust="predicted").certificate
    assert "120" in said.rests_on and "80%" in said.rests_on.replace(" ", "")
    assert "calibrated" in repr(said) and not said.certified.any()


@pytest.mark.parametrize("kind", ["kernel", "auto"])
@pytest.mark.parametrize("n_sources", [2, 3, 5])
def test_rows_called_predicted_are_within_the_tolerance(kind, n_sources):
    """Bounds are true for 95 % of all mixtures, and the status for 95 % of the rows that have it,
    at any tolerance.
    """
    sources, hypothesis = shifted_sources(n_sources, 60, 4), cuvee.Logistic(1e-2)
    shares = []
    for seed in range(4):
        atlas = cuvee.learn(
            sources, hypothesis, method=kind, n_labels=32, n_calibration=400, tol=1e-4, seed=seed
        )
        alpha = simplex.sample(1_500, n_sources, seed=[99, seed])
        said = atlas(alpha, trust="predicted")
        true = cuvee.certify(sources, hypothesis, alpha, said.w).gradient_norm
        for quantile in (0.02, 0.1, 0.3, 0.6, 0.95):
            tol = float(np.quantile(said.certificate.gradient_norm, quantile))
            status = np.array(atlas(alpha, trust="predicted", tol=tol).status) == Status.PREDICTED
            if status.sum() >= 100:
                shares.append(float((true[status] <= tol).mean()))
    assert np.mean(shares) >= 0.95
    assert np.min(shares) >= 0.90
