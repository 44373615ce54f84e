"""`cuvee mix` from two tables to weights, next runs and a report."""

from __future__ import annotations

import json
import re
import shlex
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cuvee.cli.reference import commands
from cuvee.report.formatting import weight

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "mix.md").read_text(encoding="utf-8")


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
        (("best", "mix", "--minimum", "wiki=0.1"), "--minimum (minimum=) names the domain 'wiki'"),
        (("best", "mix", "--out", "w.txt"), "the name must end in .json or .yaml"),
        (("best", "mix", "--minimum", "0.5"), "no mixture satisfies these constraints together"),
        (("best", "nowhere"), "nowhere holds no surface.safetensors"),
        (("fit", "ratios.csv", "metrics.csv", "--out", "mix"), "there is such a file already"),
        (("fit", "ratios.csv", "none.csv", "--out", "new"), "none.csv does not exist"),
        (("plan", "--domains", "web", "--runs", "0"), "--runs 0: ask for at least one run"),
        (("next", "mix", "--runs", "-1"), "--runs -1: ask for at least one run"),
    ],
)
def test_errors_are_one_sentence(cli, fitted, words, sentence):
    ended = cli("mix", *words)
    assert ended.code == 2 and sentence in ended.err and ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("report", "mix", "--trade", "reading"),
            "--trade (trade=) must name two metrics, of reading, maths",
        ),
        (("report", "mix", "--trade", "reading,nope"), "--trade (trade=) must name two metrics"),
        (("plan", "--domains", "web,web"), "there is a domain 'web' already"),
        (("plan", "--domains", "web,run"), "a domain cannot be called 'run'"),
        (("best", "mix", "--keep", "reading=nan"), "must be a finite number; got nan"),
        (("best", "mix", "--keep", "speed=1"), "--keep (keep=) names the metric 'speed'"),
        (("best", "mix", "--keep", "maths=0"), "loosen --keep (keep=), lower --risk (risk=), or"),
        (("best", "mix", "--scale", "7B"), "the runs, which have none: leave it out; got '7B'"),
    ],
)
def test_what_cannot_be_done_is_said(cli, fitted, words, sentence):
    ended = cli("mix", *words)
    assert ended.code == 2 and sentence in ended.err and ended.err.count("\n") == 1


GOAL = (
    "--worst", "--keep", "maths=9", "--maximum", "0.6", "--prior", "w.json", "--pull", "0.2",
    "--risk", "0.5", "--seed", "3",
)  # fmt: skip


def test_next_runs_and_the_report_are_about_the_proposal_that_was_chosen(cli, fitted):
    domains = [name for name in pd.read_csv("ratios.csv").columns if name != "run"]
    (fitted / "w.json").write_text(json.dumps(dict.fromkeys(domains, 1 / len(domains))))
    ended = cli("mix", "best", "mix", *GOAL, "--json")
    assert ended.code == 0, ended
    weights = json.loads(ended.out)["weights"]
    assert cli("mix", "next", "mix", "--runs", "2", "--out", "next.csv", *GOAL).code == 0
    first = pd.read_csv("next.csv").iloc[0]
    assert {name: first[name] for name in weights} == pytest.approx(weights)
    ended = cli("mix", "report", "mix", *GOAL)
    assert ended.code == 0, ended
    page = (fitted / "mix" / "report.html").read_text(encoding="utf-8")
    assert "the worst of reading, maths" in page
    largest = max(weights, key=weights.get)
    assert f"The proposal gives most to {largest} {weight(weights[largest])}" in page


def test_a_metric_to_maximise_is_shown_as_it_is(cli, folder):
    fit = ("mix", "fit", "ratios.csv", "metrics.csv", "--out", "m", "--candidates", "law")
    assert cli(*fit, "--maximise", "reading").code == 0
    ended = cli("mix", "best", "m", "--minimise", "reading", "--maximum", "0.5")
    assert ended.code == 0, ended
    told = ended.out.split("Expected ")[1]
    assert float(told.split(" for reading; the 90% interval ")[0]) > 0
    assert "best run" in told and "(not allowed)" in told and "-" not in told
    assert cli("mix", "report", "m", "--minimise", "reading", "--maximum", "0.5").code == 0
    page = (folder / "m" / "report.html").read_text(encoding="utf-8")
    assert (
        "for reading; the 90% interval for the mean of many such runs begins at" in page
        and "(not allowed)" in page
    )


