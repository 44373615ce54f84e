"""Code that a run folder names is imported only where the caller names it again."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import cuvee
from cuvee.errors import InputError, OptionError
from cuvee.run.folder import ABOUT, MANIFEST, RunFolder
from cuvee.run.manifest import read_manifest, to_bytes
from run_builders import options, table

EVIL = """
import pathlib
pathlib.Path("it-ran").write_text("yes")
import torch
def make(n_inputs, n_outputs):
    return torch.nn.Linear(n_inputs, n_outputs)
"""
NAMED = ("ctypes:string_at", "evil:make", "os:system", "evil.deeper:make")


def crafted(path, **changed):
    """Change options in run.json as somebody would who also corrects every checksum."""
    folder = RunFolder.open(path)
    about = folder.about
    about["options"].update(changed)
    folder.commit("again", {ABOUT: json.dumps(about).encode()})
    return path


@pytest.fixture
def run(tmp_path):
    frame = table(4, 30)
    asked = options("sick", targets="site 3", method="uniform")
    path = cuvee.adapt(frame, tmp_path / "run", options=asked).path
    frame[frame.site == "site 3"].to_csv(tmp_path / "rows.csv", index=False)
    return path


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A module in the working directory, which Python finds."""
    (tmp_path / "evil.py").write_text(EVIL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("evil", None)


@pytest.mark.parametrize("named", NAMED)
def test_a_run_does_not_import_what_its_folder_names(run, beside, named):
    crafted(run, hypothesis=named)
    for opened in (cuvee.open_run, cuvee.resume):
        with pytest.raises(OptionError) as refused:
            opened(run)
        said = str(refused.value)
        assert str(run / ABOUT) in said and repr(named) in said and f"--hypothesis {named}" in said
        with pytest.raises(OptionError, match=f"holds the hypothesis {named!r}, not 'mlp'"):
            opened(run, hypothesis="mlp")
    assert "evil" not in sys.modules and not (beside / "it-ran").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "run", "rows.csv"),
        ("serve", "run", "--port", "0"),
        ("report", "run"),
        ("resume", "run"),
    ],
)
def test_no_command_runs_a_module_beside_the_folder(run, beside, words):
    crafted(run, hypothesis="evil:make")
    command = [sys.executable, "-m", "cuvee", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2 and ended.stdout == "" and not (beside / "it-ran").exists()
    assert "'evil:make'" in ended.stderr and "--hypothesis evil:make" in ended.stderr


def test_predict_in_the_folder_itself_runs_no_module_of_it(run, beside, monkeypatch):
    crafted(run, hypothesis="ctypes_of_the_folder:make")
    (run / "ctypes_of_the_folder.py").write_text(EVIL)
    command = [sys.executable, "-m", "cuvee", "predict", ".", "../rows.csv"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=run)
    assert ended.returncode == 2 and not (run / "it-ran").exists(), ended.stderr


def test_the_service_does_not_import_what_its_folder_names(run, beside):
    serve_builders = pytest.importorskip("serve_builders", exc_type=ImportError)
    crafted(run, hypothesis="evil:make")
    with pytest.raises(OptionError, match="'evil:make', code that makes"):
        serve_builders.Client(run)
    assert not (beside / "it-ran").exists()


def test_a_network_is_loaded_where_it_is_named_again(beside):
    (beside / "my_net.py").write_text(EVIL.replace("it-ran", "mine-ran"))
    frame = table(4, 30)
    asked = options("sick", targets="site 3", method="uniform", hypothesis="my_net:make")
    made = cuvee.adapt(frame, beside / "run", options=asked)
    rows = frame[frame.site == "site 3"]
    told = made.predict(rows)
    del sys.modules["my_net"]
    (beside / "mine-ran").unlink()
    with pytest.raises(OptionError, match="my_net:make"):
        cuvee.open_run(made.path)
    assert not (beside / "mine-ran").exists()
    again = cuvee.open_run(made.path, hypothesis="my_net:make")
    pd.testing.assert_frame_equal(again.predict(rows), told)
    assert cuvee.resume(made.path, hypothesis="my_net:make").finished
    rows.to_csv("rows.csv", index=False)
    code = ["--hypothesis", "my_net:make"]
    for words in (["predict", "run", "rows.csv"], ["report", "run"], ["resume", "run"]):
        command = [sys.executable, "-m", "cuvee", *words, *code]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert ended.returncode == 0, ended.stderr
    sys.modules.pop("my_net", None)


def test_what_is_cuvees_own_needs_no_word(beside):
    frame = table(4, 30)
    asked = options("sick", targets="site 3", method="uniform", hypothesis="cuvee.demo:two_layers")
    made = cuvee.adapt(frame, beside / "run", options=asked)
    assert np.isfinite(cuvee.open_run(made.path).predict_proba(frame, target="site 3")).all()


def test_a_cluster_that_only_the_folder_names_is_not_joined(run, beside):
    crafted(run, on="ray:198.51.100.7:6379")
    manifest = read_manifest(run)  # as if the run had been cut
    begun = [step for step in manifest["steps"] if step["name"] == "begun"]
    (run / MANIFEST).write_bytes(to_bytes({**manifest, "steps": begun}))
    with pytest.raises(InputError, match=r"--on ray:198\.51\.100\.7:6379"):
        cuvee.resume(run)
    assert "ray" not in sys.modules or not sys.modules["ray"].is_initialized()
    command = [sys.executable, "-m", "cuvee", "resume", os.fspath(run)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2 and "--on ray:198.51.100.7:6379" in ended.stderr
