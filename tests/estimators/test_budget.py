"""A budget that is short: candidates are judged on the folds that all of them had time for."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from cuvee.estimators import folds
from cuvee.estimators.choose import Target, choose
from cuvee.estimators.routing import Learner
from cuvee.estimators.weights import Table

ALPHAS = [("even", np.array([0.4, 0.4, 0.2])), ("first", np.array([0.8, 0.0, 0.2]))]


def rows():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 2)) for n in (40, 40, 23)]
    y = [x @ [1.0, slope] + 0.1 * rng.normal(size=len(x)) for x, slope in zip(X, (1, -1, 0.8), strict=True)]  # fmt: skip
    return Table.of(X[:2], y[:2]).with_own(X[2], y[2])


CANDIDATES = [*ALPHAS, ("own", np.array([0.0, 0.0, 1.0]))]


@pytest.fixture
def clock(monkeypatch):
    """A clock that counts the fits that ended; they come one after the other."""
    ended = []
    fit = Learner.fit

    def counted(self, X, y, weight):
        model = fit(self, X, y, weight)
        ended.append(model)
        return model

    monkeypatch.setattr(Learner, "fit", counted)
    monkeypatch.setattr(folds, "time", SimpleNamespace(monotonic=lambda: float(len(ended))))
    monkeypatch.setattr(folds, "each", lambda fit, jobs, device, tell: list(map(fit, jobs)))
    return ended


def judged(fits: float, some_folds: bool = True):
    learner = Learner.of(LinearRegression(), None, 0)
    return folds.held_out(
        learner, rows(), CANDIDATES, target="t", deadline=fits, some_folds=some_folds
    )


@pytest.mark.parametrize(("fits", "n_folds"), [(3, 1), (8, 2), (14, 4), (15, 5)])
def test_candidates_are_compared_on_the_folds_that_they_have_in_common(clock, fits, n_folds):
    said, whole = judged(fits), judged(np.inf)
    fold = folds.deal(rows().y[rows().own])
    seen = fold < n_folds
    assert said.n_judged == seen.sum()
    np.testing.assert_array_equal(said.loss, whole.rows[:, seen].mean(1))
    note = f"target 't': judged on {n_folds} of 5 folds, because the budget was spent"
    assert said.notes == (() if n_folds == 5 else (note,))


def test_less_than_a_fold_judges_the_most_promising(clock):
    said = judged(2)
    assert np.isfinite(said.loss).tolist() == [True, True, False]
    assert "mixture 'own': not judged, because the budget was spent" in said.notes[0]
    nothing = judged(0)
    assert np.isnan(nothing.loss).all() and len(nothing.notes) == 3


def test_without_it_a_candidate_is_judged_on_all_folds_or_not_at_all(clock):
    said = judged(8, some_folds=False)
    assert np.isfinite(said.loss).tolist() == [True, False, False]
    assert said.n_judged == 23


def test_shares_count_the_rows_that_were_judged(clock):
    tried = [(name, alpha, float(g)) for g, (name, alpha) in enumerate(ALPHAS)]
    target = Target("t", rows(), CANDIDATES[0][1], tried)
    learner = Learner.of(LinearRegression(), None, 0)
    whole = choose(learner, target)
    clock.clear()
    folds.time.monotonic = lambda: np.inf if len(clock) >= len(whole.names) else 0.0
    short = choose(learner, target, seconds=1e9)
    assert np.isfinite(short.cv_loss).all() and "judged on 1 of 5 folds" in short.notes[-1]
    best = int(whole.share.argmax())
    assert short.share[best] < whole.share[best]  # five rows say less than all 23
