"""All test rows at once, against scikit-learn one target at a time; and what a run says of classes
that are rare.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from markupsafe import escape
from sklearn import metrics as sk

import cuvee
from cuvee.data.metrics import ACCURACY, METRICS, RMSE, beside
from cuvee.outputs import files
from cuvee.report.cautions import worries
from cuvee.report.page import render
from cuvee.run import adapt, open_run
from cuvee.run import judge as judging
from cuvee.run.folder import MODELS
from cuvee.run.judge import judge
from cuvee.run.models import FORMAT, WHAT
from run_builders import command, rewrite

CLASSES = {2: np.array(["no", "yes"]), 3: np.array(["a", "b", "c"])}


def targets_of(rng, sizes, kind, width=4):
    """Domains with so many rows each, None where there are none."""
    return tuple(
        cuvee.Domain(f"t{i}", rng.normal(size=(n, width)), _labels(rng, n, kind)) if n else None
        for i, n in enumerate(sizes)
    )


def _labels(rng, n, kind):
    return rng.normal(size=n) if kind == "quantity" else rng.choice(CLASSES[kind], n)


def space_of(kind, network=False):
    rng = np.random.default_rng(1)
    y = rng.normal(size=30) if kind == "quantity" else np.resize(CLASSES[kind], 30)
    problem = cuvee.Problem([cuvee.Domain("s", rng.normal(size=(30, 4)), y)])
    if network:
        module = torch.nn.Linear(4, 1 if kind == "quantity" else kind)
        return cuvee.Network(
            module, loss="squared" if kind == "quantity" else "cross_entropy"
        ).bind(problem.facts)
    return (cuvee.Ridge() if kind == "quantity" else cuvee.Logistic()).bind(problem.facts)


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("kind", [2, 3, "quantity"])
def test_as_scikit_learn_has_it_one_by_one(kind, network, monkeypatch):
    monkeypatch.setattr(judging, "NUMBERS", 600)  # several blocks
    rng = np.random.default_rng(0)
    space = space_of(kind, network)
    sizes = [7, 0, 30, 1, 12, 7, 2, 9]
    test, own = targets_of(rng, sizes, kind), targets_of(rng, [6] * len(sizes), kind)
    w, offset = rng.normal(size=(len(sizes), 3, space.n_params)), rng.normal(size=len(sizes))
    found = judge(space, w, test, offset, own, RMSE if kind == "quantity" else ACCURACY)
    for i, rows in enumerate(test):
        if rows is None:
            assert np.isnan(found.loss[i]).all() and np.isnan(found.also[i]).all()
            continue
        predicted = np.asarray(space.predict(w[i], rows.X))
        if kind == "quantity":
            predicted = [
                predicted[0] + offset[i],
                *predicted[1:],
                np.full(rows.n_rows, own[i].y.mean()),
            ]
            losses = np.stack([(p - rows.y) ** 2 for p in predicted])
            for q, p in enumerate(predicted):
                assert found.also[i, q, 0] == pytest.approx(sk.mean_absolute_error(rows.y, p))
                r2 = sk.r2_score(rows.y, p) if rows.n_rows > 1 else np.nan
                assert found.also[i, q, 1] == pytest.approx(r2, rel=1e-5, nan_ok=True)
        else:
            often = max(space.classes, key=own[i].y.tolist().count)
            losses = np.stack(
                [p != rows.y for p in [*predicted, np.full(rows.n_rows, often)]]
            ).astype(float)
            _check_also(space, w[i], rows, own[i], found.also[i], losses)
        np.testing.assert_allclose(found.loss[i], losses.mean(1), rtol=1e-5, atol=1e-7)
        if rows.n_rows > 1:
            half = losses.std(1, ddof=1) / np.sqrt(rows.n_rows)
            np.testing.assert_allclose(found.error[i], half, rtol=1e-4, atol=1e-6)
            paired = (losses - losses[0]).std(1, ddof=1) / np.sqrt(rows.n_rows)
            np.testing.assert_allclose(found.paired[i], paired, rtol=1e-4, atol=1e-6)
        else:
            assert np.isnan(found.error[i]).all()


def _check_also(space, w, rows, own, found, losses):
    """found (methods, 3): balanced accuracy, AUC and log loss."""
    classes, chances = (
        space.classes,
        list(np.asarray(space.predict_proba(w, rows.X), dtype=np.float64)),
    )
    counts = np.array([(own.y == c).sum() + 1.0 for c in classes])
    chances.append(np.tile(counts / counts.sum(), (rows.n_rows, 1)))
    here = np.unique(rows.y)
    for q, chance in enumerate(chances):
        recall = [1.0 - losses[q][rows.y == c].mean() for c in here]
        assert found[q, 0] == pytest.approx(
            np.mean(recall) if len(here) > 1 else np.nan, nan_ok=True
        )
        two = len(classes) == 2 and len(here) == 2
        chance = chance / chance.sum(1, keepdims=True)  # float32 sums to 1 less exactly
        assert found[q, 1] == pytest.approx(
            sk.roc_auc_score(rows.y, chance[:, 1]) if two else np.nan, nan_ok=True
        )
        assert found[q, 2] == pytest.approx(sk.log_loss(rows.y, chance, labels=classes), rel=1e-4)


def test_many_targets_are_a_few_blocks(monkeypatch):
    """Thousands of targets cost some forward passes, not thousands."""
    rng = np.random.default_rng(0)
    space, calls = space_of(2), []
    test = targets_of(rng, rng.integers(0, 12, 2_000), 2)
    forward = space.own_scores
    monkeypatch.setattr(space, "own_scores", lambda w, X: calls.append(len(w)) or forward(w, X))
    found = judge(
        space,
        rng.normal(size=(2_000, 5, space.n_params)),
        test,
        np.zeros(2_000),
        test[:1] * 2_000,
        ACCURACY,
        most=5,
    )
    assert sum(calls) == sum(d is not None for d in test) and len(calls) <= 20
    assert np.isfinite(found.loss[[d is not None for d in test]]).all()
    assert np.isfinite(found.also[:5]).any() and np.isnan(found.also[5:]).all()


def rare(every=30, rows=150, signal=0.0, seed=0, sites=6):
    """A table in which one row of `every` is positive, and the column says `signal` about which."""
    rng = np.random.default_rng(seed)
    site = np.repeat([f"site {i}" for i in range(sites)], rows)
    sick = np.arange(len(site)) % every == 0
    frame = pd.DataFrame(
        {"age": rng.normal(size=len(site)) + signal * sick, "dose": rng.normal(size=len(site))}
    )
    return frame.assign(site=site, sick=np.where(sick, "yes", "no"))


ASKED = {
    "label": "sick",
    "domain": "site",
    "targets": "site 0,site 1,site 2",
    "method": "uniform",
    "test": 0.5,
}


def test_imbalance_is_seen(tmp_path):
    """With 2 % positives and nothing to learn all score alike: the majority class says why."""
    run = adapt(rare(), tmp_path / "run", **ASKED, metric="accuracy")
    found = run.metrics
    assert found["methods"][-1] == "majority class"
    assert all(0 <= end <= 1 for _, low, high in found["mean"] for end in (low, high))
    accuracy = [m[0] for m in found["mean"]]
    assert accuracy[0] > 0.95 and accuracy[-1] >= accuracy[0]
    for name, value in (("balanced accuracy", 0.5), ("AUC", 0.5)):
        assert (
            found["also"][name]["mean"][-1] == pytest.approx(value)
            and found["also"][name]["scored"] == 3
        )
        assert np.shape(found["also"][name]["scores"]) == (3, 6)
    said = [w for w in worries(run.findings) if "most frequent class" in w]
    assert (
        len(said) == 1 and "most labels are of one class, so that accuracy says little" in said[0]
    )
    assert "balanced accuracy (0.500)" in said[0] and "AUC (" in said[0]
    page = run.report().read_text()
    assert "majority class" in page and "Balanced accuracy counts every class equally" in page
    assert escape(said[0]) in page
    json.dumps(run.as_dict(), allow_nan=False)


def test_an_accuracy_that_flatters(tmp_path):
    run = adapt(rare(10, signal=2.0, seed=2), tmp_path / "run", **ASKED)
    accuracy, constant = run.metrics["mean"][0][0], run.metrics["mean"][-1][0]
    balanced = run.metrics["also"]["balanced accuracy"]["mean"][0]
    assert accuracy > constant > 0.75 and balanced < accuracy - 0.1
    (said,) = [w for w in worries(run.findings) if "misleading" in w]
    assert f"An accuracy of {accuracy:.3f} is misleading" in said and f"{balanced:.3f}" in said


def test_a_quantity_that_no_column_explains(tmp_path):
    rng = np.random.default_rng(3)
    frame = rare().assign(sick=rng.normal(size=900))
    run = adapt(
        frame,
        tmp_path / "run",
        **{**ASKED, "test": 0.25, "l2": 1e-6, "method": "target_only", "labelled": 5},
    )
    assert run.metrics["methods"][-1] == "own mean" and set(run.metrics["also"]) == {
        "mean absolute error",
        "R²",
    }
    (said,) = [w for w in worries(run.findings) if "the mean of a target's own labels" in w]
    assert "the columns say little about “sick”" in said


def test_the_command_line_shows_both(tmp_path):
    rare().to_csv(tmp_path / "rare.csv", index=False)
    words = [w for k, v in ASKED.items() for w in (f"--{k}", v)]
    words += ["--metric", "Accuracy"]
    ended = command("adapt", tmp_path / "rare.csv", *words, "--out", tmp_path / "run")
    assert ended.code == 0, ended
    assert "(balanced)" in ended.out and "majority" in ended.out
    assert "Beside accuracy, on average: balanced accuracy 0.500, AUC 0." in ended.out


def test_with_a_rare_class_the_headline_is_not_accuracy(tmp_path):
    run = adapt(rare(), tmp_path / "run", **ASKED)
    assert run.metrics["metric"] == "log loss" and not run.metrics["higher_is_better"]
    assert set(run.metrics["also"]) == {"accuracy", "balanced accuracy", "AUC"}
    (why,) = [note for note in run.notes if "log loss" in note]
    assert "class 'yes' has 3.3% of the targets' labels" in why and "--metric accuracy" in why
    assert "log loss" in run.summary() and "Log loss on" in run.report().read_text()
    often = adapt(rare(every=2), tmp_path / "often", **ASKED)
    assert often.metrics["metric"] == "accuracy"
    assert not [note for note in often.notes if "log loss" in note]


@pytest.mark.parametrize(
    ("label", "asked", "metric", "also"),
    [
        ("sick", "AUC", "AUC", {"accuracy", "balanced accuracy", "log loss"}),
        ("sick", "balanced_accuracy", "balanced accuracy", {"accuracy", "AUC", "log loss"}),
        ("age", "R2", "R²", {"root mean squared error", "mean absolute error"}),
        ("age", "mae", "mean absolute error", {"root mean squared error", "R²"}),
        (
            "visits",
            "deviance",
            "deviance",
            {"root mean squared error", "mean absolute error", "R²"},
        ),
    ],
)
def test_another_metric_is_the_headline(tmp_path, label, asked, metric, also):
    frame = rare(every=4, signal=2.0)
    frame["visits"] = np.random.default_rng(0).poisson(np.exp(0.5 * frame.dose))
    how = {**ASKED, "label": label, "metric": asked}
    task = {"task": "counts"} if label == "visits" else {}
    run = adapt(frame, tmp_path / "run", **how, **task)
    found = run.metrics
    assert found["metric"] == metric and set(found["also"]) == also and found["scored"] == 3
    scores = np.array(found["scores"], dtype=float)
    assert (scores[..., 1] < scores[..., 0]).all() and (scores[..., 0] < scores[..., 2]).all()
    sign = 1 if found["higher_is_better"] else -1
    assert found["higher_is_better"] == (metric in ("AUC", "balanced accuracy", "R²"))
    gains = sign * (scores[:, :1, 0] - scores[..., 0]).mean(0)
    np.testing.assert_allclose(np.array(found["gain"])[:, 0], gains, atol=1e-9)
    for place in (run.summary(), run.report().read_text(), run.as_dict()["metric"]):
        assert metric in place
    if label == "sick":  # as scikit-learn has it, on the rows that were kept for scores
        again = adapt(frame, tmp_path / "other", **{**how, "metric": "log loss"})
        entry = again.metrics["also"][metric]
        np.testing.assert_allclose(np.array(entry["scores"]), scores[..., 0], rtol=1e-8)


def test_a_metric_has_to_fit_the_labels(tmp_path):
    with pytest.raises(cuvee.errors.OptionError, match="metric must be one of 'auto', 'accuracy'"):
        adapt(rare(), tmp_path / "run", **ASKED, metric="f1")
    with pytest.raises(cuvee.errors.OptionError, match="is not for 2 classes: choose 'accuracy'"):
        adapt(rare(), tmp_path / "run", **ASKED, metric="R²")
    three = rare().assign(sick=np.resize(["a", "b", "c"], 900))
    with pytest.raises(cuvee.errors.OptionError, match="'AUC' is not for 3 classes"):
        adapt(three, tmp_path / "run", **ASKED, metric="auc")
    with pytest.raises(cuvee.errors.OptionError, match="'deviance' is not for regression"):
        adapt(rare(), tmp_path / "run", **{**ASKED, "label": "age"}, metric="deviance")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("metric", METRICS)
def test_standard_errors_are_those_of_repeated_draws(metric):
    """Over many draws of 200 rows, losses and their differences vary as much as is said."""
    rng = np.random.default_rng(0)
    classes = np.array(["no", "yes"]) if METRICS[metric].tasks == ("classification",) else None
    labels = np.arange(1.0, 5.0) if classes is None else np.resize(classes, 4)
    own, found = cuvee.Domain("own", np.zeros((4, 1)), labels), []
    for _ in range(400):
        signal = rng.normal(size=200)
        seen = signal + np.array([0.5, 1.5])[:, None] * rng.normal(size=(2, 200))
        if classes is None:
            y, answers = rng.poisson(3 * np.exp(0.3 * signal)) * 1.0, 3 * np.exp(0.2 * seen)
        else:
            y = classes[(signal + rng.normal(size=200) > 0.7).astype(int)]
            chance = 1 / (1 + np.exp(0.7 - seen))
            answers = np.stack([1 - chance, chance], -1)
        rows = cuvee.Domain("test", signal[:, None], y)
        found.append(judging.judge_answers(answers, rows, own, classes, metric, also=False))
    loss, error, paired = (
        np.concatenate([getattr(f, k) for f in found])[:, :2] for k in ("loss", "error", "paired")
    )
    assert np.sqrt((error**2).mean(0)) == pytest.approx(loss.std(0), rel=0.17)
    differ = loss[:, 1] - loss[:, 0]
    assert np.sqrt((paired[:, 1] ** 2).mean()) == pytest.approx(differ.std(), rel=0.2)
    assert (paired[:, 0] == 0.0).all()


def test_a_perfect_ranking_of_few_rows_is_not_certain():
    y = np.array(["no"] * 6 + ["yes"] * 3)
    rows = cuvee.Domain("test", np.zeros((9, 1)), y)
    chance = np.where(y == "yes", 0.9, 0.1)
    answers = np.stack([1 - chance, chance], -1)[None]
    for metric in ("AUC", "balanced accuracy"):
        classes = np.array(["no", "yes"])
        one = judging.judge_answers(answers, rows, rows, classes, metric, also=True)
        assert one.loss[0, 0] == 0.0 and 0.05 < one.error[0, 0] < 0.3
    alone = cuvee.Domain("test", np.zeros((6, 1)), y[:6])
    one = judging.judge_answers(answers[:, :6], alone, rows, classes, "AUC", also=True)
    assert (
        np.isnan(one.loss).all()
        and np.isfinite(one.also[..., beside("AUC").index("accuracy")]).all()
    )


def test_runs_of_before_still_open(tmp_path):
    """A run without these scores, as earlier versions wrote it, is read, reported and predicts."""
    frame = rare()
    run = adapt(frame, tmp_path / "run", **ASKED)
    metrics = json.loads((run.path / "metrics.json").read_bytes())
    del metrics["also"], metrics["chance"]
    for name in ("methods", "mean", "mean_rank", "gain"):
        metrics[name] = metrics[name][:5]
    metrics["scores"] = [row[:5] for row in metrics["scores"]]
    rewrite(run.path, "metrics.json", json.dumps(metrics).encode())
    tensors, header = files.unpacked((run.path / MODELS).read_bytes(), run.path, WHAT, FORMAT)
    del tensors["importance"]
    tensors["bound"] = torch.zeros(3, 6)  # of Theorem 1, which runs had
    header = {k: v for k, v in header.items() if k != "checksum"}
    rewrite(run.path, MODELS, files.packed(tensors, header))
    old = open_run(run.path)
    assert old.findings.also == {} and "majority class" not in render(old.findings)
    assert not [w for w in worries(old.findings) if "most frequent class" in w]
    assert len(old.predict(frame[:3], target="site 0")) == 3
    assert command("resume", run.path).code == 0
