"""Targets without labels, or with too few, in a run: weights from inputs, a model, and no score."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from cuvee.data.prepare import prepare
from cuvee.errors import DomainError, MixtureError
from cuvee.run import Options, adapt, expected, open_run, resume
from cuvee.run.folder import ALPHA, CANDIDATES, METRICS, TRACE
from run_builders import command

OPTIONS = Options(label="cost", domain="site", targets="new*", levels=False)
SITES = {"north": 20.0, "south": 50.0, "east": 80.0, "new 0": 20.0, "new 1": 55.0, "new 2": 75.0}
BARE = "new 3"


def table(labels=0, label="cost", rows=40, seed=0):
    """Return sites apart in age, three new ones with 12 labels and one, like the first, with few."""
    rng = np.random.default_rng(seed)
    parts = []
    for name, middle in {**SITES, BARE: 22.0}.items():
        age = middle + 6.0 * rng.normal(size=rows)
        one = pd.DataFrame({"age": age, "ward": rng.choice(["a", "b"], rows), "site": name})
        one["cost"] = 0.004 * (age - 50.0) ** 2 + 0.5 * rng.normal(size=rows)
        kept = rows if name in ("north", "south", "east") else labels if name == BARE else 12
        one.loc[one.index[kept:], "cost"] = np.nan
        parts.append(one)
    frame = pd.concat(parts, ignore_index=True)
    if label == "sick":
        frame["sick"] = np.where(frame.cost > 2.0, "yes", "no")
        frame["sick"] = frame.sick.where(frame.cost.notna(), None)
        frame = frame.drop(columns="cost")
    return frame


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run with one target without labels beside three that have some, and its table."""
    folder = tmp_path_factory.mktemp("bare")
    table().to_csv(folder / "visits.csv", index=False)
    return adapt(folder / "visits.csv", folder / "run", options=OPTIONS), table()


def test_a_target_without_labels_gets_weights_a_model_and_a_certificate(made):
    run, frame = made
    assert run.targets[-1] == BARE and run.columns[-1] == "(own sample)"
    assert run.alpha[-1, 0] > 0.6 and run.alpha[-1, -1] == 0.0  # like north, and no own rows
    assert run.findings.alpha_status[-1] == "label-free"
    assert run.metrics["certificate"]["distance"][-1] < 1e-6
    assert run.metrics["scores"][-1] == [[None] * 3] * 6 and run.metrics["scored"] == 3
    answers = open_run(run.path).predict(frame[frame.site == BARE])
    truth = 0.004 * (frame.age[frame.site == BARE] - 50.0) ** 2
    assert np.sqrt(np.mean((answers.prediction - truth) ** 2)) < 1.0
    tried = pd.read_parquet(run.path / CANDIDATES)
    assert set(tried.target) == {"new 0", "new 1", "new 2"} and tried.cv_loss.notna().all()
    assert set(pd.read_parquet(run.path / TRACE).target) == set(tried.target)


def test_what_cannot_be_known_is_said_everywhere(made):
    run, _ = made
    assert any("looks the same" in note and repr(BARE) in note for note in run.notes)
    page = (run.path / "report.html").read_text()
    worries = page[page.index('id="worries"') :]
    assert f"Target {BARE} has no labels" in worries and "looks the same" in worries
    assert "expect" in worries and "no labels, so that weights come from inputs alone" in page
    said = run.expectation()
    assert said.startswith("Without their labels, 3 targets that have some would reach")
    shown = command("resume", run.path)
    assert shown.code == 0 and "–" in shown.out and "expect" in shown.out
    assert "looks the same" in shown.err
    assert command("report", run.path, "--json").code == 0


