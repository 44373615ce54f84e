"""`--model auto`: who wins by held-out losses, and that nothing is judged twice."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from cuvee.estimators import choose as choosing
from cuvee.estimators.auto import Contest, contest, verdict
from cuvee.estimators.choose import Target, choose
from cuvee.estimators.folds import held_out
from cuvee.estimators.routing import Learner
from cuvee.estimators.weights import Table

NAMES = ("linear", "trees", "forest")


def losses(*rows) -> Contest:
    return Contest(dict(zip(NAMES, map(np.asarray, rows), strict=True)), {}, {})


NOISE = np.random.default_rng(0).normal(size=100)
LINEAR = np.full(100, 1.0)


@pytest.mark.parametrize(
    ("ahead", "winner"),
    [(0.5, "linear"), (1.5, "trees")],  # in standard errors of the paired difference
)
def test_a_simpler_model_wins_within_a_standard_error(ahead, winner):
    wobble = NOISE - NOISE.mean()
    error = wobble.std(ddof=1) / 10
    trees = LINEAR - ahead * error + wobble
    said = verdict([losses(LINEAR, trees, LINEAR + 1)], classify=True)
    assert said.winner == winner
    assert said.error["linear"] == pytest.approx(error)
    assert said.loss == pytest.approx({"linear": 1.0, "trees": 1.0 - ahead * error, "forest": 2.0})


def test_targets_join_their_evidence():
    wobble = NOISE - NOISE.mean()
    trees = LINEAR - 0.7 * wobble.std(ddof=1) / 10 + wobble
    one = losses(LINEAR, trees, LINEAR + 1)
    assert verdict([one], classify=True).winner == "linear"
    assert verdict([one] * 4, classify=True).winner == "trees"


def test_a_quantity_has_no_unit():
    near = losses(LINEAR, LINEAR * 0.8, LINEAR)
    far = losses(1e6 * LINEAR, 1.1e6 * LINEAR, 2e6 * LINEAR)
    said = verdict([near, far], classify=False)
    assert said.loss == pytest.approx({"linear": 1.0, "trees": 0.95, "forest": 1.5})


def test_a_model_that_was_not_judged_cannot_win():
    nothing = np.full(100, np.nan)
    best = losses(LINEAR, nothing, LINEAR - 0.5)
    assert verdict([losses(LINEAR, LINEAR - 0.9, LINEAR - 0.5), best], classify=True).winner == "forest"  # fmt: skip
    assert verdict([losses(nothing, nothing, LINEAR)], classify=False).winner == "forest"
    assert verdict([losses(nothing, nothing, nothing)], classify=False).winner == "linear"


def target(k: int = 40) -> Target:
    """A target whose label is the sign of a product, as is that of its two sources."""
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(n, 2)) for n in (150, 150, k)]
    y = [(one.prod(1) > 0).astype(int) for one in X]
    rows = Table.of(X[:2], y[:2]).with_own(X[2], y[2])
    alpha = np.array([0.4, 0.4, 0.2])
    return Target("north", rows, alpha, [("path 1/5", np.array([0.1, 0.7, 0.2]), 0.5)])


def learner(estimator) -> Learner:
    return Learner.of(estimator, np.array([0, 1]), 0)


def test_the_contest_is_that_of_held_out_rows():
    trees, linear = learner(DecisionTreeClassifier(max_depth=4)), learner(LogisticRegression())
    said = contest({"linear": linear, "trees": trees}, target())
    assert verdict([said], classify=True).winner == "trees"
    alone = held_out(trees, target().rows, [("averaged", target().alpha)], target="north")
    assert said.mixtures["trees"]["averaged"] == pytest.approx(alone.loss[0])
    assert set(said.mixtures["trees"]) == {"averaged", "half own"}
    assert said.loss["trees"].mean() == pytest.approx(min(said.mixtures["trees"].values()))
    late = contest({"linear": linear, "trees": trees}, target(), {"trees": 0.0})
    assert np.isnan(late.loss["trees"]).all() and np.isfinite(late.loss["linear"]).all()


def test_what_the_contest_judged_is_not_judged_again(monkeypatch):
    trees = learner(DecisionTreeClassifier(max_depth=4))
    plain = choose(trees, target())
    asked: list[str] = []

    def counting(learner, rows, candidates, **how):
        asked.extend(name for name, _ in candidates)
        return held_out(learner, rows, candidates, **how)

    monkeypatch.setattr(choosing, "held_out", counting)
    said = choose(trees, target(), known=contest({"trees": trees}, target()).mixtures["trees"])
    assert asked == [name for name in plain.names if name not in ("averaged", "half own")]
    np.testing.assert_allclose(said.cv_loss, plain.cv_loss)
    np.testing.assert_allclose(said.alpha, plain.alpha)
