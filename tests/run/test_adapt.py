"""What a run finds is what the library gives by hand, and what it predicts is what its
models say.
"""

from __future__ import annotations

import dataclasses
import io
import json
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from scipy import stats
from sklearn.linear_model import Ridge as SklearnRidge

import cuvee
from cuvee.data.encode import Encoder
from cuvee.data.fingerprint import drawn, row_digests
from cuvee.data.levels import take_out
from cuvee.data.metrics import ACCURACY, RMSE
from cuvee.data.prepare import prepare
from cuvee.errors import InputError
from cuvee.report.cautions import worries
from cuvee.run import Options, adapt, open_run, resume
from cuvee.run.alpha_file import from_csv, to_csv
from cuvee.run.judge import Judged
from cuvee.run.scores import METHODS, metrics, paired_error, simple_mixtures
from rounding import SOLVED, assert_alike, assert_rounded
from run_builders import check_tidy, contents, options, table

BASE = table(5, 16)
TARGETS = ("site 0", "site 3")


def by_class(y, order, many):
    """Test rows one by one, each of the class that has given the smallest share of its rows."""
    waiting = {c: [row for row in order if y[row] == c] for c in np.unique(y)}
    size, tested = {c: len(rows) for c, rows in waiting.items()}, []

    def turn(c):
        given, last = size[c] - len(waiting[c]), len(waiting[c]) == 1
        first = given == 0 and size[c] > 1
        return (given + 0.5) / size[c] - first + last, -order.index(waiting[c][0])

    while len(tested) < many:
        tested.append(waiting[min((c for c in waiting if waiting[c]), key=turn)].pop(0))
    return np.array(tested)


def problem_by_hand(frame, label, targets, seed=0, test=0.25, labelled=None):
    """Sources and targets as a reader of the docs would make them: pandas, numpy and an encoder on
    the rows of sources.
    """
    order, learn, held = {}, {}, {}
    for t in targets:
        rows = np.flatnonzero(frame.site == t)
        order[t] = drawn(row_digests(frame[["age", "sex", label]].iloc[rows]), seed)
        keep = labelled or max(len(rows) - round(test * len(rows)), 5)
        tested = order[t][keep:]
        if label == "sick" and not labelled:
            tested = by_class(frame[label].to_numpy()[rows], order[t].tolist(), len(tested))
        learn[t] = rows[~np.isin(np.arange(len(rows)), tested)]
        held[t] = rows[np.sort(tested)]
    sources = {s: np.flatnonzero(frame.site == s) for s in frame.site.unique() if s not in targets}
    train = frame.iloc[np.concatenate([*sources.values()])]
    mean, scale = train.age.mean(), train.age.std(ddof=0)
    X = np.column_stack([(frame.age - mean) / scale, frame.sex == "f", frame.sex == "m"]).astype(
        float
    )
    y = frame[label].to_numpy()

    def domain(name, rows):
        return cuvee.Domain(name, X[rows], y[rows])

    def problem(own):
        return cuvee.Problem(
            [domain(s, r) for s, r in sources.items()], [domain(t, own[t]) for t in targets]
        )

    whole = {t: np.flatnonzero(frame.site == t) for t in targets}
    return problem(learn), problem(whole), [(X[held[t]], y[held[t]]) for t in targets], X


def scores_by_hand(space, models, test, classify):
    """(methods,) and losses (methods, rows) of one target."""
    X, y = test
    said = np.stack([space.predict(w, X) for w in models])
    losses = (said != y) * 1.0 if classify else (said - y) ** 2
    return (1 - losses.mean(1) if classify else np.sqrt(losses.mean(1))), losses


@pytest.fixture(scope="module")
def ridge(tmp_path_factory):
    return adapt(
        BASE,
        tmp_path_factory.mktemp("ridge") / "run",
        options=options(targets=TARGETS, method="path"),
    )


@pytest.fixture(scope="module")
def logistic(tmp_path_factory):
    out = tmp_path_factory.mktemp("logistic") / "run"
    return adapt(BASE, out, options=options("sick", targets=TARGETS, method="agp"))


@pytest.mark.parametrize("label", ["cost", "sick"])
def test_numbers_are_those_of_the_library(label, request):
    run = request.getfixturevalue("ridge" if label == "cost" else "logistic")
    classify = label == "sick"
    hypothesis = cuvee.Logistic(1e-2) if classify else cuvee.Ridge(1e-2)
    learn, whole, test, _ = problem_by_hand(BASE, label, TARGETS)
    mix = cuvee.estimate(learn, hypothesis, own=True, method="agp" if classify else "path")
    assert run.columns == mix.columns and run.targets == TARGETS
    np.testing.assert_allclose(run.alpha, mix.alpha, rtol=0, atol=1e-6)
    final = cuvee.solve(whole, hypothesis, run.alpha, tol=1e-6)
    np.testing.assert_allclose(run.w, final.w, rtol=0, atol=1e-5)
    found = run.metrics
    assert found["status"] == [str(s) for s in final.status] and found["metric"].startswith(
        "acc" if classify else "root"
    )
    np.testing.assert_allclose(
        found["certificate"]["distance"], final.certificate.distance, rtol=1e-2, atol=1e-9
    )
    simple = simple_mixtures(
        np.array([d.n_rows for d in learn.sources], float),
        np.array([d.n_rows for d in learn.targets], float),
    )
    models = [
        cuvee.solve(learn, hypothesis, a, tol=1e-6).w
        for a in (run.alpha, *simple.transpose(1, 0, 2))
    ]
    for i, held in enumerate(test):
        score, _ = scores_by_hand(final.space, [w[i] for w in models], held, classify)
        own = learn.targets[i].y
        said = max(np.unique(own), key=own.tolist().count) if classify else own.mean()
        constant = np.mean(held[1] == said) if classify else np.sqrt(np.mean((held[1] - said) ** 2))
        np.testing.assert_allclose(
            [s[0] for s in found["scores"][i]], [*score, constant], rtol=1e-6
        )
    assert (
        found["methods"] == [*METHODS, "majority class" if classify else "own mean"]
        and found["scored"] == 2
    )
    assert set(found["also"]) == (
        {"balanced accuracy", "AUC", "log loss"} if classify else {"mean absolute error", "R²"}
    )