def test_the_expectation_rests_on_rows_that_no_model_learnt_from(made):
    """Labelled targets are weighed by inputs alone, and scored on all their labelled rows."""
    run, frame = made
    prepared = prepare(frame, OPTIONS)
    members = prepared.members[0]
    group, kind = prepared.group(members), prepared.hypothesis(members)
    alpha = expected.without_labels(group, kind, 0)
    np.testing.assert_allclose(alpha[-1], run.alpha[-1, :-1], atol=1e-9)
    entry = run.metrics["label_free"]
    assert entry["targets"] == [BARE] and entry["judged_on"] == entry["tested_on"] == 3
    import cuvee

    w = cuvee.solve(group.problem.without_targets(), kind, alpha)
    for i in range(3):
        rows = expected.labelled_rows(group, i)
        assert rows.n_rows == 12
        error = np.sqrt(np.mean((w.predict(rows.X)[i] - rows.y) ** 2))
        np.testing.assert_allclose(entry["scores"][i], error, rtol=1e-6)
    assert entry["scores"][3] is None
    low, high = entry["expected"][1:]
    assert low < min(entry["scores"][:3]) < entry["expected"][0] < max(entry["scores"][:3]) < high


@pytest.mark.parametrize("labels", [1, 4])
def test_labels_that_are_too_few_change_nothing(made, tmp_path, labels):
    run = adapt(table(labels), tmp_path / "run", options=OPTIONS)
    np.testing.assert_allclose(run.alpha, made[0].alpha, atol=1e-9)
    np.testing.assert_allclose(run.w, made[0].w, atol=1e-9)
    says = f"target {BARE!r} has fewer than 5 labelled rows: the labels of that target are not used"
    assert says in run.notes


def test_a_run_that_was_cut_goes_on(made, tmp_path, monkeypatch):
    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as cut:
        cut.setattr(sys.modules["cuvee.run.adapt"], "_deliver", killed)
        with pytest.raises(KeyboardInterrupt):
            adapt(table(), tmp_path / "cut", options=OPTIONS)
    resume(tmp_path / "cut", source=table())
    for name in (ALPHA, METRICS):
        assert (tmp_path / "cut" / name).read_bytes() == (made[0].path / name).read_bytes()


@pytest.mark.parametrize("hypothesis", ["auto", pytest.param("mlp", marks=pytest.mark.slow)])
def test_all_targets_may_be_without_labels(tmp_path, hypothesis):
    frame = table(label="sick")
    asked = {"targets": BARE, "label": "sick", "hypothesis": hypothesis}
    run = adapt(frame, tmp_path / "run", options=replace(OPTIONS, **asked))
    assert run.metrics["scored"] == 0 and run.metrics["label_free"]["judged_on"] == 0
    assert "nothing is known about how well" in run.summary()
    assert "no labelled target stands beside them" in run.expectation()
    assert len(run.predict(frame[frame.site == BARE])) == 40
    json.dumps(run.as_dict(), allow_nan=False)


def test_one_labelled_target_gives_no_interval(tmp_path):
    run = adapt(table(), tmp_path / "run", options=replace(OPTIONS, targets=("new 0", BARE)))
    entry = run.metrics["label_free"]
    assert entry["judged_on"] == 1 and entry["expected"][1:] == [None, None]
    assert "one target is too few to say what to expect" in run.expectation()


def test_every_domain_in_turn_with_one_that_has_no_labels(tmp_path):
    frame = table()
    frame = frame[frame.site.isin(["north", "south", "east", BARE])]
    run = adapt(frame, tmp_path / "run", options=replace(OPTIONS, targets="each"))
    assert run.targets == ("north", "south", "east", BARE)
    assert run.columns == ("north", "south", "east", "(own sample)")
    assert np.isfinite(run.alpha[-1]).all() and np.isnan(run.alpha[0, 0])
    assert run.metrics["label_free"]["judged_on"] == 3
    assert np.isfinite(run.findings.sensitivity[-1, :3]).all()
    assert not any("is not a source" in note for note in run.notes)


