"""A run in memory, once per process: its models, its sources, and the map that was learnt."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

from cuvee.api import ModelMap
from cuvee.data.options import LINEAR
from cuvee.errors import CuveeError, InputError
from cuvee.results import OWN, Floats
from cuvee.run import Run, open_run
from cuvee.run.added import remove, tidy
from cuvee.run.base import Base, Mixed
from cuvee.run.decided import decided
from cuvee.run.folder import MANIFEST
from cuvee.serve.adapting import Stopped, Worker
from cuvee.serve.batching import Batcher
from cuvee.serve.jobs import Jobs
from cuvee.serve.metrics import Metrics
from cuvee.serve.predicting import Asked, Predicted, predicted, quick
from cuvee.serve.problems import Problem

log = logging.getLogger("cuvee.serve")
WAIT = 10.0  # seconds for the map to reach its next step
TRUSTS = ("solved", "certified", "corrected")


class Question(NamedTuple):
    """A mixture to make a model for."""

    alpha: Floats  # (N,), or (N+1,) with the weight of the target's own sample
    trust: str | None
    target: str | None  # on whose rows it is scored
    moves: bool  # whether dw*/dα is wanted


class State:
    """Hold what all requests share; new targets of other processes are seen when they come."""

    def __init__(
        self,
        path: Path,
        metrics: Metrics,
        table: Any = None,
        *,
        hypothesis: str | None = None,
        read_only: bool = False,
        learn: bool = True,
    ) -> None:
        self._lock, self._path, self._manifest = Lock(), path, os.fspath(path / MANIFEST)
        self._hypothesis = hypothesis
        self._mark, self._run = self._read()
        self.base: Base | None = None
        self.atlas: ModelMap | None = None
        self.why_not = ""  # there are no sources, a sentence
        try:
            self.base = Base.of(self._run, table)
            self.base.bound  # noqa: B018  # made once, before anybody waits for it
        except CuveeError as error:
            self.why_not = str(error)
        self.predictions: Batcher[Asked, Predicted] = Batcher(predicted, metrics, quick)
        self.mixtures: Batcher[Question, Mixed] = Batcher(self._mixed, metrics)
        self.jobs: Jobs | None = None
        self.worker: Worker | None = None
        if not read_only:
            tidy(path)
            self.jobs = Jobs(home(path))
            if self.base is not None:
                self.worker = Worker(path, self.base, self.jobs)
                self.worker.start()
        self._ended = Event()
        self._learner = Thread(target=self._learn, name="cuvee-map", daemon=True)
        if learn:
            self._learner.start()

    @property
    def run(self) -> Run:
        """Return the run as its folder is now."""
        if _mark(self._manifest) != self._mark:
            with self._lock:
                if _mark(self._manifest) != self._mark:
                    self._mark, self._run = self._read()
        return self._run

    def place(self, run: Run, target: str) -> int:
        """Return the number of a target; raise `Problem` where there is no such."""
        try:
            return run.targets.index(target)
        except ValueError:
            raise Problem(
                404, f"there is no target {target!r}; GET /v1/targets lists them"
            ) from None

    def sources(self) -> Base:
        """Return the sources; raise `Problem` where the table of the run is not there."""
        if self.base is None:
            run = self.run
            linear = decided(run.folder, run.options).model == LINEAR
            hint = " (cuvee serve --table)" if linear else ""  # no table would help others
            raise Problem(409, f"this needs the sources of the run, and {self.why_not}{hint}")
        return self.base

    def writable(self) -> Jobs:
        """Return the jobs; raise `Problem` where the server is read-only."""
        if self.jobs is None:
            raise Problem(403, "this server is read-only: it takes no new targets")
        return self.jobs

    def check_free(self, name: str) -> None:
        """Raise `Problem` where a new target cannot have this name."""
        if name in self.run.targets:
            raise Problem(409, f"there is a target {name!r} already; choose another name")
        if name == OWN or name in self.sources().sources:
            raise Problem(409, f"a source of this run is called {name!r}; choose another name")

    def remove(self, name: str) -> None:
        """Take an added target out of the run."""
        self.writable()
        self.place(self.run, name)
        if name not in self.run.added:
            raise Problem(
                409, f"{name!r} was made with the run and belongs to it; it cannot be deleted"
            )
        if not remove(self._path, name):
            raise Problem(404, f"there is no target {name!r} any more")

    async def mix(self, question: Question) -> Mixed:
        """Return the model of one mixture, computed together with others."""
        if question.trust not in (None, "solved") and self.atlas is None:
            raise Problem(
                503,
                f"the map is not learnt yet, so that trust {question.trust!r} cannot be had; wait, "
                "or ask for 'solved'",
                {"Retry-After": "1"},
            )
        return await self.mixtures.ask(question)

    def close(self) -> None:
        """Let the threads end; jobs and the map that are under way stop at their next step."""
        self._ended.set()
        if self.worker is not None:
            self.worker.stop()
        self.predictions.close()
        self.mixtures.close()
        if self._learner.is_alive():
            self._learner.join(WAIT)

    def _read(self) -> tuple[object, Run]:
        while True:
            mark = _mark(self._manifest)  # before it is read: what comes later is then seen later
            try:
                run = open_run(self._path, hypothesis=self._hypothesis)
                if run.finished:
                    run.w, run.alpha, run.metrics  # noqa: B018  # before anybody waits
                return mark, run
            except InputError:
                if mark == _mark(self._manifest):
                    raise  # else somebody deleted a target meanwhile: read again

    def _learn(self) -> None:
        if self.base is None or len(self.base.sources) < 2:
            return

        def progress(what: str, done: int, total: int) -> None:
            if self._ended.is_set():
                raise Stopped

        try:
            self.atlas = self.base.learnt(progress)
        except Stopped:
            log.info("the map was not learnt before the end")
        except CuveeError as error:
            log.warning("no map was learnt, mixtures are solved: %s", error)

    def _mixed(self, questions: Sequence[Question]) -> list[Mixed]:
        """Return the models of all mixtures; questions of one kind are answered together."""
        assert self.base is not None
        alike: dict[tuple[str | None, str | None, bool, int], list[int]] = {}
        for i, q in enumerate(questions):
            alike.setdefault((*q[1:], len(q.alpha)), []).append(i)
        answers: dict[int, Mixed] = {}
        for (trust, target, moves, _), at in alike.items():
            atlas = None if trust == "solved" else self.atlas
            alpha = [questions[i].alpha for i in at]
            mixed = self.base.mixed(alpha, atlas, trust, target, moves=moves)
            answers |= {i: mixed.part(k) for k, i in enumerate(at)}
        return [answers[i] for i in range(len(questions))]


def check_finished(path: Path, hypothesis: str | None = None) -> None:
    """Raise `InputError` unless there is a run in a folder that is finished."""
    if not open_run(path, hypothesis=hypothesis).finished:
        raise InputError(f"{path} is not finished: cuvee resume {path}")


def home(path: Path) -> Path:
    """Return the folder of a run that holds the server's own files, which nobody else may read."""
    folder = path / "serve"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _mark(manifest: str) -> object:
    """Return what changes whenever the manifest is replaced."""
    about = os.stat(manifest)
    return about.st_ino, about.st_mtime_ns, about.st_size