def test_intervals_ranks_and_gains(ridge, logistic):
    for run, classify in ((ridge, False), (logistic, True)):
        found = run.metrics
        scores = np.array(found["scores"])  # (M, methods, 3)
        value, sign = scores[..., 0], 1 if classify else -1
        n = 4  # test rows of each
        for i, target in enumerate(TARGETS):
            assert run.findings.test_rows[i] == n
            if classify:
                for k, right in enumerate(value[i]):
                    wanted = stats.binomtest(round(right * n), n).proportion_ci(method="wilson")
                    np.testing.assert_allclose(scores[i, k, 1:], wanted, atol=1e-4)
            else:
                learn, _, test, _ = problem_by_hand(BASE, "cost", TARGETS)
                w = cuvee.solve(learn, cuvee.Ridge(1e-2), run.alpha).w[i]
                losses = scores_by_hand(cuvee.Ridge(1e-2).bind(learn.facts), [w], test[i], False)[
                    1
                ][0]
                half = 1.96 * stats.sem(losses) / losses.mean()  # of the logarithm
                wanted = np.sqrt(losses.mean() * np.exp([-half, half]))
                assert wanted[0] > 0.0
                np.testing.assert_allclose(scores[i, 0, 1:], wanted, rtol=1e-6), target
        ranks = np.stack([stats.rankdata(-sign * v) for v in value])
        np.testing.assert_allclose(found["mean_rank"], ranks.mean(0))
        np.testing.assert_allclose([m[0] for m in found["mean"]], value.mean(0))
        gains = sign * (value[:, :1] - value)
        np.testing.assert_allclose([g[0] for g in found["gain"]], gains.mean(0), atol=1e-12)
        for k in range(1, len(METHODS) + 1):
            low, high = found["gain"][k][1:]
            assert low < high, "four rows prove nothing alike"
            assert not classify or (low >= -1 and high <= 1), "no gain in accuracy is larger"


def test_the_interval_of_a_gain_is_the_wider_of_two():
    rng = np.random.default_rng(0)
    wrong = rng.random((3, 2, 40)) < np.array([0.2, 0.3])[:, None]  # (targets, methods, rows)
    loss = wrong.mean(-1)
    paired = np.stack(
        [(w - w[:1].astype(float)).std(-1, ddof=1) / np.sqrt(40) for w in wrong.astype(float)]
    )
    judged = Judged(loss, np.zeros_like(loss), paired)
    error = paired_error(judged, 1 - loss, np.full(3, 40), ACCURACY)
    for i in range(3):
        b, c = (wrong[i, 1] & ~wrong[i, 0]).sum() + 0.5, (wrong[i, 0] & ~wrong[i, 1]).sum() + 0.5
        agresti_min = np.sqrt(b + c - (b - c) ** 2 / 42) / 42
        assert error[i, 1] == pytest.approx(agresti_min)
    same = np.zeros((2, 5))
    told = metrics(Judged(same, same, same), np.array([36, 36]), ACCURACY)
    assert told["gain"][1][1] < 0 < told["gain"][1][2] and told["mean_rank"] == [3.0] * 5


@pytest.mark.parametrize("classify", [True, False])
def test_few_targets_speak_of_themselves_and_many_of_others(classify):
    rng = np.random.default_rng(1)
    right = rng.random((6, 6, 50)) < np.linspace(0.3, 0.9, 6)[:, None, None]  # targets differ
    loss, error = 1 - right.mean(-1), right.std(-1, ddof=1) / np.sqrt(50)
    judged = Judged(loss, error, error)
    metric = ACCURACY if classify else RMSE
    for M in (4, 6):
        part = Judged(judged.loss[:M], judged.error[:M], judged.paired[:M])
        gain = np.array(metrics(part, np.full(M, 50), metric)["gain"])
        score = 1 - part.loss if classify else np.sqrt(part.loss)
        gains = (1 if classify else -1) * (score[:, :1] - score)
        within = 1.96 * np.sqrt((paired_error(part, score, np.full(M, 50), metric) ** 2).sum(0)) / M
        between = stats.t.ppf(0.975, M - 1) * stats.sem(gains)
        half = (gain[:, 2] - gain[:, 1]) / 2
        wanted = within if M < 5 else np.fmax(within, between)
        np.testing.assert_allclose(half[1:], wanted[1:], rtol=1e-6)


def test_baselines_are_what_they_are_called(tmp_path):
    """Pooled is one fit on all source rows, uniform gives each source the same weight, target only
    knows itself.
    """
    run = adapt(BASE, tmp_path / "run", options=options(targets="site 2"))
    learn, _, ((X, y),), _ = problem_by_hand(BASE, "cost", ("site 2",))
    l2, own = 1e-2, learn.targets[0]

    def error(rows):
        Z, z, weight = (np.concatenate(part) for part in zip(*rows, strict=True))
        fit = SklearnRidge(alpha=l2).fit(Z, z, sample_weight=weight / weight.sum())
        return np.sqrt(np.mean((fit.predict(X) - y) ** 2))

    sources = [(d.X, d.y, np.ones(d.n_rows)) for d in learn.sources]
    even = [(d.X, d.y, np.full(d.n_rows, 1 / d.n_rows)) for d in learn.sources]
    mine = (own.X, own.y, np.ones(own.n_rows))
    wanted = {
        "uniform": error(even),
        "pooled": error(sources),
        "pooled_own": error([*sources, mine]),
    }
    wanted["target_only"] = error([mine])
    found = dict(zip(run.metrics["methods"], run.metrics["scores"][0], strict=True))
    for name, value in wanted.items():
        assert found[name][0] == pytest.approx(value, rel=1e-6), name


def test_a_printed_run_says_what_to_worry_about_most(ridge):
    (few, *others) = worries(ridge.findings)
    assert few.startswith("The scores rest on 8 test rows of 2 targets: they can be far from")
    printed = repr(ridge).splitlines()
    assert printed[-1] == f"What to worry about: {few} ({len(others)} more in the report)"
    assert "\n".join(printed[:-1]) == f"Run at {ridge.path}: {ridge.summary()}"
    assert "The scores rest on 8 test rows" in ridge._repr_html_()
    # weights by name
    assert ridge.as_dict()["alpha"]["site 3"]["site 1"] == ridge.alpha[1, 0] > 0


