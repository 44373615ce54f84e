"""The command `cuvee`: it loads what commands need while Ctrl-C still ends it at once.

Help and the version need little, and wait for nothing else.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

STOPPED = 130  # as shells count signals
LIGHT = {"--help", "--version"}


def entry() -> None:
    """Run what a shell asked for."""
    # Where Ctrl-C is ignored, as under nohup, it stays so.
    listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if listens:
        signal.signal(signal.SIGINT, _stopped)
    gc.disable()  # what is loaded stays: to look for garbage in it takes a fifth of the time
    from cuvee.cli import entry as begin

    if len(sys.argv) > 1 and not LIGHT & {*sys.argv}:
        import cuvee.api  # noqa: F401  # with torch
    gc.enable()
    if listens:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    begin()


def _stopped(*_: object) -> None:
    """End at once: some of the libraries that are being loaded would swallow an exception."""
    os.write(2, b"cuvee: stopped; nothing was written\n")
    os._exit(STOPPED)
