"""Every experiment in its smallest setting: files, resuming, determinism; and the command."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from experiments import _lab
from matplotlib.figure import Figure

from cuvee.errors import CuveeError, InputError, OptionError
from rounding import assert_alike

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(p.stem for p in (ROOT / "experiments").glob("*.py") if not p.stem.startswith("_"))
FILES = {"setting.json", "raw.csv", "figure.png", "verdict.json"}


LONG = (
    "offline",
    "online",
    "peers",
    "stationarity",
    "table2",
)  # several seconds even in their smallest setting
EACH = [pytest.param(n, marks=[pytest.mark.slow] if n in LONG else []) for n in NAMES]


def silent(what, done, total):
    pass


def reproduced(name, out, show=silent):
    return _lab.reproduce(importlib.import_module(f"experiments.{name}"), name, "tiny", out, show)


def without_clock(path):
    rows = pd.read_csv(path)
    return rows[[c for c in rows.columns if not c.endswith(_lab.SECONDS)]]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """Every experiment once, when a test first asks for it: name -> folder, verdict."""
    out = tmp_path_factory.mktemp("results")

    class Results(dict):
        def __missing__(self, name):
            self[name] = out / f"{name}-tiny", reproduced(name, out)
            return self[name]

    return Results()


@pytest.mark.parametrize("name", EACH)
def test_files_and_a_verdict_appear(name, first):
    folder, said = first[name]
    assert {p.name for p in folder.iterdir()} == FILES
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    stored = json.loads((folder / "verdict.json").read_text())
    assert stored["held"] in (True, False, "partly", None)
    assert stored["sentence"].endswith(".") and "nan" not in stored["sentence"]
    assert stored["numbers"] and stored["claim"]
    assert stored == {key: said[key] for key in stored}


@pytest.fixture
def _undrawn(monkeypatch):
    """Figures are laid out and drawn where a test looks for one; elsewhere that would take most of
    the time.
    """
    monkeypatch.setattr(Figure, "savefig", lambda self, path, **options: Path(path).touch())


@pytest.mark.usefixtures("_undrawn")
@pytest.mark.parametrize("name", EACH)
def test_a_second_start_does_no_work_and_says_the_same(name, first, monkeypatch):
    folder, said = first[name]
    before = (folder / "raw.csv").read_bytes()
    module = importlib.import_module(f"experiments.{name}")
    monkeypatch.setattr(module, "measure", lambda *_, **__: pytest.fail("it was there"))
    assert reproduced(name, folder.parent) == said
    assert (folder / "raw.csv").read_bytes() == before


@pytest.mark.usefixtures("_undrawn")
@pytest.mark.parametrize("name", EACH)
def test_units_that_are_missing_are_measured_again_to_the_same_numbers(
    name, first, tmp_path, monkeypatch
):
    """The first and the last of them: what is measured depends on nothing that was
    measured before.
    """
    whole, folder = first[name][0], tmp_path / f"{name}-tiny"
    module, measured = importlib.import_module(f"experiments.{name}"), []
    measure = module.measure
    monkeypatch.setattr(
        module, "measure", lambda unit, setting: measured.append(unit) or measure(unit, setting)
    )
    folder.mkdir()
    shutil.copy(whole / "setting.json", folder)
    rows = pd.read_csv(whole / "raw.csv", dtype=str, keep_default_na=False)
    units = rows["unit"].unique()
    rows[~rows["unit"].isin(units[[0, -1]])].to_csv(folder / "raw.csv", index=False)
    reproduced(name, tmp_path)
    assert [_lab.name_of(unit) for unit in measured] == units[[0, -1]].tolist()
    pd.testing.assert_frame_equal(
        without_clock(folder / "raw.csv"), without_clock(whole / "raw.csv"), check_exact=True
    )


def test_a_run_that_was_cut_goes_on(first, tmp_path, monkeypatch):
    name = "lipschitz"  # the quickest
    module = importlib.import_module(f"experiments.{name}")
    measure, done = module.measure, []

    def cut(unit, setting):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(unit)
        return measure(unit, setting)

    monkeypatch.setattr(module, "measure", cut)
    with pytest.raises(KeyboardInterrupt):
        reproduced(name, tmp_path)
    folder = tmp_path / f"{name}-tiny"
    assert {p.name for p in folder.iterdir()} == {"setting.json", "raw.csv"}
    assert pd.read_csv(folder / "raw.csv")["unit"].nunique() == 3
    monkeypatch.setattr(module, "measure", measure)
    steps = []
    reproduced(name, tmp_path, lambda what, done, total: steps.append((done, total)))
    assert steps[0][0] == 3 and steps[-1][0] == steps[-1][1] > 3
    assert {p.name for p in folder.iterdir()} == FILES
    assert (folder / "raw.csv").read_bytes() == (first[name][0] / "raw.csv").read_bytes()


@pytest.mark.slow
def test_units_side_by_side_give_the_same_numbers(first, tmp_path):
    module = importlib.import_module("experiments.lipschitz")
    said = _lab.reproduce(module, "lipschitz", "tiny", tmp_path, silent, jobs=2)
    folder, alone = first["lipschitz"]
    assert (tmp_path / "lipschitz-tiny" / "raw.csv").read_bytes() == (
        folder / "raw.csv"
    ).read_bytes()
    assert said["numbers"] == alone["numbers"]


def test_what_is_clocked_is_measured_alone(tmp_path):
    module = importlib.import_module("experiments.regimes")
    with pytest.raises(OptionError, match="leave --jobs out"):
        _lab.reproduce(module, "regimes", "tiny", tmp_path, silent, jobs=2)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_settings_grow_and_say_what_they_are(name):
    module = importlib.import_module(f"experiments.{name}")
    assert tuple(module.SETTINGS) == _lab.SCALES
    assert (
        module.SETTINGS["tiny"]["seeds"]
        <= module.SETTINGS["quick"]["seeds"]
        < module.SETTINGS["full"]["seeds"]
    )
    assert f"cuvee reproduce {name}" in module.__doc__


class Counting:
    """An experiment that counts how often it was asked."""

    TITLE, CLAIM, VERSION = "Counting", "1 + 1 = 2.", 1

    def __init__(self, upto=3):
        self.SETTINGS, self.asked = {"tiny": {"upto": upto}}, 0

    def run(self, lab):
        def measure(unit):
            self.asked += 1
            return [{"square": unit["k"] ** 2, "third": unit["k"] / 3}] * 2

        rows = lab.collect([{"k": k} for k in range(lab.setting["upto"])], measure)
        lab.figure.write_bytes(b"")
        return _lab.Verdict(
            True, f"{len(rows)} rows.", {"thirds": rows["third"].tolist(), "none": float("nan")}
        )


def test_another_setting_or_version_starts_anew(tmp_path):
    counting = Counting()
    assert _lab.reproduce(counting, "counting", "tiny", tmp_path, silent)["sentence"] == "6 rows."
    _lab.reproduce(counting, "counting", "tiny", tmp_path, silent)
    assert counting.asked == 3
    counting.SETTINGS["tiny"]["upto"] = 4
    assert _lab.reproduce(counting, "counting", "tiny", tmp_path, silent)["sentence"] == "8 rows."
    assert counting.asked == 3 + 4
    counting.VERSION = 2
    _lab.reproduce(counting, "counting", "tiny", tmp_path, silent)
    assert counting.asked == 3 + 4 + 4
    old = pd.read_csv(tmp_path / "counting-tiny" / "raw.old.csv")
    assert len(old) == 8  # of version 1


def test_units_that_nobody_asks_for_now_are_kept_and_not_judged(tmp_path):
    asked = []

    def measure(unit):
        asked.append(unit["k"])
        return [{"square": unit["k"] ** 2}]

    lab = _lab.Lab({}, tmp_path, silent)
    units = [{"k": k} for k in range(4)]
    lab.collect(units[:3], measure)
    found = lab.collect([units[0], units[3]], measure)
    assert found["k"].tolist() == [0, 3] and asked == [0, 1, 2, 3]
    assert lab.collect(units, measure)["square"].tolist() == [0, 9, 1, 4]
    assert asked == [0, 1, 2, 3]


def die(unit):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_process_that_was_killed_is_told_of(tmp_path):
    with pytest.raises(CuveeError, match="go on with fewer --jobs"):
        _lab.Lab({}, tmp_path, silent, jobs=2).collect([{"k": 0}, {"k": 1}], die)


def test_numbers_survive_the_file_and_json_has_no_nan(tmp_path):
    said = _lab.reproduce(Counting(), "counting", "tiny", tmp_path, silent)
    rows = pd.read_csv(tmp_path / "counting-tiny" / "raw.csv", engine="python")
    assert rows["third"].tolist() == [0.0, 0.0, 1 / 3, 1 / 3, 2 / 3, 2 / 3]
    assert said["numbers"]["none"] is None


def test_a_raw_file_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "counting-tiny").mkdir()
    (tmp_path / "counting-tiny" / "raw.csv").write_text("mine\n1\n")
    with pytest.raises(InputError, match="is not of `cuvee reproduce`"):
        _lab.reproduce(Counting(), "counting", "tiny", tmp_path, silent)
    assert (tmp_path / "counting-tiny" / "raw.csv").read_text() == "mine\n1\n"


def test_the_full_setting_has_the_name_to_itself(tmp_path):
    counting = Counting()
    counting.SETTINGS["full"] = {"upto": 1}
    said = _lab.reproduce(counting, "counting", "full", tmp_path, silent)
    assert said["folder"] == str(tmp_path / "counting")


def test_seeds_are_those_of_every_machine():
    assert _lab.seed_of("stream", 3, 0) == 2435203274
    assert len({_lab.seed_of(k) for k in range(1_000)}) == 1_000


@pytest.fixture(scope="module")
def page():
    return (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")


def test_the_page_has_a_section_for_every_experiment(page):
    assert set(re.findall(r"`cuvee reproduce ([a-z0-9]+)", page)) == set(NAMES)


def test_the_page_says_what_the_verdicts_say():
    made = subprocess.run(
        [sys.executable, "docs/make_paper.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr


@pytest.mark.usefixtures("_undrawn")
@pytest.mark.parametrize("name", NAMES)
def test_what_is_published_follows_from_the_numbers_beside_it(name, page, tmp_path, monkeypatch):
    published = ROOT / "docs" / "paper" / name
    shutil.copytree(published, tmp_path / name)
    module = importlib.import_module(f"experiments.{name}")
    monkeypatch.setattr(module, "measure", lambda *_, **__: pytest.fail("a number is missing"))
    said = _lab.reproduce(module, name, "full", tmp_path, silent)
    stored = json.loads((published / "verdict.json").read_text(encoding="utf-8"))
    # six digits are kept, and that was another machine
    assert_alike({key: said[key] for key in stored}, stored, 1e-5)
    assert f"<!-- verdict: {name} -->" in page and f"paper/{name}/figure.png" in page


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_quick_setting_ends_with_files_and_a_verdict(name, tmp_path):
    module = importlib.import_module(f"experiments.{name}")
    said = _lab.reproduce(module, name, "quick", tmp_path, silent)
    assert {p.name for p in (tmp_path / f"{name}-quick").iterdir()} == FILES
    assert said["held"] in (True, False, "partly", None) and "nan" not in said["sentence"]