def test_one_target_has_the_interval_of_its_rows(tmp_path):
    run = adapt(BASE, tmp_path / "run", options=options(targets="site 2"))
    learn, _, (test,), _ = problem_by_hand(BASE, "cost", ("site 2",))
    simple = simple_mixtures(np.full(4, 16.0), np.array([12.0]))
    models = [
        cuvee.solve(learn, cuvee.Ridge(1e-2), a).w[0]
        for a in (run.alpha, *simple.transpose(1, 0, 2))
    ]
    score, losses = scores_by_hand(cuvee.Ridge(1e-2).bind(learn.facts), models, test, False)
    for k in range(1, 5):
        gain, low, high = run.metrics["gain"][k]
        width = 1.96 * stats.sem(losses[k] - losses[0]) / (score[0] + score[k])
        # of scores that are rounded to nine digits
        assert gain == pytest.approx(score[k] - score[0], abs=1e-8)
        assert high - low == pytest.approx(2 * width)
    assert run.metrics["mean"] == run.metrics["scores"][0]


# Predictions.


def test_predictions_are_those_of_the_models(ridge, logistic):
    for run, classify in ((ridge, False), (logistic, True)):
        _, whole, _, X = problem_by_hand(BASE, "sick" if classify else "cost", TARGETS)
        space = (cuvee.Logistic(1e-2) if classify else cuvee.Ridge(1e-2)).bind(whole.facts)
        rows = BASE.site.isin(TARGETS).to_numpy()
        said = run.predict(BASE[rows].drop(columns=["cost", "sick"]))
        assert list(said.columns) == [
            "site",
            "prediction",
            *(["p(no)", "p(yes)"] if classify else []),
        ]
        assert said.site.tolist() == BASE.site[rows].tolist()
        for i, target in enumerate(TARGETS):
            at = BASE.site == target
            wanted, here = space.predict(run.w[i], X[at]), said[said.site == target]
            if classify:
                # or rounding would choose a class
                assert (np.abs(here["p(yes)"] - 0.5) > 1e-6).all()
                assert (here.prediction == wanted).all()
            else:
                assert_rounded(here.prediction, wanted)
            if classify:
                np.testing.assert_allclose(
                    here[["p(no)", "p(yes)"]], space.predict_proba(run.w[i], X[at]), atol=1e-12
                )
                assert (here.prediction == np.where(here["p(yes)"] > 0.5, "yes", "no")).all()
        shuffled = BASE[rows].sample(frac=1, random_state=0)
        again = run.predict(shuffled[["sex", "site", "age"]]).set_index(shuffled.index).sort_index()
        pd.testing.assert_frame_equal(again, said.set_index(BASE.index[rows]))


def test_predict_as_asked(ridge, tmp_path):
    everyone = ridge.predict(BASE, target="site 3", keep=["age", "site", "sick"])
    assert list(everyone.columns) == ["age", "site", "sick", "prediction"] and len(everyone) == len(
        BASE
    )
    assert (
        everyone.site.tolist() == BASE.site.tolist()
        and everyone.sick.tolist() == BASE.sick.tolist()
    )
    own = ridge.predict(BASE[BASE.site == "site 3"], keep=("cost", "site"))
    assert list(own.columns) == ["site", "cost", "prediction"]
    assert_rounded(own.prediction, everyone.prediction[BASE.site == "site 3"])
    for suffix in ("csv", "parquet"):
        path = tmp_path / f"rows.{suffix}"
        BASE.to_csv(path, index=False) if suffix == "csv" else BASE.to_parquet(path)
        pd.testing.assert_frame_equal(
            ridge.predict(path, target="site 3"), ridge.predict(BASE, target="site 3")
        )
    folder = tmp_path / "sites"
    folder.mkdir()
    for name in TARGETS:
        BASE[BASE.site == name].drop(columns="site").to_csv(folder / f"{name}.csv", index=False)
    rows = BASE[BASE.site.isin(TARGETS)]
    pd.testing.assert_frame_equal(ridge.predict(folder), ridge.predict(rows.reset_index(drop=True)))


def test_predictions_keep_the_index_of_the_rows(ridge, logistic):
    """So that they can be put beside the rows, whatever their order."""
    table = BASE[BASE.site.isin(TARGETS)].sample(frac=1, random_state=3)
    wanted = logistic.predict(table.reset_index(drop=True))["p(yes)"].to_numpy()
    for index in (
        table.index,
        [f"patient {i}" for i in range(len(table))],
        pd.Index([7] * len(table), name="ward"),
    ):
        rows = table.set_axis(index, axis=0)
        said = logistic.predict(rows)
        pd.testing.assert_index_equal(said.index, rows.index, exact=True)
        np.testing.assert_array_equal(said["p(yes)"], wanted)
    some = table[table.age > table.age.median()].copy()
    some["p"] = logistic.predict(some, target="site 3")["p(yes)"]
    assert some.p.notna().all()
    everyone = logistic.predict(BASE, target="site 3")["p(yes)"]
    assert_rounded(some.p, everyone[some.index])
    # A table in parts keeps the index of all of them, if that still tells one row from another.
    parts = {name: rows.drop(columns="site") for name, rows in table.groupby("site")}
    said = ridge.predict(parts)
    np.testing.assert_allclose(said.prediction[table.index], ridge.predict(table).prediction)
    numbered = {name: rows.reset_index(drop=True) for name, rows in parts.items()}
    assert ridge.predict(numbered).index.tolist() == list(range(len(table)))
    np.testing.assert_array_equal(ridge.predict(numbered).prediction, said.prediction)
    pairs = {name: (rows.drop(columns="cost"), rows.cost) for name, rows in parts.items()}
    pd.testing.assert_frame_equal(ridge.predict(pairs), said)
    whole = ridge.predict(
        (table.drop(columns=["cost", "site"]), table.cost, table.site), target="site 0"
    )
    pd.testing.assert_index_equal(whole.index, table.index, exact=True)
    assert ridge.predict(pa.Table.from_pandas(table)).index.tolist() == list(range(len(table)))


