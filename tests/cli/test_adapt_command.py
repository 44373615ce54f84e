"""`cuvee adapt`, `resume`, `predict` and `report`, as a user meets them."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pandas as pd
import pytest

from cuvee.cli.adapt import _heaviest
from cuvee.run import Options, open_run

ROLES = ("visits.csv", "--domain", "hospital", "--label", "cost", "--drop", "readmitted")
QUICK = ("--targets", "new,007", "--method", "pooled_own", "--out", "run")


@pytest.fixture
def finished(cli, folder):
    """The folder with a run in it."""
    assert cli("adapt", *ROLES, *QUICK).code == 0
    return folder


def test_adapt_ends_with_a_table_and_the_report(cli, folder):
    ended = cli("adapt", *ROLES, *QUICK)
    assert ended.code == 0
    assert "best baseline" in ended.out and "007" in ended.out
    assert (
        ended.out.endswith("report: run/report.html\n")
        and (folder / "run" / "report.html").is_file()
    )
    assert ": regression\n" in ended.err and "hypothesis: ridge regression, l2 = 0.01" in ended.err


def test_predict_says_what_it_filled(cli, folder):
    assert cli("adapt", *ROLES, *QUICK, "--impute").code == 0
    frame = pd.read_csv("visits.csv", dtype={"hospital": str})
    column = next(c for c in open_run("run").features if frame[c].dtype == float)
    frame.loc[:4, column] = np.nan
    frame.to_csv("gaps.csv", index=False)
    ended = cli("predict", "run", "gaps.csv", "--target", "new")
    assert ended.code == 0 and ended.out.count("\n") == len(frame) + 1
    assert "cuvee: note: gaps are filled, numbers with the column's median" in ended.err
    assert f"'{column}' (5 gaps)" in ended.err
    assert "gaps" not in cli("predict", "run", "visits.csv", "--target", "new").err


def test_what_is_proven_stands_below_the_table(cli, folder):
    asked = (
        "--domain",
        "hospital",
        "--label",
        "readmitted",
        "--targets",
        "new",
        "--labelled",
        "20",
    )
    ended = cli("adapt", "visits.csv", *asked, "--out", "below", "--quiet")
    assert ended.code == 0, ended
    lines = ended.out.splitlines()
    assert "proven" not in "".join(line for line in lines if line.startswith(("┃", "│")))
    (proven,) = [line for line in lines if "proven" in line]
    assert proven.startswith("The model is proven to lie within ‖w")
    at = next(i for i, line in enumerate(lines) if line.startswith("In visits.csv"))
    assert lines[at + 1].startswith("The task was to predict") and proven == lines[at + 4]
    summary = open_run("below").summary().splitlines()
    assert [line.replace("\u00a0", " ") for line in lines[at : at + 5]] == [
        line.replace("\u00a0", " ") for line in summary
    ]


@pytest.mark.parametrize(
    ("alpha", "words"),
    [
        ({"a": 0.5, "b": 0.3, "c": 0.1, "d": 0.06, "e": 0.04}, "a 0.50; b 0.30; c 0.10; 2 more"),
        ({"x" * 30: 0.6, "y" * 30: 0.4}, f"{'x' * 30} 0.60; 1 more"),
        ({"z" * 90: 1.0}, f"{'z' * 54}… 1.00"),
        ({"z" * 90: 0.9, "y" * 90: 0.1}, f"{'z' * 46}… 0.90; 1 more"),
        ({"a": 0.001}, ""),
    ],
)
def test_of_alpha_at_most_sixty_characters_are_printed(alpha, words):
    assert _heaviest(alpha) == words and len(words) <= 60


def test_json_is_one_object_and_nothing_else(cli, folder):
    ended = cli("adapt", *ROLES, *QUICK, "--json", "--quiet")
    assert ended.code == 0 and ended.err == "" and ended.out.count("\n") == 1
    said = json.loads(ended.out)
    assert set(said["alpha"]) == {"007", "new"} and said["report"] == "run/report.html"


def test_many_targets_are_cut_short(cli, folder):
    rng = np.random.default_rng(0)
    names = np.repeat([f"t{i:02}" for i in range(25)], 12)
    frame = pd.DataFrame({"x": rng.normal(size=300), "domain": names})
    frame.assign(label=frame["x"] + rng.normal(size=300)).to_csv("many.csv", index=False)
    ended = cli(
        "adapt", "many.csv", "--targets", "t0*,t1*,t20,t21", "--method", "uniform", "--out", "run"
    )
    assert ended.code == 0 and "t19" in ended.out and "t20" not in ended.out
    assert "… and 2 more in run/alpha.csv" in ended.out


def test_weights_of_ones_own_are_used_as_they_are(cli, folder):
    (folder / "a.csv").write_text("target,north,east,south\n007,1,0,0\nnew,0,1,0\n")
    ended = cli("adapt", *ROLES, *QUICK, "--alpha", "a.csv", "--json")
    assert ended.code == 0 and json.loads(ended.out)["alpha"] == {
        "007": {"north": 1.0},
        "new": {"east": 1.0},
    }


def test_a_finished_run_is_shown_again_and_never_written_over(cli, finished):
    again = cli("resume", "run")
    assert again.code == 0 and again.out.endswith("report: run/report.html\n")
    refused = cli("adapt", *ROLES, *QUICK)
    assert refused.code == 2 and refused.out == "" and "cuvee resume run" in refused.err


def test_report_is_written_once_more(cli, finished):
    (finished / "run" / "report.html").unlink()
    ended = cli("report", "run")
    assert (
        ended.code == 0
        and ended.out == "run/report.html\n"
        and (finished / "run" / "report.html").is_file()
    )
    assert json.loads(cli("report", "run", "--json").out) == {"report": "run/report.html"}


def test_predictions_are_the_same_on_stdout_in_csv_and_in_parquet(cli, finished):
    words = ("predict", "run", "visits.csv", "--target", "new", "--keep", "hospital,age")
    ended = cli(*words)
    printed = pd.read_csv(io.StringIO(ended.out), dtype={"hospital": str})
    assert (
        ended.code == 0
        and list(printed.columns) == ["hospital", "age", "prediction"]
        and len(printed) == 120
    )
    assert cli(*words, "--out", "p.csv").out == "" and cli(*words, "--out", "p.parquet").out == ""
    assert (finished / "p.csv").read_text() == ended.out
    assert np.array_equal(pd.read_parquet("p.parquet")["prediction"], printed["prediction"])
    assert (
        cli(*words, "--out", "p.csv").code == 2
        and cli(*words, "--out", "p.csv", "--force").code == 0
    )


def digits(text):
    """How many digits a number has without the zeros at its ends."""
    return len(re.sub(r"e.*|[-+.]", "", text).strip("0"))


@pytest.mark.parametrize("label", ["cost", "readmitted"])
def test_numbers_have_no_digits_that_come_from_rounding(cli, folder, label):
    table = pd.read_csv("visits.csv").assign(id=lambda t: 0.1234567890123 + np.arange(len(t)))
    table.to_csv("visits.csv", index=False)
    words = ("visits.csv", "--domain", "hospital", "--label", label, "--drop", "id")
    assert cli("adapt", *words, *QUICK).code == 0
    told = cli("predict", "run", "visits.csv", "--target", "new", "--keep", "id").out
    rows = pd.read_csv(io.StringIO(told), dtype=str)
    assert rows["id"].tolist() == table["id"].map(repr).tolist()  # kept as it is
    numbers = [n for n in rows.columns[1:] if label == "cost" or n != "prediction"]
    assert numbers and max(digits(cell) for name in numbers for cell in rows[name]) == 9
    exact = open_run("run").predict("visits.csv", target="new")[numbers]
    np.testing.assert_allclose(rows[numbers].astype(float), exact, rtol=1e-8)
    metrics = json.loads((folder / "run" / "metrics.json").read_text())
    said = json.dumps([metrics[name] for name in ("scores", "mean", "gain", "also")])
    assert max(map(digits, re.findall(r"-?\d[-+.e\d]*", said))) == 9


def test_predictions_come_in_the_order_of_the_rows(cli, finished):
    rows = pd.read_csv("visits.csv", dtype={"hospital": str}).query("hospital in ['new', '007']")
    shuffled = rows.sample(frac=1, random_state=0)
    shuffled.to_csv("rows.csv", index=False)
    shuffled.to_parquet("rows.parquet")  # with the index, which is no order of its rows
    said = open_run("run").predict(shuffled)
    for file in ("rows.csv", "rows.parquet"):
        ended = cli("predict", "run", file, "--keep", "age")
        printed = pd.read_csv(io.StringIO(ended.out), dtype={"hospital": str})
        assert printed.age.tolist() == shuffled.age.tolist()
        assert printed.hospital.tolist() == shuffled.hospital.tolist()
        np.testing.assert_allclose(printed.prediction, said.prediction)


def test_a_table_that_is_not_utf_8(cli, folder):
    text = (
        (folder / "visits.csv")
        .read_text()
        .replace(",f,", ",weiblich,")
        .replace(",m,", ",männlich,")
    )
    (folder / "latin.csv").write_bytes(text.encode("latin-1"))
    words = ("latin.csv", *ROLES[1:], *QUICK)
    refused = cli("adapt", *words)
    assert (
        refused.code == 2
        and "latin.csv is not UTF-8" in refused.err
        and "--encoding cp1252" in refused.err
    )
    assert cli("adapt", *words, "--encoding", "latin-1").code == 0
    (folder / "visits.csv").write_text(text)
    assert cli("adapt", *ROLES, *QUICK[:-1], "same").code == 0
    assert (folder / "run" / "alpha.csv").read_bytes() == (
        folder / "same" / "alpha.csv"
    ).read_bytes()
    said = [
        cli("predict", "run", name, "--target", "new", *more).out
        for name, more in (("latin.csv", ()), ("visits.csv", ("--encoding", "utf-8")))
    ]
    assert said[0] == said[1] != ""
    weights = ("--targets", "new", "--method", "uniform", "--encoding", "latin-1")
    assert cli("weights", "latin.csv", *ROLES[1:], *weights).code == 0


def test_predictions_that_cannot_be_made(cli, finished):
    for words, sentence in (
        (("--target", "nwe"), "'nwe' is not a target of these models; did you mean 'new'?"),
        ((), "not a target of these models"),
        (("--target", "new", "--keep", "agee"), "no column 'agee'; did you mean 'age'?"),
    ):
        ended = cli("predict", "run", "visits.csv", "--out", "p.csv", *words)
        assert (
            ended.code == 2
            and ended.out == ""
            and sentence in ended.err
            and ended.err.count("\n") == 1
        )
    assert not (finished / "p.csv").exists()


def test_a_run_that_was_changed_is_refused(cli, finished):
    path = finished / "run" / "models.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    ended = cli("predict", "run", "visits.csv", "--target", "new")
    assert (
        ended.code == 2
        and ended.out == ""
        and "changed" in ended.err
        and ended.err.count("\n") == 1
    )


def test_force_replaces_a_run_and_nothing_else(cli, finished):
    before = (finished / "run" / "manifest.json").read_bytes()
    (finished / "run" / "mine.txt").write_text("mine")
    again = ("adapt", *ROLES, "--targets", "new", "--method", "uniform", "--out", "run")
    refused = cli(*again)
    assert refused.code == 2 and "or --force (force=True) to replace it" in refused.err
    # a table that is refused replaces nothing
    assert cli("adapt", *ROLES, *QUICK, "--force", "--exclude", "nowhere").code == 2
    assert (finished / "run" / "manifest.json").read_bytes() == before
    assert cli(*again, "--force").code == 0
    run = open_run("run")
    assert run.targets == ("new",) and run.finished and (finished / "run" / "mine.txt").exists()
    assert run.options.method == "uniform" and cli(
        "predict", "run", "visits.csv", "--target", "new"
    )
    assert cli(*again[:-1], "fresh", "--force").code == 0  # where there is none it is as without
    full = finished / "full"
    full.mkdir()
    (full / "mine.txt").write_text("mine")
    assert cli(*again[:-1], "full", "--force").code == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--C", "10"), "C has no effect with method 'pooled_own': leave it out, or"),
        (("--method", "path", "--C", "1"), "C has no effect with method 'path': .*'cuts', 'scgda'"),
        (("--budget", "60"), "budget has no effect with model 'linear'"),
        (("--budget", "60", "--model", "trees"), "budget has no effect with method 'pooled_own'"),
    ],
)
def test_options_without_an_effect_are_refused(cli, folder, words, sentence):
    ended = cli("adapt", *ROLES, *QUICK, *words)
    assert ended.code == 2 and re.search(sentence, ended.err), ended
    assert not (folder / "run").exists()


def test_options_without_an_effect_are_not_listed_as_used(cli, finished):
    options = json.loads((finished / "run" / "run.json").read_bytes())["options"]
    assert options["C"] is None and options["budget"] is None
    used = ("adapt", *ROLES, "--targets", "new", "--method", "konstantinov_lampert", "--C", "3")
    assert cli(*used, "--out", "other").code == 0
    assert json.loads((finished / "other" / "run.json").read_bytes())["options"]["C"] == 3.0


def test_a_run_of_an_older_version_with_an_option_without_effect_is_read():
    stored = Options(label="y").as_dict() | {"C": 10.0}
    assert Options.from_dict(stored).C is None
    assert Options.from_dict(stored | {"method": "cuts"}).C == 10.0
    assert Options.from_dict(stored | {"budget": 60.0}).budget is None
    assert Options.from_dict(stored | {"method": "proportional"}).method == "pooled_own"
