"""The container file: where it comes from, as whom it runs, and that what it copies is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINES = (ROOT / "deploy" / "Containerfile").read_text().splitlines()
IGNORE = (ROOT / ".dockerignore").read_text().splitlines()


def words(keyword):
    return [line.split()[1:] for line in LINES if line.startswith(f"{keyword} ")]


def test_it_is_made_of_debian_and_pypi_and_runs_as_a_user():
    assert {image[0].partition(":")[0] for image in words("FROM")} == {"debian"}
    assert not words("ADD") and not re.search(r"curl|wget|--index-url|git\+", "\n".join(LINES))
    last = max(i for i, line in enumerate(LINES) if line.startswith("FROM "))
    users = [line.split()[1] for line in LINES[last:] if line.startswith("USER ")]
    assert users and users[-1] not in ("0", "root")


def test_what_it_copies_is_there_and_is_sent():
    copied = [name for line in words("COPY") if "--from=build" not in line for name in line[:-1]]
    assert "src" in copied and "pyproject.toml" in copied
    for name in copied:
        assert (ROOT / name).exists() and f"!{name}" in IGNORE


def test_its_health_is_asked_by_what_is_copied():
    asked = next(line for line in LINES if line.startswith("HEALTHCHECK"))
    command = json.loads(asked.removeprefix("HEALTHCHECK CMD "))
    assert ["deploy/healthy.py", command[1]] in words("COPY") and command[0] == "python3"
    assert command[2:] == ["8765"] and ["8765"] in words("EXPOSE")


def test_its_command_is_one_that_there_is():
    from typer.testing import CliRunner

    from cuvee.cli import app

    command = next(line for line in LINES if line.startswith("ENTRYPOINT"))
    options = re.findall(r'"(--[\w-]+)"', command)
    helped = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).output
    assert options and all(option in helped for option in options)
