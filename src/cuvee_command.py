"""The command `cuvee`: it loads nothing by itself, so that Ctrl-C is heard while the library loads.

It stands beside the package: whatever stands inside is loaded after all of `cuvee/__init__.py`.
"""

from __future__ import annotations

import os
import signal

STOPPED = 130  # as shells count signals


def entry() -> None:
    """Run what a shell asked for."""
    # Where Ctrl-C is ignored, as under nohup, it stays so.
    listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if listens:
        signal.signal(signal.SIGINT, _stopped)
    from cuvee.cli import entry as begin

    if listens:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    begin()


def _stopped(*_: object) -> None:
    """End at once: some of the libraries that are being loaded would swallow an exception."""
    os.write(2, b"cuvee: stopped; nothing was written\n")
    os._exit(STOPPED)
