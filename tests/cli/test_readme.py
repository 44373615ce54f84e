"""The commands of the README: they run, and the line of output that it shows is theirs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import cuvee

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_commands_run_and_print_what_is_shown(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    block = re.search(r"```sh\n(.*?)```", README, re.DOTALL)[1]
    for line in block.replace("\\\n", "").splitlines():
        ended = cli(*shlex.split(line)[1:], "--quiet")
        assert ended.code == 0, ended
    name, weight, accuracy, baseline, mixture = re.search(
        r"^fir +([\w() ]+) ([\d.]+); … +([\d.]+) +([\d.]+) (\w+)$", README, re.MULTILINE
    ).groups()
    run = cuvee.open_run("runs/visits")
    scores = dict(zip(run.findings.methods, run.findings.scores[0, :, 0], strict=True))
    best = max((m for m in scores if m != "cuvee"), key=scores.get)
    assert (run.targets[0], best) == ("fir", mixture)
    assert run.columns[run.alpha[0].argmax()] == name
    assert run.alpha[0].max() == pytest.approx(float(weight), abs=0.02)
    assert [scores["cuvee"], scores[best]] == pytest.approx(
        [float(accuracy), float(baseline)], abs=0.015
    )
