"""What an `OnlineMap` promises: a packing, an answer in every round, a budget that holds, books
that add up, files.
"""

from __future__ import annotations

import json
from fractions import Fraction
from math import ceil, inf

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import cuvee
from cuvee import (
    InputError,
    Logistic,
    MixtureError,
    Network,
    OnlineMap,
    OptionError,
    Ridge,
    Status,
    simplex,
)
from cuvee.data.synthetic import shifted_sources
from cuvee.online.regressor import Round
from hypothesis import given, settings
from hypothesis import strategies as st
from learn_builders import HYPOTHESES, make_sources, mlp, rewritten
from online_builders import VARIANTS, N, faulty, load, make, run, sources, state
from rounding import SOLVED, assert_rounded

pytestmark = pytest.mark.sample(6)

UNIFORM = np.full(N, 1 / N)
ALPHAS = simplex.sample(60, N, 1)
every_variant = pytest.mark.parametrize("variant", VARIANTS)


# ---- centres -------------------------------------------------------------------------------------

mixtures = (
    st.lists(st.integers(0, 6), min_size=N, max_size=N)
    .filter(any)
    .map(lambda v: np.array(v) / sum(v))
)


def packed(online) -> None:
    points, radii = online._state.regressor.S.points, online._state.regressor.radii.values
    assert len(points) == len(radii) == online.ledger.centres
    for j in range(1, len(points)):
        assert (np.linalg.norm(points[:j] - points[j], axis=1) > radii[j] * (1 - 1e-12)).all()


@given(
    stream=st.lists(mixtures, min_size=1, max_size=40),
    radius=st.one_of(
        st.just("paper"), st.floats(0, 1.5), st.lists(st.floats(0, 1.5), min_size=40, max_size=40)
    ),
    variant=st.sampled_from(VARIANTS),
    prior=st.sampled_from(["zero", "centre"]),
)
@settings(max_examples=25, deadline=None)
def test_centres_are_a_packing(stream, radius, variant, prior):
    schedule = (lambda t: radius[t - 1]) if isinstance(radius, list) else radius
    online = make(
        "ridge", variant=variant, radius=schedule, prior=prior, label_budget=0.3, policy="coin"
    )
    for t, alpha in enumerate(stream, 1):
        before = len(online._state.regressor.S)
        online.predict_one(alpha)
        if variant != "curved":
            near = np.linalg.norm(online._state.regressor.S.points - alpha, axis=1).min()
            assert near <= online._state.regressor.radius(t)  # a ball is there for every round
        if online.wants_label(alpha):
            online.learn_one(alpha)
        assert len(online._state.regressor.S) - before in (0, 1)
        assert online.ledger.centres_at[-1] == len(online._state.regressor.S)
    packed(online)


@every_variant
def test_a_long_stream_is_a_packing(variant):
    online = make("ridge", variant=variant, label_budget=0.05)
    run(online, simplex.sample(400, N, 2))
    packed(online)
    assert online.ledger.centres > 5


# ---- answers -------------------------------------------------------------------------------------


@every_variant
def test_there_is_an_answer_before_any_label(variant):
    for prior, said in (
        ("paper", np.full(4, 0.25)),
        ("zero", np.zeros(4)),
        (np.arange(4.0), np.arange(4.0)),
    ):
        online = make(variant=variant, prior=prior, label_budget=0.5, policy="budget")
        first = online.predict_one(ALPHAS[0])
        np.testing.assert_array_equal(first, said)
        assert online.ledger.labels == 0 and online.ledger.rounds == 1
        np.testing.assert_array_equal(
            online(ALPHAS[:3], trust="predicted").w[2], 0 * said if variant == "paper" else said
        )


@every_variant
def test_the_centre_is_a_label_before_the_first_round(variant):
    online = make(variant=variant, prior="centre", label_budget=0.5)
    best = cuvee.solve(sources(), HYPOTHESES["binary"][1], UNIFORM[None], tol=1e-9).w[0]
    np.testing.assert_allclose(online.predict_one(UNIFORM), best, atol=1e-4)
    assert online.ledger.labels == 1 and online.ledger.centres == 1


@every_variant
@pytest.mark.parametrize("name", ["ridge", "binary", "softmax"])
def test_a_label_is_what_its_mixture_is_answered_with(name, variant):
    online = make(name, variant=variant, label_budget=1.0, radius=0.0, policy="coin", tol=1e-6)
    alphas = np.concatenate([ALPHAS[:4], np.eye(N)])
    best = cuvee.solve(sources(name), HYPOTHESES[name][1], alphas, tol=1e-11).w
    for alpha in alphas:
        for _ in range(2):  # as printed, a ball's first label is lost
            online.predict_one(alpha)
            assert online.learn_one(alpha).status.ok
    for alpha, w in zip(alphas, best, strict=True):
        np.testing.assert_allclose(online.predict_one(alpha), w, atol=1e-5)


