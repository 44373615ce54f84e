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
from cuvee.report.cautions import worries
from cuvee.report.page import render
from cuvee.run import adapt, open_run
from cuvee.run import judge as judging
from cuvee.run.judge import judge
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
    found = judge(space, w, test, offset, own)
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
            assert found.also.shape == (8, 4, 0)
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
    """10⁴ targets cost some forward passes, not 10⁴."""
    rng = np.random.default_rng(0)
    space, calls = space_of(2), []
    test = targets_of(rng, rng.integers(0, 12, 10_000), 2)
    forward = space.own_scores
    monkeypatch.setattr(space, "own_scores", lambda w, X: calls.append(len(w)) or forward(w, X))
    found = judge(
        space,
        rng.normal(size=(10_000, 5, space.n_params)),
        test,
        np.zeros(10_000),
        test[:1] * 10_000,
    )
    assert sum(calls) == sum(d is not None for d in test) and len(calls) <= 20
    assert np.isfinite(found.loss[[d is not None for d in test]]).all()


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
    run = adapt(rare(), tmp_path / "run", **ASKED)
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
    assert run.metrics["methods"][-1] == "own mean" and run.metrics["also"] == {}
    (said,) = [w for w in worries(run.findings) if "the mean of a target's own labels" in w]
    assert "the columns say little about “sick”" in said


def test_the_command_line_shows_both(tmp_path):
    rare().to_csv(tmp_path / "rare.csv", index=False)
    words = [w for k, v in ASKED.items() for w in (f"--{k}", v)]
    ended = command("adapt", tmp_path / "rare.csv", *words, "--out", tmp_path / "run")
    assert ended.code == 0, ended
    assert "(balanced)" in ended.out and "majority" in ended.out
    assert "Beside accuracy, on average: balanced accuracy 0.500, AUC 0." in ended.out


def test_runs_of_before_still_open(tmp_path):
    """A run without these scores, as earlier versions wrote it, is read, reported and predicts."""
    frame = rare()
    run = adapt(frame, tmp_path / "run", **ASKED)
    metrics = json.loads((run.path / "metrics.json").read_bytes())
    del metrics["also"]
    for name in ("methods", "mean", "mean_rank", "gain"):
        metrics[name] = metrics[name][:5]
    metrics["scores"] = [row[:5] for row in metrics["scores"]]
    rewrite(run.path, "metrics.json", json.dumps(metrics).encode())
    old = open_run(run.path)
    assert old.findings.also == {} and "majority class" not in render(old.findings)
    assert not [w for w in worries(old.findings) if "most frequent class" in w]
    assert len(old.predict(frame[:3], target="site 0")) == 3
    assert command("resume", run.path).code == 0
