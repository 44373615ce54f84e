"""The command `cuvee`: it loads nothing by itself, so that Ctrl-C is heard while the library loads.

It stands beside the package, because whatever stands inside it is loaded after all of `cuvee/__init__.py`.
"""

from __future__ import annotations

import os
import signal

STOPPED = 130  # as shells count signals


def entry() -> None:
    """Run what a shell asked for."""
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # nohup and the like ignore Ctrl-C
    if heard:
        signal.signal(signal.SIGINT, _stopped)
    from cuvee.cli import entry as begin

    if heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    begin()


def _stopped(*_: object) -> None:
    """End at once: an exception would pass through the loading of other libraries, some of which swallow it."""
    os.write(2, b"cuvee: stopped; nothing was written\n")
    os._exit(STOPPED)