def test_a_single_target_needs_no_domain_column(tmp_path):
    run = adapt(BASE, tmp_path / "run", options=options(targets="site 2"))
    rows = BASE[BASE.site == "site 2"]
    said = run.predict(rows.drop(columns="site"))
    assert_rounded(said.prediction, run.predict(rows).prediction)
    assert list(said.columns) == ["prediction"]


def test_codes_stay_codes(tmp_path):
    """'007' and '7' are two categories, in the table and in rows to predict, whatever the rows
    hold.
    """
    frame = BASE.assign(ward=np.where(BASE.index % 2, "007", "7"))
    frame.to_csv(tmp_path / "t.csv", index=False)
    run = adapt(
        tmp_path / "t.csv", tmp_path / "run", options=options(targets="site 2", text=("ward",))
    )
    for ward in ("7", "007"):
        rows = frame[(frame.site == "site 2") & (frame.ward == ward)]
        rows.to_csv(tmp_path / "rows.csv", index=False)
        assert_rounded(run.predict(tmp_path / "rows.csv").prediction, run.predict(rows).prediction)


# Levels.


def test_levels_are_taken_out_and_added_again(tmp_path):
    """Labels of which each domain has its own level: by hand, from the rows to learn from, and
    never from test rows.
    """
    frame = BASE.assign(cost=BASE.cost + 40 * np.arange(len(BASE)) // 16)
    run = adapt(
        frame, tmp_path / "run", options=options(targets=TARGETS, levels=True, method="target_only")
    )
    learn, whole, test, X = problem_by_hand(frame, "cost", TARGETS)
    seen, final = take_out(learn, 1e-2), take_out(whole, 1e-2)
    wanted = cuvee.solve(final.problem, cuvee.Ridge(1e-2), run.alpha)
    np.testing.assert_allclose(run.w, wanted.w, atol=1e-6)
    scored = cuvee.solve(seen.problem, cuvee.Ridge(1e-2), run.alpha)
    for i, (Z, y) in enumerate(test):
        error = np.sqrt(np.mean((scored.space.predict(scored.w[i], Z) + seen.offset[i] - y) ** 2))
        assert run.metrics["scores"][i][0][0] == pytest.approx(error, rel=1e-5)
        at = frame.site == TARGETS[i]
        said = run.predict(frame[at]).prediction
        np.testing.assert_allclose(
            said, wanted.space.predict(run.w[i], X[at]) + final.offset[i], rtol=1e-6
        )
    # Who learns from its own rows alone predicts as if nothing had been taken out: the intercept is
    # free.
    plain = adapt(frame, tmp_path / "plain", options=options(targets=TARGETS, method="target_only"))
    rows = frame[frame.site.isin(TARGETS)]
    np.testing.assert_allclose(
        run.predict(rows).prediction, plain.predict(rows).prediction, rtol=1e-5
    )
    others, as_given = (np.array(r.metrics["scores"], float)[:, 1:] for r in (run, plain))
    assert_rounded(others, as_given, SOLVED)  # baselines learn from labels as they are
    even = adapt(
        frame, tmp_path / "even", options=options(targets=TARGETS, levels=True, method="uniform")
    )
    assert all(cuvee[0] < 0.5 * uniform[0] for cuvee, uniform, *_ in even.metrics["scores"])
    assert any("labels differ in their average" in note for note in run.notes)


def test_classes_have_no_levels(tmp_path):
    runs = [
        adapt(BASE, tmp_path / str(on), options=options("sick", targets=TARGETS, levels=on))
        for on in (True, False)
    ]
    assert_rounded(runs[0].w, runs[1].w, SOLVED)


# Modes.


def test_every_domain_in_turn(tmp_path):
    run = adapt(BASE, tmp_path / "run", options=options(targets="each"))
    names = tuple(BASE.site.unique())
    assert run.targets == names and run.columns == (*names, "(own sample)")
    assert (np.isnan(run.alpha) == np.eye(5, 6, dtype=bool)).all()
    np.testing.assert_allclose(np.nansum(run.alpha, 1), 1)
    for i, name in enumerate(names):
        alone = adapt(BASE, tmp_path / f"run{i}", options=options(targets=name, seed=0))
        assert [c for c in run.columns if c != name] == list(alone.columns)
        np.testing.assert_allclose(run.alpha[i][~np.isnan(run.alpha[i])], alone.alpha[0])
        if i == 0:  # the others divide their rows by their place among the targets
            assert_alike(run.metrics["scores"][0], alone.metrics["scores"][0])
            assert_rounded(run.w[0], alone.w[0], SOLVED)
    everyone = run.predict(BASE)
    one = run.predict(BASE[BASE.site == "site 4"])
    assert_rounded(everyone.prediction[BASE.site == "site 4"], one.prediction)


def test_labelled_and_test(tmp_path):
    run = adapt(BASE, tmp_path / "a", options=options(targets=TARGETS, labelled=7))
    assert run.findings.learn_rows.tolist() == [7, 7] and run.findings.test_rows.tolist() == [9, 9]
    learn, _, test, _ = problem_by_hand(BASE, "cost", TARGETS, labelled=7)
    w = cuvee.solve(learn, cuvee.Ridge(1e-2), run.alpha).w
    score = scores_by_hand(cuvee.Ridge(1e-2).bind(learn.facts), [w[1]], test[1], False)[0][0]
    assert run.metrics["scores"][1][0][0] == pytest.approx(score, rel=1e-6)
    for asked in ({"test": 0.0}, {"labelled": 20}, {"labelled": 16}):
        run = adapt(BASE, tmp_path / str(asked), options=options(targets=TARGETS, **asked))
        assert run.metrics["scored"] == 0 and run.metrics["scores"][0][0] == [None] * 3
        assert run.metrics["mean"][0] == [None] * 3 and run.metrics["gain"][1] == [None] * 3
        assert np.isfinite(run.predict(BASE, target="site 0").prediction).all()
        assert (
            run.summary()
            and (run.path / "report.html").stat().st_size > 1000
            and "NaN" not in repr(run)
        )


def test_five_rows(tmp_path):
    frame = BASE.drop(BASE.index[BASE.site == "site 0"][5:])
    run = adapt(frame, tmp_path / "run", options=options(targets="site 0", method="path"))
    assert run.findings.learn_rows.tolist() == [5] and run.metrics["scored"] == 0
    mixed = adapt(frame, tmp_path / "mixed", options=options(targets=TARGETS))
    assert mixed.metrics["scored"] == 1 and mixed.metrics["scores"][0][0][0] is None
    assert mixed.metrics["mean"] == mixed.metrics["scores"][1]


@pytest.mark.parametrize("method", ["uniform", "path"])
@pytest.mark.parametrize("label", ["cost", "sick"])
def test_one_source(tmp_path, method, label):
    frame = BASE[BASE.site.isin(["site 0", "site 1"])]
    run = adapt(frame, tmp_path / "run", options=options(label, targets="site 0", method=method))
    assert run.columns == ("site 1", "(own sample)") and run.finished
    np.testing.assert_allclose(run.alpha.sum(1), 1)


def test_unlabelled_rows_are_left_out(tmp_path):
    frame = BASE.assign(cost=BASE.cost.where(BASE.index % 3 > 0))
    run = adapt(frame, tmp_path / "run", options=options(targets="site 2"))
    kept = adapt(frame.dropna(), tmp_path / "kept", options=options(targets="site 2"))
    assert_rounded(run.w, kept.w)
    alone = frame.assign(cost=frame.cost.where(frame.site != "site 1"))
    run = adapt(alone, tmp_path / "alone", options=options(targets="site 2"))
    assert "site 1" not in run.columns and any(
        "'site 1' has no labelled row" in note for note in run.notes
    )


def test_categories_of_test_rows_alone(tmp_path):
    asked, rows = options(targets="site 2"), np.flatnonzero(BASE.site == "site 2")
    frames = (BASE.assign(sex=BASE.sex.where(BASE.index != row, "other")) for row in rows)
    # one in which the row that is like no other is drawn for scores
    frame = next(
        f
        for f in frames
        if any("(1 test row, like 'other')" in note for note in prepare(f, asked).notes)
    )
    run = adapt(frame, tmp_path / "run", options=asked)
    assert run.findings.test_rows.tolist() == [4]
    note = "categories that no training row has count as 'other': 'sex' (1 test row, like 'other')"
    assert note in run.notes
    with pytest.raises(InputError, match="'sex' is 'other'"):
        run.predict(frame[frame.site == "site 2"], strict=True)


# Weights of one's own.


def test_given_weights(tmp_path):
    sources = ("site 1", "site 2", "site 4")
    rng = np.random.default_rng(0)
    wide = rng.dirichlet(np.ones(4), 2)
    for own in (True, False):
        alpha = wide if own else wide[:, :3] / wide[:, :3].sum(1, keepdims=True)
        columns = (*sources, *(["(own sample)"] if own else []))
        run = adapt(BASE, tmp_path / f"array {own}", options=options(targets=TARGETS), alpha=alpha)
        assert run.columns == columns
        np.testing.assert_array_equal(run.alpha, alpha)
        learn, whole, test, _ = problem_by_hand(BASE, "cost", TARGETS)
        np.testing.assert_allclose(run.w, cuvee.solve(whole, cuvee.Ridge(1e-2), alpha).w, atol=1e-7)
        scored = cuvee.solve(learn, cuvee.Ridge(1e-2), alpha)
        score = scores_by_hand(scored.space, [scored.w[0]], test[0], False)[0][0]
        assert run.metrics["scores"][0][0][0] == pytest.approx(score, rel=1e-6)
        path = tmp_path / "alpha.csv"
        path.write_bytes(to_csv(TARGETS, columns, alpha))
        turned = pd.read_csv(path)[["target", *columns[::-1]]][::-1]  # by name, in any order
        turned.to_csv(tmp_path / "turned.csv", index=False, float_format="%.17g")
        turned.drop(columns="target")[::-1].to_csv(
            tmp_path / "nameless.csv", index=False, float_format="%.17g"
        )
        for file in ("alpha", "turned", "nameless"):
            again = adapt(
                BASE,
                tmp_path / f"{file} {own}",
                options=options(targets=TARGETS),
                alpha=tmp_path / f"{file}.csv",
            )
            assert contents(again.path) == contents(run.path)
        back = adapt(
            BASE,
            tmp_path / f"back {own}",
            options=options(targets=TARGETS),
            alpha=run.path / "alpha.csv",
        )
        assert contents(back.path) == contents(run.path)


def test_given_weights_with_names_go_by_them(tmp_path):
    """Estimated ones, and frames with the targets in a column or in the index, in any order."""
    learn = problem_by_hand(BASE, "cost", TARGETS)[0]
    mix = cuvee.estimate(
        cuvee.Problem(learn.sources[::-1], learn.targets[::-1]), cuvee.Ridge(1e-2), method="path"
    )
    frame = pd.DataFrame(mix.alpha, mix.targets, mix.columns)
    wanted = frame.loc[list(TARGETS), ["site 1", "site 2", "site 4", "(own sample)"]]
    run = adapt(BASE, tmp_path / "run", options=options(targets=TARGETS), alpha=wanted.to_numpy())
    for i, alpha in enumerate((mix, frame, frame.rename_axis("target").reset_index())):
        again = adapt(BASE, tmp_path / str(i), options=options(targets=TARGETS), alpha=alpha)
        assert contents(again.path) == contents(run.path)
    for alpha, sentence in (
        (frame.drop(columns="site 2"), "no column for source 'site 2': its columns are"),
        (frame.assign(note="x"), "a column 'note' that is not a source"),
        (frame.assign(**{"site 2": "much"}), "alpha must be a table of numbers"),
        (frame.rename(columns={"site 2": "site 9"}), "a column 'site 9' that is not a source"),
        (
            frame.rename({"site 3": "site 9"}),
            r"no row for target 'site 3'.*rows are 'site 9', 'site 0'",
        ),
        (dataclasses.replace(mix, targets=("site 3", "site 9")), "no row for target 'site 0'"),
    ):
        with pytest.raises(InputError, match=sentence):
            adapt(BASE, tmp_path / "no", options=options(targets=TARGETS), alpha=alpha)
    assert not (tmp_path / "no").exists()


def test_given_weights_in_turn(tmp_path):
    """The α of a run with every domain in turn, empty where a source would be the target itself."""
    run = adapt(BASE, tmp_path / "run", options=options(targets="each"))
    frame = pd.DataFrame(run.alpha, run.targets, run.columns)
    for i, alpha in enumerate(
        (run.path / "alpha.csv", frame, frame.sample(frac=1, random_state=0))
    ):
        again = adapt(BASE, tmp_path / str(i), options=options(targets="each"), alpha=alpha)
        np.testing.assert_array_equal(again.alpha, run.alpha)
        assert_rounded(again.w, run.w)


@pytest.mark.parametrize("method", ["uniform", "pooled_own", "target_only"])
def test_simple_methods(tmp_path, method):
    run = adapt(BASE, tmp_path / "run", options=options(targets=TARGETS, method=method))
    wanted = cuvee.estimate(
        problem_by_hand(BASE, "cost", TARGETS)[0], cuvee.Ridge(1e-2), method=method, own=True
    )
    np.testing.assert_allclose(run.alpha, wanted.alpha)
    assert run.metrics["scored"] == 2


@pytest.mark.parametrize("targets", ["site 0,site 3", "site [03]", ("site 0", "site 3")])
def test_the_same_run_every_time(tmp_path, targets):
    BASE.to_csv(tmp_path / "t.csv", index=False)
    wanted = adapt(tmp_path / "t.csv", tmp_path / "a", options=options("sick", targets=TARGETS))
    again = adapt(tmp_path / "t.csv", tmp_path / "b", options=options("sick", targets=targets))
    assert contents(again.path) == contents(wanted.path) and resume(again.path).finished
    check_tidy(again.path)
    assert json.dumps(open_run(again.path).as_dict(), allow_nan=False)
    other = adapt(
        tmp_path / "t.csv", tmp_path / "c", options=options("sick", targets=TARGETS, seed=1)
    )
    assert contents(other.path) != contents(wanted.path)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["a\rb", "a\nb", '"', " ", "target", "-1e3", "nan", "ü✓"])
