"""Ask whether a Ray cluster answers at an address, and say in a sentence where none does.

Ray itself tries for minutes, and writes lines of its own meanwhile.
"""

from __future__ import annotations

import socket
import subprocess
import sys

from cuvee.errors import InputError

LISTENS = 5.0  # seconds that an address has to accept a connection
ANSWERS = 20.0  # seconds that a cluster has to answer, the loading of Ray among them
HERE = "auto"  # the cluster that Ray finds on this machine
NO_CLUSTER = 3  # the exit code of the process that asks
ASK = f"""
import socket
import sys
import ray
address = sys.argv[1]
try:
    if address == "{HERE}":
        from ray._private.services import canonicalize_bootstrap_address
        address = canonicalize_bootstrap_address(address)
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), {LISTENS}).close()
    ray._raylet.GcsClient(address=address)
except (OSError, ray.exceptions.RpcError):
    sys.exit({NO_CLUSTER})
"""


def check_answers(address: str, variable: str | None = None) -> None:
    """Raise `InputError` unless a Ray cluster answers at an address, which a variable may name."""
    where, instead = address, ""
    if variable is not None:
        where = f"{address}, which {variable} names,"
        instead = f" Without {variable} a local one is started."
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), LISTENS).close()
    except OSError as error:
        raise InputError(
            f"nothing answers at {where} ({error.strerror or error}): is the Ray cluster "
            "running, is this its address (ray start --head prints it), and may this machine reach "
            f"it?{instead}"
        ) from None
    if not answers(address):
        raise InputError(
            f"what listens at {where} does not answer as a Ray cluster does: is this the cluster's "
            f"address (ray start --head prints it), and is your token the right one?{instead}"
        )


def answers(address: str) -> bool:
    """Return whether a Ray cluster answers at an address, or `HERE`.

    A process of its own asks, because nothing else ends Ray's attempts. Where it cannot ask, as
    another version of Ray may want to be asked in another way, the answer is yes, and Ray has to
    find out.
    """
    command = [sys.executable, "-c", ASK, address]
    try:
        asked = subprocess.run(  # noqa: S603  (our own program, no shell)
            command, capture_output=True, timeout=ANSWERS, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode != NO_CLUSTER
