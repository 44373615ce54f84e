"""Run several small jobs at a time on threads.

LAPACK works on one small matrix after the other, on one thread; several threads are faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def each(
    work: Callable[[Item], Result], items: Iterable[Item], device: str | torch.device
) -> Iterator[Result]:
    """Yield work(item) for every item, in order, on as many threads as torch has.

    A GPU gets one item after the other.
    """
    threads = torch.get_num_threads() if torch.device(device).type == "cpu" else 1
    if threads == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(threads) as pool:  # torch releases the GIL while it computes
        yield from pool.map(work, items)


def apart(
    work: Callable[[Item], Result], items: Sequence[Item], device: str | torch.device
) -> list[Result]:
    """Return work(item) for every item, with one torch thread per job.

    It is for large jobs of many small steps, which torch's own threads would only slow down.
    """
    threads = torch.get_num_threads() if torch.device(device).type == "cpu" else 1
    if threads == 1 or len(items) == 1:
        return [work(item) for item in items]
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, items))
    finally:
        torch.set_num_threads(threads)
