"""`OnlineMixtures`: α predicted for targets that come one by one, and the oracle asked within a
budget.
"""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.torch import load_file

import cuvee
from builders import mlp
from cuvee.api import online_mixtures
from cuvee.api.online_mixtures import OnlineMixtures
from cuvee.data.synthetic import grouped_classes, squared_loss_instance
from cuvee.online.mixtures import (
    N_ATOMS,
    MixtureLearner,
    Sources,
    Statistics,
    atoms,
    distance,
    summarise,
)
from cuvee.outputs import files
from rounding import ESTIMATED, assert_rounded

LOGISTIC = cuvee.Logistic(1e-2)
CHEAP = {"adversaries": 2, "steps": 20, "folds": 2}


@pytest.fixture(scope="module")
def stream():
    """Twenty-five targets of three groups, and all the oracle's answers."""
    problem = grouped_classes(0, n_targets=25)
    return problem, cuvee.estimate(problem, LOGISTIC, **CHEAP).alpha


@pytest.fixture
def mixer(stream):
    return OnlineMixtures(stream[0].sources, LOGISTIC, **CHEAP)


def follow(mixer, problem, answers):
    """Predictions, bounds and what was delivered, round by round."""
    said = []
    for target, answer in zip(problem.targets, answers, strict=True):
        alpha = mixer.predict_one(target)
        bound, delivered = mixer.uncertainty_one(target), alpha
        if mixer.wants_label(target):
            delivered = mixer.learn_one(target, answer)
        said.append((alpha, bound, delivered))
    return [np.array(part) for part in zip(*said, strict=True)]


# ---- the learner on arrays -----------------------------------------------------------------------


def exact_sources(losses, rows=1000.0):
    return Sources(np.asarray(losses, float), np.asarray(0.1), np.full(len(losses), rows))


def test_atoms_lie_on_the_simplex_and_find_the_source_that_looks_like_the_target():
    sources = exact_sources([[0.1, 0.9, 0.9], [0.9, 0.1, 0.9], [0.9, 0.9, 0.1]])
    targets = Statistics(sources.loss[[0, 2]], np.array([1e-3, 1e-3]), np.array([20.0, 20.0]))
    found = atoms(sources, targets)
    assert found.shape == (2, N_ATOMS, 4)
    assert np.allclose(found.sum(-1), 1.0) and (found >= 0.0).all()
    assert (found[:, :9, :3].argmax(-1) == np.array([[0], [2]])).all()


def test_atoms_are_minimisers():
    """Against a plain, slow descent on the objective as it is written."""
    rng = np.random.default_rng(0)
    sources = Sources(rng.random((5, 4)), np.asarray(0.1), rng.integers(20, 200, 5).astype(float))
    target = Statistics(rng.random((1, 4)), np.array([0.01]), np.array([15.0]))
    found = atoms(sources, target)[0]
    gap = np.vstack([sources.loss - target.loss, np.zeros((1, 4))])

    def objective(a, C, rho):
        pen = (a[..., :-1] ** 2 / sources.rows).sum(-1) + rho * a[..., -1] ** 2 / 15.0
        return ((a @ gap) ** 2).mean(-1) / 0.01 + C * pen

    rivals = rng.dirichlet(np.full(6, 0.5), 5000)
    for g, (C, rho) in enumerate((C, rho) for C in (1e3, 1e4, 1e5) for rho in (0.03, 0.1, 0.3)):
        towards = found[g] + 1e-3 * (rivals - found[g])  # convex: no small step may lead down
        assert objective(found[g], C, rho) <= objective(rivals, C, rho).min() + 1e-9
        assert objective(found[g], C, rho) <= objective(towards, C, rho).min() * (1 + 1e-6)


def test_statistics_survive_one_row():
    mean, variance, squares, rows = (
        np.array([[2.0, 0.0]]),
        np.array([[1.0, 0.0]]),
        np.array([0.5]),
        np.array([2.0]),
    )
    seen = summarise(mean, variance, squares, rows, 2.0)
    assert seen.loss.tolist() == [[2.0, 0.0]] and seen.rows.tolist() == [2.0]
    assert seen.noise[0] == pytest.approx((2 * 0.5 + 2 * 2.0) / 4 / 2)
    one, none = np.ones(1), np.zeros((1, 2))
    assert summarise(mean, none, one, one, 2.0).noise[0] > 0.0
    assert summarise(none, none, one / 3, 3 * one, 0.0).noise[0] > 0.0


