"""Examples in the docs are files that run, and docstrings keep their word."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import runpy
import sys
from pathlib import Path

import pytest

import cuvee

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))
import make_outputs  # noqa: E402

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LONG = ("budget", "mixture_of_texts", "personal", "stream")  # among the slow tests
# the second needs skada, which turns metadata routing on for the whole process
APART = ("cuvee.cli", "cuvee.skada")
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")),
    *sorted((ROOT / "docs").glob("*.md")),
]
MODULES = sorted(
    m.name for m in pkgutil.walk_packages(cuvee.__path__, "cuvee.") if m.name not in APART
)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, marks=[pytest.mark.slow] if p.stem in LONG else [], id=p.stem)
        for p in EXAMPLES
        if p.stem not in ("embeddings", "quickstart")
    ],
)
def test_example_runs(path, capsys):
    runpy.run_path(str(path), run_name="__main__")
    out = capsys.readouterr().out
    assert out
    if path.stem in make_outputs.PAGE_OF:
        page = (ROOT / "docs" / f"{make_outputs.PAGE_OF[path.stem]}.md").read_text()
        shown = page[slice(*make_outputs.block(path.stem, page))]
        assert_same_words(out, shown)


def assert_same_words(out, shown):
    """What is printed is what a page shows, but for the last digits of numbers."""
    number = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
    assert re.sub(number, "0", " ".join(out.split())) == re.sub(
        number, "0", " ".join(shown.split())
    )
    ours, theirs = (list(map(float, re.findall(number, text))) for text in (out, shown))
    assert ours == pytest.approx(theirs, rel=0.2, abs=0.02)


def test_the_example_of_embeddings_shows_what_its_page_says(capsys):
    accuracy = runpy.run_path(str(ROOT / "examples" / "embeddings.py"))["accuracy"]
    assert "weighed by cuvee" in capsys.readouterr().out
    for kind in ("linear", "network"):
        mean = {name: sum(of.values()) / 3 for (k, name), of in accuracy.items() if k == kind}
        assert mean["weighed by cuvee"] > 0.82
        assert mean["weighed by cuvee"] > mean["all rows pooled"] + 0.02 > mean["own rows only"]


def test_readme_holds_the_quickstart_and_what_it_prints(capsys):
    readme = (ROOT / "README.md").read_text()
    code = (ROOT / "examples" / "quickstart.py").read_text().split("\n\n", 1)[1].strip()
    assert code in readme
    runpy.run_path(str(ROOT / "examples" / "quickstart.py"))
    assert capsys.readouterr().out.strip() in readme


def test_readme_stays_short():
    """Depth and figures belong on the pages under docs/."""
    readme = (ROOT / "README.md").read_text()
    assert len(readme.split()) <= 700
    assert len(re.findall(r"\d[\d.,]*", readme)) <= 30


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_some_page_holds_the_example(path):
    code = path.read_text().split("\n\n", 1)[1].strip()
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert any(code in page.read_text() for page in pages)


def without_code(page: Path) -> str:
    """A page without its fenced and indented code, and without what stands between backticks."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"^ {4}(?! *[-*\d]).*$", "", text, flags=re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    found: dict[str, int] = {}
    for heading in re.findall(r"^#+ (.*)$", without_code(page), flags=re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        found[f"{slug}-{found[slug]}" if slug in found else slug] = 0
        found[slug] = found.get(slug, 0) + 1
    return set(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.is_relative_to(ROOT), f"{page.name} links out of the repository: {target}"
        assert linked.exists(), f"{page.name} links to {target}, which is not there"
        if anchor:
            assert anchor in anchors(linked), (
                f"{page.name} links to {target}; headings: {sorted(anchors(linked))}"
            )


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_on_the_page_is_python(page):
    if page.name == "api.md":  # signatures, and examples that are run where they stand
        return
    for block in re.findall(
        r"^```python\n(.*?)^```$", page.read_text(), flags=re.DOTALL | re.MULTILINE
    ):
        compile(block, page.name, "exec")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_files_named_on_a_page_are_there(page):
    """`learn/kernel.py` is short for src/cuvee/learn/kernel.py."""
    for name in set(re.findall(r"`((?:[\w.]+/)*\w+\.py)`", page.read_text())):
        places = (ROOT, ROOT / "src" / "cuvee", ROOT / "examples")
        assert any((place / name).exists() for place in places), f"{page.name} names {name}"


@pytest.mark.parametrize(
    "page", [p for p in PAGES if p.name != "CHANGELOG.md"], ids=lambda p: p.name
)
def test_who_promises_the_same_bits_says_where(page):
    """On another machine sums are added up in another order."""
    promise = r"same bits|same (?:\[)?to the bit|(?:seed|number) gives the same"
    for paragraph in re.split(r"\n\n|\n(?=- |\|)", page.read_text()):
        if re.search(promise, paragraph):
            assert re.search(r"same\s+machine|#the-same-numbers-again", paragraph), (
                f"{page.name}: {paragraph}"
            )


@pytest.mark.parametrize(
    "page",
    [p for p in PAGES if p.stem not in ("README", "CHANGELOG", "index")],
    ids=lambda p: p.stem,
)
def test_a_page_starts_with_what_the_reader_will_be_able_to_do(page):
    first = page.read_text().split("\n\n")[1]
    assert re.match(r"(After|On) this page you ", first), f"{page.name} starts: {first[:80]}"


def test_the_changelog_has_the_sections_of_keep_a_changelog():
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", v) for v in versions[1:])
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= kinds
    assert not re.search(r"^- ", text[: text.index("### ")], re.MULTILINE)


def test_an_index_page_links_to_every_page():
    said = "".join(
        p.read_text() for p in PAGES if p.name in ("README.md", "idea.md", "choosing.md")
    )
    assert [p.name for p in PAGES if p.parent.name == "docs" and p.name not in said] == []


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