@pytest.mark.parametrize("n_sources", [2, 5])
def test_labels_that_carry_slopes_are_right_to_first_order(n_sources):
    data = make_sources(2, n_sources)
    for variant in ("first_order", "curved"):
        online = OnlineMap(data, Logistic(0.1), variant=variant, label_budget=1.0, policy="coin", tol=1e-6, radius=2.0,
                           prior="zero")  # fmt: skip
        middle = np.full(n_sources, 1 / n_sources)
        online.predict_one(middle)
        online.learn_one(middle)
        errors = []
        for h in (0.1, 0.01):
            alpha = (1 - h) * middle + h * np.eye(n_sources)[0]
            best = cuvee.solve(data, Logistic(0.1), alpha[None], tol=1e-11).w[0]
            errors.append(np.linalg.norm(online.predict_one(alpha) - best))
        assert errors[1] < 0.02 * errors[0]


@every_variant
@pytest.mark.parametrize("prior", ["zero", "centre"])
def test_a_batch_says_what_rounds_say(variant, prior, tmp_path):
    online = make(variant=variant, prior=prior, label_budget=0.3, policy="coin")
    run(online, ALPHAS)
    asked = np.concatenate([simplex.sample(20, N, 5), np.eye(N), online._state.regressor.S.points])
    whole = online(asked, trust="predicted").w
    alone = np.concatenate([online(row[None], trust="predicted").w for row in asked])
    assert_rounded(whole, alone)
    online.save(tmp_path / "x")
    for row, w in zip(asked, whole, strict=True):  # a round each, of the same map: they change it
        assert_rounded(OnlineMap.load(tmp_path / "x").predict_one(row), w)


def test_predictions_are_the_users_own(tmp_path):
    online = make(variant="paper_repaired", label_budget=1.0, evaluate=True, prior="zero")
    alpha = torch.tensor(ALPHAS[0].copy())
    w = online.predict_one(alpha)
    before = state(online, tmp_path)
    w += 7
    alpha.copy_(torch.tensor(ALPHAS[1]))
    assert state(online, tmp_path) == before
    online.wants_label(alpha)
    assert online.ledger.rounds == 2  # it is another mixture now
    given = np.ones(4)
    online = make(variant="paper", prior=given)
    given[:] = 9
    np.testing.assert_array_equal(online.predict_one(ALPHAS[0]), 1)


def test_what_curvature_adds_is_kept_within_half_a_step():
    online = make("ridge", label_budget=1.0, policy="coin", prior="zero")
    run(online, 0.9 * UNIFORM + 0.1 * ALPHAS[:20])  # all in one corner of Δ
    first = make(
        "ridge", variant="first_order", label_budget=1.0, policy="coin", prior="zero", radius=0.0
    )
    run(first, 0.9 * UNIFORM + 0.1 * ALPHAS[:20])
    far = np.eye(N)
    w, flat = online(far, trust="predicted").w, first(far, trust="predicted").w
    s = [np.linalg.norm(online._state.regressor.S.points - a, axis=1).argmin() for a in far]
    at = first(online._state.regressor.S.points[s], trust="predicted").w
    assert (
        np.linalg.norm(w - flat, axis=1) <= 0.5 * np.linalg.norm(flat - at, axis=1) * (1 + 1e-9)
    ).all()


def test_curvature_is_fitted_anew_however_many_sources_there_are():
    """A degree that labels could tell but that is too large must not stand in the way of a smaller
    one.
    """
    data = make_sources(0, 20, d=1, rows=5)
    online = OnlineMap(data, Ridge(0.1), label_budget=1.0, policy="coin")
    run(online, simplex.sample(200, 20))
    assert online._state.regressor.balls.fitted > 170


def test_curvature_pays():
    losses = {}
    for variant in ("first_order", "curved"):
        online = make(
            variant=variant, label_budget=0.1, evaluate=True, policy="budget", radius=0.05
        )
        run(online, simplex.sample(256, N, 3))
        losses[variant] = online.ledger.average_loss
    assert losses["curved"] < losses["first_order"]


# ---- labels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", ["0.07", "0.55", "0.14", "0.001"])
@pytest.mark.parametrize("policy", ["budget", "certificate"])
@pytest.mark.parametrize("variant", ["paper_repaired", "first_order", "curved"])
def test_the_budget_holds_in_every_round(variant, policy, p):
    online = make(
        "ridge", variant=variant, policy=policy, label_budget=float(p), radius=0.0, tol=1e-14
    )
    run(online, simplex.sample(100, N, 4))
    allowed = [ceil(Fraction(p) * t) for t in range(1, 101)]
    ledger = online.ledger
    assert (ledger.labels_at <= allowed).all()
    assert ledger.labels == allowed[-1]  # and is used: there is always something to ask


def test_the_coin_is_of_the_round_and_the_seed_alone():
    flips = []
    for variant, alphas in (
        ("paper", ALPHAS),
        ("first_order", ALPHAS[::-1]),
        ("curved", np.tile(UNIFORM, (60, 1))),
    ):
        online = make("ridge", variant=variant, policy="coin", label_budget=0.4, seed=5)
        flips.append(run(online, alphas)[1])
    assert flips[0] == flips[1] == flips[2] and 10 < sum(flips[0]) < 40
    other = make("ridge", variant="paper", policy="coin", label_budget=0.4, seed=6)
    assert run(other, ALPHAS)[1] != flips[0]