def test_few_runs_and_a_constant_metric_are_shown_as_what_they_are(cli, folder):
    for name in ("ratios.csv", "metrics.csv"):
        pd.read_csv(name).head(7).to_csv(name, index=False)
    pd.read_csv("metrics.csv").assign(maths=2.5).to_csv("metrics.csv", index=False)
    ended = cli("mix", "fit", "ratios.csv", "metrics.csv", "--out", "m", "--candidates", "law")
    assert ended.code == 0 and "never varies" in ended.out and ended.out.count("%") == 1
    ended = cli("mix", "best", "m")
    assert ended.code == 0 and "nan" not in ended.out and "worse than predicted" not in ended.out
    assert cli("mix", "report", "m").code == 0
    page = (folder / "m" / "report.html").read_text(encoding="utf-8")
    assert "never varies" in page and "worse than predicted" not in page


def test_best_repeats_what_the_fit_warned_of(cli, folder):
    for name in ("ratios.csv", "metrics.csv"):
        pd.read_csv(name).head(7).to_csv(name, index=False)
    fit = ("mix", "fit", "ratios.csv", "metrics.csv", "--out", "m", "--candidates", "law")
    assert cli(*fit).code == 0
    few = "7 runs are too few for intervals"
    assert few in cli("mix", "best", "m").err
    assert few in " ".join(json.loads(cli("mix", "best", "m", "--json").out)["notes"])


def test_a_prior_may_be_what_best_wrote_as_yaml(cli, fitted):
    assert cli("mix", "best", "mix", "--maximum", "0.5", "--out", "w.yaml").code == 0
    ended = cli("mix", "best", "mix", "--prior", "w.yaml")
    assert ended.code == 0 and "prior" in ended.out
    ended = cli("mix", "plan", "--domains", "web,wiki", "--runs", "2", "--prior", "w.yaml")
    assert ended.code == 2 and "which is not one of web, wiki" in ended.err


def test_the_report_says_what_was_asked(cli, fitted):
    domains = [name for name in pd.read_csv("ratios.csv").columns if name != "run"]
    (fitted / "w.json").write_text(json.dumps(dict.fromkeys(domains, 1 / len(domains))))
    assert cli("mix", "report", "mix", *GOAL, "--fixed", "books=0").code == 0
    page = (fitted / "mix" / "report.html").read_text(encoding="utf-8")
    asked = page.split("Asked for: ")[1].split("</p>")[0]
    for words in (
        "the worst of reading, maths", "maths below 9", "fixed shares books 0",
        "shares of at most 0.6", "and a pull of 0.2 to it", "a risk of 0.5",
    ):  # fmt: skip
        assert words in asked
    assert "; the 90% interval for the mean of many such runs ends at " in page
    proposed = page.split("Proposed.")[1].split("</figure>")[0]
    assert "books" not in proposed and "none." in proposed


def test_reasons_are_no_column_of_a_wide_table_and_the_front_has_a_legend(cli, fitted):
    assert cli("mix", "report", "mix").code == 0
    page = (fitted / "mix" / "report.html").read_text(encoding="utf-8")
    runs = page.split('id="next"')[1].split("</section>")[0]
    assert runs.count("<li>") == 5 and "<table" not in runs and "It is the proposal its" in runs
    front = page.split('id="front"')[1].split("</svg>")[0]
    assert "on the front" in front and ">the proposal<" in front


def test_commands_of_the_page_run_in_order_and_its_table_of_metrics_names_planned_runs(
    cli, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    lines = re.search(r"```sh\n(.*?)```", PAGE, re.DOTALL)[1].splitlines()
    assert [line.split()[2] for line in lines] == ["plan", "fit", "best", "next", "report"]
    plan, *others = (shlex.split(line)[1:] for line in lines)
    assert cli(*plan, "--quiet").code == 0
    runs = pd.read_csv("plan.csv")
    shown = pd.read_csv(StringIO(re.search(r"```csv\n(.*?)```", PAGE, re.DOTALL)[1]))
    assert shown.run.isin(runs.run).all()
    shares = runs[["web", "code", "books"]].to_numpy()
    loss = 2 + np.exp(-shares @ np.array([[1.0, 0.2], [0.1, 1.5], [0.3, 0.4]]))
    metrics = pd.DataFrame(loss, columns=[name for name in shown if name != "run"])
    metrics.assign(run=runs.run).to_csv("metrics.csv", index=False)
    for words in others:
        ended = cli(*words, "--quiet")
        assert ended.code == 0, (words, ended)
    for name in ("weights.json", "next.csv", "mix/report.html"):
        assert (tmp_path / name).exists()


def test_the_plan_is_the_first_command_of_the_help():
    names = [name.removeprefix("mix ") for name in commands() if name.startswith("mix ")]
    assert names == ["plan", "fit", "best", "next", "report"]
