"""Names that a terminal would obey or a spreadsheet compute: shown and written as words, read back
as they were.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import cuvee.cli
import run_builders
from cuvee.cli.output import print_table
from cuvee.data.cells import guarded, unguarded
from cuvee.outputs.notebook import html_table
from cuvee.outputs.visible import visible
from cuvee.run import adapt, open_run, resume
from cuvee.run.alpha_file import from_csv, to_csv
from hypothesis import given, settings
from hypothesis import strategies as st
from run_builders import command, options, table

OBEYED = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)
ESCAPES = ("\x1b[2J\x1b[31mred", "\u202eevil", "bell\x07\x9b31m", "a\u2067b\u061c")
FORMULAS = (
    "=1+1",
    "+49 30",
    "-x",
    "@SUM(A1)",
    "\tx",
    "\rx",
    "\nx",
    "'=1+1",
    "''@a",
    "'plain",
    "-5",
    "'-5",
    "=",
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6) | st.sampled_from(
    [*ESCAPES, *FORMULAS]
)


# What a terminal shows.


def test_visible_shows_what_is_obeyed_and_leaves_the_rest():
    assert (
        visible("\x1b[31m\u202e\x9b\n") == "\\x1b[31m\\u202e\\x9b\\n"
        and visible("a\nb\t", keep="\n") == "a\nb\\t"
    )
    for plain in ("Süd – 北京医院 – مستشفى – می‌خواهم – 👩‍⚕️", "‖w\u00a0−\u00a0w*‖", "a\\x1b"):
        assert visible(plain) == plain


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_nothing_obeyed_is_left(text):
    assert not OBEYED.search(visible(text)) and visible(visible(text)) == visible(text)
    visible(text).encode()  # no half of a character either


def hostile(rows=8):
    """A table whose domains, columns and classes all hold escapes or formulas."""
    frame = table(len(ESCAPES) + 2, rows).rename(columns={"age": "age\x1b[1m", "sex": "=sex\u202e"})
    names = dict(zip(frame.site.unique(), (*ESCAPES, "=1+1", "new"), strict=True))
    return frame.assign(
        site=frame.site.map(names), sick=frame.sick.map({"yes": "yes\x1b]0;x\x07", "no": "no"})
    )


@pytest.fixture
def parquet(tmp_path):
    hostile().to_parquet(tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


ROLES = ("--domain", "site", "--label", "sick", "--drop", "cost")


def check_clean(ended, code=0):
    assert ended.code == code, ended
    assert not OBEYED.search(ended.out) and not OBEYED.search(ended.err), ended
    return ended


class Terminal(io.StringIO):
    """Stdout, where somebody looks at it."""

    def isatty(self):
        return self is sys.stdout


def test_no_command_lets_names_speak_to_the_terminal(parquet, monkeypatch):
    folder = parquet.parent
    monkeypatch.setattr(run_builders, "io", SimpleNamespace(StringIO=Terminal))
    monkeypatch.setenv("TERM", "dumb")  # without the colours that rich would add by itself
    each = ("--targets", "*red,new", "--method", "uniform")
    run = check_clean(command("adapt", parquet, *ROLES, *each, "--out", folder / "run"))
    assert "\\x1b[2J" in run.out and "\\u202eevil" in run.out
    check_clean(command("resume", folder / "run"))
    said = check_clean(command("adapt", parquet, *ROLES, *each, "--out", folder / "json", "--json"))
    # the same names, escaped as JSON escapes
    assert set(json.loads(said.out)["alpha"]) == {ESCAPES[0], "new"}
    shown = check_clean(command("weights", parquet, *ROLES, *each))
    assert (
        "\\u202eevil" in shown.out and "bell\\x07\\x9b31m" in shown.err
    )  # on a terminal; a pipe gets them as they are
    check_clean(command("weights", parquet, *ROLES, *each, "--out", folder / "a.csv"))
    check_clean(
        command(
            "solve", parquet, *ROLES, "--alpha", folder / "a.csv", "--out", folder / "m.safetensors"
        )
    )
    check_clean(
        command("predict", folder / "run", parquet, "--target", ESCAPES[0], "--keep", "site")
    )


def test_errors_are_clean_too(parquet):
    folder = parquet.parent
    for words, sentence in (
        (
            ("adapt", parquet, *ROLES, "--targets", "\u202eevli", "--out", folder / "x"),
            r"\\u202eevli",
        ),
        (("weights", parquet, *ROLES, "--targets", "*", "--out", folder / "x"), "all 6 domains"),
        (
            ("adapt", folder / "no\x1b[2J.csv", "--targets", "a", "--out", folder / "x"),
            r"no\\x1b\[2J.csv does not exist",
        ),
        (("adapt", parquet, "--bo\x1b[2Jgus"), "no such option"),
        (("bo\x1b[2Jgus",), "no such command"),
    ):
        assert re.search(sentence, check_clean(command(*words), 2).err)
    frame = hostile()
    frame[frame.site == ESCAPES[0]].to_parquet(folder / "one.parquet")
    check_clean(
        command(
            "adapt", folder / "one.parquet", *ROLES, "--targets", "each", "--out", folder / "x"
        ),
        2,
    )


def test_a_traceback_is_clean_too(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["cuvee", "resume", "no\x1b[2J", "--debug"])
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit, match="1"):
        cuvee.cli.entry()
    said = capsys.readouterr().err
    assert (
        "Traceback" in said and "there is no folder no\\x1b[2J" in said and not OBEYED.search(said)
    )


def test_a_pipe_gets_names_as_they_are(parquet):
    piped = command(
        "weights", parquet, *ROLES, "--targets", "new", "--method", "uniform", "--quiet"
    )
    _, columns, _ = from_csv(piped.out, "stdout")
    assert columns == (*ESCAPES, "=1+1")


def test_cells_of_tables_are_one_line(capsys):
    print_table(("a\x1bb", "c"), [("x\ny\u202e", "[bold]z")], "ti\x07tle")
    shown = capsys.readouterr().out
    assert (
        "a\\x1bb" in shown
        and "x\\ny\\u202e" in shown
        and "[bold]z" in shown
        and "ti\\x07tle" in shown
    )


def test_pages_and_notebooks(parquet):
    run = adapt(parquet, parquet.parent / "run", options=options("sick", targets=ESCAPES[:2]))
    page = (run.path / "report.html").read_text()
    assert not OBEYED.search(page) and "\\u202eevil" in page and "\\x1b[2J\\x1b[31mred" in page
    assert not OBEYED.search(run._repr_html_()) and not OBEYED.search(
        html_table(("a\u202e",), [("\x1b",)], "\u2067")
    )


def test_what_python_prints_of_mixtures():
    rng = np.random.default_rng(0)
    domains = [
        cuvee.Domain(name, rng.normal(size=(9, 2)), rng.normal(size=9))
        for name in ("a\x1b", "b\n", "\u202et")
    ]
    mix = cuvee.estimate(cuvee.Problem(domains[:2], domains[2:]), cuvee.Ridge(), method="uniform")
    assert not OBEYED.search(repr(mix)) and "\\u202et: a\\x1b 0.50; b\\n 0.50" in repr(mix)


# What a spreadsheet computes.


@settings(max_examples=300, deadline=None)
@given(NAMES | st.text())
def test_cells_that_could_be_formulas_are_guarded_and_come_back(text):
    cell = guarded(text)
    assert unguarded(cell) == text
    assert cell == text or cell == f"'{text}"
    assert cell[:1] not in tuple("=+-@\t\r\n") or re.fullmatch(
        r"[+-][\d.]+(e[+-]?\d+)?", cell, re.IGNORECASE
    )


@settings(max_examples=200, deadline=None)
@given(
    st.lists(NAMES, min_size=1, max_size=4, unique=True),
    st.lists(NAMES, min_size=1, max_size=4, unique=True),
)
def test_names_come_back_from_alpha_csv(targets, columns):
    alpha = np.random.default_rng(0).dirichlet(np.ones(len(columns)), len(targets))
    found = from_csv(to_csv(targets, columns, alpha).decode(), "here")
    assert found[:2] == (tuple(targets), tuple(columns))
    np.testing.assert_array_equal(found[2], alpha)


class Cut(Exception):
    """As if the process had ended there."""


def test_a_whole_run_with_such_names(tmp_path):
    names = [name for name in FORMULAS if name != "="]
    frame = table(len(names), 8)
    frame["site"] = frame.site.map(dict(zip(frame.site.unique(), names, strict=True)))
    frame = frame.rename(columns={"age": "=age", "sex": "@sex"})
    frame.to_parquet(tmp_path / "t.parquet")

    def stop(what, done, total):
        if what == "solving models":
            raise Cut

    asked = options(targets=tuple(names[::2]))
    with pytest.raises(Cut):
        adapt(tmp_path / "t.parquet", tmp_path / "run", options=asked, progress=stop)
    run = resume(tmp_path / "run")
    assert run.targets == tuple(names[::2]) and run.columns == (*names[1::2], cuvee.OWN)
    with (run.path / "alpha.csv").open(newline="") as file:
        cells = [cell for line in csv.reader(file) for cell in line]
    assert {"'=1+1", "'-x", "'+49 30", "'\tx", "'''@a", "''=1+1", "'plain", "-5"} < set(cells)
    again = adapt(frame, tmp_path / "again", options=asked, alpha=run.path / "alpha.csv")
    np.testing.assert_array_equal(again.alpha, run.alpha)
    solved = command(
        "solve", tmp_path / "t.parquet", "--domain", "site", "--label", "cost", "--drop", "sick",
        "--alpha", run.path / "alpha.csv", "--out", tmp_path / "m.safetensors", "--json",
    )  # fmt: skip
    assert solved.code == 0, solved.err
    assert [model["name"] for model in json.loads(solved.out)["models"]] == names[::2]
    rows = frame[frame.site.isin(names[::2])]
    rows.to_parquet(tmp_path / "rows.parquet")
    out = tmp_path / "said.csv"
    assert (
        command(
            "predict", run.path, tmp_path / "rows.parquet", "--keep", "=age,@sex", "--out", out
        ).code
        == 0
    )
    said = pd.read_csv(out, dtype={"site": str}, keep_default_na=False)
    assert list(said.columns) == ["site", "'=age", "'@sex", "prediction"]
    assert said.site.map(unguarded).tolist() == rows.site.tolist()
    wanted = open_run(run.path).predict(rows)
    np.testing.assert_allclose(said.prediction, wanted.prediction)
    np.testing.assert_allclose(said["'=age"], rows["=age"])  # numbers stay numbers
