"""The thread that makes new targets: it takes all jobs that wait, and computes them together."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread

from cuvee.errors import CuveeError
from cuvee.run.added import Added, write
from cuvee.run.base import Base
from cuvee.run.new_targets import Rows, adapted
from cuvee.serve.jobs import Job, Jobs
from cuvee.serve.sentences import over_http

MOST = 16  # jobs that are computed together
IDLE = 0.5  # seconds after which the file is looked at again: others write to it too
NEWS = 0.2  # seconds between two notes on how far a job is
log = logging.getLogger("cuvee.serve")
TAKEN = "another target has this name by now; choose another one"


class Stopped(Exception):
    """The server is to end: jobs go back to those that wait."""


class Worker:
    """Do jobs until it is told to stop; then it stops at the next step of what it is at."""

    def __init__(self, path: Path, base: Base, jobs: Jobs) -> None:
        self._path, self._base, self._jobs = path, base, jobs
        self._stop, self._news = Event(), Event()
        self._thread = Thread(target=self._work, name="cuvee-jobs", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Say that there is a new job."""
        self._news.set()

    def stop(self, seconds: float = 10.0) -> None:
        """Let the thread end at its next checkpoint, and wait for it."""
        self._stop.set()
        self._news.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                claimed = self._jobs.claim(MOST)
                if claimed:
                    self._make(claimed)
                    continue
            except Exception:
                # a full disk, say: what waits is tried again
                log.exception("jobs could not be done; they are tried again")
                self._stop.wait(5 * IDLE)
            self._news.wait(IDLE)
            self._news.clear()

    def _make(self, claimed: Sequence[tuple[Job, Rows]]) -> None:
        """Make the targets of these jobs; where one cannot be made, each is tried alone.

        Jobs are given back where the folder cannot be written, or the server is to end.
        """
        keys = [job.id for job, _ in claimed]
        try:
            new = self._computed(claimed)
        except Stopped:
            self._jobs.release(keys)
            return
        except Exception as error:
            if len(claimed) > 1:
                for one in claimed:
                    self._make([one])
                return
            self._jobs.end(keys[0], _why(error))
            return
        try:
            refused = write(self._path, new)
        except BaseException:
            self._jobs.release(keys)
            raise
        for key in keys:
            self._jobs.end(key, TAKEN if key in refused else None)

    def _computed(self, claimed: Sequence[tuple[Job, Rows]]) -> list[Added]:
        keys = {job.name: job.id for job, _ in claimed}
        classes, last = self._base.members.classes, 0.0

        def progress(what: str, done: int, total: int) -> None:
            nonlocal last
            if self._stop.is_set():
                raise Stopped
            if time.monotonic() - last >= NEWS:
                last = time.monotonic()
                self._jobs.progress(list(keys.values()), what, done, total)

        progress("starting", 0, len(claimed))
        targets = {
            job.name: rows if classes is None else rows._replace(y=rows.y.astype(classes.dtype))
            for job, rows in claimed
        }
        return adapted(self._base, targets, keys, progress)


def _why(error: Exception) -> str:
    if isinstance(error, CuveeError):
        return over_http(str(error))
    log.error("a new target failed", exc_info=error)
    return f"it failed with an unexpected {type(error).__name__}; the server's log says where"
