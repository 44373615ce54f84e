"""The log says the same thing seldom: whoever can cause a line of it could fill the disk."""

from __future__ import annotations

import logging
import time

LOGS = ("asyncio", "uvicorn.error", "cuvee.serve")
MOST, PERIOD = 10, 60.0  # lines from one place in the code, in so many seconds


class Seldom(logging.Filter):
    """Let some lines from one place in the code pass, and count the others."""

    def __init__(self) -> None:
        super().__init__()
        # file and line -> when its period began, lines that passed, lines that did not
        self._places: dict[tuple[str, int], tuple[float, int, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line may be written; the first after others says how many were not."""
        place, now = (record.pathname, record.lineno), time.monotonic()
        began, passed, held = self._places.get(place, (now, 0, 0))
        if now - began >= PERIOD:
            if held:
                record.msg = f"{record.getMessage()} (and {held:,} times more before this)"
                record.args = None
            began, passed, held = now, 0, 0
        if passed < MOST:
            self._places[place] = began, passed + 1, held
            return True
        self._places[place] = began, passed, held + 1
        return False


_SELDOM = Seldom()


def say_seldom() -> None:
    """Limit what this process logs."""
    for name in LOGS:
        logging.getLogger(name).addFilter(_SELDOM)
