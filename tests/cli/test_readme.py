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
    run = cuvee.open_run("runs/visits")
    shown = re.findall(
        r"^(fir|oak) +([\w() ]+) ([\d.]+); … +([\d.]+) +([\d.]+) (\w+)$",
        README,
        re.MULTILINE,
    )
    assert tuple(row[0] for row in shown) == run.targets[: len(shown)] != ()
    for i, (_, name, weight, accuracy, baseline, mixture) in enumerate(shown):
        scores = dict(zip(run.findings.methods, run.findings.scores[i, :, 0], strict=True))
        assert max((m for m in scores if m != "cuvee"), key=scores.get) == mixture
        # two sources may weigh about the same
        assert run.alpha[i, run.columns.index(name)] == pytest.approx(float(weight), abs=0.02)
        assert run.alpha[i].max() == pytest.approx(float(weight), abs=0.02)
        assert [scores["cuvee"], scores[mixture]] == pytest.approx(
            [float(accuracy), float(baseline)], abs=0.015
        )
