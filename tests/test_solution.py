"""`Solution`, `Model`, `Certificate`: what can be asked of them, and what they say when asked
wrongly.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cuvee
from builders import CASES, make_problem, models
from cuvee import Domain, DomainError, Logistic, OptionError, Ridge, Solution, Status, StatusError
from cuvee.solution import Certificate
from rounding import assert_rounded

ALPHA = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
LINEAR = [c for c in CASES if not c.name.startswith("net")]


def solution_of(case, statuses=None):
    """Any w: these tests are about what is made of it."""
    problem = case.problem((20, 30, 25), ())
    space = case.hypothesis.bind(problem.facts)
    w = models(space, 3).numpy()
    unknown = np.full(3, np.inf)
    certificate = Certificate(unknown, unknown, np.ones(3), "nothing")
    return problem, Solution(
        w, ALPHA, statuses or (Status.SOLVED,) * 3, certificate, np.ones(3, int), space
    )


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_predictions(case):
    problem, sol = solution_of(case)
    X = np.concatenate([s.X for s in problem.sources])
    every = sol.predict(X)
    if case.name == "net-custom":  # two outputs of no known meaning: they come back as they are
        assert every.shape == (3, 2, len(X))
        return
    assert every.shape == (3, len(X))
    for i, model in enumerate(sol.models):
        assert model.predict(X).shape == (len(X),)
        np.testing.assert_allclose(model.predict(X), every[i], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(model.predict(X[:1]), every[i, :1], rtol=1e-5)
        assert model.predict(X[:0]).shape == (0,)
    if case.classes:
        assert set(every.ravel()) <= set(range(case.classes))
        for i, model in enumerate(sol.models):
            p = model.predict_proba(X)
            assert p.shape == (len(X), case.classes) and (p >= 0).all()
            np.testing.assert_allclose(p.sum(1), 1.0, atol=1e-6)
            sure = np.sort(p, 1)[:, -1] - np.sort(p, 1)[:, -2] > 1e-6
            np.testing.assert_array_equal(model.classes[p.argmax(1)][sure], every[i][sure])
            np.testing.assert_array_equal(model.classes, np.arange(case.classes))
    else:
        assert sol.models[0].classes is None
        with pytest.raises(OptionError, match="predict"):
            sol.models[0].predict_proba(X)


def test_probabilities_far_out_are_probabilities():
    problem = make_problem((20, 30, 25), (), classes=3)
    sol = cuvee.solve(problem, Logistic(1e-3), ALPHA)
    p = sol.models[0].predict_proba(
        np.array([[1e8, -1e8, 1e8], [0.0, 0.0, 0.0], [1e300, 1.0, 1.0]])
    )
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(1), 1.0)


@pytest.mark.parametrize(
    "labels", [["no", "yes"], ["a", "b", "c"], [-1, 1], [10, 20, 30], [0.0, 1.0]]
)
def test_predictions_speak_the_users_labels(labels):
    rng = np.random.default_rng(0)
    y = np.array(labels)[np.arange(40) % len(labels)]
    X = rng.normal(size=(40, 2)) + 5 * (np.arange(40) % len(labels))[:, None]
    sol = cuvee.solve(
        [Domain("a", X[:20], y[:20]), Domain("b", X[20:], y[20:])], Logistic(1e-3), [[0.5, 0.5]]
    )
    assert (sol.models[0].predict(X) == y).mean() > 0.9
    assert list(sol.models[0].classes) == sorted(labels)
    p = sol.models[0].predict_proba(X)
    # no row is so near a tie that rounding decides
    assert (np.diff(np.sort(p, 1)[:, -2:], axis=1) > 1e-6).all()
    assert (sol.models[0].classes[p.argmax(1)] == sol.models[0].predict(X)).all()


def test_ridge_predicts_by_hand():
    problem = make_problem((20, 30, 25), ())
    sol = cuvee.solve(problem, Ridge(0.1), ALPHA)
    X = problem.sources[1].X
    np.testing.assert_allclose(sol.predict(X), sol.w[:, :3] @ X.T + sol.w[:, 3:], rtol=1e-12)


@pytest.mark.parametrize("case", LINEAR, ids=repr)
def test_rows_that_do_not_fit_are_refused(case):
    problem, sol = solution_of(case)
    X = problem.sources[0].X
    for wrong, message in (
        (X[:, :2], r"\(2,\).*\(3,\)"),
        (np.column_stack([X, X]), r"\(6,\).*\(3,\)"),
        (X[:, 0], "rows × features|rows"),
        (X[:, :, None], "shape"),
        (np.where(np.arange(3) == 1, np.nan, X), "row 0, column 1"),
        ([["x", "y", "z"]] * 2, "numeric"),
    ):
        for predict in (sol.predict, sol.models[0].predict):
            with pytest.raises(DomainError, match=message):
                predict(wrong)


def test_rows_may_come_as_lists_tensors_and_domains():
    problem, sol = solution_of(LINEAR[0])
    source = problem.sources[0]
    wanted = sol.predict(source.X)
    for X in (source.X.tolist(), torch.as_tensor(source.X), source, np.asfortranarray(source.X)):
        assert_rounded(sol.predict(X), wanted)
    np.testing.assert_allclose(
        sol.predict(source.X.astype(np.float32)), wanted, rtol=1e-4, atol=1e-4
    )


def test_models_are_a_sequence():
    _, sol = solution_of(LINEAR[2])
    assert len(sol.models) == 3
    np.testing.assert_array_equal(sol.models[-1].w, sol.w[2])
    assert [m.w.tolist() for m in sol.models[1:]] == sol.w[1:].tolist()
    assert [m.status for m in sol.models] == list(sol.status)
    assert sum(1 for _ in sol.models) == 3
    with pytest.raises(IndexError):
        sol.models[3]


def test_statuses_can_be_thrown():
    _, fine = solution_of(LINEAR[0])
    assert fine.raise_for_status() is fine
    _, bad = solution_of(LINEAR[0], (Status.SOLVED, Status.ILL_CONDITIONED, Status.ABSENT_CLASS))
    with pytest.raises(StatusError, match=r"model 1: ill-conditioned.*model 2: absent class"):
        bad.raise_for_status()
    for status in (bad, fine):
        text = repr(status)
        assert "3 models" in text and len(text) < 600
    assert "1 ill-conditioned" in repr(bad)


def test_every_status_has_a_sentence():
    assert all(s.sentence for s in Status)


def test_a_certificate_is_an_array_of_distances():
    certificate = Certificate(
        np.array([1e-3, np.inf]), np.array([1e-6, np.inf]), np.ones(2), "faith"
    )
    assert certificate.certified.tolist() == [True, False]
    np.testing.assert_array_equal(np.asarray(certificate), certificate.distance)
    assert np.asarray(certificate, dtype=np.float32).dtype == np.float32
    copied = np.array(certificate)
    copied[0] = 7.0
    assert certificate.distance[0] == 1e-3
    assert len(certificate) == 2
    assert "1 of 2" in repr(certificate)


def test_passes_and_progress():
    problem = make_problem((200, 300, 250), (), classes=2)
    seen = []
    sol = cuvee.solve(problem, Logistic(1e-2), ALPHA, progress=lambda *a: seen.append(a))
    assert sol.passes.dtype.kind == "i" and (sol.passes >= 1).all() and (sol.passes < 100).all()
    assert all(what == "solving" and 0 <= done <= total for what, done, total in seen)
    ridge = cuvee.solve(make_problem((20, 30, 25), ()), Ridge(), ALPHA)
    assert (ridge.passes == 1).all()
    slow = cuvee.solve(problem, Logistic(1e-2), ALPHA, method="descent", steps=30)
    assert (slow.passes >= 30).all()


def test_solutions_keep_the_alpha_they_were_asked_for():
    problem = make_problem((20, 30, 25), ())
    given = ALPHA.copy()
    sol = cuvee.solve(problem, Ridge(), given)
    np.testing.assert_array_equal(sol.alpha, ALPHA)
    assert sol.w.dtype == sol.certificate.distance.dtype == np.float64


def test_the_same_call_gives_the_same_numbers():
    for classes, hypothesis in ((0, Ridge()), (2, Logistic()), (3, Logistic(radius=0.5))):
        problem = make_problem((200, 300, 25), (), classes=classes)
        one, two = (cuvee.solve(problem, hypothesis, ALPHA) for _ in range(2))
        np.testing.assert_array_equal(one.w, two.w)
        np.testing.assert_array_equal(one.certificate.distance, two.certificate.distance)