def test_answers_are_learnt():
    """The oracle always answers with one atom: after a few answers so does the learner."""
    rng = np.random.default_rng(0)
    learner = MixtureLearner(Sources(rng.random((4, 6)), np.asarray(0.1), np.full(4, 50.0)), 0.8)
    errors = []
    for _ in range(12):
        target = Statistics(rng.random((1, 6)), np.array([0.02]), np.array([20.0]))
        forecast = learner.predict(target)
        answer = forecast.atoms[0, 0]
        errors.append(float(distance(forecast.alpha[0], answer)))
        learner.learn(target, forecast, answer)
    assert np.mean(errors[-4:]) < 0.5 * errors[0]
    assert_rounded(learner.of("error"), errors)


# ---- rounds --------------------------------------------------------------------------------------


def test_predicts_before_any_label_and_better_than_uniform(stream, mixer):
    problem, answers = stream
    alpha = mixer.predict_one(problem.targets[0])
    assert alpha.shape == (10,) and alpha.min() >= 0.0 and alpha.sum() == pytest.approx(1.0)
    assert mixer.uncertainty_one(problem.targets[0]) == 1.0
    first = distance(mixer.predict(problem.targets), answers).mean()
    assert first < 0.7 * distance(np.full_like(answers, 0.1), answers).mean()


@pytest.mark.parametrize("budget", [0.1, 0.2, 1.0])
def test_budget_is_kept_at_every_round(stream, budget):
    problem, answers = stream
    mixer = OnlineMixtures(problem.sources, LOGISTIC, label_budget=budget)
    for t, (target, answer) in enumerate(zip(problem.targets, answers, strict=True), 1):
        mixer.predict_one(target)
        wanted = mixer.wants_label(target)
        assert wanted or t > 1  # the first round asks
        if wanted:
            assert mixer.learn_one(target, answer) == pytest.approx(answer)
        assert mixer.ledger.labels <= int(np.ceil(budget * t - 1e-9))
    assert mixer.ledger.rounds == 25 and mixer.ledger.labels >= 3


def test_a_tolerance_within_reach_ends_the_asking(stream):
    mixer = OnlineMixtures(stream[0].sources, LOGISTIC, label_budget=1.0, tol=0.5)
    follow(mixer, *stream)
    assert 4 <= mixer.ledger.labels < 15


@pytest.mark.slow
def test_learning_brings_predictions_closer_to_the_oracle():
    before, after = [], []
    for seed in range(3):
        problem = grouped_classes(seed, n_targets=24)
        answers = cuvee.estimate(problem, LOGISTIC, **CHEAP).alpha
        mixer = OnlineMixtures(problem.sources, LOGISTIC, label_budget=1.0, tol=1e-9)
        before.append(distance(mixer.predict(problem.targets[12:]), answers[12:]))
        for target, answer in zip(problem.targets[:12], answers[:12], strict=True):
            mixer.learn_one(target, answer)
        after.append(distance(mixer.predict(problem.targets[12:]), answers[12:]))
    assert np.mean(after) < 0.95 * np.mean(before)


@pytest.mark.slow
def test_the_bound_covers_as_often_as_it_says():
    covered = []
    for seed in range(10, 15):
        problem = grouped_classes(seed, n_targets=30)
        answers = cuvee.estimate(problem, LOGISTIC, **CHEAP).alpha
        alpha, bound, _ = follow(
            OnlineMixtures(problem.sources, LOGISTIC, label_budget=0.4), problem, answers
        )
        covered.append((distance(alpha, answers) <= bound)[bound < 1.0])
    share = np.mean(np.concatenate(covered))
    assert len(np.concatenate(covered)) >= 100
    assert 0.7 <= share <= 0.95


