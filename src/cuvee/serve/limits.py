"""What a client may ask of the server: sizes, rates, and seconds."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass

from cuvee.errors import check_number

MOST_CLIENTS = 10_000  # whose rate is remembered


@dataclass(frozen=True)
class Limits:
    """Hold the limits of a server; what is beyond one is refused with a sentence that names it."""

    body: int = 16 * 2**20  # bytes of a request's body
    rows: int = 10_000  # in one request
    columns: int = 2_000  # in one request
    cells: int = 5_000_000  # in one request: rows times the columns that are read
    depth: int = 6  # of nested JSON
    name: int = 200  # characters of a target's name
    rate: float = 500.0  # requests per second of one client, on average
    burst: int = 1_000  # requests that one client may send at once
    at_once: int = 200  # requests that are under way at a time, beside streams of events
    streams: int = 100  # of events that are open at a time
    streams_each: int = 10  # of one client
    jobs: int = 1_000  # new targets that wait to be made
    targets: int = 10_000  # new targets of one run
    connections: int = 2_000  # of one process; fewer where it may open few files
    header_seconds: float = 10.0  # that a connection may take to its request's headers
    body_seconds: float = 20.0  # that a request's body may take to arrive, or an answer to be read
    idle_seconds: float = 30.0  # that a connection may stay between two requests
    seconds: float = 60.0  # that an answer may take
    small: int = 500  # labelled rows of a new target that is answered at once, if it is quick
    at_once_seconds: float = 5.0  # that a small new target is waited for

    @classmethod
    def of_rate(cls, rate: float) -> Limits:
        """Return the limits with another rate; twice as many requests may come at once."""
        check_number("--rate", rate, above=0.0)
        return cls(rate=rate, burst=max(1, round(2 * rate)))


class Rate:
    """A bucket of requests per client, which fills at `limits.rate` up to `limits.burst`."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str, now: float | None = None) -> float:
        """Count one request, and return 0, or the seconds to wait where it comes too early.

        >>> rate = Rate(Limits(rate=1.0, burst=2))
        >>> [rate.wait("me", now=10.0) for _ in range(3)], rate.wait("me", now=11.0)
        ([0.0, 0.0, 1.0], 0.0)
        """
        now = time.monotonic() if now is None else now
        left, then = self._left.pop(client, (float(self._limits.burst), now))
        left = min(float(self._limits.burst), left + (now - then) * self._limits.rate)
        allowed = left >= 1.0
        self._left[client] = (left - 1.0 if allowed else left, now)
        if len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)
        return 0.0 if allowed else (1.0 - left) / self._limits.rate