def test_names_go_through_every_file(tmp_path, name):
    for old in ("site 0", "site 1"):  # as a target, as a source
        frame = BASE.assign(site=np.where(BASE.site == old, name, BASE.site))
        run = adapt(
            frame, tmp_path / old, options=options(targets=[name if old == "site 0" else "site 0"])
        )
        assert name in (run.targets if old == "site 0" else run.columns)
        again = adapt(
            frame, tmp_path / f"{old} again", options=run.options, alpha=run.path / "alpha.csv"
        )
        np.testing.assert_array_equal(again.alpha, run.alpha)


def test_domains_named_by_numbers(tmp_path):
    frame = BASE.assign(site=BASE.site.str.removeprefix("site ").astype(int))
    for i, targets in enumerate((4, np.int64(4), 4.0, [4], [4.0], "4")):
        run = adapt(frame, tmp_path / str(i), options=options(targets=targets))
        assert run.targets == ("4",) and run.options.targets in ("4", ("4",))
    rows = frame[frame.site == 4]
    assert run.predict(rows, target=4).equals(run.predict(rows, target="4"))
    with pytest.raises(InputError, match="targets must be a list of names; got True"):
        adapt(frame, tmp_path / "no", options=options(targets=True))


def test_a_text_names_columns_and_domains_as_a_list_does(tmp_path):
    frame = BASE.assign(**{"order, id": range(len(BASE)), "ward": np.arange(len(BASE)) % 3})
    lists = {"drop": ["sick", "order, id"], "text": ["ward", "sex"], "exclude": ["site 1"]}
    texts = {"drop": 'sick, "order, id"', "text": "ward,sex", "exclude": "site 1"}
    runs = [
        adapt(frame, tmp_path / str(i), label="cost", domain="site", targets=TARGETS, **given)
        for i, given in enumerate((lists, texts))
    ]
    assert runs[0].options == runs[1].options and "site 1" not in runs[1].columns
    assert Options(features="age").features == ("age",) and Options(drop="age").drop == ("age",)
    assert Options(exclude="site 1,north*").exclude == ("site 1,north*",)  # as targets are
    both = [
        run.predict(frame, target="site 0", keep=keep)
        for keep, run in zip((["age", "sex"], "age,sex"), runs, strict=True)
    ]
    pd.testing.assert_frame_equal(*both)
    with pytest.raises(InputError, match="drop must be a list of names; got 4"):
        Options(drop=4)


