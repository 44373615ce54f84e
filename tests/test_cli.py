"""The command line as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]


def cuvee_cli(*words, cwd=ROOT):
    return subprocess.run(
        [sys.executable, "-m", "cuvee.cli", *words], capture_output=True, text=True, cwd=cwd, timeout=300
    )


def test_help_lists_the_commands():
    out = cuvee_cli("--help")
    assert out.returncode == 0
    assert "demo" in out.stdout and "bench" in out.stdout


def test_unknown_benchmark_is_one_sentence_and_exit_code_2():
    out = cuvee_cli("bench", "nothing")
    assert out.returncode == 2
    known = "erm, growth, index, learn, million, mixture, online, online_mixtures, oracle, tables"
    assert f"no benchmark named 'nothing'; there is {known}" in out.stderr
    assert "Traceback" not in out.stderr


def test_benchmark_prints_one_json_line():
    out = cuvee_cli("bench", "mixture", "--json", "--quick")
    assert out.returncode == 0, out.stderr
    result = json.loads(out.stdout)
    assert result["N=15"]["largest_alpha_difference"] < 1e-6
    assert set(result["growth"]) == {"N", "M"}


@pytest.mark.slow
def test_demo_beats_both_baselines_on_every_target(tmp_path):
    out = cuvee_cli("demo", "--json", "--picture", str(tmp_path / "demo.png"))
    assert out.returncode == 0, out.stderr
    result = json.loads(out.stdout)
    assert result["test_images"] >= 500
    for target in result["targets"].values():
        averaging, alone, learnt = target["accuracy"].values()
        assert learnt > max(averaging, alone)
        assert np.isclose(sum(target["alpha"].values()), 1, atol=1e-3)
    assert (tmp_path / "demo.png").stat().st_size > 10_000
