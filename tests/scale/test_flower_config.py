"""Settings of a federated run: those of the coordinator's app, and those of a site."""

import json
import threading
import time
import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest

import cuvee_site
from cuvee.errors import OptionError
from cuvee.scale import flower_resident
from cuvee.scale.flower_run import FederatedOptions
from cuvee.scale.flower_site import Desk
from cuvee.scale.flower_table import SiteConfig
from cuvee.scale.flower_wire import packed
from flower_builders import tables

ROOT = Path(__file__).parents[2]


def test_the_app_has_every_option_that_is_read():
    """Flower refuses options that the app's own config does not have."""
    app = tomllib.loads((ROOT / "examples" / "federated" / "pyproject.toml").read_text())
    config = app["tool"]["flwr"]["app"]["config"]
    assert {key: value for key, value in config.items() if key not in ("out", "sites")} == {
        **asdict(FederatedOptions()), "task": "",
    }  # fmt: skip
    assert {"out", "sites"} <= set(config)
    words = (ROOT / "docs" / "federated.md").read_text()
    assert all(f"`{key}`" in words or f"{key}=" in words for key in config)


def given(tmp_path, **changed):
    file = tmp_path / "ash.csv"
    tables()["ash"].to_csv(file, index=False)
    return {"file": str(file), "domain": "ash", "label": "cost", **changed}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"file": "/nowhere/ash.csv"}, "file is '/nowhere/ash.csv', and no such file is there"),
        ({"file": "/"}, "give the whole path"),
        ({"log": "/nowhere/sent.jsonl"}, "log is to be '/nowhere/sent.jsonl'"),
        ({"log": "/"}, "folder that is there"),
        ({"model": "/nowhere/m.json", "role": "target"}, "model is to be '/nowhere/m.json'"),
    ],
)
def test_paths_of_a_site_are_checked(tmp_path, changed, words):
    with pytest.raises(OptionError, match=words):
        SiteConfig.of(given(tmp_path, **changed))


def test_paths_that_are_not_needed_are_not_checked(tmp_path):
    assert SiteConfig.of(given(tmp_path, model="/nowhere/m.json")).role == "source"


def test_a_site_that_cannot_log_gives_no_answer(tmp_path):
    desk = Desk(SiteConfig(**given(tmp_path, log=str(tmp_path / "none" / "sent.jsonl"))))
    reply = desk.answer(packed({"calls": [("meet",)]}))
    assert "log cannot be written" in reply.text and "columns" not in reply.text


def test_a_wrong_path_is_answered_at_once_until_it_is_right(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("CUVEE_SITE_IDLE", "2")
    monkeypatch.setattr(cuvee_site, "private_folder", lambda: tmp_path)
    monkeypatch.setattr(cuvee_site, "START", 5.0)
    resident = []

    def start(command, **options):  # in this process, as it is faster
        *_, path, written = command
        resident.append(threading.Thread(target=flower_resident.main, args=(path, written)))
        resident[0].start()
        resident[0].poll = lambda: None
        return resident[0]

    monkeypatch.setattr(cuvee_site.subprocess, "Popen", start)
    config = given(tmp_path, log=str(tmp_path / "later" / "sent.jsonl"))
    ask = packed({"calls": [("meet",)]}).text
    began = time.monotonic()
    said, _ = cuvee_site.ask_resident(config, ask, [])
    assert time.monotonic() - began < 3.0
    assert "node config cannot be used" in json.loads(said)["map"]["failed"]
    assert "later" not in said and "'log'" in capfd.readouterr().err
    (tmp_path / "later").mkdir()
    said, _ = cuvee_site.ask_resident(config, ask, [])
    assert "answers" in json.loads(said)["map"]
    resident[0].join()
