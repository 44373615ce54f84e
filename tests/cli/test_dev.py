"""`cuvee demo` and `cuvee bench`, started as a user starts them."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cuvee
from cuvee import demo

ROOT = Path(__file__).resolve().parents[2]


def started(*words, cwd=ROOT):
    return subprocess.run(
        [sys.executable, "-m", "cuvee.cli", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=300,
    )


def test_unknown_benchmark_is_told_those_that_there_are(cli):
    ended = cli("bench", "nothing")
    files = {path.stem for path in (ROOT / "benchmarks").glob("[!_]*.py")}
    known = sorted(files | {path.parent.name for path in ROOT.glob("benchmarks/*/command.py")})
    assert {"alpha", "erm", "quality", "groups"} <= set(known)
    said = f"cuvee: no benchmark named 'nothing'; there is {', '.join(known)}\n"
    assert ended == (2, "", said)


def test_benchmark_prints_one_json_line():
    out = started("bench", "index", "--json", "--quick")
    assert out.returncode == 0, out.stderr
    result = json.loads(out.stdout)
    for stream in ("uniform", "drifting"):
        assert {way["mismatches"] for way in result[stream].values()} == {"0 of 100"}


@pytest.mark.slow  # what it measures are the steps that mixture/test_scgda.py compares
def test_the_benchmark_of_mixtures_prints_one_json_line():
    out = started("bench", "mixture", "--json", "--quick")
    assert out.returncode == 0, out.stderr
    result = json.loads(out.stdout)
    assert result["N=15"]["largest_alpha_difference"] < 1e-6
    assert set(result["growth"]) == {"N", "M"}


def test_the_next_command_is_one_that_runs(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for line in demo.next_command().replace("\\\n", "").splitlines():
        words = shlex.split(line)
        assert words[0] == "cuvee"
        ended = cli(*words[1:], "--quiet")
        assert ended.code == 0
    # what a newcomer sees first: with few labels it is worth something
    found = cuvee.open_run(words[-1]).findings
    assert (found.learn_rows == 20).all()
    assert (found.gain[[m != "cuvee" for m in found.methods], 0] > 0).all()


@pytest.mark.slow
def test_the_benchmark_of_trees_on_a_large_table_says_what_the_budget_allowed():
    out = started("bench", "adapt_trees", "--json", "--quick")
    assert out.returncode == 0, out.stderr
    result = json.loads(out.stdout)
    assert result["rows"] == 600 and result["targets"] == 3
    assert 0.0 < result["judged"] <= 1.0 and result["steps"]["judged"] < 3 * result["budget"]
    assert result["seconds"] > result["steps"]["models"] > 0.0 and 0.1 < result["GiB"] < 4.0


@pytest.mark.slow
def test_demo_beats_both_baselines(tmp_path):
    out = started(
        "demo", "--json", "--out", str(tmp_path / "run"), "--picture", str(tmp_path / "demo.png")
    )
    assert out.returncode == 0, out.stderr
    result = json.loads(out.stdout)
    assert result["test_images"] >= 500
    # (4, 3)
    accuracy = np.array(
        [list(target["accuracy"].values()) for target in result["targets"].values()]
    )
    assert (accuracy[:, 2] >= accuracy[:, :2].max(1) - 0.005).all(), (
        "nowhere worse, but for three images of 600"
    )
    assert accuracy[:, 2].mean() > accuracy[:, :2].mean(0).max() + 0.02
    for target in result["targets"].values():
        assert np.isclose(sum(target["alpha"].values()), 1, atol=1e-3)
    assert Path(result["report"]).is_file()
    assert (tmp_path / "demo.png").stat().st_size > 10_000
