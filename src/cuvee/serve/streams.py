"""Streams of events: they stay open for minutes, so that they have places of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from cuvee.serve.limits import Limits
from cuvee.serve.problems import Problem


class Streams:
    """Count the streams that are open: of all clients, and of each."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: Counter[str] = Counter()

    @contextmanager
    def place(self, client: str) -> Iterator[None]:
        """Hold a place for a stream of this client; raise `Problem` where there is none."""
        if self._open[client] >= self._limits.streams_each:
            raise Problem(
                429,
                f"this token has {self._limits.streams_each} streams of events open; close one, or "
                "ask for the job without /events",
                {"Retry-After": "1"},
            )
        if self._open.total() >= self._limits.streams:
            raise Problem(
                503,
                "too many streams of events are open; ask for the job without /events",
                {"Retry-After": "1"},
            )
        self._open[client] += 1
        try:
            yield
        finally:
            self._open[client] -= 1
            self._open += Counter()  # who has none is forgotten
