"""Show how far something is and how long it still takes, on a terminal only."""

from __future__ import annotations

import sys
import threading
from typing import Any

from cuvee.outputs.visible import visible

PATIENCE = 2.0  # seconds before a bar appears


class Bar:
    """Show a bar per stage on stderr, called with (what, done, total).

    It is silent if `quiet`, and where stderr is not a terminal.
    """

    def __init__(self, quiet: bool = False, patience: float = PATIENCE) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description:<28}"),
            BarColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self.shown = not quiet and sys.stderr.isatty()
        self._bars = Progress(*columns, console=Console(stderr=True), disable=not self.shown)
        self._timer = threading.Timer(patience, self._bars.start)
        self._timer.daemon = True
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Bar:
        if self.shown:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self.shown:
            return
        self._timer.cancel()
        self._timer.join()  # it may be starting the bars at this moment
        if self._bars.live.is_started:
            self._bars.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        if what not in self._tasks:
            # without a total the bar only moves
            self._tasks[what] = self._bars.add_task(visible(what), total=total or None)
        self._bars.update(self._tasks[what], completed=done, total=total or None)
