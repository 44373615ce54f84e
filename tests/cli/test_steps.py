"""Every step on a small table, singly and piped."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest

import cuvee
from cuvee.outputs import files
from cuvee.run.saved import FORMAT, WHAT
from rounding import SOLVED, assert_rounded

ROLES = ("visits.csv", "--domain", "hospital", "--label", "readmitted", "--drop", "cost")
QUANTITY = ("visits.csv", "--domain", "hospital", "--label", "cost", "--drop", "readmitted")


def test_weights_are_a_csv_on_stdout_and_say_the_rest_on_stderr(cli, folder):
    ended = cli("weights", *ROLES, "--targets", "new,007", "--method", "konstantinov_lampert")
    assert ended.code == 0
    found = pd.read_csv(io.StringIO(ended.out), dtype={"target": str})
    assert list(found.columns) == ["target", "north", "east", "south"] and found[
        "target"
    ].tolist() == ["007", "new"]
    assert np.allclose(found.iloc[:, 1:].sum(axis=1), 1)
    assert (
        "cuvee: note: label 'readmitted' has 2 values: classification" in ended.err
        and "closed form" in ended.err
    )


def test_what_was_taken_as_categories_is_said(cli, folder):
    for command, more in (("weights", ()), ("adapt", ("--out", "run"))):
        ended = cli(command, *ROLES, "--targets", "new", "--method", "uniform", *more)
        assert (
            "cuvee: note: column taken as categories, being text: 'sex' (like 'f')\n" in ended.err
        ), ended.err
    text = (folder / "visits.csv").read_text().replace(",f,", ",37%,").replace(",m,", ",4%,")
    (folder / "visits.csv").write_text(text)
    ended = cli("weights", *ROLES, "--targets", "new")
    assert (
        ended.code == 2
        and "column 'sex' holds numbers in a notation that is not read, like '37%' at row"
        in ended.err
    )


def test_weights_piped_into_solve_are_those_of_the_library(cli, folder):
    piped = cli("weights", *ROLES, "--targets", "new", "--method", "pooled_own", "--quiet")
    assert piped.err == "" and piped.out.startswith(
        "target,north,east,south,007,(own sample)\nnew,"
    )
    ended = cli(
        "solve", *ROLES, "--alpha", "-", "--out", "m.safetensors", "--json", stdin=piped.out
    )
    assert ended.code == 0
    said = json.loads(ended.out)
    assert [m["name"] for m in said["models"]] == ["new"] and said["models"][0][
        "status"
    ] == "solved"
    tensors, header = files.read(folder / "m.safetensors", "cpu", WHAT, FORMAT)
    table = cuvee.data.frame.read(
        folder / "visits.csv", domain="hospital", label="readmitted", drop=["cost"]
    )
    encoder = cuvee.data.encode.Encoder.from_dict(header["groups"][0]["encoder"])
    domains = [
        cuvee.Domain(n, encoder(table.rows(n)), table.rows(n)["readmitted"]) for n in table.names
    ]
    problem = cuvee.Problem(domains[:-1], domains[-1:])
    alpha = [[float(cell) for cell in piped.out.splitlines()[1].split(",")[1:]]]
    assert_rounded(tensors["w"], cuvee.solve(problem, cuvee.Logistic(1e-2), alpha).w, SOLVED)
    assert header["classes"] == [False, True] and header["models"] == ["new"]


def test_every_domain_in_turn_pipes_too(cli, folder):
    piped = cli("weights", *QUANTITY, "--targets", "each", "--method", "uniform", "--own")
    assert piped.code == 0 and piped.out.count("\n") == 6
    # no domain is its own source
    assert piped.out.splitlines()[1] == "north,,0.25,0.25,0.25,0.25,0.0"
    ended = cli("solve", *QUANTITY, "--alpha", "-", "--out", "m.safetensors", stdin=piped.out)
    assert ended.code == 0 and "5 models" in ended.out and "models: m.safetensors" in ended.out


def test_weights_to_a_file_and_as_json(cli, folder):
    ended = cli(
        "weights",
        *ROLES,
        "--targets",
        "new",
        "--method",
        "uniform",
        "--out",
        "a.csv",
        "--json",
        "--quiet",
    )
    assert ended.code == 0 and ended.err == ""
    said = json.loads(ended.out)
    assert said["columns"] == ["north", "east", "south", "007"] and said["out"] == "a.csv"
    assert said["targets"]["new"] == {"alpha": [0.25] * 4, "gap": None, "status": "closed form"}
    assert (
        folder / "a.csv"
    ).read_text() == "target,north,east,south,007\nnew,0.25,0.25,0.25,0.25\n"


def test_solve_takes_blends_of_some_sources_in_any_order(cli, folder):
    blends = "007,north\n0.5,0.5\n1,0\n0,1\n"
    ended = cli(
        "solve", *QUANTITY, "--alpha", "-", "--out", "m.safetensors", "--json", stdin=blends
    )
    assert ended.code == 0
    said = json.loads(ended.out)
    assert said["columns"] == ["north", "007"] and [m["name"] for m in said["models"]] == [
        "row 0",
        "row 1",
        "row 2",
    ]
    tensors, _ = files.read(folder / "m.safetensors", "cpu", WHAT, FORMAT)
    assert tensors["alpha"].tolist() == [[0.5, 0.5], [0, 1], [1, 0]]


def test_weights_as_a_spreadsheet_in_german_writes_them(cli, folder):
    (folder / "semicolon.csv").write_text("target;007;north\nnew;0,5;0,5\n")
    ended = cli("solve", *QUANTITY, "--alpha", "semicolon.csv", "--out", "m.safetensors", "--json")
    assert ended.code == 0, ended.err
    assert files.read(folder / "m.safetensors", "cpu", WHAT, FORMAT)[0]["alpha"].tolist() == [
        [0.5, 0.5]
    ]


def test_a_map_answers_instead_of_the_solver(cli, folder):
    learn = (
        "learn",
        *QUANTITY,
        "--targets",
        "new",
        "--labels",
        64,
        "--method",
        "surface",
        "--out",
        "map.safetensors",
    )
    assert "method='surface'" in cli(*learn).out
    (folder / "a.csv").write_text("target,south,north,east,007\nx,0.1,0.2,0.3,0.4\n")
    for out, more in (
        ("asked.safetensors", ("--map", "map.safetensors")),
        ("solved.safetensors", ()),
    ):
        assert cli("solve", *QUANTITY, "--alpha", "a.csv", "--out", out, *more).code == 0
    asked, solved = (
        files.read(folder / name, "cpu", WHAT, FORMAT)[0]["w"].numpy()
        for name in ("asked.safetensors", "solved.safetensors")
    )
    assert np.allclose(asked, solved, atol=1e-4)


def test_learn_from_a_sample_of_weights(cli, folder):
    rows = np.random.default_rng(0).dirichlet(np.ones(5), 700)
    frame = pd.DataFrame(rows, columns=["north", "east", "south", "007", "(own sample)"])
    ended = cli(
        "learn", *QUANTITY, "--targets", "new", "--labels", 32, "--mixtures", "-", "--out", "map.safetensors", "--json",
        stdin=frame.to_csv(index=False),
    )  # fmt: skip
    assert ended.code == 0 and json.loads(ended.out)["labels"] == 32
    assert "'(own sample)' is left out here" in ended.err


def test_plan_says_what_to_do(cli, folder):
    ended = cli("plan", *QUANTITY, "--n-targets", 10, "--picture", "plan.png", "--json")
    assert ended.code == 0 and json.loads(ended.out)["choice"] in ("solve", "learn")
    assert (folder / "plan.png").read_bytes()[:4] == b"\x89PNG"


def test_a_picture_that_is_there_is_written_over_only_when_told(cli, folder):
    picture = folder / "there.png"
    (folder / "one.csv").write_text("north,east,south\n0.5,0.25,0.25\n")
    for words in (
        ("plan", *QUANTITY, "--n-targets", 10),
        ("online", *QUANTITY, "--stream", "one.csv"),
    ):
        picture.write_bytes(b"of somebody")
        refused = cli(*words, "--picture", "there.png")
        assert refused.code == 2 and "--picture there.png: there is such a file" in refused.err
        assert picture.read_bytes() == b"of somebody"
        assert cli(*words, "--picture", "there.png", "--force").code == 0
        assert picture.read_bytes()[:4] == b"\x89PNG"


def test_a_stream_that_was_done_is_not_done_again(cli, folder):
    pd.DataFrame(
        np.random.default_rng(0).dirichlet(np.ones(3), 30), columns=["south", "north", "east"]
    ).to_csv("stream.csv", index=False)
    words = (
        "online",
        *ROLES,
        "--stream",
        "stream.csv",
        "--checkpoint",
        "c.safetensors",
        "--json",
        "--quiet",
    )
    first, again = cli(*words), cli(*words, "--out", "o.safetensors")
    assert first.code == again.code == 0 and json.loads(first.out)["rounds"] == 30
    assert {**json.loads(first.out), "out": "o.safetensors"} == json.loads(again.out)
    assert cuvee.OnlineMap.load(folder / "o.safetensors").ledger.rounds == 30


def test_force_writes_over_a_file_and_nothing_else_does(cli, folder):
    words = ("weights", *ROLES, "--targets", "new", "--method", "uniform", "--out", "a.csv")
    assert cli(*words).code == 0
    ended = cli(*words)
    assert (
        ended.code == 2
        and "there is such a file already; give another name, or --force" in ended.err
    )
    assert cli(*words, "--force").code == 0


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_other_tables_do_as_well(cli, folder, suffix):
    frame = pd.read_csv("visits.csv", dtype={"hospital": str})
    getattr(frame, f"to_{suffix}")(f"visits.{suffix}")
    one, other = (
        cli("weights", f"visits.{s}", *QUANTITY[1:], "--targets", "new", "--method", "pooled")
        for s in ("csv", suffix)
    )
    assert one.out == other.out and one.code == 0
