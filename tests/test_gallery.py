"""The gallery: its scripts have the form that pages need, each runs, and a page shows what it did."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

sys.path.insert(0, str(ROOT / "docs"))
import make_gallery as gallery  # noqa: E402

SMALL = '''"""A small page.

After this page you can "add".
"""
import matplotlib.pyplot as plt

# %% Adding
# One and *one*
# are [two](../../docs/idea.md).
print(1 + 1)

# %% Drawing
figure, axes = plt.subplots(figsize=(1, 1))
figure.savefig("dot.png")
'''


def test_every_script_is_on_the_index_and_in_the_navigation():
    scripts = {path.stem for path in gallery.SCRIPTS.glob("*.py")}
    assert scripts == set(gallery.ORDER) and len(scripts) == 8
    navigation = re.findall(r"gallery/(\w+)\.md", (ROOT / "mkdocs.yml").read_text())
    assert navigation == ["index", *gallery.ORDER]


@pytest.mark.parametrize("name", gallery.ORDER)
def test_a_script_has_words_for_each_cell_and_one_picture_of_its_name(name):
    text = (gallery.SCRIPTS / f"{name}.py").read_text(encoding="utf-8")
    first, *others = gallery.cells(text)
    assert first.text.startswith("After this page you ")
    assert len(others) >= 3 and all(cell.text and cell.code for cell in others)
    assert re.findall(r'savefig\("([\w.]+)"', text) == [f"{name}.png"]
    for cell in (first, *others):
        ast.parse(cell.code)


def test_a_page_has_text_code_output_and_picture_in_order(tmp_path):
    script = tmp_path / "small.py"
    script.write_text(SMALL)
    page = gallery.run(script, tmp_path)
    assert (tmp_path / "dot.png").read_bytes().startswith(b"\x89PNG")
    parts = [
        "# A small page",
        'After this page you can "add".',
        "## Adding",
        "One and *one*\nare [two](../idea.md).",
        "```python\nprint(1 + 1)\n```",
        "```text\n2\n```",
        "## Drawing",
        "![Drawing](dot.png)",
    ]
    places = [page.index(part) for part in parts]
    assert places == sorted(places)


def test_long_lines_are_wrapped_and_tables_are_not():
    words, table = "word " * 40, "a    b" * 40
    assert max(map(len, gallery.wrapped(words).splitlines())) <= gallery.WIDTH
    assert gallery.wrapped(table) == table


def test_a_script_that_fails_ends_the_build_with_its_error(tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text('"""Broken."""\nraise ValueError("no such luck")\n')
    monkeypatch.setattr(gallery, "SCRIPTS", tmp_path)
    with pytest.raises(SystemExit, match="no such luck"):
        gallery.make("broken", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", gallery.ORDER)
def test_a_script_runs_in_under_a_minute_and_draws_its_picture(name, tmp_path):
    gallery.make(name, tmp_path)  # ends with an error where it takes longer
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    page = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
    assert page.count("```python") >= 4 and f"]({name}.png)" in page
