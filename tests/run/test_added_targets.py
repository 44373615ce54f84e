"""Targets added to a finished run: the models that a run with them would have made."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest

from cuvee.errors import DomainError, InputError
from cuvee.run import adapt, open_run
from cuvee.run.added import read, remove, tidy, write
from cuvee.run.base import Base
from cuvee.run.folder import ADDED, RunFolder
from cuvee.run.new_targets import adapted, encode
from run_builders import check_loads, check_tidy, options, steps, table


def silent(what, done, total):
    """Nobody asked."""


def known(folder):
    """A table of five sites, of which the run knows four."""
    frame = table(5, 30)
    frame[frame.site != "site 4"].to_csv(folder / "known.csv", index=False)
    return frame


@pytest.fixture
def whole(tmp_path):
    return known(tmp_path)


@pytest.fixture(scope="module")
def base_of_classes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    known(folder)
    return Base.of(open_run(make(folder, "sick")))


def make(tmp_path, label="cost", **how):
    adapt(tmp_path / "known.csv", tmp_path / "run", options=options(label, targets="site 3", **how))
    return tmp_path / "run"


def add(path, frame, *names):
    base = Base.of(open_run(path))
    rows = {name: encode(base, name, frame) for name in names}
    new = adapted(base, rows, {name: f"key of {name}" for name in names}, silent)
    assert write(path, new) == []


@pytest.mark.parametrize("label", ["cost", "sick"])
@pytest.mark.parametrize("targets", ["site 3", "each"])
def test_a_target_that_is_added_has_the_model_it_would_have_had(tmp_path, whole, label, targets):
    how = {"method": "pooled_own", "labelled": 20, "levels": True}
    whole.to_csv(tmp_path / "all.csv", index=False)
    adapt(
        tmp_path / "known.csv",
        tmp_path / "run",
        options=options(label, **{**how, "targets": targets}),
    )
    path, new = tmp_path / "run", whole[whole.site == "site 4"]
    add(path, new, "site 4")
    direct = adapt(tmp_path / "all.csv", tmp_path / "direct",
                   options=options(label, **how, targets="site 4", exclude=() if targets == "each" else ("site 3",)))  # fmt: skip
    run = open_run(path)
    assert run.targets[-1] == "site 4" and run.added == {"site 4"} and run.columns == direct.columns
    np.testing.assert_allclose(run.alpha[-1], direct.alpha[-1], atol=1e-6)
    np.testing.assert_allclose(run.w[-1], direct.w[-1], atol=1e-5)
    new = new.drop(columns=["cost", "sick"])
    expected = direct.predict(new)["prediction"]
    if label == "cost":
        np.testing.assert_allclose(run.predict(new)["prediction"], expected, atol=1e-4)
    else:
        assert (run.predict(new)["prediction"] == expected).all()
    np.testing.assert_allclose(run.metrics["scores"][-1], direct.metrics["scores"][0], atol=1e-4)
    assert run.findings.learn_rows[-1] == direct.findings.learn_rows[0] == 20


def test_predictions_scores_and_the_report_know_it(tmp_path, whole):
    path, new = make(tmp_path, method="pooled_own"), whole[whole.site == "site 4"]
    before = open_run(path)
    add(path, new, "site 4", "=twin")
    run = open_run(path)
    assert run.targets == (*before.targets, "site 4", "=twin")
    np.testing.assert_allclose(run.w[0], before.w[0], rtol=0)
    assert run.metrics["scores"][0] == before.metrics["scores"][0]
    assert run.metrics["scored"] == 3
    # two of the same rows, computed together, are the same model
    np.testing.assert_allclose(run.w[1], run.w[2], rtol=1e-9)
    frame = whole[whole.site.isin(["site 3", "site 4"])]
    answers = run.predict(frame)
    expected = run.predict(frame[frame.site == "site 4"], target="site 4")
    np.testing.assert_allclose(answers.loc[expected.index, "prediction"], expected["prediction"])
    # a model of the target's own rows is nearer to them than the one of another target
    error = np.abs(expected["prediction"] - new.cost).mean()
    assert error < np.abs(run.predict(new, target="site 3")["prediction"] - new.cost).mean()
    page = run.report().read_text()
    assert "site 4" in page and "=twin" in page
    assert run.findings.alpha.shape == (3, len(run.columns))
    assert "site 4" in str(run.as_dict()["alpha"])


def test_what_is_removed_is_gone_and_others_stay(tmp_path, whole):
    path, new = make(tmp_path), whole[whole.site == "site 4"]
    add(path, new, "a", "b")
    model = open_run(path).w[2].copy()
    assert remove(path, "a") and not remove(path, "a") and not remove(path, "site 3")
    run = open_run(path)
    assert run.targets == ("site 3", "b")
    np.testing.assert_array_equal(run.w[1], model)
    assert len(os.listdir(path / ADDED)) == 1


def test_names_are_never_file_names(tmp_path, whole):
    path = make(tmp_path)
    add(path, whole[whole.site == "site 4"], "../../evil", "<script>", "a/b")
    assert {*open_run(path).added} == {"../../evil", "<script>", "a/b"}
    names = os.listdir(path / ADDED)
    assert all(set(n.removesuffix(".safetensors")) <= set("0123456789abcdef") for n in names)
    check_loads(path, steps(path))


def test_a_name_that_is_taken_is_refused_and_a_request_is_kept_once(tmp_path, whole):
    path, new = make(tmp_path), whole[whole.site == "site 4"]
    base = Base.of(open_run(path))
    rows = encode(base, "new", new)
    first = adapted(base, {"new": rows}, {"new": "1"}, silent)
    second = adapted(base, {"new": rows, "site 3": rows}, {"new": "2", "site 3": "3"}, silent)
    assert write(path, first) == [] and write(path, first) == []
    assert write(path, second) == ["2", "3"]
    assert open_run(path).targets == ("site 3", "new")


def test_what_a_kill_left_behind_is_removed(tmp_path, whole):
    path = make(tmp_path)
    add(path, whole[whole.site == "site 4"], "a")
    (path / ADDED / "0000.safetensors").write_bytes(b"not committed")
    (path / ADDED / "0001.safetensors.part").write_bytes(b"half")
    assert len(read(RunFolder.open(path))) == 1
    tidy(path)
    assert len(os.listdir(path / ADDED)) == 1 and open_run(path).added == {"a"}
    check_tidy(path)


def test_a_changed_byte_of_an_added_target_is_an_error(tmp_path, whole):
    path = make(tmp_path)
    add(path, whole[whole.site == "site 4"], "a")
    file = next((path / ADDED).iterdir())
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match="checksum"):
        open_run(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f[:3], "3 labelled rows"),
        (lambda f: f.drop(columns="sick"), "'sick'"),
        (lambda f: f.assign(sick=["maybe", *f.sick[1:]]), "'maybe'"),
        (lambda f: f.assign(age="old"), "'age' holds text"),
        (lambda f: f.assign(age=np.nan), "'age'"),
    ],
)
def test_rows_that_cannot_be_learnt_are_refused(base_of_classes, whole, change, words):
    frame = change(whole[whole.site == "site 4"].reset_index(drop=True))
    with pytest.raises(DomainError, match=words) as refused:
        encode(base_of_classes, "new", frame)
    assert "target 'new'" in str(refused.value)


def test_the_manifest_of_a_run_without_added_targets_is_as_before(tmp_path, whole):
    path = make(tmp_path)
    kept = json.loads((path / "manifest.json").read_bytes())["files"]
    add(path, whole[whole.site == "site 4"], "a")
    remove(path, "a")
    assert json.loads((path / "manifest.json").read_bytes())["files"] == kept
    shutil.rmtree(path / ADDED)
    assert open_run(path).targets == ("site 3",)
