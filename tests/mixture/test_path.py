"""The unattended default: its candidates, its folds, its averaging, and what it promises."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

import cuvee
from cuvee import erm
from cuvee.api import mixtures
from cuvee.components import ALL, LocalComponents, QuadraticComponents
from cuvee.components.rows import deal_folds
from cuvee.data.synthetic import grouped_classes
from cuvee.mixture import path
from hypothesis import given, settings
from hypothesis import strategies as st


def regression(seed, shifts, target_rows=20, rows=60, n_targets=1):
    """Sources whose slopes differ from the targets' by `shifts`."""
    rng = np.random.default_rng(seed)
    slope = rng.normal(size=4)

    def domain(name, shift, n):
        X = rng.normal(size=(n, 4))
        return cuvee.Domain(name, X, X @ (slope + shift) + 0.5 * rng.normal(size=n))

    sources = [domain(f"source {j}", s, rows) for j, s in enumerate(shifts)]
    return cuvee.Problem(
        sources, [domain(f"target {i}", 0.0, target_rows) for i in range(n_targets)]
    )


def test_the_path_runs_towards_the_own_sample():
    mix = cuvee.estimate(regression(0, [0.0, 0.5, 2.0]), cuvee.Ridge())
    for name in ("path ", "honest path "):
        own = [float(c.alpha[0, -1]) for c in mix.candidates if c.name.startswith(name)]
        assert len(own) == path.POINTS
        assert all(later >= earlier - 0.05 for earlier, later in pairwise(own))
        assert own[0] < 0.6 < own[-1]


def test_honest_adversaries_give_the_own_sample_less():
    """Sources of the target's own law: what tells 20 rows of 15 columns apart is learnt by heart."""
    rng = np.random.default_rng(0)
    slope = rng.normal(size=15)

    def domain(name, n):
        X = rng.normal(size=(n, 15))
        return cuvee.Domain(name, X, X @ slope + rng.normal(size=n))

    problem = cuvee.Problem([domain(f"s{j}", 100) for j in range(4)], [domain("t", 20)])
    mix = cuvee.estimate(problem, cuvee.Ridge())
    own = {
        name: np.mean([c.alpha[0, -1] for c in mix.candidates if c.name.startswith(name)])
        for name in ("path", "honest path")
    }
    assert own["honest path"] < 0.8 * own["path"]


def test_an_average_does_not_read_as_unfinished():
    """The searches along the path may run out of steps; the status says so, words that people read
    do not alarm.
    """
    problem = grouped_classes(0, n_targets=2)
    mix = cuvee.estimate(problem, cuvee.Logistic(1e-2), steps=1)
    assert set(mix.status) == {cuvee.Status.STEP_LIMIT} and (mix.gap > 0).all()
    with pytest.raises(cuvee.StatusError, match="step limit"):
        mix.raise_for_status()
    for words in (repr(mix), mix._repr_html_()):
        assert "step limit" not in words and "gap" not in words
        assert words.count(f"average of {len(mix.candidates)} mixtures tried") == 2
    other = cuvee.estimate(regression(0, [0.0, 2.0]), cuvee.Ridge(), method="agp", steps=2)
    # here more steps are for the user to give
    assert "gap" in repr(other) and "step limit" in repr(other)


def test_the_default_converges_and_its_gap_is_within_the_tolerance():
    mix = cuvee.estimate(regression(0, [0.0, 0.5, 2.0], n_targets=3), cuvee.Ridge())
    assert set(mix.status) == {cuvee.Status.CONVERGED}
    assert (mix.gap <= 0.02 * mix.objective).all()


@settings(derandomize=True, deadline=None, max_examples=30)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    folds=st.integers(2, 6),
    seed=st.integers(0, 99),
)
def test_folds_partition_the_rows_evenly_and_stratified(sizes, folds, seed):
    rng = np.random.default_rng(seed)
    source = cuvee.Domain("s", rng.normal(size=(9, 2)), rng.normal(size=9))
    targets = [
        cuvee.Domain(f"t{i}", rng.normal(size=(k, 2)), rng.normal(size=k))
        for i, k in enumerate(sizes)
    ]
    problem = cuvee.Problem([source], targets)
    components = LocalComponents(problem, cuvee.Ridge().bind(problem.facts))
    fold = deal_folds(components._all(torch.float64), folds).numpy()
    np.testing.assert_allclose(components.fold_weights(folds).sum(1), 1.0)
    for row, k in zip(fold, sizes, strict=True):
        assert (row[k:] == -1).all()
        counts = np.bincount(row[:k], minlength=min(folds, k))
        assert len(counts) == min(folds, k) and counts.max() - counts.min() <= 1


