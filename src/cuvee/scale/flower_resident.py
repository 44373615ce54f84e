"""Hold a site's table in a process of its own, between the messages that Flower brings.

It is started by `cuvee_site` and ends when nobody has asked for a while.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import cuvee_site
from cuvee.errors import CuveeError
from cuvee.scale.flower_site import Desk
from cuvee.scale.flower_table import SiteConfig
from cuvee.scale.flower_wire import Packet, RawArray, packed

IDLE = 900.0  # seconds without a question after which it ends
WRONG = "its node config cannot be used as it is: what its SuperNode writes out says why"


def main(path: str, written: str) -> None:
    """Answer questions at a socket until there are none any more."""
    listener = _listening(Path(path))
    if listener is None:  # another one was faster
        return
    listener.settimeout(float(os.environ.get("CUVEE_SITE_IDLE", IDLE)))
    config, desk = json.loads(written), None
    with listener, suppress(TimeoutError):
        while True:
            connection, _ = listener.accept()
            with connection, suppress(OSError, ValueError):
                text, arrays = cuvee_site.receive_frame(connection)
                desk = desk or _desk(config)
                if desk is None:
                    reply = packed({"site": str(config.get("domain", "unnamed")), "failed": WRONG})
                else:
                    reply = desk.answer(Packet(text, tuple(RawArray(*raw) for raw in arrays)))
                raws = [(a.dtype, a.shape, a.data) for a in reply.arrays]
                cuvee_site.send_frame(connection, reply.text, raws)
    Path(path).unlink(missing_ok=True)


def _desk(config: Mapping[str, Any]) -> Desk | None:
    """Return a desk; None where the node config is wrong, after saying why on stderr.

    That is the SuperNode's own output: the sentence has paths, and does not go to the coordinator.
    """
    try:
        return Desk(SiteConfig.of(config))
    except (CuveeError, TypeError) as error:
        with suppress(OSError):  # nobody may read it any more
            print(f"cuvee: {error}", file=sys.stderr, flush=True)
        return None


def _listening(path: Path) -> socket.socket | None:
    """Return a listening socket; None where another process listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe, suppress(OSError):
        probe.connect(str(path))
        return None
    path.unlink(missing_ok=True)  # left by one that was killed
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(8)
    return listener


if __name__ == "__main__":
    main(*sys.argv[1:3])
