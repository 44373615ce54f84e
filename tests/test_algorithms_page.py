"""docs/algorithms.md beside the code: every line that it quotes stands in the file that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (Algorithm \d).*?\n(.*?)(?=^## )", PAGE, re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("name", [f"Algorithm {k}" for k in (1, 2, 3, 4)])
def test_quoted_lines_are_in_the_code(name):
    section = SECTIONS[name]
    files = re.findall(r"\]\(\.\./(src/cuvee/[\w/]+\.py)\)", section)
    code = "\n".join((ROOT / file).read_text(encoding="utf-8") for file in files)
    quoted = re.findall(r"^\|.*\| `(.+)` \|$", section, re.MULTILINE)
    assert len(quoted) >= 4
    assert [line for line in quoted if line not in code] == []