def test_no_budget_is_said_and_never_asks(stream):
    with pytest.warns(cuvee.CuveeWarning, match="never learns"):
        mixer = OnlineMixtures(stream[0].sources, LOGISTIC, label_budget=0.0)
    assert not any(mixer.wants_label(target) for target in stream[0].targets[:5])
    assert mixer.ledger.labels == 0 and mixer.ledger.rounds == 5


def test_the_oracle_is_estimate(stream, mixer):
    problem, answers = stream
    mixer.predict_one(problem.targets[3])
    assert mixer.wants_label(problem.targets[3])
    assert np.abs(mixer.learn_one(problem.targets[3]) - answers[3]).max() < 1e-6
    assert str(mixer.ledger).startswith("1 rounds, 1 labels, mean error")


def test_other_oracles_answer_with_the_own_sample(stream):
    mixer = OnlineMixtures(
        stream[0].sources, LOGISTIC, method="konstantinov_lampert", C=1.0, steps=20
    )
    wanted = cuvee.estimate(
        cuvee.Problem(stream[0].sources, stream[0].targets[:1]),
        LOGISTIC,
        method="konstantinov_lampert",
        C=1.0,
        steps=20,
        own=True,
    )
    assert_rounded(mixer.learn_one(stream[0].targets[0]), wanted.alpha[0], ESTIMATED)


@pytest.mark.parametrize("how", ["raises", "diverges"])
def test_a_failing_oracle_is_noted_and_the_round_answers(stream, mixer, monkeypatch, how):
    problem, _ = stream

    def broken(p, h, **options):
        if how == "raises":
            raise RuntimeError("out of memory\nand more")
        return cuvee.Mixtures(
            np.full((1, 10), np.nan),
            (),
            ("t",),
            np.zeros(1),
            (cuvee.Status.DIVERGED,),
            "path",
            np.zeros(1),
        )

    monkeypatch.setattr(online_mixtures, "estimate", broken)
    predicted = mixer.predict_one(problem.targets[0])
    assert np.array_equal(mixer.learn_one(problem.targets[0]), predicted)
    assert (mixer.ledger.labels, mixer.ledger.failed) == (1, 1)
    assert ("out of memory" if how == "raises" else "diverged") in mixer.ledger.notes[0]
    assert "'target 0'" in mixer.ledger.notes[0]


def test_a_repeated_target_is_not_paid_for_again(stream, mixer):
    problem, answers = stream
    target = problem.targets[0]
    again = cuvee.Domain("by another name", target.X, target.y)
    mixer.learn_one(target, answers[0])
    assert np.allclose(mixer.predict_one(again), answers[0])
    assert mixer.uncertainty_one(again) == 0.0 and not mixer.wants_label(again)
    assert np.allclose(mixer.learn_one(again, answers[1]), answers[0])
    assert np.allclose(mixer.predict([problem.targets[1], again])[1], answers[0])
    assert (mixer.ledger.rounds, mixer.ledger.labels) == (2, 1)


def test_a_round_is_one_however_often_it_is_asked_about(stream, mixer):
    target = stream[0].targets[0]
    mixer.predict_one(target)
    mixer.uncertainty_one(target)
    mixer.wants_label(target)
    mixer.predict(stream[0].targets)
    assert mixer.ledger.rounds == 1
    mixer.wants_label(stream[0].targets[1])
    assert mixer.ledger.rounds == 2


# ---- many targets, other hypotheses --------------------------------------------------------------


def test_a_batch_says_what_its_rows_say(stream, mixer, monkeypatch):
    problem, answers = stream
    follow(mixer, problem, answers)
    fresh = grouped_classes(1, n_targets=9).targets
    batch = mixer.predict(fresh)
    monkeypatch.setattr("cuvee.online.mixtures.CHUNK", 300)  # two targets at a time
    monkeypatch.setattr("cuvee.api.online_panel.CHUNK", 10_000)
    assert np.abs(mixer.predict(fresh) - batch).max() < 1e-9
    assert np.abs(np.stack([mixer.predict_one(t) for t in fresh]) - batch).max() < 1e-9
    assert mixer.predict([]).shape == (0, 10)