@pytest.mark.slow
def test_the_coin_is_fair():
    for seed in range(5):
        coin = make("ridge", variant="paper", policy="coin", label_budget=0.3, seed=seed)._policy
        rounds = (Round(t, UNIFORM, UNIFORM, None, inf, 1.0, False) for t in range(1, 20_001))
        flips = np.array([coin.wants(now, 0, lambda: inf) for now in rounds])
        assert abs(flips.mean() - 0.3) < 4 * np.sqrt(0.21 / 20_000)
        assert abs(np.corrcoef(flips[1:], flips[:-1])[0, 1]) < 4 / np.sqrt(20_000)


def test_asking_twice_is_asking_once():
    online = make(label_budget=1.0)
    online.predict_one(ALPHAS[0])
    said = [online.wants_label(ALPHAS[0]) for _ in range(5)]
    assert len(set(said)) == 1 and online.ledger.rounds == 1


def test_a_round_may_begin_without_predict_one():
    online, other = make(label_budget=1.0, policy="coin"), make(label_budget=1.0, policy="coin")
    for alpha in ALPHAS[:5]:
        assert online.wants_label(alpha) and online.learn_one(alpha).status.ok
        other.predict_one(alpha)
        other.learn_one(alpha)
    assert online.ledger.rounds == 5 and online.ledger.labels == 6
    assert_rounded(online(ALPHAS).w, other(ALPHAS).w, SOLVED)
    # unasked for, a round of its own
    assert online.learn_one(ALPHAS[0]).status.ok and online.ledger.rounds == 6


def test_a_label_of_another_mixture_is_another_round():
    online = make(label_budget=1.0, prior="zero")
    online.predict_one(ALPHAS[0])
    online.learn_one(ALPHAS[1])
    assert online.ledger.rounds == 2 and online.ledger.centres == 1
    np.testing.assert_array_equal(online._state.regressor.S.points[0], ALPHAS[1])


@every_variant
def test_one_mixture_again_and_again(variant):
    online = make("ridge", variant=variant, label_budget=1.0, policy="coin", prior="zero", tol=1e-6)
    best = cuvee.solve(sources("ridge"), HYPOTHESES["ridge"][1], ALPHAS[:1], tol=1e-11).w[0]
    w, _, statuses = run(online, np.tile(ALPHAS[0], (300, 1)))
    np.testing.assert_allclose(w[1:], np.tile(best, (299, 1)), atol=1e-8)
    assert (
        online.ledger.centres == 1 and online.ledger.labels == 300 and all(s.ok for s in statuses)
    )


# ---- what fails ----------------------------------------------------------------------------------


@every_variant
def test_a_label_that_cannot_be_solved_is_noted(variant, tmp_path):
    """At a vertex whose source has one class alone there is no w*."""
    data = make_sources(2, N, only={0: 1})
    online = OnlineMap(
        data, Logistic(0.1), variant=variant, label_budget=1.0, policy="coin", evaluate=True
    )
    w = online.predict_one(np.eye(N)[0])
    assert np.isfinite(w).all() and online.wants_label(np.eye(N)[0])
    labels, learnt = online.ledger.labels, online._state.regressor.state()
    balls = {name: value.copy() for name, value in learnt.items()}
    assert online.learn_one(np.eye(N)[0]).status is Status.ABSENT_CLASS
    ledger = online.ledger
    assert (
        ledger.labels == labels + 1
        and ledger.failed == 1
        and ledger.evaluated == 0
        and np.isnan(ledger.loss)
    )
    assert "round 1" in ledger.notes[0] and "absent class" in ledger.notes[0]
    for name, value in online._state.regressor.state().items():
        np.testing.assert_array_equal(value, balls[name])
    _, _, statuses = run(online, [ALPHAS[0], np.eye(N)[0], ALPHAS[1]])
    assert statuses == [Status.SOLVED, Status.ABSENT_CLASS, Status.SOLVED]
    assert (
        np.isfinite(online.ledger.loss)
        and online.ledger.evaluated == 2
        and online.ledger.failed == 2
    )
    assert len(online.ledger.losses) == 4 and np.isnan(online.ledger.losses[[0, 2]]).all()
    np.testing.assert_allclose(online.ledger.average_at[-1], online.ledger.average_loss)
    online.ledger.draw(tmp_path / "x.png")


@pytest.mark.parametrize("policy", ["budget", "certificate"])
@pytest.mark.parametrize("variant", ["paper_repaired", "first_order", "curved"])
def test_no_budget_is_spent_where_there_is_no_minimiser(variant, policy):
    online = OnlineMap(
        make_sources(2, N, only={0: 1}),
        Logistic(0.1),
        variant=variant,
        label_budget=1.0,
        policy=policy,
    )
    _, flips, _ = run(online, np.tile(np.eye(N)[0], (10, 1)))
    assert not any(flips) and online.ledger.failed == 0
    _, flips, _ = run(online, [ALPHAS[0], np.eye(N)[1]])
    assert any(flips)


