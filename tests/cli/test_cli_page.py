"""docs/cli.md: its commands run, its tables are those of the program, and so are the examples of
--help.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cuvee.cli.reference import commands, filled

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
LINES = [
    line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()
]
APART = ("demo", "bench", "reproduce", "serve")  # tested elsewhere: they take long


def test_tables_of_options_are_those_of_the_program():
    assert set(re.findall(r"<!-- options of ([\w ]+) -->", PAGE)) == set(commands())
    assert filled(PAGE) == PAGE, "python -m cuvee.cli.reference docs/cli.md"


def test_make_docs_fills_the_tables_of_options():
    recipe = (Path(__file__).resolve().parents[2] / "Makefile").read_text(encoding="utf-8")
    docs = re.search(r"^docs:.*\n((?:\t.*\n)+)", recipe, re.MULTILINE)[1]
    assert "-m cuvee.cli.reference docs/cli.md" in docs


@pytest.mark.parametrize("command", [name for name in commands() if name not in APART])
def test_the_page_shows_the_example_of_help(command):
    example = re.search(r"Example: (.*)", commands()[command].help, re.DOTALL)[1]
    assert " ".join(example.split()) in LINES


def test_all_lines_of_the_page_run(cli, folder):
    # need what other lines write
    later = ("--alpha alpha.csv", "--stream", "predict models.safetensors", "mix best", "mix next")
    later += ("mix report",)
    for line in sorted(LINES, key=lambda line: any(words in line for words in later)):
        piped = ""
        for part in line.split(" | "):
            ended = cli(*shlex.split(part)[1:], "--quiet", stdin=piped)
            assert ended.code == 0, (line, ended)
            piped = ended.out