def test_the_held_out_loss_is_that_of_models_that_never_saw_the_row():
    """Against a plain loop over candidates, folds and scikit-learn's Ridge."""
    from sklearn.linear_model import Ridge as SklearnRidge

    problem = regression(1, [0.0, 1.0], target_rows=7, n_targets=2)
    space = cuvee.Ridge(l2=0.1).bind(problem.facts)
    components = QuadraticComponents(problem, space)
    alpha = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 4))  # (M, G, N+1)
    got = path.held_out_loss(components, erm.solve, alpha, folds=3)
    fold = deal_folds(components._all(space.dtype), 3).numpy()
    for i, target in enumerate(problem.targets):
        for g in range(4):
            by_row = []
            for row in range(7):
                keep = fold[i] != fold[i, row]
                parts = [*problem.sources, cuvee.Domain("kept", target.X[keep], target.y[keep])]
                weight = np.concatenate(
                    [np.full(p.n_rows, alpha[i, g, j] / p.n_rows) for j, p in enumerate(parts)]
                )
                X, y = np.concatenate([p.X for p in parts]), np.concatenate([p.y for p in parts])
                model = SklearnRidge(alpha=0.1).fit(X, y, sample_weight=weight)
                by_row.append(0.5 * (model.predict(target.X[[row]])[0] - target.y[row]) ** 2)
            assert got[i, g] == pytest.approx(np.mean(by_row), rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("squared", [True, False])
def test_shares_prefer_lower_loss_and_know_no_unit(squared):
    losses, rows = np.array([[0.5, 0.6, 2.0]]), np.array([20])
    prior = np.zeros((1, 3))
    share = path.shares(losses, prior, rows, likelihood=not squared)
    assert share.sum() == pytest.approx(1)
    assert share[0, 0] > share[0, 1] > share[0, 2]
    if squared:
        np.testing.assert_allclose(path.shares(1e6 * losses, prior, rows, likelihood=False), share)


def test_candidates_that_failed_get_nothing_and_never_spoil_the_rest():
    share = path.shares(
        np.array([[0.5, np.nan, 0.6], [np.nan, np.nan, np.nan]]),
        np.zeros((2, 3)),
        np.array([20, 20]),
        likelihood=True,
    )
    assert share[0, 1] == 0 and share[0].sum() == pytest.approx(1)
    np.testing.assert_array_equal(share[1], [1, 0, 0])


def test_the_prior_prefers_mixtures_that_rest_on_many_rows():
    problem = regression(1, [0.0, 1.0])  # 60 + 60 + 20 rows
    components = QuadraticComponents(problem, cuvee.Ridge().bind(problem.facts))
    pooled, own = np.array([60, 60, 20]) / 140, np.array([0.0, 0.0, 1.0])
    prior = path.prior(components, np.stack([pooled, own])[None])
    np.testing.assert_allclose(prior, [[-path.PRIOR * 20 / 140, -path.PRIOR]])
    share = path.shares(np.full((1, 2), 0.5), prior, np.array([20]), likelihood=True)
    assert share[0, 0] > share[0, 1]


def test_columns_beyond_what_a_model_can_hold_end_as_diverged_not_as_nan():
    problem = regression(5, [0.0, 1.0])

    def huge(d):
        return cuvee.Domain(d.name, d.X * 1e200, d.y)  # labels may be as large: they have a unit

    wild = cuvee.Problem([huge(s) for s in problem.sources], [huge(t) for t in problem.targets])
    mix = cuvee.estimate(wild, cuvee.Ridge(), steps=20)
    assert np.isfinite(mix.alpha).all()
    assert mix.status[0] is cuvee.Status.DIVERGED


def test_equal_source_sizes_do_not_make_uniform_vote_twice():
    mix = cuvee.estimate(regression(2, [0.0, 1.0, 1.0]), cuvee.Ridge(), steps=20)
    names = [c.name for c in mix.candidates]
    assert "uniform" in names and "pooled" not in names
    assert {"pooled_own", "target_only"} < set(names)


def test_alpha_is_the_candidates_average_with_names_for_its_columns():
    problem = regression(3, [0.0, 1.0], n_targets=3)
    mix = cuvee.estimate(problem, cuvee.Ridge(), steps=50)
    share = np.stack([c.share for c in mix.candidates], 1)
    alpha = np.stack([c.alpha for c in mix.candidates], 1)
    np.testing.assert_allclose(mix.alpha, np.einsum("mg,mgj->mj", share, alpha), atol=1e-12)
    np.testing.assert_allclose(mix.alpha.sum(1), 1, atol=1e-9)
    assert mix.columns == ("source 0", "source 1", cuvee.OWN)
    assert mix.trace is not None and mix.trace.alpha.shape[1:] == (3, 3)


def test_labels_in_other_units_give_the_same_alpha():
    problem = regression(4, [0.0, 0.7, 1.5])

    def rescaled(d):
        return cuvee.Domain(d.name, d.X * [1e3, 1e-2, 1.0, 7.0], d.y * 1e4 + 50)

    other = cuvee.Problem(
        [rescaled(s) for s in problem.sources], [rescaled(t) for t in problem.targets]
    )
    one = cuvee.estimate(problem, cuvee.Ridge(l2=0.0), steps=60)
    two = cuvee.estimate(other, cuvee.Ridge(l2=0.0), steps=60)
    np.testing.assert_allclose(one.alpha, two.alpha, atol=1e-4)


def excess(problem, alpha, truth):
    """Risk of the weighted ridge model against the target's true linear model."""
    space = cuvee.Ridge(l2=1e-3).bind(problem.facts)
    components = QuadraticComponents(problem, space)
    w = erm.solve(components, ALL, torch.as_tensor(alpha)[:, None])
    X = np.random.default_rng(99).normal(size=(2000, 4))
    return np.mean([(space.predict(w[i, 0], X) - X @ truth) ** 2 for i in range(len(alpha))])


@pytest.mark.slow
def test_default_is_about_as_good_as_the_best_simple_mixture_everywhere():
    """Test risk, noise (0.25) included, against the best of three simple mixtures, on the mean over
    seeds.

    Where every source is the target's own law, pooling is right and averaging over candidates costs
    a little.
    """
    for shifts, most in (([0.0] * 5, 1.05), ([2.0] * 5, 1.02), ([0.0, 0.0, 2.0, 2.0, 2.0], 0.95)):
        scores = []
        for seed in range(20):
            problem = regression(seed, shifts)
            truth = np.random.default_rng(seed).normal(size=4)
            simple = [
                cuvee.estimate(problem, cuvee.Ridge(l2=1e-3), method=m, own=own).alpha
                for m, own in (("uniform", True), ("pooled_own", True), ("target_only", True))
            ]
            mix = cuvee.estimate(problem, cuvee.Ridge(l2=1e-3))
            scores.append([excess(problem, a, truth) for a in (*simple, mix.alpha)])
        *baselines, default = np.mean(scores, 0) + 0.25
        assert default <= most * min(baselines), (shifts, baselines, default)


def test_groups_of_classes_are_found():
    problem = grouped_classes(0, target_rows=30)
    mix = cuvee.estimate(problem, cuvee.Logistic(l2=1e-2), steps=150)
    for i in range(3):
        by_group = mix.alpha[i, :9].reshape(3, 3).sum(1)
        assert by_group[i] > 1.5 * np.delete(by_group, i).max()


def test_targets_in_batches_get_what_they_get_together(monkeypatch):
    """Large problems go through batch after batch; a batch is its rows all the same."""
    problem = grouped_classes(0, n_targets=9)
    whole = cuvee.estimate(problem, cuvee.Logistic(1e-2), steps=40)
    batches = []
    monkeypatch.setattr(mixtures, "MEMORY", 2**22)
    one = mixtures._estimate
    monkeypatch.setattr(
        mixtures, "_estimate", lambda job, tell: batches.append(1) or one(job, tell)
    )
    parts = cuvee.estimate(problem, cuvee.Logistic(1e-2), steps=40)
    assert 1 < len(batches) <= 9
    assert parts.targets == whole.targets and parts.status == whole.status
    np.testing.assert_allclose(parts.alpha, whole.alpha, atol=1e-6)
