"""The benchmark of groups: what is drawn, what counts, and how runs go on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.groups import command, draws, losses, runner, statistics
from benchmarks.groups.draws import TRACKS, Track, draw, targets_of
from benchmarks.groups.environments import declared
from benchmarks.groups.tables import Table
from benchmarks.groups.task import BLOCK

from cuvee.errors import OptionError

ROOT = Path(__file__).resolve().parents[2]
MEAN = """
INSTALL = ("numpy",)
import numpy as np


def fit(task):
    if task.classes:
        share = np.eye(len(task.classes))[task.y.astype(int)].mean(0)
        return lambda frame: np.tile(share, (len(frame), 1))
    return lambda frame: np.full(len(frame), task.y.mean())
"""


def frame(seed=0, groups=9, rows=70):
    """Rows of groups with a level each, a text with gaps, and a count."""
    rng = np.random.default_rng(seed)
    site = np.repeat([f"site {i}" for i in range(groups)], rows)
    x = rng.normal(size=len(site))
    level = np.repeat(rng.normal(size=groups), rows)
    kind = rng.choice(["a", "b", None], len(site))
    y = x + level + 0.1 * rng.normal(size=len(site))
    return pd.DataFrame({"site": site, "x": x, "kind": kind, "y": y})


def table(data=None, kind="quantity", k=20, **more):
    data = frame() if data is None else data
    return Table("made", data.reset_index(drop=True), "site", "y", kind, k, **more)


def classes():
    data = frame()
    return table(data.assign(y=np.where(data.y > 0.5, "up", "down")), "classes")


def rows_of(drawn):
    """Learnt rows and rows asked about, as sets of values."""
    learnt = drawn.task.rows
    return set(zip(learnt["x"], learnt["y"], strict=True)), set(drawn.test["x"])


def test_a_target_shows_k_rows_and_is_asked_about_others():
    drawn = draw(table(), TRACKS["main"], 0, 0)
    assert len(drawn.task.targets) == 4  # half of the groups
    own = drawn.task.rows[drawn.task.own]
    assert (own.groupby("site").size() == 20).all()
    assert set(drawn.test["site"]) == set(drawn.task.targets)
    assert not set(drawn.task.rows["x"]) & set(drawn.test["x"])
    assert list(drawn.test.columns) == ["site", "x", "kind"]
    np.testing.assert_array_equal(drawn.truth, table().frame["y"].to_numpy()[drawn.row])


def test_no_target_is_in_two_folds_of_a_seed():
    folds = targets_of(table(frame(groups=20)), TRACKS["main"], 3)
    assert len(folds) == 2 and len({t for f in folds for t in f}) == 16


@pytest.mark.parametrize("change", ["rows", "columns", "names"])
def test_order_and_names_mean_nothing(change):
    data = frame()
    other = {
        "rows": lambda: data.sample(frac=1, random_state=1),
        "columns": lambda: data[["y", "kind", "x", "site"]],
        "names": lambda: data.assign(site=data["site"].str[::-1]),
    }[change]()
    for fold in range(2):
        for seed in range(2):
            one = rows_of(draw(table(data), TRACKS["main"], seed, fold))
            assert one == rows_of(draw(table(other), TRACKS["main"], seed, fold))


def test_seeds_draw_other_rows():
    a, b = (rows_of(draw(table(), TRACKS["main"], seed, 0))[1] for seed in range(2))
    assert a != b


def test_blocks_are_never_split():
    data = frame()
    block = np.arange(len(data)) // 6
    drawn = draw(table(data, block=block), TRACKS["main"], 0, 0)
    own = drawn.task.rows[drawn.task.own]
    assert not set(own[BLOCK]) & set(block[drawn.row])
    assert BLOCK not in drawn.test and BLOCK not in drawn.task.features
    assert (own.groupby("site").size() >= 20).all()


def test_the_first_rows_in_time():
    data = frame()
    time_of = np.arange(len(data))[::-1].copy()
    drawn = draw(table(data, time=time_of), TRACKS["time"], 0, 0)
    for target in drawn.task.targets:
        own = drawn.task.rows.loc[drawn.task.rows["site"] == target, "x"]
        of_target = np.flatnonzero(data["site"] == target)
        assert set(own) == set(data["x"].to_numpy()[of_target[-20:]])


def test_limits_of_rows():
    track = Track(test_rows=7, source_rows=11)
    drawn = draw(table(), track, 0, 0)
    assert (drawn.test.groupby("site").size() == 7).all()
    assert (drawn.task.rows[~drawn.task.own].groupby("site").size() == 11).all()


def test_without_labelled_rows():
    drawn = draw(table(), TRACKS["unseen"], 0, 0)
    assert not drawn.task.own.any()
    assert np.isfinite(losses.by_row(drawn, None)["loss"]).all()


@pytest.mark.parametrize("made", [table, classes], ids=["quantity", "classes"])
def test_failures_count_as_the_mean_of_the_own_rows(made):
    drawn = draw(made(), TRACKS["main"], 0, 0)
    missing = losses.by_row(drawn, None)
    assert (missing["loss"] == missing["unit"]).all()
    answers = losses.unit(drawn)
    answers[:3] = np.nan
    assert (losses.by_row(drawn, answers)["loss"] == missing["unit"]).all()


def test_losses_by_hand():
    truth = np.array([0.0, 2.0])
    assert losses.of_rows("quantity", np.array([1.0, 2.5]), truth, 1).tolist() == [1, 0.25]
    deviance = losses.of_rows("count", np.array([1.0, 2.0]), truth, 1)
    np.testing.assert_allclose(deviance, [2.0, 0.0])
    p = np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(
        losses.of_rows("classes", p, truth, 1), [np.log(2), 0], atol=3 * losses.LEAST
    )


def test_a_perfect_answer_has_no_loss():
    drawn = draw(classes(), TRACKS["main"], 0, 0)
    sure = np.eye(2)[drawn.truth.astype(int)]
    rows = losses.by_row(drawn, sure)
    by_target = losses.by_target(drawn, sure, rows)
    assert (by_target["accuracy"] == 1).all() and (by_target["auc"] == 1).all()
    assert (by_target["loss"] < 0.01 * by_target["unit"]).all()


def results(effect=0.2, tables=12, targets=10, seed=0):
    """Made-up results: method b has `effect` more log loss than a, c is a with noise."""
    rng = np.random.default_rng(seed)
    out = []
    for t in range(tables):
        for g in range(targets):
            own = rng.normal(scale=0.3)
            for m, shift in (("a", 0.0), ("b", effect), ("c", rng.normal(scale=0.1))):
                out.append((f"t{t}", m, 0, 0, f"g{g}", np.exp(own - 1 + shift), 1.0))
    names = ["table", "method", "seed", "fold", "target", "loss", "unit"]
    return pd.DataFrame(out, columns=names).assign(
        seconds=1.0, processor=1.0, mib=1.0, failed=False
    )


def test_the_leaderboard_finds_what_was_put_in():
    board = statistics.leaderboard(results(), "a")
    assert board.loc["b", "beside"] == pytest.approx(0.2, abs=0.01)
    assert board.loc["b", "beside_low"] > 0.15 and board.loc["b", "losses"] == 12
    assert board.loc["c", "beside_low"] < 0 < board.loc["c", "beside_high"]
    assert board.loc[statistics.HINDSIGHT, "ratio"] <= board.drop(statistics.HINDSIGHT).ratio.min()
    assert board.loc["a", "elo"] > board.loc["b", "elo"]
    assert board.loc["b", "p_worse"] > 0.95


def test_intervals_hold_over_tables():
    """Of 95 % intervals of a difference, about 95 % hold it when tables are drawn anew."""
    inside = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, 1])
        data = results(0.0, tables=15, targets=6, seed=seed)
        shift = dict(zip(data["table"].unique(), rng.normal(0.1, 0.2, 15), strict=True))
        is_b = data["method"] == "b"
        data.loc[is_b, "loss"] *= np.exp(data.loc[is_b, "table"].map(shift))
        told = statistics.scores(data)
        means = statistics.resampled(told, rounds=400).mean(1)
        a, b = told.methods.index("a"), told.methods.index("b")
        low, high = statistics.interval(means[:, b] - means[:, a])
        inside += low <= 0.1 <= high
    assert inside >= 50  # 57 on average; by chance below 50 in 1 of 1,000


def job(tmp_path, code=MEAN, name="mean", units=((0, 0), (0, 1))):
    file = tmp_path / f"{name}.py"
    file.write_text(code)
    return runner.Job(name, file, table(), "main", units)


def go(tmp_path, *jobs, **limits):
    told = []
    limits = runner.Limits(**({"threads": 1, "seconds": 30} | limits))
    runner.run(jobs, tmp_path / "out", limits, 2, lambda word, *_: told.append(word))
    return told, runner.gather(tmp_path / "out", "targets")


def test_a_run_keeps_what_is_finished(tmp_path):
    _, first = go(tmp_path, job(tmp_path, units=((0, 0),)))
    there = next((tmp_path / "out").rglob("targets.parquet")).stat().st_mtime_ns
    told, both = go(tmp_path, job(tmp_path))
    assert len(first) == 4 and len(both) == 8 and not both["failed"].any()
    assert any("was there" in word for word in told)
    assert there in {p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("targets.parquet")}
    rows = runner.gather(tmp_path / "out", "rows")
    assert len(rows) == 8 * 50 and {"loss", "unit", "target", "row"} <= set(rows)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("INSTALL = ()\ndef fit(task):\n    raise RuntimeError('no luck')", "no luck"),
        ("INSTALL = ()\ndef fit(task):\n    return lambda frame: [1.0]", "shape"),
        ("INSTALL = ()\nimport os\ndef fit(task):\n    os._exit(3)", "ended"),
        ("INSTALL = ()\nimport time\ndef fit(task):\n    time.sleep(60)", "more than 2 s"),
        (
            "INSTALL = ()\nimport time\ndef fit(task):\n    b = bytearray(600_000_000)\n"
            "    b[::4096] = b'x' * len(b[::4096])\n    time.sleep(60)",
            "GiB",
        ),
        ("INSTALL = ()\nraise ValueError('at import')", "did not start"),
    ],
    ids=["raises", "shape", "dies", "hangs", "memory", "import"],
)
def test_a_method_that_fails_is_counted(tmp_path, code, why):
    hangs = {"seconds": 2.0} if "more than" in why else {"gib": 0.5}
    told, targets = go(tmp_path, job(tmp_path, code), job(tmp_path, name="other"), **hangs)
    assert sum(why in word for word in told) == 2
    bad = targets[targets["method"] == "mean"]
    assert bad["failed"].all() and (bad["loss"] == bad["unit"]).all()
    assert not targets.loc[targets["method"] == "other", "failed"].any()


def test_a_method_sees_no_label_that_it_is_asked_about(tmp_path):
    spy = MEAN.replace(
        "def fit(task):",
        "def fit(task):\n    import pathlib, json, pandas as pd\n"
        f"    task.rows.to_parquet(r'{tmp_path}/seen.parquet')\n"
        f"    keep = lambda f: f.to_parquet(r'{tmp_path}/asked.parquet')\n"
        "    inner = real(task)\n    return lambda frame: (keep(frame), inner(frame))[1]\n\n\n"
        "def real(task):",
    )
    go(tmp_path, job(tmp_path, spy, units=((0, 0),)))
    seen, asked = (pd.read_parquet(tmp_path / f"{n}.parquet") for n in ("seen", "asked"))
    assert "y" not in asked and not set(seen["x"]) & set(asked["x"])


def test_a_killed_run_goes_on_with_the_same_rows(tmp_path):
    data = tmp_path / "made.csv"
    frame().to_csv(data, index=False)
    method = tmp_path / "slow_mean.py"
    method.write_text(
        MEAN.replace("def fit(task):", "def fit(task):\n    __import__('time').sleep(1)")
    )
    call = [sys.executable, "-m", "cuvee", "bench", "groups", "--tables", f"{data}:site:y:20"]
    call += ["--methods", str(method), "--threads", "1", "--jobs", "1", "--json", "--out"]
    env = os.environ | {"CUVEE_BENCH_CACHE": str(tmp_path / "cache")}
    killed = subprocess.Popen([*call, str(tmp_path / "a")], cwd=ROOT, env=env)
    while not list((tmp_path / "a").rglob("targets.parquet")):
        time.sleep(0.05)
        assert killed.poll() is None
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    done = len(list((tmp_path / "a").rglob("units/*/*/*/*/targets.parquet")))
    assert done < 6
    boards = []
    for out in ("a", "b"):
        told = subprocess.run(
            [*call, str(tmp_path / out)], cwd=ROOT, env=env, capture_output=True, check=True
        )
        boards.append(json.loads(told.stdout)["methods"]["slow_mean"])
    one, other = (
        pd.read_parquet(tmp_path / out / "rows.parquet").sort_values(
            ["seed", "fold", "target", "row"]
        )
        for out in ("a", "b")
    )
    pd.testing.assert_frame_equal(one.reset_index(drop=True), other.reset_index(drop=True))
    assert boards[0]["ratio"] == boards[1]["ratio"]


def test_methods_are_short_files_that_name_what_they_install():
    files = sorted(command.METHODS.glob("[a-z]*.py"))
    assert len(files) >= 20
    for file in files:
        lines = file.read_text().splitlines()
        assert len(lines) <= 40, f"{file.name} has {len(lines)} lines"
        assert lines[0].startswith('"""') and declared(file)[0]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--tables", "nix"], "no table 'nix'"),
        (["--methods", "nix"], "no method 'nix'"),
        (["--tables", "nix.csv:a:b:20"], "nix.csv"),
        (["--track", "nix"], "invalid choice"),
        (["--nix", "3"], "--nix"),
    ],
)
def test_wrong_words_are_named(arguments, why):
    call = [sys.executable, "-m", "cuvee", "bench", "groups", *arguments]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode and why in done.stderr and "Traceback" not in done.stderr


