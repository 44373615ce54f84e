"""Several processes that serve one run: they share the socket and the run folder, nothing else."""

from __future__ import annotations

import multiprocessing
import signal
import socket
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from threading import Thread
from typing import Any, NamedTuple

from cuvee.errors import InputError

SPAWN = multiprocessing.get_context("spawn")  # a fork would copy locks that threads hold
AGAIN = 1.0  # seconds before a process that died is started again
Work = Callable[[socket.socket, Callable[[dict[str, Any]], None], Callable[[Any], None]], None]
"""What a process does: the socket, whom to tell when it is ready, whom to give its server."""


class _Worker(NamedTuple):
    process: Any
    pipe: Connection

    @classmethod
    def started(cls, work: Work, listening: socket.socket) -> _Worker:
        ours, theirs = SPAWN.Pipe()
        process = SPAWN.Process(target=_serve, args=(work, listening, theirs), daemon=False)
        process.start()
        theirs.close()
        return cls(process, ours)


def serve_together(
    work: Work, many: int, listening: socket.socket, ready: Callable[[dict[str, Any]], None]
) -> None:
    """Keep so many processes at work until this one is told to end; then they end, too.

    `ready` is called with what the last of them says when all are ready. One that dies later is
    started again; one that cannot begin is an error.
    """
    ending = False

    def end(*_: Any) -> None:
        nonlocal ending
        ending = True

    before = {s: signal.signal(s, end) for s in (signal.SIGTERM, signal.SIGINT)}
    workers = [_Worker.started(work, listening) for _ in range(many)]
    try:
        said: dict[str, Any] = {}
        for one in workers:
            said = _first_word(one, lambda: ending)
        if not ending:
            ready(said)
        while not ending:
            gone = wait([one.process.sentinel for one in workers], timeout=0.2)
            for i, one in enumerate(workers):
                if one.process.sentinel in gone and not ending:
                    time.sleep(AGAIN)
                    workers[i] = _Worker.started(work, listening)
    finally:
        for one in workers:
            if one.process.is_alive():
                one.process.terminate()
        for one in workers:
            one.process.join()
        for number, handler in before.items():
            signal.signal(number, handler)


def _first_word(worker: _Worker, ending: Callable[[], bool]) -> dict[str, Any]:
    """Return what a process says when it is ready; raise an error where it cannot begin."""
    while not ending():
        if worker.pipe.poll(0.2):
            try:
                said = worker.pipe.recv()
            except EOFError:
                said = "a process ended before it was ready; its words are above"
            if isinstance(said, str):
                raise InputError(said)
            return dict(said)
    return {}


def _serve(work: Work, listening: socket.socket, pipe: Connection) -> None:
    """Do the work of one process; it ends, too, when the one that started it is no more."""
    servers: list[Any] = []

    def follow() -> None:
        try:
            pipe.recv()  # nothing is ever sent
        except (EOFError, OSError):
            for server in servers:
                server.should_exit = True

    Thread(target=follow, name="cuvee-parent", daemon=True).start()
    try:
        work(listening, pipe.send, servers.append)
    except InputError as error:
        pipe.send(str(error))