@pytest.mark.parametrize("rows", [1, 2, 30])
def test_ridge_with_few_rows(rows):
    problem = squared_loss_instance(0)
    target = problem.targets[0]
    mixer = OnlineMixtures(problem, cuvee.Ridge(1e-2))
    alpha = mixer.predict_one(cuvee.Domain("few", target.X[:rows], target.y[:rows]))
    assert alpha.shape == (problem.n_sources + 1,) and alpha.sum() == pytest.approx(1.0)


def test_weighted_rows_count_as_repeated_ones(stream, mixer):
    X, y = stream[0].targets[0].X, stream[0].targets[0].y
    weighted = cuvee.Domain("weighted", X, y, weight=np.arange(20) % 2 + 1e-12)
    halved = cuvee.Domain("halved", X[1::2], y[1::2])
    seen = [mixer._statistics([t]).loss for t in (weighted, halved)]
    assert np.allclose(*seen)


def test_network():
    problem = grouped_classes(0, n_targets=2, per_group=1)
    mixer = OnlineMixtures(problem.sources, cuvee.Network(mlp(6, 2)))
    assert mixer.predict(problem.targets).shape == (2, 4)


def test_one_source_is_weighed_against_the_own_sample(stream):
    mixer = OnlineMixtures(stream[0].sources[:1], LOGISTIC)
    near, far = (mixer.predict_one(stream[0].targets[i]) for i in (0, 1))
    assert near.shape == (2,) and near[0] > far[0]


# ---- bad input -----------------------------------------------------------------------------------


def test_targets_that_cannot_be_weighed_are_named(stream, mixer):
    X, y = stream[0].targets[0].X, stream[0].targets[0].y
    for target, message in (
        ((X, y), "is a tuple, not a cuvee.Domain"),
        (cuvee.Domain("narrow", X[:, :4], y), "'narrow' has 4 features per row"),
        (cuvee.Domain("odd", X, np.full(20, 7)), "'odd': label 7 at row 0 appears in no source"),
    ):
        for ask in (
            mixer.predict_one,
            mixer.wants_label,
            mixer.learn_one,
            lambda t: mixer.predict([t]),
        ):
            with pytest.raises(cuvee.DomainError, match=message):
                ask(target)
    with pytest.raises(cuvee.DomainError, match="list of domains"):
        mixer.predict(stream[0].targets[0])
    assert mixer.ledger.rounds == 0 and mixer.ledger.labels == 0


def test_losses_that_overflow_are_told():
    problem = squared_loss_instance(0)
    mixer = OnlineMixtures(problem, cuvee.Ridge(1e-2))
    with pytest.raises(cuvee.DomainError, match="'huge': its losses under"):
        mixer.predict_one(cuvee.Domain("huge", 1e200 * problem.targets[0].X, problem.targets[0].y))


def test_a_given_answer_must_be_a_mixture(stream, mixer):
    for alpha in (np.full(9, 1 / 9), np.full(10, 0.2)):
        with pytest.raises(cuvee.MixtureError):
            mixer.learn_one(stream[0].targets[0], alpha)
    assert mixer.ledger.labels == 0


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("label_budget", -0.1),
        ("label_budget", 1.5),
        ("tol", 0.0),
        ("level", 1.0),
        ("method", "uniform"),
        ("discrepancy", "max"),
        ("C", -1.0),
        ("folds", 1),
        ("seed", None),
        ("device", "abacus"),
    ],
)
def test_options_out_of_range_are_named(stream, option, value):
    with pytest.raises(cuvee.OptionError, match=option):
        OnlineMixtures(stream[0].sources, LOGISTIC, **{option: value})


def test_a_source_may_not_take_the_own_samples_name(stream):
    source = stream[0].sources[0]
    with pytest.raises(cuvee.OptionError, match="rename"):
        OnlineMixtures([cuvee.Domain(cuvee.OWN, source.X, source.y)], LOGISTIC)


