"""Jobs in SQLite: what was answered "accepted" is on the disk, whoever is killed afterwards.

Several processes share the file. A job is claimed by one of them; where that one has died, another
claims it again.
"""

from __future__ import annotations

import io
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cuvee.run.new_targets import Rows

FILE = "jobs.sqlite"
QUEUED, RUNNING, DONE, FAILED = STATES = "queued", "running", "done", "failed"
SILENT = 60.0  # seconds without a sign of life after which a process counts as dead
KEPT = 7 * 24 * 3600.0  # seconds that a finished job is remembered
_TABLE = """
CREATE TABLE IF NOT EXISTS jobs (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL, rows BLOB, detail TEXT,
    what TEXT, done INTEGER, total INTEGER, owner TEXT, alive REAL,
    created REAL NOT NULL, finished REAL);
CREATE UNIQUE INDEX IF NOT EXISTS waiting ON jobs (name) WHERE finished IS NULL;
CREATE INDEX IF NOT EXISTS by_state ON jobs (state, created);
"""


class Job(NamedTuple):
    """A new target that was asked for, and what has become of it."""

    id: str
    name: str
    state: str
    detail: str | None  # why it failed
    what: str | None  # is being done, and how far it is
    done: int | None
    total: int | None

    @property
    def ended(self) -> bool:
        return self.state in (DONE, FAILED)


class Jobs:
    """The jobs of a run, in a file of `folder`; each call has its own connection."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self.me = f"{os.getpid()}:{secrets.token_hex(8)}"
        with suppress(FileExistsError):  # nobody else may read the rows in it
            os.close(os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
        with self._open() as db:
            db.execute("PRAGMA journal_mode=WAL")
            db.executescript(_TABLE)
            db.execute("DELETE FROM jobs WHERE finished < ?", (time.time() - KEPT,))

    def add(self, name: str, rows: Rows) -> Job | None:
        """Keep a new job on the disk and return it; None where a job of this name is waiting."""
        key, content = secrets.token_hex(16), _packed(rows)
        with suppress(sqlite3.IntegrityError), self._open() as db:
            db.execute(
                "INSERT INTO jobs (id, name, state, rows, created) VALUES (?, ?, ?, ?, ?)",
                (key, name, QUEUED, content, time.time()),
            )
            return Job(key, name, QUEUED, None, None, None, None)
        return None

    def find(self, key: str) -> Job | None:
        """Return a job by its id, or None."""
        with self._open() as db:
            row = db.execute(
                "SELECT id, name, state, detail, what, done, total FROM jobs WHERE id = ?", (key,)
            ).fetchone()
        return None if row is None else Job(*row)

    def counts(self) -> dict[str, float]:
        """Return how many jobs are in each state."""
        with self._open() as db:
            there = dict(db.execute("SELECT state, COUNT(*) FROM jobs GROUP BY state").fetchall())
        return {state: float(there.get(state, 0)) for state in STATES}

    def claim(self, most: int) -> list[tuple[Job, Rows]]:
        """Return jobs that are this process's from now on, the oldest first."""
        with self._open() as db, _writing(db):
            self._release_those_of_the_dead(db)
            picked = db.execute(
                "SELECT id, name, rows FROM jobs WHERE state = ? ORDER BY created, rowid LIMIT ?",
                (QUEUED, most),
            ).fetchall()
            mine = [(RUNNING, self.me, time.time(), key) for key, _, _ in picked]
            db.executemany("UPDATE jobs SET state=?, owner=?, alive=? WHERE id=?", mine)
        return [
            (Job(key, name, RUNNING, None, None, None, None), _unpacked(rows))
            for key, name, rows in picked
        ]

    def progress(self, keys: Sequence[str], what: str, done: int, total: int) -> None:
        """Note how far jobs are, which is a sign of life too."""
        news = [(what, done, total, time.time(), key) for key in keys]
        with self._open() as db:
            db.executemany("UPDATE jobs SET what=?, done=?, total=?, alive=? WHERE id=?", news)

    def end(self, key: str, failure: str | None = None) -> None:
        """Note that a job is done, or why it failed; its rows are forgotten."""
        state = DONE if failure is None else FAILED
        with self._open() as db:
            db.execute(
                "UPDATE jobs SET state=?, detail=?, finished=?, rows=NULL WHERE id=?",
                (state, failure, time.time(), key),
            )

    def release(self, keys: Sequence[str]) -> None:
        """Give jobs back, so that they are done after the next start."""
        with self._open() as db:
            db.executemany(
                "UPDATE jobs SET state=?, owner=NULL WHERE id=? AND finished IS NULL",
                [(QUEUED, key) for key in keys],
            )

    def _release_those_of_the_dead(self, db: sqlite3.Connection) -> None:
        claimed = db.execute(
            "SELECT DISTINCT owner, MAX(alive) FROM jobs WHERE state = ? GROUP BY owner", (RUNNING,)
        ).fetchall()
        for owner, alive in claimed:
            if owner != self.me and (not _lives(owner) or time.time() - alive > SILENT):
                db.execute(
                    "UPDATE jobs SET state=?, owner=NULL WHERE owner=? AND state=?",
                    (QUEUED, owner, RUNNING),
                )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        db = sqlite3.connect(self._file, timeout=20.0, isolation_level=None)
        try:
            db.execute("PRAGMA synchronous=FULL")
            db.execute("PRAGMA secure_delete=ON")  # rows of jobs that ended are written over
            yield db
        finally:
            db.close()


@contextmanager
def _writing(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def _lives(owner: str) -> bool:
    """Return whether the process of a claim is alive; one with our own number is an older one."""
    number = int(owner.partition(":")[0])
    if number == os.getpid():
        return False
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _packed(rows: Rows) -> bytes:
    content = io.BytesIO()
    y = rows.y.astype(str) if rows.y.dtype == object else rows.y  # objects would need pickle
    np.savez(content, X=rows.X, y=y, digests=rows.digests)
    return content.getvalue()


def _unpacked(content: bytes) -> Rows:
    arrays: Any = np.load(io.BytesIO(content), allow_pickle=False)
    return Rows(**arrays)
