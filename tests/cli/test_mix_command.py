"""`cuvee mix` from two tables to weights, next runs and a report."""

from __future__ import annotations

import json

import pandas as pd
import pytest


@pytest.fixture
def fitted(cli, folder):
    ended = cli("mix", "fit", "ratios.csv", "metrics.csv", "--out", "mix", "--candidates", "law")
    assert ended.code == 0, ended
    return folder


def test_weights_next_runs_and_report(cli, fitted):
    ended = cli(
        "mix",
        "best",
        "mix",
        "--maximum",
        "0.6",
        "--fixed",
        "books=0.1",
        "--out",
        "w.json",
        "--json",
    )
    assert ended.code == 0, ended
    weights = json.loads((fitted / "w.json").read_text())
    assert weights == json.loads(ended.out)["weights"]
    assert sum(weights.values()) == pytest.approx(1) and weights["books"] == pytest.approx(0.1)
    assert max(weights.values()) <= 0.6 + 1e-9
    assert cli("mix", "next", "mix", "--runs", "3", "--out", "next.csv").code == 0
    assert len(pd.read_csv("next.csv")) == 3
    assert cli("mix", "report", "mix", "--prior", "w.json").code == 0
    page = (fitted / "mix" / "report.html").read_text(encoding="utf-8")
    for words in ("The mixture to train on", "reading", "The next runs", "The front."):
        assert words in page


def test_names_are_data_on_the_page(cli, folder):
    hostile = "<script>alert(1)</script>"
    ratios = pd.read_csv("ratios.csv").rename(columns={"web": hostile})
    ratios.to_csv("ratios.csv", index=False)
    assert (
        cli("mix", "fit", "ratios.csv", "metrics.csv", "--out", "m", "--candidates", "law").code
        == 0
    )
    assert cli("mix", "report", "m").code == 0
    page = (folder / "m" / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page and "&lt;script&gt;" in page


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("best", "mix", "--fixed", "web"), "--fixed web: write NAME=NUMBER"),
        (("best", "mix", "--minimum", "wiki=0.1"), "minimum names the domain 'wiki'"),
        (("best", "mix", "--out", "w.txt"), "the name must end in .json or .yaml"),
        (("best", "mix", "--minimum", "0.5"), "no mixture satisfies these constraints together"),
        (("best", "nowhere"), "nowhere holds no surface.safetensors"),
        (("fit", "ratios.csv", "metrics.csv", "--out", "mix"), "there is such a file already"),
        (("fit", "ratios.csv", "none.csv", "--out", "new"), "none.csv does not exist"),
        (("plan", "--domains", "web", "--runs", "0"), "k must be a whole number"),
    ],
)
def test_errors_are_one_sentence(cli, fitted, words, sentence):
    ended = cli("mix", *words)
    assert ended.code == 2 and sentence in ended.err and ended.err.count("\n") == 1