def test_levels_of_such_a_target_are_those_of_its_sources(tmp_path):
    frame = table()
    frame["cost"] += frame.site.map({"north": 30.0, "south": -30.0}).fillna(0.0)
    asked = replace(OPTIONS, levels=True, targets=BARE)
    run = adapt(frame, tmp_path / "run", options=asked)
    prepared = prepare(frame, asked)
    levels = prepared.group(prepared.members[0]).levels
    np.testing.assert_allclose(run.offset, run.alpha[:, :-1] @ levels)
    assert run.offset[0] > 10.0  # that of north, which it resembles


def test_weights_of_ones_own(made, tmp_path):
    _, frame = made
    alpha = np.tile([1.0, 0.0, 0.0, 0.0], (4, 1))
    run = adapt(frame, tmp_path / "run", options=OPTIONS, alpha=alpha)
    assert "label_free" not in run.metrics and not run.expectation()
    assert run.metrics["certificate"]["distance"][-1] < 1e-6
    alpha[-1] = 0.5, 0.0, 0.0, 0.5
    with pytest.raises(MixtureError, match=f"target '{BARE}' weighs .* has no labels to learn"):
        adapt(frame, tmp_path / "bad", options=OPTIONS, alpha=alpha)


def test_single_steps_agree_with_the_run(made, tmp_path):
    run, _ = made
    data = run.about["data"]["path"]
    roles = ("--domain", "site", "--label", "cost", "--no-levels", "-q")
    alpha, models = tmp_path / "alpha.csv", tmp_path / "models.safetensors"
    ended = command("weights", data, "--targets", "new*", *roles, "--out", alpha)
    assert ended.code == 0, ended
    assert command("solve", data, *roles, "--alpha", alpha, "--out", models).code == 0
    import cuvee

    saved = cuvee.load_models(models)
    assert saved.targets == run.targets
    rows = table()[-5:]
    # the run's encoder saw no test rows
    np.testing.assert_allclose(
        saved.predict(rows).prediction, run.predict(rows).prediction, atol=0.05
    )


BAD = {
    "strict": (table(), {"strict": True}, "'new 3' has 0 labelled rows, and needs"),
    "a method that needs labels": (
        table(),
        {"method": "cuts", "targets": BARE},
        f"target '{BARE}' has 0 labelled rows, and needs 5",
    ),
    "too few rows": (
        table().groupby("site").head(4),
        {"targets": BARE},
        f"target '{BARE}' has 0 labelled rows, and needs 5",
    ),
    "gaps everywhere": (
        table().assign(age=lambda f: f.age.where(f.site != BARE)),
        {"targets": BARE},
        f"no target is left: target '{BARE}' gets no model: .* has a gap ",
    ),
    "no label at all": (table().assign(cost=np.nan), {}, "label 'cost' is missing in every row"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_done_is_a_sentence(tmp_path, case):
    frame, asked, says = BAD[case]
    with pytest.raises(DomainError, match=says):
        adapt(frame, tmp_path / "run", options=replace(OPTIONS, **asked))
    assert not (tmp_path / "run").exists()


def test_a_target_without_usable_rows_does_not_stop_the_others(tmp_path):
    frame = table().assign(age=lambda f: f.age.where(f.site != BARE))
    prepared = prepare(frame, OPTIONS)
    assert BARE not in prepared.targets and len(prepared.targets) == 3
    assert any(f"target '{BARE}' gets no model" in note for note in prepared.notes)


def test_a_service_answers_for_such_a_target(made):
    pytest.importorskip("fastapi")
    from serve_builders import Client

    run, frame = made
    client = Client(run.path)
    try:
        about = client.get(f"/v1/targets/{BARE}").json()
        assert about["score"] is None and not about["own_sample"]
        assert about["rows"] == {"learn": 0, "test": 0}
        answers = client.post(
            f"/v1/targets/{BARE}/predict",
            json={"rows": frame[["age", "ward"]][-3:].to_dict("records")},
        )
        assert answers.status_code == 200 and len(answers.json()["predictions"]) == 3
        mixed = client.post("/v1/mixtures", json={"alpha": {"north": 1.0}, "target": BARE})
        assert mixed.status_code == 200 and mixed.json()["score"] is None
    finally:
        client.state.close()
