"""Runs methods on tasks, each method in a process of its own, and keeps what is finished.

A unit is a method, a table, a track, a seed and a fold. What it gave is a folder that appears by a
rename when all of it is there, so a run that was ended goes on with the units that are missing.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from benchmarks.groups import environments, losses, task
from benchmarks.groups.draws import TRACKS, Draw, draw
from benchmarks.groups.tables import Table

WORKER = Path(__file__).with_name("worker.py")
SECONDS, GIB = 900.0, 8.0  # of one unit; above, it is ended and counts as failed


@dataclass(frozen=True)
class Job:
    """All units of one method on one table and track: one process does them one after the other."""

    method: str
    file: Path
    table: Table
    track: str
    units: tuple[tuple[int, int], ...]  # seed and fold


@dataclass(frozen=True)
class Limits:
    """What a process of a method may use."""

    threads: int = 1
    seconds: float = SECONDS
    gib: float = GIB


def folder_of(out: Path, job: Job, seed: int, fold: int) -> Path:
    """Return where the results of a unit lie."""
    return out / "units" / job.track / job.table.name / job.method / f"{seed}-{fold}"


def run(
    jobs: Iterable[Job],
    out: Path,
    limits: Limits,
    workers: int,
    tell: Callable[[str, int, int], None],
) -> None:
    """Do all jobs, `workers` of them side by side. `tell` hears of each unit that is finished."""
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    todo = [j for j in jobs if any(not folder_of(out, j, *u).exists() for u in j.units)]
    total, done = sum(len(j.units) for j in todo), 0
    pythons = environments.pythons(j.file for j in todo)
    for job in todo:
        waiting.put(job)
    lock, failed = threading.Lock(), list[BaseException]()

    def work() -> None:
        nonlocal done
        while not failed:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                for word in _job(job, pythons[job.file], out, limits):
                    with lock:
                        done += 1
                        tell(f"{job.table.name} {job.method} {word}", done, total)
            except BaseException as error:
                failed.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        time.sleep(0.2)
    if failed:
        raise failed[0]


def _job(job: Job, python: str, out: Path, limits: Limits) -> Iterable[str]:
    """Do the units of a job that are missing, and say of each how it went."""
    process: _Process | None = None
    track = TRACKS[job.track]
    try:
        for seed, fold in job.units:
            final = folder_of(out, job, seed, fold)
            if final.exists():
                yield "was there"
                continue
            drawn = draw(job.table, track, seed, fold)
            final.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=final.parent, prefix=".new-") as new:
                given, made = Path(new) / "given", Path(new) / "made"
                given.mkdir()
                made.mkdir()
                task.write(drawn.task, drawn.test, given)
                process = process or _Process(python, job.file, limits)
                report = process.ask(given, made, track.unlabelled, limits)
                if report.get("ended"):
                    process = None
                keep(drawn, job, seed, fold, made, report)
                made.rename(final)
            yield report.get("error") or f"{report['seconds']:.1f} s"
    finally:
        if process is not None:
            process.end()


def keep(draw: Draw, job: Job, seed: int, fold: int, made: Path, report: dict[str, Any]) -> None:
    """Write the losses of a unit, by row and by target, beside its report."""
    path = made / "answer.npy"
    answers = np.load(path) if path.exists() else None
    path.unlink(missing_ok=True)
    names = {
        "track": job.track,
        "table": job.table.name,
        "method": job.method,
        "seed": seed,
        "fold": fold,
    }
    rows = losses.by_row(draw, answers)
    targets = losses.by_target(draw, answers, rows)
    facts = {name: report.get(name) for name in ("seconds", "processor", "mib")}
    facts["failed"] = "error" in report
    small = {"loss": "float32", "unit": "float32"}
    rows.astype(small).assign(**names).to_parquet(made / "rows.parquet")
    targets.assign(**names, **facts).to_parquet(made / "targets.parquet")
    (made / "report.json").write_text(json.dumps(report))


class _Process:
    """A method's process, which answers tasks until it is ended."""

    def __init__(self, python: str, file: Path, limits: Limits) -> None:
        threads = str(limits.threads)
        names = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "LOKY_MAX_CPU")
        env = os.environ | {f"{n}_NUM_THREADS": threads for n in names[:4]}
        env |= {"LOKY_MAX_CPU_COUNT": threads, "PYTHONHASHSEED": "0"}
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `end`)
        self.process = subprocess.Popen(  # noqa: S603
            [python, str(WORKER), str(file), threads],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=env,
            start_new_session=True,
        )
        self.words: queue.SimpleQueue[str] = queue.SimpleQueue()
        assert self.process.stdout is not None
        threading.Thread(target=self._listen, args=(self.process.stdout,), daemon=True).start()
        self.ready = False

    def _listen(self, stream: IO[str]) -> None:
        for line in stream:
            self.words.put(line.strip())
        self.words.put("end")

    def ask(self, given: Path, made: Path, unlabelled: bool, limits: Limits) -> dict[str, Any]:
        """Return the report on one task. "ended" in it says that the process is no more."""
        assert self.process.stdin is not None
        if not self.ready:
            word, _ = self._wait(120.0, limits.gib)
            self.ready = word == "ready"
        if not self.ready:
            return {"error": f"did not start: {self.end()}", "seconds": 0.0, "ended": True}
        order = {"task": str(given), "out": str(made), "unlabelled": unlabelled}
        start = time.perf_counter()
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        word, why = self._wait(limits.seconds, limits.gib)
        if word == "done":
            report: dict[str, Any] = json.loads((made / "report.json").read_text())
            return report
        seconds, last = time.perf_counter() - start, self.end()
        return {"error": why or f"the process ended: {last}", "seconds": seconds, "ended": True}

    def _wait(self, seconds: float, gib: float) -> tuple[str, str]:
        """Return the next word of the process, or why it was ended."""
        last = time.monotonic() + seconds
        while time.monotonic() < last:
            try:
                return self.words.get(timeout=0.5), ""
            except queue.Empty:
                if _resident(self.process.pid) > gib * 2**30:
                    return "", f"more than {gib:g} GiB"
        return "", f"more than {seconds:g} s"

    def end(self) -> str:
        """End the process and all that it started, and return the last line that it wrote."""
        if self.log.closed:
            return ""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.seek(0)
        lines = self.log.read().strip().splitlines() or ["it said nothing"]
        self.log.close()
        return lines[-1][:300]


def _resident(leader: int) -> int:
    """Return the bytes that a group of processes holds in memory (0 where /proc is not)."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == leader:  # its process group
            total += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return total


def gather(out: Path, kind: str) -> pd.DataFrame:
    """Return the rows (`kind` "rows" or "targets") of all units in a folder."""
    parts = sorted((out / "units").glob(f"*/*/*/*/{kind}.parquet"))
    if not parts:
        return pd.DataFrame()
    return pd.concat([pd.read_parquet(p) for p in parts], ignore_index=True)


def clear(out: Path) -> None:
    """Remove what a run that was ended left half-written."""
    for half in (out / "units").glob("*/*/*/.new-*"):
        shutil.rmtree(half, ignore_errors=True)
