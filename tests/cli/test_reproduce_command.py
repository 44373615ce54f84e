"""`cuvee reproduce`, as a user calls it."""

from __future__ import annotations

import importlib
import json
import sys

import pytest


@pytest.fixture
def small(cli, monkeypatch):
    """The quick setting is the tiny one for as long as a test takes."""
    assert cli("reproduce", "nothing").code == 2  # finds the clone's folder
    module = importlib.import_module("experiments.lipschitz")
    monkeypatch.setitem(module.SETTINGS, "quick", module.SETTINGS["tiny"])
    return module


def test_unknown_experiment_is_told_those_that_there_are(cli):
    ended = cli("reproduce", "nothing")
    names = "lipschitz, offline, online, peers, regimes, stationarity, table2"
    assert ended == (2, "", f"cuvee: no experiment named 'nothing'; there is {names}\n")


def test_it_writes_a_folder_and_says_one_sentence(cli, small, tmp_path):
    ended = cli("reproduce", "lipschitz", "--out", tmp_path)
    assert ended.code == 0 and ended.err == ""
    said, published, folder = ended.out.splitlines()
    assert published.startswith("Published, with ") and " seeds: held. " in published
    assert said.startswith("Lemma 1 (w* is Lipschitz): held. ") and said.endswith(".")
    assert folder == str(tmp_path / "lipschitz-quick")
    assert (tmp_path / "lipschitz-quick" / "figure.png").is_file()
    again = cli("reproduce", "lipschitz", "--out", tmp_path, "--json")
    found = json.loads(again.out)
    assert found["held"] is True and found["sentence"] in ended.out


def test_ctrl_c_says_how_to_go_on(cli, small, tmp_path, monkeypatch):
    def stopped(unit, setting):
        raise KeyboardInterrupt

    monkeypatch.setattr(small, "measure", stopped)
    ended = cli("reproduce", "lipschitz", "--out", tmp_path)
    assert ended.code == 130
    assert ended.err == "cuvee: stopped; what was measured is kept, the same command goes on\n"
    assert "experiments.lipschitz" in sys.modules


def test_a_folder_that_cannot_be_made_is_named(cli, small, tmp_path):
    (tmp_path / "file").write_text("")
    ended = cli("reproduce", "lipschitz", "--out", tmp_path / "file")
    assert ended.code == 2 and "cannot be written" in ended.err


def test_jobs_are_one_or_more_and_one_where_seconds_count(cli, small, tmp_path):
    assert (
        "--jobs must be at least 1; got 0"
        in cli("reproduce", "lipschitz", "--out", tmp_path, "--jobs", 0).err
    )
    ended = cli("reproduce", "regimes", "--out", tmp_path, "--jobs", 2)
    assert ended.code == 2 and "leave --jobs out" in ended.err
    assert not any(tmp_path.iterdir())
