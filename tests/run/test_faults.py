"""Whenever a run is killed or finds the disk full, its folder is as before or after a step, and
goes on as if not.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from cuvee.errors import InputError
from cuvee.run import adapt, open_run, resume
from cuvee.run.folder import LOCK, MANIFEST, locked
from run_builders import (
    check_loads,
    check_tidy,
    contents,
    ended,
    forked,
    full_at,
    killed_at,
    moments,
    options,
    put,
    steps,
    table,
)

PIPELINE = sys.modules["cuvee.run.adapt"]  # cuvee.run.adapt is the function

KINDS = {
    "ridge, each in turn": ({"targets": "each", "levels": True}, 4, 9),
    "logistic, three together": ({"label": "sick", "targets": "site 0,site 1,site 2"}, 5, 12),
    "path": ({"targets": "site 0,site 1", "method": "path"}, 4, 9),
    "streamed": ({"targets": "site 0,site 1,site 2", "stream": True}, 5, 12),
}


class Undisturbed:
    """A run that nothing happened to: its files, its steps, its moments, and what it takes."""

    def __init__(self, kind: str, folder: Path):
        asked, domains, rows = KINDS[kind]
        self.options, self.source, self.folder = options(**asked), folder / "table.csv", folder
        table(domains, rows).to_csv(self.source, index=False)
        self.count = 0
        self.adapt(folder / "first")  # all that is imported late is imported now
        noted = folder / "noted.json"

        def counted():
            seen = []
            moments(lambda i, what: seen.append(what), put)
            self.adapt(folder / "counted")
            noted.write_text(json.dumps(seen))

        assert ended(forked(counted)) == 0
        seen = json.loads(noted.read_text())
        self.moments, self.last_write = len(seen), len(seen) - seen[::-1].index("half written")

        def timed():
            began = time.process_time()
            self.adapt(folder / "timed")
            noted.write_text(json.dumps(time.process_time() - began))

        assert ended(forked(timed)) == 0
        self.seconds = json.loads(noted.read_text())
        self.steps, self.contents = steps(folder / "first"), contents(folder / "first")
        for name in ("first", "counted", "timed"):
            assert contents(folder / name) == self.contents, name
            check_tidy(folder / name)
            shutil.rmtree(folder / name)

    def adapt(self, out: Path):
        return adapt(self.source, out, options=self.options)

    def go_on(self, out: Path):
        return resume(out) if (out / MANIFEST).exists() else self.adapt(out)

    def check(self, out: Path) -> int:
        """As before or as after a step; without a manifest, nothing that a new run would mind. How
        many steps.
        """
        return check_loads(out, self.steps) if (out / MANIFEST).exists() else 0

    def check_end(self, out: Path) -> None:
        run = self.go_on(out)
        assert run.finished and contents(out) == self.contents
        check_tidy(out)
        shutil.rmtree(out)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    made = {}

    def of(kind: str) -> Undisturbed:
        if kind not in made:
            made[kind] = Undisturbed(kind, tmp_path_factory.mktemp("run"))
        return made[kind]

    return of


@pytest.fixture
def out(tmp_path):
    return tmp_path / "run"


@pytest.fixture(autouse=True)
def _many_small_steps(monkeypatch):
    """A commit for each target, so that there is much to be cut."""
    monkeypatch.setattr(PIPELINE, "CHUNK", 1)
    monkeypatch.setattr("cuvee.run.models.CHUNK", 1)
    monkeypatch.setattr("cuvee.run.folder.PATIENCE", 0.0)


def kill(whole: Undisturbed, out: Path, rng, times: int) -> Counter:
    """Cut `times` runs, each once, twice or three times, at any moment or between two touches of
    the disk; resume.
    """
    cut, seen = 0, Counter()
    while cut < times:
        for again in range(int(rng.integers(1, 4))):
            if rng.random() < 0.5:
                at = int(rng.integers(1, whole.moments + 1))
                status = ended(
                    forked(lambda at=at: (moments(killed_at(at), put), whole.go_on(out)))
                )
            else:
                status = ended(
                    forked(lambda: whole.go_on(out)), after=rng.uniform(0, 1.05 * whole.seconds)
                )
            if status == 0:  # it was faster
                break
            assert status == -signal.SIGKILL
            cut, done = cut + 1, whole.check(out)
            seen[f"after {done} of {len(whole.steps)} steps"] += 1
            seen["in a resume"] += again > 0
        whole.check_end(out)
    return seen + Counter(kills=cut)


@pytest.mark.parametrize(
    ("kind", "times"),
    [("ridge, each in turn", 6), ("streamed", 3)],
)
def test_kills(undisturbed, out, kind, times):
    seen = kill(undisturbed(kind), out, np.random.default_rng(len(kind)), times)
    assert seen["kills"] >= times


def test_kills_while_parts_are_in_memory(undisturbed, out, monkeypatch):
    """As users run it: parts wait for each other, so that a kill costs some of them."""
    whole = undisturbed("ridge, each in turn")
    monkeypatch.setattr("cuvee.run.folder.PATIENCE", 0.1)
    assert kill(whole, out, np.random.default_rng(5), 4)["kills"] >= 4


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "times"), [*zip(KINDS, (100, 50, 20, 50), strict=True)])
def test_two_hundred_kills(undisturbed, out, kind, times, capsys):
    seen = kill(undisturbed(kind), out, np.random.default_rng([1, len(kind)]), times)
    with capsys.disabled():
        print(f"\n{kind}: {dict(sorted(seen.items()))}")
    assert seen["kills"] >= times


@pytest.mark.slow
def test_every_moment_of_a_commit(undisturbed, out):
    """Cut at each touch of the disk once: the first step, which makes the folder, and the last
    ones, which tidy up.
    """
    whole = undisturbed("ridge, each in turn")
    first, last = range(1, 40, 4), range(whole.moments - 40, whole.moments + 1, 4)
    for at in (*first, *last):
        assert (
            ended(forked(lambda at=at: (moments(killed_at(at), put), whole.adapt(out))))
            == -signal.SIGKILL
        )
        whole.check(out)
        whole.check_end(out)


def fill(whole: Undisturbed, out: Path, at: int, code: int) -> int:
    """From the moment `at`, the disk is full; then there is room again. How many steps
    were done.
    """
    with pytest.MonkeyPatch.context() as patch:
        moments(full_at(at, code), partial(patch.setattr, raising=False))
        with pytest.raises(InputError) as caught:
            whole.adapt(out)
    said = str(caught.value)
    assert (
        ("disk is full" in said or "No space left" in said)
        and "make room" in said
        and "\n" not in said
    ), said
    if not (out / MANIFEST).exists():
        assert not out.exists(), list(out.iterdir())
        assert "cuvee resume" not in said
    else:
        assert not list(out.rglob("*.part"))
    done = whole.check(out)
    whole.check_end(out)
    return done


def fill_some(whole: Undisturbed, out: Path, times: int) -> Counter:
    found = Counter()
    for at in np.linspace(1, whole.last_write, times).astype(int).tolist():
        found[
            f"after {fill(whole, out, at, errno.EDQUOT if at % 5 == 0 else errno.ENOSPC)} steps"
        ] += 1
    return found


@pytest.mark.parametrize(("kind", "times"), [("ridge, each in turn", 4), ("streamed", 2)])
def test_full_disks(undisturbed, out, kind, times):
    fill_some(undisturbed(kind), out, times)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "times"), [*zip(KINDS, (30, 20, 5, 15), strict=True)])
def test_fifty_full_disks(undisturbed, out, kind, times, capsys):
    found = fill_some(undisturbed(kind), out, times)
    with capsys.disabled():
        print(f"\n{kind}: {found.total()} full disks, {dict(found)}")


@pytest.mark.parametrize("most", [200, 900, 1500, 4000, 20_000])
def test_files_that_may_not_grow(undisturbed, out, most, capfd):
    """A limit of the system itself, and not one that a test pretends."""
    whole = undisturbed("ridge, each in turn")

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        whole.adapt(out)

    assert ended(forked(limited)) == 1
    said = capfd.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("InputError: ") and "File too large" in said, said
    assert not out.exists() or not list(out.rglob("*.part"))
    whole.check(out)
    whole.check_end(out)


@pytest.mark.parametrize("size", [8, 16, 24, 40])
def test_a_disk_that_is_full(undisturbed, size, tmp_path):
    """A file system of so many kB, where mounting one is allowed."""
    whole = undisturbed("ridge, each in turn")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(tmp_path)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        out = tmp_path / "run"
        with pytest.raises(InputError, match="full"):
            whole.adapt(out)
        assert (out / MANIFEST).exists() or not out.exists()
        whole.check(out)
        subprocess.run(["mount", "-o", "remount,size=4m", str(tmp_path)], check=True)
        whole.check_end(out)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_the_second_process_is_told(undisturbed, out):
    whole = undisturbed("ridge, each in turn")
    ready, tell = os.pipe()

    def work():
        adapt(whole.source, out, options=whole.options, progress=stuck)

    def stuck(what, done, total):
        if what == "estimating α":
            os.write(tell, b"!")
            time.sleep(60)

    pid = forked(work)
    os.close(tell)  # so that a child that ends is an end of what is read
    try:
        assert os.read(ready, 1) == b"!"
        for attempt in (lambda: resume(out), lambda: resume(out, source=whole.source)):
            with pytest.raises(
                InputError, match=r"another process works on .*run: wait for it, or stop it$"
            ):
                attempt()
        with pytest.raises(InputError, match="holds a run already"):
            whole.adapt(out)
        assert not open_run(out).finished  # reading needs no lock
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ready)
    assert (out / LOCK).exists()  # of a process that is dead
    whole.check_end(out)


def test_the_second_process_is_told_from_the_first_moment(undisturbed, out):
    """While the first still reads the table, and no manifest is there."""
    whole = undisturbed("ridge, each in turn")
    ready, tell = os.pipe()
    out.mkdir()

    def work():
        with locked(out):
            os.write(tell, b"!")
            time.sleep(60)

    pid = forked(work)
    os.close(tell)  # so that a child that ends is an end of what is read
    try:
        assert os.read(ready, 1) == b"!"
        with pytest.raises(InputError, match="another process works on"):
            whole.adapt(out)
        assert (out / LOCK).exists()  # it is the other's
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ready)
    whole.check_end(out)


def test_a_lock_file_of_nobody(undisturbed, out):
    whole = undisturbed("ridge, each in turn")
    out.mkdir()
    (out / LOCK).write_text("99999999")
    whole.check_end(out)
