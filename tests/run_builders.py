"""Small tables for whole runs, and processes that are killed, or find the disk full, at a chosen
moment of one.
"""

from __future__ import annotations

import builtins
import errno
import hashlib
import io
import json
import os
import re
import signal
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from cuvee.cli import main
from cuvee.run import Options, open_run
from cuvee.run import folder as run_store
from cuvee.run.folder import LOCK, MANIFEST, PARTS, SCRATCH
from cuvee.run.manifest import to_bytes

# hold times; all other files are the same for the same run
VARIES = ("report.html", LOCK, MANIFEST, "run.json")
LONGEST = 120.0  # seconds that a child may take before it counts as hanging


def table(domains: int = 5, rows: int = 12, seed: int = 0) -> pd.DataFrame:
    """A quantity `cost` and a class `sick` beside a number, a category and the domain `site`."""
    rng = np.random.default_rng(seed)
    n = domains * rows
    site = np.arange(n) // rows
    frame = pd.DataFrame(
        {"age": rng.normal(50, 10, n).round(3), "sex": np.where(np.arange(n) % 3 == 0, "f", "m")}
    )
    frame["site"] = [f"site {i}" for i in site]
    frame["cost"] = (0.2 * frame.age + (frame.sex == "f") * site + rng.normal(size=n)).round(3)
    frame["sick"] = np.where(frame.cost + rng.normal(size=n) > frame.cost.median(), "yes", "no")
    return frame


def options(label: str = "cost", **more) -> Options:
    """For `table`: one of its labels, the other dropped, weights that take no time to find, labels
    as they are.
    """
    other = "cost" if label == "sick" else "sick"
    return Options(
        **{
            "label": label,
            "domain": "site",
            "drop": (other,),
            "method": "uniform",
            "levels": False,
            **more,
        }
    )


def contents(folder: Path) -> dict[str, str]:
    """Digests of all files that must be the same for the same run."""
    found = {str(p.relative_to(folder)): p for p in sorted(folder.rglob("*")) if p.is_file()}
    return {
        name: hashlib.sha256(p.read_bytes()).hexdigest()
        for name, p in found.items()
        if name not in VARIES
    }


def steps(folder: Path) -> list[str]:
    return [step["name"] for step in json.loads((folder / MANIFEST).read_bytes())["steps"]]


def check_loads(folder: Path, whole: list[str]) -> int:
    """The folder is as after one of the steps: its manifest loads, and all that it names is whole.
    How many steps.
    """
    run = open_run(folder)
    for name, said in json.loads((folder / MANIFEST).read_bytes())["files"].items():
        content = (folder / name).read_bytes()
        assert (
            len(content) == said["bytes"] and hashlib.sha256(content).hexdigest() == said["sha256"]
        ), name
    done = steps(folder)
    # which of their parts are there, is a matter of time
    large = [step for step in done if " " not in step]
    assert large == [step for step in whole if " " not in step][: len(large)] and set(done) <= set(
        whole
    )
    assert run.finished == (large[-1] == whole[-1])
    assert run.targets and repr(run)
    return len(done)


def check_tidy(folder: Path) -> None:
    """Nothing of the way there is left."""
    left = [
        p.name for p in folder.rglob("*") if p.name.endswith(".part") or p.name in (PARTS, SCRATCH)
    ]
    assert not left, left


def forked(work) -> int:
    """Run `work` in a child with all modules loaded; its exit status is 0, or 1 with the error on
    its stderr.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
        os._exit(0)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)


def cpu_seconds(pid: int) -> float:
    """That a process has used; what it waits for other processes does not count, so that moments
    can be told again.
    """
    return time.clock_gettime((~pid << 3) | 2)  # as clock_getcpuclockid makes it


def ended(pid: int, after: float = np.inf) -> int:
    """Wait for a child and kill it after so many seconds of its own; minus the signal, or the exit
    status.
    """
    began = time.monotonic()
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if cpu_seconds(pid) >= after:
            os.kill(pid, signal.SIGKILL)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if time.monotonic() - began > LONGEST:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise AssertionError("the child hangs")
        time.sleep(0.0005)


def killed_at(k: int):
    """A disturbance for `moments`: the process is killed at the k-th moment."""

    def disturb(i: int, what: str) -> None:
        if i == k:
            os.kill(os.getpid(), signal.SIGKILL)

    return disturb


def full_at(k: int, code: int = errno.ENOSPC):
    """A disturbance for `moments`: from the k-th moment at which something is written, there is no
    room.
    """

    def disturb(i: int, what: str) -> None:
        if i >= k and what in (
            "before open",
            "half written",
            "before write",
            "before fsync",
            "before mkdir",
        ):
            raise OSError(code, os.strerror(code))

    return disturb


def moments(disturb, patch) -> None:
    """Call disturb(number, what) around all that a run folder does to the disk, and in the middle
    of each file.
    """
    count = 0

    def moment(what: str) -> None:
        nonlocal count
        count += 1
        disturb(count, what)

    def around(function, what: str):
        def changed(*args, **kwargs):
            moment(f"before {what}")
            result = function(*args, **kwargs)
            moment(f"after {what}")
            return result

        return changed

    class Slow:
        """A file that is written in two halves."""

        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.file.close()

        def write(self, content):
            moment("before write")
            self.file.write(content[: len(content) // 2])
            self.file.flush()
            moment("half written")
            self.file.write(content[len(content) // 2 :])

        def __getattr__(self, name):
            return getattr(self.file, name)

    def opened(path, mode="r", *args, **kwargs):
        if "w" not in mode:
            return builtins.open(path, mode, *args, **kwargs)
        return Slow(around(builtins.open, "open")(path, mode, *args, **kwargs))

    patch(run_store, "open", opened)
    for name in ("replace", "fsync", "unlink", "rmdir"):
        patch(os, name, around(getattr(os, name), name))
    patch(Path, "mkdir", around(Path.mkdir, "mkdir"))


def put(owner, name: str, value) -> None:
    """A patch for good, in a child that ends anyway."""
    setattr(owner, name, value)


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def command(*words) -> Ended:
    """`cuvee WORDS`, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["cuvee", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
    return Ended(ended.value.code, out.getvalue(), err.getvalue())


def everything(folder: Path) -> dict[Path, bytes | None]:
    """All that lies in a folder."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def check_refused(words, sentence: str, folder: Path) -> None:
    """On the command line: exit code 2, one line on stderr, nothing on stdout, and
    nothing written.
    """
    before = everything(folder)
    ended = command(*words)
    assert ended.code == 2, ended
    assert not ended.out and ended.err.startswith("cuvee: ") and ended.err.count("\n") == 1, ended
    assert "Traceback" not in ended.err and "unexpected" not in ended.err
    assert re.search(sentence, ended.err), (sentence, ended.err)
    assert everything(folder) == before


def rewrite(folder: Path, name: str, content: bytes) -> None:
    """Change a file of a run together with its checksum: what another version, or somebody, might
    have made.
    """
    (folder / name).write_bytes(content)
    manifest = json.loads((folder / MANIFEST).read_bytes())
    manifest["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    write_manifest(folder, manifest)


def write_manifest(folder: Path, manifest: dict) -> None:
    """With the checksum that belongs to it."""
    (folder / MANIFEST).write_bytes(to_bytes(manifest))
