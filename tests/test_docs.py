"""Examples in the docs are files that run, and docstrings keep their word."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import runpy
from pathlib import Path

import pytest

import cuvee

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
APART = ("cuvee.cli", "cuvee.skada")  # the second needs skada, which turns metadata routing on for the whole process
MODULES = sorted(m.name for m in pkgutil.walk_packages(cuvee.__path__, "cuvee.") if m.name not in APART)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example_runs(path, capsys):
    runpy.run_path(str(path))
    assert capsys.readouterr().out


def test_readme_holds_the_quickstart_and_what_it_prints(capsys):
    readme = (ROOT / "README.md").read_text()
    code = (ROOT / "examples" / "quickstart.py").read_text().split("\n\n", 1)[1].strip()
    assert code in readme
    runpy.run_path(str(ROOT / "examples" / "quickstart.py"))
    assert capsys.readouterr().out.strip() in readme


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_some_page_holds_the_example(path):
    code = path.read_text().split("\n\n", 1)[1].strip()
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert any(code in page.read_text() for page in pages)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