ERRORS = [
    RuntimeError("LAPACK: no"),
    RuntimeError(),
    RuntimeError("\n"),
    np.linalg.LinAlgError("singular"),
    ValueError("no"),
    FloatingPointError("overflow"),
    cuvee.CuveeError("no"),
]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_an_oracle_that_raises(error):
    online = make(label_budget=1.0, evaluate=True)
    run(online, ALPHAS[:5])
    oracle = faulty(online)
    oracle.error = error
    said = online(ALPHAS[5][None], trust="predicted").w[0]
    assert_rounded(online.predict_one(ALPHAS[5]), said)
    assert online.wants_label(ALPHAS[5])  # what is not known to be good may be bad
    before = online.ledger
    assert online.learn_one(ALPHAS[5]).status is Status.DIVERGED
    ledger = online.ledger
    assert (
        ledger.labels == before.labels + 1
        and ledger.failed == before.failed + 1
        and ledger.rounds == 6
    )
    assert any("round 6" in note and "failed" in note for note in ledger.notes)
    oracle.error = None
    assert online.learn_one(ALPHAS[6]).status.ok and online.ledger.failed == ledger.failed


def test_what_is_no_error_of_the_oracle_gets_out():
    online = make(label_budget=1.0)
    faulty(online).error = KeyboardInterrupt()
    online.predict_one(ALPHAS[0])
    with pytest.raises(KeyboardInterrupt):
        online.learn_one(ALPHAS[0])


def test_rounds_that_cannot_be_evaluated_still_answer(tmp_path):
    online = make("ridge", evaluate=True, variant="paper_repaired", label_budget=0.1)
    oracle = faulty(online)
    oracle.error = RuntimeError("no")
    alphas = simplex.sample(300, N)
    for alpha in alphas:
        assert np.isfinite(online.predict_one(alpha)).all()
    first = state(online, tmp_path)
    assert online.ledger.evaluated == 0 and np.isnan(online.ledger.loss) and online.ledger.notes
    assert state(online, tmp_path) == first  # to read the books is not to write them
    oracle.error = None
    for alpha in alphas:
        online.predict_one(alpha)
    assert (
        online.ledger.evaluated >= 300
        and len(online.ledger.losses) == 600
        and len(online._state.waiting) < 256
    )


# ---- accounts ------------------------------------------------------------------------------------


def test_the_books_add_up():
    online = make(
        variant="first_order",
        label_budget=0.3,
        policy="coin",
        evaluate=True,
        prior="zero",
        tol=1e-6,
    )
    w, flips, _ = run(online, ALPHAS)
    ledger = online.ledger
    assert (
        ledger.rounds == 60
        and ledger.labels == sum(flips)
        and ledger.failed == 0
        and ledger.notes == ()
    )
    np.testing.assert_array_equal(ledger.labels_at, np.cumsum(flips))
    assert (
        ledger.centres == ledger.centres_at[-1] == len(online._state.regressor.S)
        and (np.diff(ledger.centres_at) >= 0).all()
    )
    best = cuvee.solve(sources(), HYPOTHESES["binary"][1], ALPHAS, tol=1e-11).w
    losses = ((w - best) ** 2).sum(1)
    np.testing.assert_allclose(ledger.losses, losses, rtol=1e-4, atol=1e-8)
    assert ledger.evaluated == 60 and ledger.regret == ledger.loss
    np.testing.assert_allclose(ledger.loss, ledger.losses.sum())
    np.testing.assert_allclose(ledger.average_loss, ledger.loss / 60)
    np.testing.assert_allclose(ledger.average_at, np.cumsum(ledger.losses) / np.arange(1, 61))
    assert (
        "60 rounds" in str(ledger)
        and f"{ledger.labels} labels" in str(ledger)
        and "average loss" in str(ledger)
    )
    assert "60 rounds" in repr(online) and "first_order" in repr(online)


def test_nothing_is_evaluated_unless_it_is_asked_for(monkeypatch):
    online = make(variant="paper_repaired", label_budget=0.1)
    oracle = faulty(online)
    oracle.error = RuntimeError("asked")
    for alpha in np.tile(ALPHAS, (5, 1)):
        online.predict_one(alpha)
    ledger = online.ledger
    assert ledger.evaluated == 0 and len(ledger.losses) == 0 and len(ledger.average_at) == 0
    assert np.isnan([ledger.loss, ledger.average_loss, ledger.regret]).all() and ledger.notes == ()
    assert "nan" not in str(ledger)
    empty = make(variant="paper").ledger
    assert (
        empty.rounds == empty.labels == empty.centres == 0
        and np.isnan(empty.average_loss)
        and str(empty)
    )


@every_variant
def test_books_do_not_depend_on_when_they_are_read(variant, tmp_path):
    alphas = simplex.sample(300, N, 8)
    read, unread = (
        make("ridge", variant=variant, label_budget=0.1, evaluate=True) for _ in range(2)
    )
    for t, alpha in enumerate(alphas):
        for online in (read, unread):
            run(online, [alpha])
        if t % 37 == 0 or 250 < t < 260:
            ledger = read.ledger
            assert ledger.evaluated == ledger.rounds == t + 1
            repr(read)
    assert state(read, tmp_path) == state(unread, tmp_path)
    np.testing.assert_array_equal(read.ledger.losses, unread.ledger.losses)
    assert read.ledger.loss == unread.ledger.loss


