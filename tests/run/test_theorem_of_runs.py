"""Theorem 1 in a run: numbers of `cuvee.risk_bound`, and older folders that still open."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save

import cuvee
from cuvee.data.prepare import prepare
from cuvee.run import adapt, open_run, theorem
from cuvee.run.folder import METRICS, MODELS, RunFolder
from cuvee.run.manifest import FORMAT, as_json
from run_builders import options, table

BASE = table(5, 16)
TARGETS = ("site 0", "site 3")


@pytest.fixture(scope="module", params=["cost", "sick"])
def run(request, tmp_path_factory):
    how = options(request.param, targets=TARGETS)
    return adapt(BASE, tmp_path_factory.mktemp("runs") / "run", options=how)


def test_terms_are_those_of_the_library(run, tmp_path):
    entry, label = run.metrics["theorem_1"], run.options.label
    prepared = prepare(BASE, run.options, tmp_path)
    group = prepared.group(prepared.members[0])
    bound = cuvee.risk_bound(group.problem, prepared.hypothesis(prepared.members[0]), run.alpha)
    for name in ("discrepancy", "complexity", "sampling"):
        np.testing.assert_allclose(entry[name], getattr(bound.printed, name), rtol=1e-9)
    np.testing.assert_allclose(entry["mended"], bound.proven.excess, rtol=1e-9)
    assert entry["loss"] == bound.loss and entry["exact"] == bound.exact == (label == "cost")
    assert entry["largest_loss"] == pytest.approx([bound.printed.largest_loss] * 2)
    shown = run.findings.theorem
    np.testing.assert_allclose(shown.together, bound.printed.excess, rtol=1e-9)


def test_the_held_out_loss_is_that_of_the_scored_models(run, tmp_path):
    entry, prepared = run.metrics["theorem_1"], prepare(BASE, run.options, tmp_path)
    group, hypothesis = (
        prepared.group(prepared.members[0]),
        prepared.hypothesis(prepared.members[0]),
    )
    solution = cuvee.solve(group.problem, hypothesis, run.alpha, tol=run.options.tol)
    for i, domain in enumerate(group.test):
        if run.options.label == "cost":
            y = np.concatenate([s.y for s in group.problem.sources])
            equal = all(s.n_rows == group.problem.sources[0].n_rows for s in group.problem.sources)
            error = solution.models[i].predict(domain.X) - domain.y
            wanted = 0.5 * (error**2).mean() / y.var()
            assert equal and entry["held_out"][i] == pytest.approx(wanted, rel=1e-6)
            root = np.sqrt((error**2).mean())
            assert run.metrics["scores"][i][0][0] == pytest.approx(root, rel=1e-6)
        else:
            chance = solution.models[i].predict_proba(domain.X)
            place = [list(solution.space.classes).index(label) for label in domain.y]
            right = chance[np.arange(len(place)), place]
            assert entry["held_out"][i] == pytest.approx(1 - right.mean(), rel=1e-5)


def test_levels_are_added_before_a_held_out_loss_is_taken(tmp_path):
    run = adapt(BASE, tmp_path / "run", options=options("cost", targets=TARGETS, levels=True))
    prepared = prepare(BASE, run.options, tmp_path)
    scale = (
        prepared.hypothesis(prepared.members[0])
        .bind(prepared.group(prepared.members[0]).problem.facts)
        .label_scale
    )
    rmse = np.array(run.metrics["scores"])[:, 0, 0]
    held_out = run.metrics["theorem_1"]["held_out"]
    np.testing.assert_allclose(held_out, 0.5 * (rmse / scale) ** 2, rtol=1e-6)


def test_the_report_has_a_line_per_target(run):
    html = (run.path / "report.html").read_text(encoding="utf-8")
    section = html[html.index("What Theorem 1 promises") : html.index('id="convergence"')]
    assert all(section.count(f"<td>{t}</td>") == 1 for t in TARGETS)


def test_of_many_targets_the_first_ones_have_terms(tmp_path, monkeypatch):
    monkeypatch.setattr(theorem, "MOST", 1)
    run = adapt(BASE, tmp_path / "run", options=options("cost", targets=TARGETS))
    entry = run.metrics["theorem_1"]
    assert entry["discrepancy"][0] is not None
    assert entry["discrepancy"][1] is None and entry["held_out"][1] is None
    assert "The first 1 of 2 targets." in (run.path / "report.html").read_text(encoding="utf-8")


def test_a_table_too_large_to_hold_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr(theorem, "TABLE", 10)
    run = adapt(BASE, tmp_path / "run", options=options("cost", targets=TARGETS))
    assert "theorem_1" not in run.metrics and run.findings.theorem is None
    assert "Theorem 1" not in (run.path / "report.html").read_text(encoding="utf-8")


def test_a_folder_of_an_older_version_opens_predicts_and_reports(run, tmp_path):
    """Such a folder has neither the entry in metrics.json nor the tensor beside the models."""
    shutil.copytree(run.path, tmp_path / "old")
    folder = RunFolder.open(tmp_path / "old")
    metrics = {k: v for k, v in folder.json(METRICS).items() if k != "theorem_1"}
    with safe_open(tmp_path / "old" / MODELS, "np") as file:
        header = file.metadata()
        names = set(file.keys()) - {"bound"}
        tensors = {name: file.get_tensor(name) for name in names}
    assert "theorem_1" in folder.json(METRICS)
    folder.commit("made old", {METRICS: as_json(metrics), MODELS: save(tensors, metadata=header)})
    assert json.loads((tmp_path / "old" / "manifest.json").read_bytes())["format"] == FORMAT
    old = open_run(tmp_path / "old")
    assert old.findings.theorem is None
    assert "Theorem 1" not in old.report().read_text(encoding="utf-8")
    rows = BASE[BASE.site == TARGETS[0]]
    np.testing.assert_array_equal(old.predict(rows).prediction, run.predict(rows).prediction)
