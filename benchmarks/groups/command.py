"""`cuvee bench groups`: few labelled rows in many groups, thirty tables, the methods people use.

cuvee bench groups --quick                       # 8 tables, one fold, some methods: five minutes
cuvee bench groups --out runs/groups             # the main track, resumed where it was ended
cuvee bench groups --track k20 --methods lightgbm_cv,cuvee_linear
cuvee bench groups --tables visits.csv:hospital:readmitted:20 --methods pooled_linear,cuvee_linear
cuvee bench groups --check                       # repeats a sample of the published results
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
from benchmarks.groups import archives, runner, statistics
from benchmarks.groups.draws import TRACKS, targets_of
from benchmarks.groups.environments import declared
from benchmarks.groups.tables import TABLES, Table, load, own_table

from cuvee.errors import OptionError
from cuvee.outputs.progress import Bar

METHODS = Path(__file__).with_name("methods")
RESULTS = Path(__file__).with_name("results")
SLOW = ("autogluon_120s",)  # in no run unless named: two minutes a fit
QUICK = {
    "tables": "avocados,grants,heart_stay,house_zip,hpc_jobs,texas_homes,storms,police_stops",
    "methods": "own_linear,pooled_linear,one_hot_linear,lightgbm_cv,lightgbm_default,hist_category,"
    "random_slopes,source_stack,cuvee_linear",
}


def options(args: list[str]) -> dict[str, Any]:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser("cuvee bench groups", exit_on_error=False)
    parser.add_argument("--tables", help="names, or PATH:DOMAIN:LABEL:K for a table of your own")
    parser.add_argument("--methods", help="names of files in benchmarks/groups/methods, or paths")
    parser.add_argument("--track", default="main", choices=sorted(TRACKS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of a method's process")
    parser.add_argument(
        "--jobs", type=int, help="processes side by side; by default cores / threads"
    )
    parser.add_argument("--out", type=Path, help="folder of results; a run that was ended goes on")
    parser.add_argument("--check", action="store_true", help="repeat a sample of published results")
    try:
        return vars(parser.parse_args(args))
    except argparse.ArgumentError as error:
        raise OptionError(f"cuvee bench groups: {error}") from None


def run(
    quick: bool = False,
    *,
    tables: str | None = None,
    methods: str | None = None,
    track: str = "main",
    seeds: int = 3,
    folds: int = 3,
    threads: int = 1,
    jobs: int | None = None,
    out: Path | None = None,
    check: bool = False,
) -> dict[str, Any]:
    """Run methods on tables and return the leaderboard."""
    if check:
        from benchmarks.groups.check import repeat

        return repeat(threads)
    if quick:
        tables, methods = tables or QUICK["tables"], methods or QUICK["methods"]
        seeds = folds = 1
    files = _methods(methods)
    out = out or archives.cache("quick" if quick else "results")
    chosen = _tables(tables, track)
    out.mkdir(parents=True, exist_ok=True)
    runner.clear(out)
    todo = [
        runner.Job(f.stem, f, t, track, units)
        for t, units in ((t, _units(t, track, seeds, folds)) for t in chosen)
        for f in files
    ]
    limits = runner.Limits(threads=threads)
    workers = jobs or max(1, (os.cpu_count() or 1) // threads)
    with Bar() as bar:
        runner.run(todo, out, limits, workers, lambda word, done, total: bar("fits", done, total))
    mine = {(j.table.name, j.method) for j in todo}
    targets = runner.gather(out, "targets")
    targets = targets[
        [pair in mine for pair in zip(targets["table"], targets["method"], strict=True)]
    ]
    targets = targets[
        (targets["track"] == track) & (targets["seed"] < seeds) & (targets["fold"] < folds)
    ]
    runner.gather(out, "rows").to_parquet(out / "rows.parquet")
    targets.to_parquet(out / "targets.parquet")
    (out / "about.json").write_text(json.dumps(about(out, chosen, threads), indent=1))
    board = statistics.leaderboard(targets)
    board.to_csv(out / "leaderboard.csv")
    return {
        "benchmark": "groups",
        "track": track,
        "tables": len(chosen),
        "targets": int(targets[["table", "target"]].drop_duplicates().shape[0]),
        "sees": round(statistics.resolution(statistics.scores(targets)), 4),
        "methods": json.loads(board.round(4).to_json(orient="index")),
        "out": str(out),
    }


def in_words(result: dict[str, Any]) -> str:
    """Return the leaderboard as lines for a terminal."""
    if "methods" not in result:
        return json.dumps(result, indent=2)
    head = f"{'':26}{'loss / k-row mean':>18}{'95 % interval':>16}{'seconds':>9}{'failed':>8}"
    lines = [
        f"{result['tables']} tables, {result['targets']} targets, track {result['track']}",
        head,
    ]
    for name, row in result["methods"].items():
        between = f"{row['low']:.3f} to {row['high']:.3f}"
        cost = "" if row["seconds"] is None else f"{row['seconds']:9.1f}{row['failed']:8.0f}"
        lines.append(f"{name:26}{row['ratio']:18.3f}{between:>16}{cost}")
    lines.append(
        f"differences that these tables can show: {100 * result['sees']:.1f} % of the loss"
    )
    lines.append(f"losses of every prediction: {result['out']}")
    return "\n".join(lines)


def _methods(asked: str | None) -> list[Path]:
    """Return the files of methods by their names or paths; by default all but the slow ones."""
    known = {p.stem: p for p in sorted(METHODS.glob("[a-z]*.py"))}
    names = [n for n in known if n not in SLOW] if asked is None else asked.split(",")
    out = []
    for name in names:
        path = known.get(name, Path(name))
        if path.suffix != ".py" or not path.is_file():
            raise OptionError(
                f"no method {name!r}; there is {', '.join(known)}, or the path of a file"
            )
        declared(path)
        out.append(path.resolve())
    return out


def _tables(asked: str | None, track: str) -> list[Table]:
    """Return tables by their names, or a user's own by PATH:DOMAIN:LABEL:K."""
    out = []
    for name in TABLES if asked is None else asked.split(","):
        if name in TABLES:
            out.append(load(name))
        elif name.count(":") == 3:
            path, domain, label, k = name.split(":")
            out.append(own_table(Path(path), domain, label, int(k)))
        else:
            raise OptionError(
                f"no table {name!r}; there is {', '.join(TABLES)}, "
                "or PATH:DOMAIN:LABEL:K for your own"
            )
    out = [t for t in out if track != "time" or t.time is not None]
    left = [t for t in out if targets_of(t, TRACKS[track], 0)]
    if not left:
        raise OptionError(f"no table has two groups with rows enough for the track {track}")
    return left


def _units(table: Table, track: str, seeds: int, folds: int) -> tuple[tuple[int, int], ...]:
    """Return seed and fold of each unit of a table, at most so many of each."""
    there = len(targets_of(table, TRACKS[track], 0))
    return tuple((seed, fold) for seed in range(seeds) for fold in range(min(folds, there)))


def about(out: Path, tables: list[Table], threads: int) -> dict[str, Any]:
    """Return with which versions, and on which tables, the results were made."""
    versions: dict[str, str] = {}
    for report in (out / "units").glob("*/*/*/*/report.json"):
        versions |= json.loads(report.read_text()).get("versions", {})
    call = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)  # noqa: S603
    return {
        "commit": done.stdout.strip(),
        "threads": threads,
        "cores": os.cpu_count(),
        "versions": dict(sorted(versions.items())),
        "tables": {t.name: t.digest for t in tables},
    }


def published() -> pd.DataFrame:
    """Return the results of the repository, a row for each target."""
    if not (RESULTS / "main.parquet").exists():
        raise OptionError(
            "no results are published yet: copy targets.parquet of a whole run to "
            f"{RESULTS / 'main.parquet'}, and about.json beside it"
        )
    return pd.read_parquet(RESULTS / "main.parquet")