def test_domain_names_of_all_kinds(tmp_path):
    names = {
        "site 0": 'a "quoted", name',
        "site 1": "ünïcode ✓",
        "site 2": "007",
        "site 3": "<b>&amp;",
        "site 4": "each",
    }
    frame = BASE.assign(site=BASE.site.map(names))
    frame.to_csv(tmp_path / "t.csv", index=False)
    run = adapt(
        tmp_path / "t.csv",
        tmp_path / "run",
        options=options(targets=('a "quoted", name', "<b>&amp;")),
    )
    assert run.targets == ('a "quoted", name', "<b>&amp;") and run.columns[:3] == (
        "ünïcode ✓",
        "007",
        "each",
    )
    assert len(run.predict(frame[frame.site.isin(run.targets)])) == 32
    page = (run.path / "report.html").read_text()
    assert "<b>&amp;<" not in page and "&lt;b&gt;&amp;amp;" in page
    # there is a domain "each"
    only = adapt(tmp_path / "t.csv", tmp_path / "only", options=options(targets="each"))
    assert only.targets == ("each",)


# Who else is asked.


@pytest.mark.parametrize("label", ["cost", "sick"])
@pytest.mark.parametrize("method", ["pooled_own", "target_only", "path"])
def test_a_target_has_its_model_whoever_else_is_asked_in_any_order(tmp_path, label, method):
    """The same sources, the same α and p, though other targets come and go.

    Models are the same as far as they are solved, which is why they are solved far here.
    """
    frame = table(6, 30).assign(ward=np.tile(["a", "b", "c"], 60), kind="same")
    frame["site"] = frame.site.replace({"site 3": "oak", "site 1": "fir", "site 5": "elm"})
    # what another target alone has changes nothing: a category, and a second one of a column
    frame.loc[(frame.site == "fir") & (frame.ward == "a"), "ward"] = "aa"
    frame.loc[(frame.site == "elm") & (frame.ward == "a"), "kind"] = "another"
    rows, asked = frame[frame.site == "oak"], options(label, method=method, levels=True, tol=1e-10)

    def of_oak(targets, exclude=()):
        path = tmp_path / f"run {len([*tmp_path.iterdir()])}"
        run = adapt(frame, path, options=asked, targets=targets, exclude=exclude)
        i, said = run.targets.index("oak"), run.predict(rows, target="oak")
        weights = {n: a for n, a in zip(run.columns, run.alpha[i], strict=True) if not np.isnan(a)}
        return weights, said[said.columns[-1]].to_numpy(), run.metrics["scores"][i]

    for alone, others in (
        (of_oak("oak", ("fir", "elm")), ("fir,oak,elm", "elm,oak,fir")),
        (of_oak("oak", ("fir",)), ("fir,oak", "oak,fir")),
        (of_oak("oak"), ("each",)),
    ):
        for targets in others:
            weights, p, scores = of_oak(targets)
            assert weights == pytest.approx(alone[0], abs=1e-8)
            np.testing.assert_allclose(p, alone[1], atol=1e-8)
            np.testing.assert_allclose(scores, alone[2], atol=1e-8)


