"""Give large tiles of work to workers that need not wait for each other.

torch's own threads all join every operation and meet at its end: where one of them has to wait for
a core, all others spin. Here a public call decides once how many workers it has, sets torch to one
thread for its duration, and hands out tiles: whoever is free takes the next one, so that a worker
whose core is taken does not hold up the rest.

    with workers():                            # around a public call
        parts = each(work, items, device)      # [work(item) for item in items]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import pairwise
from threading import Lock, local
from typing import Generic, TypeVar, cast

import torch

from cuvee.numerics.cores import available

Item = TypeVar("Item")
Result = TypeVar("Result")

TILES = 4  # per worker: a worker that is held up leaves its share to the others
LEAST = 2**21  # multiplications that are worth a tile of their own: a fraction of a millisecond


class _Crew:
    """Hold the workers of one public call; threads start when the first tiles are handed out."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._pool: ThreadPoolExecutor | None = None

    @property
    def pool(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.size - 1, "cuvee")  # the caller works too
        return self._pool

    def leave(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()


class _Here(local):
    """Hold what this thread is doing."""

    crew: _Crew | None = None
    at_work: bool = False  # on a tile: what it calls runs on this thread alone


_here = _Here()
_lock = Lock()
_set: list[int] = []  # torch's threads as the calls that are under way met them


@contextmanager
def workers(*, graph: bool = False) -> Iterator[None]:
    """Decide how many workers the calls inside have; torch gets one thread, and back what it had.

    With `graph`, torch keeps threads of its own, as many as there are workers: networks are
    differentiated through a graph, which no tile cuts. A call inside a call has the same workers.
    """
    if _here.at_work:
        yield
        return
    crew, found = _here.crew, _torchs_threads()
    here = crew or _Crew(min(found, available()))
    _here.crew = here
    torch.set_num_threads(here.size if graph else 1)
    try:
        yield
    finally:
        _here.crew = crew
        if crew is None:
            here.leave()
        _restore(found)


def _torchs_threads() -> int:
    """Return torch's threads, and note them until they are restored.

    torch keeps their number per thread, and a new thread copies the last one set: one that starts
    while another thread is in a call must not take that call's 1 for its own.
    """
    number = torch.get_num_threads()
    with _lock:
        if _here.crew is None and number == 1 and _set:
            number = max(_set)
        _set.append(number)
    return number


def _restore(number: int) -> None:
    with _lock:
        _set.remove(number)
        torch.set_num_threads(number)


def count() -> int:
    """Return how many workers `each` would give tiles to here."""
    if _here.at_work:
        return 1
    if _here.crew is not None:
        return _here.crew.size
    return min(torch.get_num_threads(), available())


def each(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    device: str | torch.device,
    *,
    tell: Callable[[int], None] = lambda done: None,
) -> list[Result]:
    """Return work(item) for every item, in order, each on one thread.

    A GPU gets one item after the other, and so does a single worker. `tell` is called, in this
    thread, with the number of items done.
    """
    items = list(items)
    on_cpu = torch.device(device).type == "cpu"
    if not on_cpu or len(items) <= 1 or count() == 1:
        results = []
        for item in items:
            results.append(work(item))
            tell(len(results))
        return results
    if _here.crew is None:
        with workers():
            return each(work, items, device, tell=tell)
    return _Round(work, items, tell).run(_here.crew)


class _Round(Generic[Item, Result]):
    """Hand out the items of one call of `each`."""

    def __init__(
        self, work: Callable[[Item], Result], items: list[Item], tell: Callable[[int], None]
    ) -> None:
        self._work, self._items, self._tell = work, items, tell
        self._next = iter(range(len(items)))  # taking a number from it is one step of Python
        self._done = 0
        self._results: list[Result | None] = [None] * len(items)
        self._failed = False

    def run(self, crew: _Crew) -> list[Result]:
        found = torch.get_num_threads()
        if found != 1:  # in a call whose graphs use torch's threads
            torch.set_num_threads(1)
        others = [crew.pool.submit(self._take) for _ in range(min(crew.size, len(self._items)) - 1)]
        try:
            self._take(self._tell)
        finally:
            self._failed = True  # nobody begins another item, also after an interrupt
            # who has not even begun, because another process has the core, is not waited for
            begun = [other for other in others if not other.cancel()]
            wait(begun)
            if found != 1:
                torch.set_num_threads(found)
        for other in begun:
            other.result()  # raises what it raised
        return cast(list[Result], self._results)

    def _take(self, tell: Callable[[int], None] | None = None) -> None:
        """Work on items until none is left."""
        _here.at_work = True
        try:
            for i in self._next:
                if self._failed:
                    return
                self._results[i] = self._work(self._items[i])
                self._done += 1
                if tell is not None:
                    tell(min(self._done, len(self._items)))
        except BaseException:
            self._failed = True
            raise
        finally:
            _here.at_work = False


def tiles(work: float) -> int:
    """Return how many tiles to make of so many multiplications: a few for each worker.

    A tile that would take less time than handing it out is not made.
    """
    workers_here = count()
    return max(1, min(TILES * workers_here, int(work / LEAST))) if workers_here > 1 else 1


def slices(n: int, cost: float, *, most: int | None = None) -> list[slice]:
    """Return slices that cut n things into tiles, of `cost` multiplications a thing.

    No slice has more than `most` things.
    """
    return cut(n, max(tiles(n * cost), -(-n // most) if most else 1))


def cut(n: int, parts: int) -> list[slice]:
    """Return at most `parts` slices of n things, as equal as they can be."""
    ends = [n * i // min(parts, n) for i in range(min(parts, n) + 1)] if n and parts else []
    return [slice(low, high) for low, high in pairwise(ends)]


def stacked(
    work: Callable[[slice], torch.Tensor], n: int, cost: float, device: str | torch.device
) -> torch.Tensor:
    """Return work(all n things), put together from slices of `cost` multiplications a thing."""
    parts = slices(n, cost)
    if len(parts) <= 1:
        return work(slice(n))
    return torch.cat(each(work, parts, device))