def test_evaluation_changes_nothing_else():
    with_, without = (make(label_budget=0.2, evaluate=evaluate) for evaluate in (True, False))
    a, b = run(with_, ALPHAS), run(without, ALPHAS)
    np.testing.assert_array_equal(a[0], b[0])
    assert a[1:] == b[1:]


def test_a_ledger_is_of_its_moment():
    online = make("ridge", label_budget=0.5, policy="coin")
    run(online, ALPHAS[:10])
    before = online.ledger
    counted = before.labels_at.copy()
    run(online, ALPHAS[10:])
    np.testing.assert_array_equal(before.labels_at, counted)
    assert before.rounds == 10 and len(before.centres_at) == 10


# ---- as a model map ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ridge", "binary", "softmax"])
def test_it_is_a_model_map(name):
    online = make(name, label_budget=0.5, tol=1e-3)
    run(online, ALPHAS)
    before = online.ledger
    asked = np.concatenate([simplex.sample(30, N, 6), np.eye(N)])
    predicted, certified, corrected = (
        online(asked, trust=t) for t in ("predicted", "certified", "corrected")
    )
    assert_rounded(predicted.w, certified.w)
    assert (
        set(predicted.status) == {Status.OFF_TOLERANCE}
        and not np.isfinite(predicted.certificate.distance).any()
    )
    assert (
        (predicted.passes == 0).all()
        and (certified.passes == 1).all()
        and (corrected.passes >= 1).all()
    )
    proof = cuvee.certify(sources(name), HYPOTHESES[name][1], asked, certified.w)
    np.testing.assert_allclose(
        certified.certificate.gradient_norm, proof.gradient_norm, rtol=1e-6, atol=1e-13
    )
    np.testing.assert_allclose(certified.certificate.distance, proof.distance, rtol=1e-6)
    assert (np.abs(proof.gradient_norm - 1e-3) > 1e-9).all()  # or rounding would choose a status
    within = proof.gradient_norm <= 1e-3
    assert [s is Status.CERTIFIED for s in certified.status] == within.tolist()
    assert all(s.ok for s in corrected.status) and corrected.raise_for_status() is corrected
    best = cuvee.solve(sources(name), HYPOTHESES[name][1], asked, tol=1e-11)
    tight = online(asked, trust="corrected", tol=1e-9)
    assert (tight.certificate.gradient_norm <= 1e-9).all()
    np.testing.assert_allclose(
        tight.predict(np.ones((2, 3))).astype(float), best.predict(np.ones((2, 3))).astype(float)
    )
    assert online(asked).status == certified.status
    # no rounds
    assert online.ledger.rounds == before.rounds and online.ledger.labels == before.labels


def test_no_mixtures_and_many_mixtures():
    online = make(label_budget=0.5)
    run(online, ALPHAS)
    for trust in ("predicted", "certified", "corrected"):
        none = online(np.zeros((0, N)), trust=trust)
        assert none.w.shape == (0, 4) and none.status == () and none.passes.shape == (0,)
    many = simplex.sample(10_000, N, 7)
    sol = online(many)
    assert sol.w.shape == (10_000, 4) and np.isfinite(sol.w).all()
    assert_rounded(sol.w[::997], online(many[::997]).w)
    estimated = cuvee.estimate(
        cuvee.Problem(sources(), make_sources(2, 2, seed=9)), Logistic(0.1), method="uniform"
    )
    assert online(estimated).w.shape == (2, 4)
    for bad in (ALPHAS[0], ALPHAS[:, :2], "x", None, 2 * ALPHAS):
        with pytest.raises(MixtureError):
            online(bad)
    with pytest.raises(OptionError, match="trust"):
        online(many, trust="blind")
    with pytest.raises(OptionError, match="tol"):
        online(many, tol=0.0)


def test_a_map_that_knows_nothing_is_one_too():
    online = make(variant="paper_repaired", label_budget=0.1)
    np.testing.assert_array_equal(online(ALPHAS, trust="predicted").w, 0.25)
    assert all(s.ok for s in online(ALPHAS, trust="corrected").status)


# ---- hypotheses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "variant"),
    [
        *(("ridge", variant) for variant in VARIANTS),
        ("logistic", "first_order"),
        ("logistic", "curved"),
    ],
)
def test_models_stay_in_a_ball(kind, variant, tmp_path):
    classes, hypothesis = (
        (2, Logistic(0.1, radius=0.3)) if kind == "logistic" else (0, Ridge(0.1, radius=0.3))
    )
    alphas = ALPHAS if classes == 0 else ALPHAS[:6]
    data = make_sources(classes, N)
    online = OnlineMap(
        data, hypothesis, variant=variant, label_budget=0.5, policy="coin", evaluate=True
    )
    w, _, statuses = run(online, alphas)
    assert {s for s in statuses if s} == {Status.SOLVED}
    assert np.linalg.norm(w, axis=1).max() <= 0.3 * (1 + 1e-12)
    assert np.linalg.norm(online(alphas, trust="predicted").w, axis=1).max() <= 0.3 * (1 + 1e-12)
    best = cuvee.solve(data, hypothesis, alphas, tol=1e-10).w
    np.testing.assert_allclose(online.ledger.losses, ((w - best) ** 2).sum(1), rtol=1e-3, atol=1e-8)
    online.save(tmp_path / "x")
    with pytest.raises(InputError, match="needs its data"):
        OnlineMap.load(tmp_path / "x")