# Networks and streams.


def small_network(n_inputs, n_outputs):
    return torch.nn.Sequential(
        torch.nn.Linear(n_inputs, 3), torch.nn.Tanh(), torch.nn.Linear(3, n_outputs)
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("hypothesis", "label"), [("mlp", "sick"), ("test_adapt:small_network", "cost")]
)
def test_networks(tmp_path, monkeypatch, hypothesis, label):
    monkeypatch.setattr("cuvee.data.options.HIDDEN", 3)
    asked = options(label, targets="site 0", hypothesis=hypothesis, l2=1.0, tol=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cuvee.CuveeWarning)
        run = adapt(BASE, tmp_path / "run", options=asked)
    said = open_run(run.path, hypothesis=hypothesis).predict(BASE, target="site 0")
    act = torch.nn.ReLU() if hypothesis == "mlp" else torch.nn.Tanh()
    n_outputs = 1 if label == "cost" else 2
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), act, torch.nn.Linear(3, n_outputs)).double()
    # by hand, in its order
    torch.nn.utils.vector_to_parameters(torch.as_tensor(run.w[0]), module.parameters())
    X = problem_by_hand(BASE, label, ("site 0",))[3]
    out = module(torch.as_tensor(X)).detach()
    if label == "cost":
        np.testing.assert_allclose(out[:, 0], said.prediction, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_allclose(out.softmax(1), said[["p(no)", "p(yes)"]], atol=1e-6)
        assert (np.array(["no", "yes"])[out.argmax(1)] == said.prediction).all()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("impute", [False, True])
def test_streams(tmp_path, suffix, impute):
    """As in memory."""
    frame = BASE.assign(age=BASE.age.where(BASE.index % 9 > 0)) if impute else BASE
    path = tmp_path / f"table.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    streamed = adapt(
        path, tmp_path / "streamed", options=options(targets=TARGETS, stream=True, impute=impute)
    )
    whole = adapt(path, tmp_path / "whole", options=options(targets=TARGETS, impute=impute))
    check_tidy(streamed.path)
    assert streamed.columns == whole.columns and streamed.targets == whole.targets
    np.testing.assert_allclose(streamed.alpha, whole.alpha)
    a, b = streamed.findings, whole.findings
    assert (
        a.learn_rows.tolist() == b.learn_rows.tolist()
        and a.test_rows.tolist() == b.test_rows.tolist()
    )
    np.testing.assert_allclose(np.array(a.scores), np.array(b.scores), rtol=1e-6)
    encoder = Encoder.from_dict(
        json.loads((streamed.path / "prepared.json").read_bytes())["groups"][0]["encoder"]
    )
    sources = frame[~frame.site.isin(TARGETS)]
    assert encoder.as_dict() == Encoder.fit(
        sources, ["age", "sex"], impute=impute
    ).as_dict() or np.allclose(
        encoder(sources), Encoder.fit(sources, ["age", "sex"], impute=impute)(sources), atol=1e-12
    )
    # By hand, with that encoder.
    learn = problem_by_hand(BASE, "cost", TARGETS)[1]
    X = encoder(frame)
    rows = {d.name: np.flatnonzero(BASE.site == d.name) for d in (*learn.sources, *learn.targets)}
    y = frame.cost.to_numpy()
    problem = cuvee.Problem(
        [cuvee.Domain(d.name, X[rows[d.name]], y[rows[d.name]]) for d in learn.sources],
        [cuvee.Domain(d.name, X[rows[d.name]], y[rows[d.name]]) for d in learn.targets],
    )
    np.testing.assert_allclose(
        streamed.w, cuvee.solve(problem, cuvee.Ridge(1e-2), streamed.alpha).w, atol=1e-6
    )
    rows = frame[frame.site == "site 0"]
    said = streamed.predict(rows).prediction
    np.testing.assert_allclose(
        said, cuvee.Ridge(1e-2).bind(problem.facts).predict(streamed.w[0], encoder(rows)), rtol=1e-9
    )


def test_streams_refuse_what_they_cannot(tmp_path):
    BASE.to_csv(tmp_path / "t.csv", index=False)
    for asked, source, sentence in (
        ({"targets": "each"}, tmp_path / "t.csv", "streamed cannot have every domain in turn"),
        (
            {"targets": "site 0", "hypothesis": "mlp"},
            tmp_path / "t.csv",
            "stream is for ridge alone",
        ),
        ({"targets": "site 0"}, BASE, "stream reads files: give a path"),
        ({"targets": "site 0", "label": "sick"}, tmp_path / "t.csv", "the labels are classes"),
    ):
        with pytest.raises(InputError, match=sentence):
            adapt(source, tmp_path / "run", options=options(**{"stream": True, **asked}))
        assert not (tmp_path / "run").exists()


def test_progress_goes_forward(tmp_path):
    heard = []
    adapt(
        BASE,
        tmp_path / "run",
        options=options(targets="each"),
        progress=lambda *said: heard.append(said),
    )
    assert {what for what, _, _ in heard} == {
        "reading the table",
        "preparing",
        "estimating α",
        "solving models",
    }
    for what in ("estimating α", "solving models"):
        done = [d for w, d, total in heard if w == what and total == 5]
        assert done == sorted(done) and done[-1] == 5


