"""Give independent pieces of work to forked processes, where the work is many short operations.

The workers of `cuvee.numerics.parallel` are threads: between torch's operations Python runs one of
them at a time, so that short operations get slower with every further worker. A forked process has
a Python of its own, and reads its parent's arrays without a copy.

    results = apart(work, items, n)     # [work(item, tell) for item in items] by n processes

A process that fails, or that the system ends, leaves its items to the parent: what is wrong with
them is raised there. Results return through a pipe from our own processes only.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from threading import current_thread, main_thread
from typing import Any, TypeVar

import torch

from cuvee.numerics.parallel import count, work_alone

Item = TypeVar("Item")
Result = TypeVar("Result")
Tell = Callable[..., None]

PR_SET_PDEATHSIG = 1  # of Linux's prctl
PAUSE = 0.1  # seconds between two reports of progress from one process


def may_fork(device: str | torch.device) -> bool:
    """Return whether the caller may start processes for work on this device.

    Only the main thread does: the other threads of a service hold sockets and locks, which a forked
    process would keep. A process that was itself started for a piece of work starts none.
    """
    return (
        sys.platform == "linux"
        and torch.device(device).type == "cpu"
        and current_thread() is main_thread()
        and not multiprocessing.current_process().daemon
        and count() > 1
    )


def apart(
    work: Callable[[Item, Tell], Result],
    items: Sequence[Item],
    n: int,
    progress: Tell | None = None,
) -> list[Result]:
    """Return work(item, tell) for every item, in order, by at most n processes.

    Each process has one thread. What the first one tells is passed on to `progress`.
    """
    fork = multiprocessing.get_context("fork")
    results: dict[int, Result] = {}
    readers: dict[Connection, int] = {}
    children = []
    n = min(n, len(items))
    try:
        for first in range(n):
            reader, writer = fork.Pipe(duplex=False)
            mine = range(first, len(items), n)
            words = (work, items, mine, writer, os.getpid())
            child = fork.Process(target=_serve, args=words, daemon=True)
            with warnings.catch_warnings():
                # Python warns of other threads; torch's are idle here, and the child uses none.
                warnings.simplefilter("ignore", DeprecationWarning)
                child.start()
            writer.close()  # the child has its own end: when that is closed, nothing more comes
            readers[reader] = first
            children.append(child)
        _gather(readers, results, progress)
    finally:
        for child in children:
            child.terminate()
            child.join()
    tell = progress or _silent
    return [results[i] if i in results else work(item, tell) for i, item in enumerate(items)]


def _silent(*_: Any) -> None:
    """Pass nothing on."""


def _gather(
    readers: dict[Connection, int], results: dict[int, Result], progress: Tell | None
) -> None:
    """Fill in the results until every process has closed its end."""
    while readers:
        for reader in wait(list(readers)):
            assert isinstance(reader, Connection)
            try:
                index, content = reader.recv()
            except (EOFError, OSError):
                del readers[reader]
                reader.close()
                continue
            if index is not None:
                results[index] = content
            elif progress is not None and readers[reader] == 0:
                progress(*content)


def _end_with_parent(parent: int) -> None:
    """Have the system end this process when its parent is killed, which shares its locked files."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it was killed before
        os._exit(1)


def _serve(
    work: Callable[[Item, Tell], Result],
    items: Sequence[Item],
    mine: range,
    writer: Connection,
    parent: int,
) -> None:
    """Work on some items in this process and send each result."""
    _end_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it too, and ends its children
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    work_alone()
    last = 0.0

    def tell(*content: Any) -> None:
        nonlocal last
        if time.monotonic() - last > PAUSE:
            writer.send((None, content))
            last = time.monotonic()

    try:
        # the parent does an item that fails again, and meets the same error
        with suppress(Exception):
            for i in mine:
                writer.send((i, work(items[i], tell)))
    finally:
        writer.close()
        os._exit(0)  # nothing of the parent's, such as its open files, is flushed or ended twice
