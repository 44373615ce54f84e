"""Give large tiles of work to workers that need not wait for each other.

torch's own threads all join every operation and meet at its end: where one of them has to wait for
a core, all others spin. Here a public call decides once how many workers it has, sets torch to one
thread for its duration, and hands out tiles: whoever is free takes the next one, so that a worker
whose core is taken does not hold up the rest.

    with workers():                            # around a public call
        parts = each(work, items, device)      # [work(item) for item in items]

Workers are threads. They compute side by side inside torch's operations, but between these Python
runs one of them at a time, and changing over takes longer than a small operation. So tiles are
larger where workers are many.
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
Tell = Callable[[int], None]

TILES = 4  # per worker: a worker that is held up leaves its share to the others
LEAST = 2**24  # multiplications that are worth a tile of their own: about a millisecond
FEW = 2  # workers that Python can serve when operations are small


class _Crew:
    """Hold the workers of one public call; threads start when the first tiles are handed out."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._pool: ThreadPoolExecutor | None = None

    @property
    def pool(self) -> ThreadPoolExecutor:
        if self._pool is None:
            # The caller works too. MKL counts threads for each thread; a new one would have all.
            self._pool = ThreadPoolExecutor(self.size - 1, "cuvee", torch.set_num_threads, (1,))
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
_met: list[int] = []  # torch's threads as the calls that are under way met them


@contextmanager
def workers(*, graph: bool = False, most: int | None = None) -> Iterator[None]:
    """Decide how many workers the calls inside have; torch gets one thread, and back what it had.

    With `graph`, torch keeps threads of its own, as many as there are workers: networks are
    differentiated through a graph, which no tile cuts. A call inside a call has the same workers,
    but no more than its own `most`.
    """
    if _here.at_work:
        yield
        return
    outer, met = _here.crew, _torchs_threads()
    size = outer.size if outer else min(met, available())
    crew = outer if outer and (most is None or size <= most) else _Crew(min(size, most or size))
    _here.crew = crew
    torch.set_num_threads(crew.size if graph else 1)
    try:
        yield
    finally:
        _here.crew = outer
        if crew is not outer:
            crew.leave()
        with _lock:
            _met.remove(met)
            torch.set_num_threads(met)


def _torchs_threads() -> int:
    """Return torch's threads, and note them until they are restored.

    torch keeps their number per thread, and a new thread copies the last one set: one that starts
    while another thread is in a call must not take that call's 1 for its own.
    """
    number = torch.get_num_threads()
    with _lock:
        if _here.crew is None and number == 1 and _met:
            number = max(_met)
        _met.append(number)
    return number


def count() -> int:
    """Return how many workers there are here."""
    if _here.at_work:
        return 1
    if _here.crew is not None:
        return _here.crew.size
    return min(torch.get_num_threads(), available())


def work_alone() -> None:
    """Have everything that this thread calls from now on run on it alone."""
    _here.at_work = True
    torch.set_num_threads(1)


def crowd() -> float:
    """Return how many times larger tiles should be here than for few workers."""
    return max(1.0, count() / FEW)


def each(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    device: str | torch.device,
    *,
    cost: float | None = None,
    tell: Tell = lambda done: None,
) -> list[Result]:
    """Return work(item) for every item, in order, each on one thread.

    A GPU gets one item after the other, and so does a single worker. `cost` is that of all items
    together, in multiplications: as many workers join as that is worth. Without it each item is
    worth a worker. `tell` is called, in this thread, with the number of items done.
    """
    items = list(items)
    on_cpu = torch.device(device).type == "cpu"
    most = count() if cost is None else min(count(), tiles(cost))
    if not on_cpu or len(items) <= 1 or most == 1:
        results = []
        for item in items:
            results.append(work(item))
            tell(len(results))
        return results
    if _here.crew is None:
        with workers():
            return each(work, items, device, cost=cost, tell=tell)
    return _Round(work, items).run(_here.crew, min(most, len(items)), tell)


class _Round(Generic[Item, Result]):
    """Hand out the items of one call of `each`."""

    def __init__(self, work: Callable[[Item], Result], items: list[Item]) -> None:
        self._work, self._items = work, items
        self._next = iter(range(len(items)))  # taking a number from it is one step of Python
        self._results: list[Result | None] = [None] * len(items)
        self._done, self._ended = 0, False

    def run(self, crew: _Crew, n: int, tell: Tell) -> list[Result]:
        """Return the results of n workers, the caller among them."""
        torchs = torch.get_num_threads()
        torch.set_num_threads(1)  # it is already, unless in a call whose graphs use more
        others = [crew.pool.submit(self._take) for _ in range(n - 1)]
        try:
            self._take(tell)
        finally:
            self._ended = True  # nobody begins another item, also after an interrupt
            # who has not even begun, because another process has the core, is not waited for
            begun = [other for other in others if not other.cancel()]
            wait(begun)
            torch.set_num_threads(torchs)
        for other in begun:
            other.result()  # raises what it raised
        return cast(list[Result], self._results)

    def _take(self, tell: Tell | None = None) -> None:
        """Work on items until none is left."""
        _here.at_work = True
        try:
            for i in self._next:
                if self._ended:
                    return
                self._results[i] = self._work(self._items[i])
                self._done += 1
                if tell is not None:
                    tell(self._done)
        except BaseException:
            self._ended = True
            raise
        finally:
            _here.at_work = False


def tiles(work: float) -> int:
    """Return how many tiles to make of so many multiplications: a few for each worker.

    There is one where there is a single worker, and where the work is too little to share.
    """
    worth = int(work / (LEAST * crowd()))
    return 1 if count() == 1 or worth < TILES else min(TILES * count(), worth)


def slices(n: int, cost: float, *, most: int | None = None) -> list[slice]:
    """Return slices that cut n things into tiles, of `cost` multiplications a thing.

    No slice has more than `most` things.
    """
    return cut(n, max(tiles(n * cost), -(-n // most) if most else 1))


def cut(n: int, parts: int) -> list[slice]:
    """Return at most `parts` slices of n things, as equal as they can be."""
    parts = min(parts, n)
    return [slice(a, b) for a, b in pairwise(n * i // parts for i in range(parts + 1))] if n else []


def stacked(
    work: Callable[[slice], torch.Tensor], n: int, cost: float, device: str | torch.device
) -> torch.Tensor:
    """Return work(all n things), put together from slices of `cost` multiplications a thing."""
    parts = slices(n, cost)
    if len(parts) <= 1:
        return work(slice(n))
    return torch.cat(each(work, parts, device, cost=n * cost))