@pytest.mark.parametrize("variant", ["paper_repaired", "first_order", "curved"])
@pytest.mark.parametrize(
    ("classes", "hypothesis"), [(0, Ridge(0.0)), (2, Logistic(0.0)), (3, Logistic(0.0))], ids=repr
)
def test_without_a_penalty(classes, hypothesis, variant):
    online = OnlineMap(
        make_sources(classes, N), hypothesis, variant=variant, label_budget=0.5, evaluate=True
    )
    w, _, statuses = run(online, ALPHAS[:20])
    assert np.isfinite(w).all() and all(
        s is None or s in (Status.SOLVED, Status.ILL_CONDITIONED) for s in statuses
    )
    assert np.isfinite(online.ledger.loss) and online(ALPHAS).w.shape[0] == 60


def test_a_singular_problem_still_answers():
    data = [
        cuvee.Domain(s.name, np.column_stack([s.X, s.X[:, 0]]), s.y) for s in make_sources(0, N)
    ]
    online = OnlineMap(data, Ridge(0.0), label_budget=0.5)
    w, _, _ = run(online, ALPHAS)
    assert np.isfinite(w).all()


@pytest.mark.parametrize(("policy", "K"), [("auto", None), ("budget", 3)])
def test_networks(policy, K, tmp_path):
    online = make("net", label_budget=0.5, policy=policy, K=K)
    assert online.settings.variant == "paper_repaired"
    assert online.settings.policy == ("coin" if policy == "auto" else "budget")
    w, flips, _ = run(online, ALPHAS[:4])
    assert (
        np.isfinite(w).all()
        and online.ledger.labels == sum(flips) > 0
        and online.ledger.failed == 0
    )
    sol = online(ALPHAS[:3], trust="predicted")
    assert sol.predict(np.ones((2, 3))).shape == (3, 2)
    with pytest.raises(OptionError, match="trust='predicted'"):
        online(ALPHAS[:3])
    online.save(tmp_path / "x")
    np.testing.assert_array_equal(
        load(tmp_path / "x", "net")(ALPHAS[:3], trust="predicted").w, sol.w
    )
    np.testing.assert_array_equal(
        OnlineMap.load(tmp_path / "x").predict_one(ALPHAS[0]), online.predict_one(ALPHAS[0])
    )


@pytest.mark.parametrize(
    "options",
    [
        {"variant": "first_order"},
        {"variant": "curved"},
        {"policy": "certificate"},
        {"variant": "paper_repaired", "policy": "certificate"},
        {"evaluate": True},
    ],
    ids=str,
)
def test_networks_cannot_have_everything(options):
    with pytest.raises(OptionError, match=r"network.*paper_repaired.*coin"):
        make("net", **options)


def test_many_sources_and_parameters():
    data = make_sources(3, 60, d=30, rows=20)
    online = OnlineMap(data, Logistic(0.1), label_budget=0.5)
    w, _, _ = run(online, simplex.sample(6, 60))
    assert w.shape == (6, 93) and online.ledger.labels == 3
    assert online(np.eye(60), trust="predicted").w.shape == (60, 93)


# ---- files ---------------------------------------------------------------------------------------

KEPT = [
    {"variant": "paper", "label_budget": 0.4, "seed": 3},
    {"variant": "paper_repaired", "label_budget": 0.4, "prior": "zero"},
    {
        "variant": "paper_repaired",
        "label_budget": 0.4,
        "policy": "budget",
        "radius": 0.2,
        "evaluate": True,
    },
    {"variant": "first_order", "label_budget": 0.4, "evaluate": True},
    {"variant": "first_order", "label_budget": 0.4, "policy": "certificate"},
    {"variant": "curved", "label_budget": 0.4, "evaluate": True},
    {"variant": "curved", "label_budget": 0.4, "policy": "coin", "prior": "paper", "K": 5},
]