def test_options_that_a_benchmark_does_not_have():
    from cuvee.cli import dev

    with pytest.raises(OptionError, match="no options of its own"):
        dev.bench("erm", ["--tables", "x"])


def test_the_page_is_made_of_published_results(tmp_path, monkeypatch):
    from benchmarks.groups import page, tables

    monkeypatch.setattr(command, "RESULTS", tmp_path)
    with pytest.raises(OptionError, match="no results are published yet"):
        command.published()
    names = dict(zip((f"t{i}" for i in range(12)), tables.TABLES, strict=False))
    made = results().replace({"table": names, "method": {"a": "lightgbm_cv", "b": "cuvee_linear"}})
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "results.md").write_text((ROOT / "docs/results.md").read_text())
    made.assign(track="main").to_parquet(tmp_path / "main.parquet")
    about = {"commit": "c0ffee", "threads": 1, "cores": 2, "versions": {"lightgbm": "4.7.0"}}
    (tmp_path / "about.json").write_text(json.dumps(about))
    for name, value in {"RESULTS": tmp_path, "DOCS": docs, "PICTURES": docs / "groups"}.items():
        monkeypatch.setattr(page, name, value)
    page.main()
    text = (docs / "results.md").read_text()
    assert "On 12 tables the best single rival is **" in text and "Commit c0ffee" in text
    assert "| [cuvee_linear](" in text and "classes (" in text
    assert {p.name for p in (docs / "groups").iterdir()} == {"pareto.svg", "tables.svg"}


def test_hashes_do_not_hang_on_the_domain():
    one = table()
    other = table(frame().assign(site="all"))
    assert np.array_equal(draws.hashes(one, 0), draws.hashes(other, 0))