def test_weights_go_through_csv_unchanged():
    alpha = np.random.default_rng(0).dirichlet(np.ones(3), 2)
    alpha[0, 1] = np.nan
    names, columns, back = from_csv(
        to_csv(("a,b", 'c"'), ("x", "y", "z\n1"), alpha).decode(), "here"
    )
    assert names == ("a,b", 'c"') and columns == ("x", "y", "z\n1")
    np.testing.assert_array_equal(back, alpha)


def test_the_same_options_after_json():
    asked = Options(label="a", targets=("x", "y"), drop=("b",), labelled=7, stream=True)
    assert Options.from_dict(json.loads(json.dumps(asked.as_dict()))) == asked


@pytest.mark.parametrize("stream", [False, True])
def test_how_columns_of_text_were_taken_is_noted(tmp_path, stream):
    wards = np.tile(["01", "2"], len(BASE) // 2)
    BASE.assign(ward=wards, dose=[f"{a:.1f}".replace(".", ",") for a in BASE.age]).to_csv(
        tmp_path / "t.csv", index=False, sep=";"
    )
    run = adapt(
        tmp_path / "t.csv", tmp_path / "run", options=options(targets="site 2", stream=stream)
    )
    first = f"{BASE.age[0]:.1f}".replace(".", ",")
    for said in (
        "column taken as categories, being text: 'sex' (like 'f')",
        "column taken as categories, being digits with leading zeros: 'ward' (like '01')",
        f"column read with decimal commas: 'dose' (like '{first}')",
    ):
        assert said in run.notes, run.notes
        assert said.replace("'", "&#39;") in (run.path / "report.html").read_text()
    same = adapt(
        BASE.assign(ward=wards, dose=BASE.age.round(1)),
        tmp_path / "same",
        options=run.options,
        stream=False,
    )
    np.testing.assert_allclose(
        run.predict(tmp_path / "t.csv", target="site 2"),
        same.predict(BASE.assign(ward=wards, dose=BASE.age.round(1)), target="site 2"),
        rtol=1e-9 if stream else 1e-12,
    )


def test_no_row_left_to_score_on_is_noted(tmp_path):
    run = adapt(BASE, tmp_path / "one", options=options(targets="site 2", labelled=1000))
    rows = int((BASE.site == "site 2").sum())
    said = (
        "no row of target 'site 2' is left to score on: 1,000 labelled rows were asked for "
        f"(--labelled) and {rows}"
    )
    assert any(note.startswith(said) for note in run.notes), run.notes
    run = adapt(BASE, tmp_path / "two", options=options(targets=TARGETS, labelled=1000))
    assert any(
        "no row of 2 targets ('site 0', 'site 3') is left to score on" in note for note in run.notes
    )
    few = BASE[(BASE.site != "site 2") | (np.cumsum(BASE.site == "site 2") <= 5)]
    run = adapt(few, tmp_path / "few", options=options(targets="site 2"))
    assert any("of its 5 labelled rows none can be spared" in note for note in run.notes), run.notes
    for i, asked in enumerate(({"labelled": 6}, {"test": 0.0})):  # some are left; none was wanted
        run = adapt(BASE, tmp_path / f"fine {i}", options=options(targets="site 2", **asked))
        assert not any("left to score on" in note for note in run.notes)


def test_notes_and_parquet(ridge):
    assert ridge.notes[0].startswith("label 'cost' has numbers like")
    weights = pd.read_parquet(io.BytesIO((ridge.path / "weights.parquet").read_bytes()))
    assert weights.target.tolist() == list(TARGETS)
    tried = pd.read_parquet(ridge.path / "candidates.parquet")
    for target, rows in tried.groupby("target"):
        assert rows.share.sum() == pytest.approx(1)
        blend = (np.array(rows.alpha.tolist()) * rows.share.to_numpy()[:, None]).sum(0)
        np.testing.assert_allclose(blend, ridge.alpha[ridge.targets.index(target)], atol=1e-6)
    moves = pd.read_parquet(ridge.path / "sensitivity.parquet")
    assert len(moves) == 2 * 4 and (moves.moves >= 0).all()


def test_prepared_by_itself(tmp_path):
    prepared = prepare(BASE, options(targets=TARGETS), tmp_path / "scratch")
    learn, whole, test, _ = problem_by_hand(BASE, "cost", TARGETS)
    group = prepared.group(prepared.members[0])
    for ours, wanted in ((group.problem, learn), (group.whole, whole)):
        for a, b in zip(
            (*ours.sources, *ours.targets), (*wanted.sources, *wanted.targets), strict=True
        ):
            assert a.name == b.name
            np.testing.assert_allclose(a.X, b.X, atol=1e-12)
            np.testing.assert_array_equal(a.y, b.y)
    for domain, (X, y) in zip(group.test, test, strict=True):
        np.testing.assert_allclose(domain.X, X, atol=1e-12)
        np.testing.assert_array_equal(domain.y, y)
    assert not (tmp_path / "scratch").exists()


def test_options_by_their_names(tmp_path):
    heard = []
    asked = options(targets=TARGETS).as_dict()
    run = adapt(BASE, tmp_path / "run", **asked, say=heard.append)
    assert run.options == options(targets=TARGETS) and heard[0].startswith(
        "label 'cost' has numbers like"
    )
    over = adapt(BASE, tmp_path / "over", options=options(targets="site 1"), targets=TARGETS)
    assert contents(over.path) == contents(run.path)
    with pytest.raises(InputError, match="there is no option 'target'; did you mean 'targets'"):
        adapt(BASE, tmp_path / "no", target="site 0")
    assert not (tmp_path / "no").exists()


def test_a_share_for_scores_beside_a_number_of_rows_to_learn_from_is_said_to_have_no_effect(
    tmp_path,
):
    asked = options(targets="site 2", labelled=6)
    told = "test = 0.5 (--test) has no effect beside labelled = 6"
    assert not any("no effect" in note for note in prepare(BASE, asked).notes)
    assert any(
        told in note
        for note in prepare(BASE, options(targets="site 2", labelled=6, test=0.5)).notes
    )
