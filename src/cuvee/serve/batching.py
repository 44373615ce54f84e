"""Requests that come while others are computed are answered together, in one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from cuvee.serve.metrics import Metrics

Item = TypeVar("Item")
Result = TypeVar("Result")
MOST = 256  # requests of a batch


class Batcher(Generic[Item, Result]):
    """Answer items by `work`, many at a time, on one thread.

    A batch that is `quick` is answered at once: to wake a thread would take longer than its work.
    `work` takes a list and returns as many results. If it raises an error, every item is tried
    alone, so that each request gets its own error, and a bad one spoils no other.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Sequence[Result]],
        metrics: Metrics,
        quick: Callable[[Sequence[Item]], bool] = lambda items: False,
    ) -> None:
        self._work, self._metrics, self._quick = work, metrics, quick
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "cuvee-batch")

    async def ask(self, item: Item) -> Result:
        """Return the result of one item."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._answer())
        return await future

    def close(self) -> None:
        """Let the thread end after the batch that it is at."""
        self._thread.shutdown(wait=False)

    async def _answer(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch = [one for one in self._waiting[:MOST] if not one[1].done()]  # who gave up
            del self._waiting[:MOST]
            items = [item for item, _ in batch]
            outcomes = (
                self._tried(items)
                if self._quick(items)
                else await loop.run_in_executor(self._thread, self._tried, items)
            )
            self._metrics.add("cuvee_batches_total")
            self._metrics.add("cuvee_batched_requests_total", len(batch))
            for (_, future), outcome in zip(batch, outcomes, strict=True):
                if future.done():
                    continue
                if isinstance(outcome, BaseException):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)

    def _tried(self, items: Sequence[Item]) -> list[Result | Exception]:
        try:
            return list(self._work(items)) if items else []
        except Exception as error:
            if len(items) == 1:
                return [error]
        return [outcome for item in items for outcome in self._tried([item])]