@pytest.mark.parametrize("options", KEPT, ids=lambda o: "-".join(map(str, o.values())))
@pytest.mark.parametrize("cut", [0, 25])
def test_saved_and_loaded_it_goes_on_to_the_bit(options, cut, tmp_path):
    name = "binary" if options["variant"] == "curved" else "ridge"
    online = make(name, **options)
    run(online, ALPHAS[:cut])
    online.save(tmp_path / "x")
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
    loaded, restored = load(tmp_path / "x", name), make(name, **options)
    run(restored, ALPHAS[40:45])
    restored.restore(tmp_path / "x")
    whole = run(online, ALPHAS[cut:])
    wanted = state(online, tmp_path)
    for other in (loaded, restored):
        assert other.settings == online.settings
        said = run(other, ALPHAS[cut:])
        np.testing.assert_array_equal(said[0], whole[0])
        assert said[1:] == whole[1:]
        assert state(other, tmp_path) == wanted
        np.testing.assert_array_equal(other.ledger.losses, online.ledger.losses)
        assert str(other.ledger) == str(online.ledger) and repr(other) == repr(online)
        np.testing.assert_array_equal(
            other(ALPHAS, trust="predicted").w, online(ALPHAS, trust="predicted").w
        )


def test_a_file_is_what_it_was_whatever_happens_next(tmp_path):
    online = make(label_budget=0.4)
    run(online, ALPHAS[:10])
    online.save(tmp_path / "x")
    before = (tmp_path / "x").read_bytes()
    loaded = load(tmp_path / "x")
    run(loaded, ALPHAS[10:20])
    run(online, ALPHAS[10:20])
    assert (tmp_path / "x").read_bytes() == before
    loaded.restore(tmp_path / "x")
    assert loaded.ledger.rounds == 10 and state(loaded, tmp_path) == before


def test_without_data_it_predicts(tmp_path):
    online = make(label_budget=0.4)
    run(online, ALPHAS[:20])
    online.save(tmp_path / "x")
    loaded = OnlineMap.load(str(tmp_path / "x"))
    for alpha in ALPHAS[20:]:
        np.testing.assert_array_equal(loaded.predict_one(alpha), online.predict_one(alpha))
    assert str(loaded.ledger) == str(online.ledger)
    before = state(loaded, tmp_path)
    for ask in (loaded.wants_label, loaded.learn_one, lambda alpha: loaded(alpha[None])):
        with pytest.raises(
            OptionError, match=r"needs the data: OnlineMap.load\(path, data, hypothesis\)"
        ):
            ask(ALPHAS[0])
    assert state(loaded, tmp_path) == before
    loaded.save(tmp_path / "y")
    again = load(tmp_path / "y")
    assert again.ledger.rounds == 60 and again.learn_one(ALPHAS[0]).status.ok
    with pytest.raises(OptionError, match="both"):
        OnlineMap.load(tmp_path / "x", sources())
    make(evaluate=True).save(tmp_path / "z")
    # evaluation ends, predictions go on
    assert np.isfinite(OnlineMap.load(tmp_path / "z").predict(ALPHAS)).all()


def test_radii_that_are_functions_are_given_again(tmp_path):
    options = {"variant": "first_order", "label_budget": 0.5, "radius": lambda t: 0.5 / t}
    online = make(**options)
    run(online, ALPHAS[:20])
    online.save(tmp_path / "x")
    with pytest.raises(InputError, match="radius"):
        load(tmp_path / "x")
    loaded = load(tmp_path / "x", radius=lambda t: 0.5 / t)
    a, b = run(loaded, ALPHAS[20:]), run(online, ALPHAS[20:])
    np.testing.assert_array_equal(a[0], b[0])
    online.restore(tmp_path / "x")
    assert online.ledger.rounds == 20
    for bad in (-1.0, "circle", [0.5], np.nan):
        with pytest.raises(InputError, match="function"):
            load(tmp_path / "x", radius=bad)
    junk = load(tmp_path / "x", radius=lambda t: "junk")
    before = state(junk, tmp_path)
    with pytest.raises(OptionError, match=r"radius\(21\)"):
        junk.predict_one(ALPHAS[0])
    assert state(junk, tmp_path) == before
    make(variant="first_order", radius=0.1).save(tmp_path / "y")
    with pytest.raises(InputError, match="radius"):
        load(tmp_path / "y", radius=lambda t: 0.9)  # it has one


OTHERS = {
    "variant": {"variant": "paper"},
    "policy": {"policy": "budget"},
    "label_budget": {"label_budget": 0.3},
    "tol": {"tol": 1e-4},
    "radius": {"radius": 0.1},
    "a function for a radius": {"radius": lambda t: 0.1},
    "K": {"K": 3},
    "evaluate": {"evaluate": True},
    "seed": {"seed": 1},
    "prior": {"prior": "zero"},
    "a prior of one's own": {"prior": np.arange(4.0)},
    "centre": {"prior": "centre"},
}


@pytest.mark.parametrize("other", list(OTHERS))
def test_a_state_of_other_settings_is_refused(other, tmp_path):
    online = make(variant="paper_repaired", label_budget=0.4)
    online.save(tmp_path / "x")
    changed = make(**{"variant": "paper_repaired", "label_budget": 0.4, **OTHERS[other]})
    before = state(changed, tmp_path)
    with pytest.raises(InputError):
        changed.restore(tmp_path / "x")
    assert state(changed, tmp_path) == before


