"""The single steps treat small and unwanted domains as `cuvee adapt` does: a note, or an error for
the strict.
"""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest

from cuvee.data.roles import SMALL

ROLES = ("visits.csv", "--domain", "hospital", "--label", "readmitted", "--drop", "cost")
POOLED = (
    "2 domains ('hut', 'ferry') have fewer than 2 labelled rows: they are pooled into one source"
)


@pytest.fixture
def huts(folder):
    """visits.csv with two hospitals of one visit each."""
    frame = pd.read_csv("visits.csv", dtype={"hospital": str})
    frame.loc[3, "hospital"], frame.loc[30, "hospital"] = "hut", "ferry"
    frame.to_csv("visits.csv", index=False)
    return folder


def test_small_sources_go_through_all_steps_as_one(cli, huts):
    ended = cli("weights", *ROLES, "--targets", "new", "--method", "pooled")
    assert ended.code == 0 and POOLED in ended.err
    assert ended.out.startswith(f"target,north,east,south,007,{SMALL}\n")
    assert pd.read_csv(io.StringIO(ended.out))[SMALL].item() == pytest.approx(2 / 96)
    (huts / "alpha.csv").write_text(ended.out)
    for words in (
        ("solve", *ROLES, "--alpha", "alpha.csv", "--out", "m.safetensors"),
        ("online", *ROLES, "--stream", "alpha.csv", "--out", "online.safetensors"),
    ):
        ended = cli(*words, "--json")
        assert ended.code == 0, ended
        assert any(POOLED in note for note in json.loads(ended.out)["notes"])
    (huts / "hut.csv").write_text("target,hut\nnew,1\n")
    ended = cli("solve", *ROLES, "--alpha", "hut.csv", "--out", "x.safetensors")
    assert (
        ended.code == 2
        and "domain 'hut' has 1 labelled row, and needs 2" in ended.err
        and SMALL in ended.err
    )


def test_each_passes_over_domains_with_too_few_labels(cli, huts):
    ended = cli("weights", *ROLES, "--targets", "each", "--method", "uniform")
    assert (
        ended.code == 0
        and "2 domains ('hut', 'ferry') have fewer than 5 labelled rows: they get no model"
        in ended.err
    )
    found = pd.read_csv(io.StringIO(ended.out), dtype={"target": str})
    assert found["target"].tolist() == ["north", "east", "south", "007", "new"]
    assert found.columns.tolist() == ["target", "north", "east", "south", "007", "new", SMALL]
    assert np.allclose(found.iloc[:, 1:].sum(axis=1), 1)


def test_rows_of_a_class_that_no_source_has_are_left_out(cli, folder):
    frame = pd.read_csv("visits.csv", dtype={"hospital": str})
    frame["readmitted"] = [*frame.readmitted.map({True: "yes", False: "no"})[:-1], "maybe"]
    frame.to_csv("visits.csv", index=False)
    note = (
        f"target 'new' has 1 row of class 'maybe' (first at row {len(frame) - 1}), which no source "
        "has"
    )
    ended = cli("weights", *ROLES, "--targets", "new", "--method", "pooled_own", "--out", "a.csv")
    assert ended.code == 0 and f"{note}: left out" in ended.err
    ended = cli("solve", *ROLES, "--alpha", "a.csv", "--out", "m.safetensors")
    assert ended.code == 0 and f"{note}: left out" in ended.err
    ended = cli("weights", *ROLES, "--targets", "new", "--method", "pooled", "--strict")
    assert ended.code == 2 and f"{note}: add a source that has it, or drop such rows" in ended.err


COMMANDS = {
    "adapt": ("--targets", "new", "--method", "uniform", "--out", "x"),
    "weights": ("--targets", "new", "--method", "uniform"),
    "solve": ("--alpha", "alpha.csv", "--out", "x.safetensors"),
    "learn": ("--out", "x.safetensors", "--labels", "20"),
    "plan": ("--n-targets", "10"),
    "online": ("--stream", "alpha.csv"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_strict_and_exclude_on_every_command(cli, huts, command):
    (huts / "alpha.csv").write_text("target,north,east\nnew,0.5,0.5\n")
    words = (command, *ROLES, *COMMANDS[command])
    before = sorted(huts.iterdir())
    ended = cli(*words, "--strict")
    assert (ended.code, ended.out) == (
        2,
        "",
    ) and "source 'hut' has 1 labelled row, and needs 2" in ended.err
    ended = cli(*words, "--exclude", "hat")
    assert (ended.code, ended.out) == (
        2,
        "",
    ) and "exclude: no domain matches 'hat'; did you mean 'hut'" in ended.err
    assert sorted(huts.iterdir()) == before
    ended = cli(*words, "--strict", "--exclude", "hut", "--exclude", "fer*")
    assert ended.code == 0 and "pooled" not in ended.err, ended