# ---- files ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_loaded_mixer_goes_on_as_if_nothing_had_happened(stream, mixer, tmp_path):
    problem, answers = stream
    halves = [
        (cuvee.Problem(problem.sources, problem.targets[part]), answers[part])
        for part in (slice(15), slice(15, 25))
    ]
    follow(mixer, *halves[0])
    mixer.save(tmp_path / "mixer.safetensors")
    other = OnlineMixtures.load(tmp_path / "mixer.safetensors", problem.sources, LOGISTIC)
    assert other.settings == mixer.settings and str(other.ledger) == str(mixer.ledger)
    for mine, theirs in zip(follow(mixer, *halves[1]), follow(other, *halves[1]), strict=True):
        assert np.array_equal(mine, theirs)
    assert str(other.ledger) == str(mixer.ledger)


def test_a_file_is_for_its_own_sources_and_hypothesis(stream, mixer, tmp_path):
    mixer.save(tmp_path / "mixer")
    for sources, hypothesis in (
        (stream[0].sources[1:], LOGISTIC),
        (stream[0].sources, cuvee.Logistic(1e-3)),
    ):
        with pytest.raises(cuvee.InputError, match="other sources or another hypothesis"):
            OnlineMixtures.load(tmp_path / "mixer", sources, hypothesis)


def test_files_that_are_none_or_broken_are_told(stream, mixer, tmp_path):
    sources, good = stream[0].sources, tmp_path / "mixer"
    with pytest.raises(cuvee.InputError, match="cannot be written"):
        mixer.save(tmp_path / "nowhere" / "mixer")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(cuvee.InputError, match="cannot be read"):
        OnlineMixtures.load(tmp_path / "text", sources, LOGISTIC)
    mixer.save(good)
    header, arrays = files.header_of(good), load_file(good)

    def spoilt(**changes):
        files.write(tmp_path / "spoilt", arrays, header | changes)
        return tmp_path / "spoilt"

    for changes, message in (
        ({"format": 99}, "has format 99"),
        ({"keys": ["a"]}, "do not match"),
        ({"settings": {}}, "cannot be read"),
        ({"what": "a cuvee map"}, "holds a cuvee map"),
    ):
        with pytest.raises(cuvee.InputError, match=message):
            OnlineMixtures.load(spoilt(**changes), sources, LOGISTIC)
    del arrays["answers.alpha"]
    with pytest.raises(cuvee.InputError, match="cannot be read"):
        OnlineMixtures.load(spoilt(), sources, LOGISTIC)


# ---- streams -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_stream_of_targets_that_is_cut_ends_as_if_it_had_not_been(stream, tmp_path):
    problem, _ = stream
    options = {"label_budget": 0.5, "steps": 20, "folds": 2, "adversaries": 2}
    targets = list(problem.targets[:8])
    other = cuvee.Domain("other columns", np.ones((6, 1)), [0, 1, 0, 1, 0, 1])

    def mixer():
        return OnlineMixtures(problem.sources, LOGISTIC, **options)

    undisturbed = mixer()
    whole = cuvee.run_online(
        [*targets, other], undisturbed, progress=False, picture=tmp_path / "picture"
    )
    assert (tmp_path / "picture").read_bytes().startswith(b"\x89PNG")
    assert whole.rounds == 8 and 1 <= whole.labels <= 4 and "other columns" in whole.notes[-1]

    def cut(position, alpha):
        if position == 5:
            raise KeyboardInterrupt

    cut_off = mixer()
    with pytest.raises(KeyboardInterrupt):
        cuvee.run_online(
            [*targets, other], cut_off, checkpoint=tmp_path / "c", every=2, each=cut, progress=False
        )
    again = mixer()
    ledger = cuvee.run_online(
        [*targets, other], again, checkpoint=tmp_path / "c", every=2, progress=False
    )
    assert (ledger.rounds, ledger.labels, ledger.notes) == (whole.rounds, whole.labels, whole.notes)
    for one in (undisturbed, again):
        one.save(tmp_path / f"{id(one)}")
    assert (tmp_path / f"{id(undisturbed)}").read_bytes() == (
        tmp_path / f"{id(again)}"
    ).read_bytes()
    with pytest.raises(cuvee.InputError, match="another stream"):
        cuvee.run_online(targets[::-1], mixer(), checkpoint=tmp_path / "c", progress=False)
    with pytest.raises(cuvee.InputError, match="was made with"):
        OnlineMixtures(problem.sources, LOGISTIC, label_budget=0.1).restore(tmp_path / "c")