def test_other_data_and_hypotheses_are_refused(tmp_path):
    make().save(tmp_path / "x")
    data = sources()
    for other in (
        data[::-1],
        data[:2],
        [cuvee.Domain(d.name, d.X + 1e-12, d.y) for d in data],
        make_sources(3, N),
    ):
        with pytest.raises(InputError, match="other data"):
            OnlineMap.load(tmp_path / "x", other, HYPOTHESES["binary"][1])
    for hypothesis in (
        Logistic(0.2),
        Logistic(0.1, intercept=False),
        Logistic(0.1, radius=1.0),
        Network(mlp(3, 2)),
    ):
        with pytest.raises(InputError, match="another hypothesis"):
            OnlineMap.load(tmp_path / "x", data, hypothesis)
    problem = cuvee.Problem(data, make_sources(2, 2, seed=9))
    assert OnlineMap.load(tmp_path / "x", problem, HYPOTHESES["binary"][1]).ledger.labels == 1


def test_files_that_are_none(tmp_path):
    online = make(label_budget=0.5, evaluate=True)
    run(online, ALPHAS[:10])
    online.save(tmp_path / "x")
    raw = (tmp_path / "x").read_bytes()
    cuts = {f"cut at {k}": raw[:k] for k in (0, 7, 100, len(raw) // 2, len(raw) - 1)}
    for name, content in {"text": b"hello", **cuts, "longer": raw + b"x"}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=r"cannot be read as a cuvee online map|is damaged"):
            load(tmp_path / name)
        with pytest.raises(InputError, match=r"cannot be read as a cuvee online map|is damaged"):
            online.restore(tmp_path / name)
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match="cannot be read as a cuvee online map"):
            load(path)
    save_file({"a": torch.zeros(2)}, tmp_path / "foreign")
    for metadata in ({}, [], 3, {"format": 1}, {"format": 1, "what": "a cuvee online map"}):
        with pytest.raises(InputError):
            load(tmp_path / "foreign")
        save_file(
            {"a": torch.zeros(2)}, tmp_path / "foreign", metadata={"cuvee": json.dumps(metadata)}
        )
    with pytest.raises(InputError):
        load(tmp_path / "foreign")
    assert online.ledger.rounds == 10


def test_a_learnt_map_is_no_online_map(tmp_path):
    atlas = cuvee.learn(sources(), HYPOTHESES["binary"][1], n_labels=24, n_calibration=0)
    atlas.save(tmp_path / "atlas")
    with pytest.raises(InputError, match=r"a cuvee map|cannot be read"):
        load(tmp_path / "atlas")
    make().save(tmp_path / "online")
    with pytest.raises(InputError):
        cuvee.load_map(tmp_path / "online", sources(), HYPOTHESES["binary"][1])


CHANGES = {
    "another format": lambda h, t: h.update(format=99),
    "another kind": lambda h, t: h.update(what="a teapot"),
    "no settings": lambda h, t: h.pop("settings"),
    "a setting less": lambda h, t: h["settings"].pop("seed"),
    "a setting more": lambda h, t: h["settings"].update(colour="red"),
    "an unknown variant": lambda h, t: h["settings"].update(variant="os.system"),
    "no accounts": lambda h, t: h.update(accounts=None),
    "no prior": lambda h, t: t.pop("prior"),
    "no centres": lambda h, t: t.pop("balls.centres"),
    "a centre less": lambda h, t: t.update({"balls.centres": t["balls.centres"][1:]}),
    "centres of more sources": lambda h, t: t.update(
        {"balls.centres": torch.rand(len(t["balls.radii"]), 5)}
    ),
    "a ball less": lambda h, t: t.update({"balls.total": t["balls.total"][1:]}),
    "rounds that are not counted": lambda h, t: t.update({"labels_at": t["labels_at"][1:]}),
    "a prior of other size": lambda h, t: t.update(prior=torch.zeros(3, dtype=torch.float64)),
    "other coefficients": lambda h, t: t.update(
        {"balls.coefficients": torch.zeros(2, 4, dtype=torch.float64)}
    ),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_files_that_were_tampered_with(change, tmp_path):
    online = make("ridge", label_budget=1.0, policy="coin")
    run(online, ALPHAS[:20])
    online.save(tmp_path / "x")
    with pytest.raises(InputError):
        load(rewritten(tmp_path / "x", CHANGES[change]), "ridge")


def test_distances_before_there_is_a_centre():
    online = make(prior="zero", label_budget=0.5)
    online.predict_one(ALPHAS[0])
    assert online._round.distance == inf and not online._round.known


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_default_loses_far_less_than_the_printed_box_for_far_fewer_labels(seed):
    data, alphas = shifted_sources(3, 500, 16, seed=seed), simplex.sample(3_000, 3, seed)
    found = {}
    for variant in ("paper", "paper_repaired", "auto"):
        online = OnlineMap(data, Logistic(1e-2), variant=variant, evaluate=True)
        found[variant] = cuvee.run_online(alphas, online, progress=False)
    assert found["auto"].average_loss < found["paper"].average_loss / 1_000
    assert found["auto"].average_loss < found["paper_repaired"].average_loss / 50
    assert found["auto"].labels < found["paper"].labels / 6
    assert found["paper_repaired"].average_loss < found["paper"].average_loss / 5
