"""The ClientApp that a hospital runs beside its table; light, as every message starts it anew.

It hands each message to a process of the same user that holds the table (`cuvee.scale.
flower_resident`), which it starts where there is none: reading the table anew for every message
would take longer than answering it. The two speak over a socket in a folder that only this user
can enter. Nothing but bytes and JSON passes, no pickle.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RAW = "cuvee.raw"  # how arrays are written: little end first, row after row
START = 120.0  # seconds for the process that holds the table to start
LONGEST = 1 << 40  # bytes of a frame

Raw = tuple[str, tuple[int, ...], bytes]  # dtype, shape, data


def to_records(text: str, arrays: list[Raw]) -> Any:
    """Return the content of a Flower message."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

    named = {
        str(i): Array(dtype=dtype, shape=shape, stype=RAW, data=data)
        for i, (dtype, shape, data) in enumerate(arrays)
    }
    return RecordDict({"cuvee": ConfigRecord({"text": text}), "arrays": ArrayRecord(named)})


def from_records(records: Any) -> tuple[str, list[Raw]]:
    """Return what a Flower message holds; raise `ValueError` where it is none of ours."""
    try:
        text, arrays = records["cuvee"]["text"], records["arrays"]
        named = [arrays[str(i)] for i in range(len(arrays))]
    except (KeyError, TypeError) as error:
        raise ValueError(f"a message has no {error}") from None
    if not isinstance(text, str) or any(array.stype != RAW for array in named):
        raise ValueError("a message holds arrays that are not raw bytes")
    return text, [(a.dtype, tuple(map(int, a.shape)), bytes(a.data)) for a in named]


def send_frame(connection: socket.socket, text: str, arrays: list[Raw]) -> None:
    """Write a text and arrays to a socket."""
    head = {"text": text, "arrays": [(dtype, shape, len(data)) for dtype, shape, data in arrays]}
    written = json.dumps(head).encode()
    parts = [struct.pack("<Q", len(written)), written, *(data for _, _, data in arrays)]
    connection.sendall(b"".join(parts))


def receive_frame(connection: socket.socket) -> tuple[str, list[Raw]]:
    """Read a text and arrays from a socket; raise `ConnectionError` where it ends early."""
    head = json.loads(_exactly(connection, struct.unpack("<Q", _exactly(connection, 8))[0]))
    arrays = [
        (str(dtype), tuple(map(int, shape)), _exactly(connection, int(size)))
        for dtype, shape, size in head["arrays"]
    ]
    return str(head["text"]), arrays


def _exactly(connection: socket.socket, size: int) -> bytes:
    if not 0 <= size < LONGEST:
        raise ConnectionError("a frame is too long")
    data = bytearray()
    while len(data) < size:
        part = connection.recv(min(1 << 20, size - len(data)))
        if not part:
            raise ConnectionError("the other side has gone")
        data += part
    return bytes(data)


def private_folder() -> Path:
    """Return a folder that only this user can enter; raise `PermissionError` where it is not so."""
    folder = Path(tempfile.gettempdir()) / f"cuvee-site-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is open to others: remove it")
    return folder


def ask_resident(config: dict[str, Any], text: str, arrays: list[Raw]) -> tuple[str, list[Raw]]:
    """Return the answer of the process that holds the table; start it where there is none."""
    written = json.dumps(config, sort_keys=True)
    place = hashlib.sha256(f"{sys.executable} {written}".encode()).hexdigest()[:24]
    path = private_folder() / f"{place}.sock"
    until, started = time.monotonic() + START, None
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            try:
                connection.connect(str(path))
                send_frame(connection, text, arrays)
                return receive_frame(connection)
            except OSError:  # nobody listens yet, or it has just ended
                if started is None or started.poll() not in (None, 0):
                    command = [sys.executable, "-m", "cuvee.scale.flower_resident"]
                    started = subprocess.Popen(  # noqa: S603  (our own program, no shell)
                        [*command, str(path), written], start_new_session=True,
                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    )  # fmt: skip
                if time.monotonic() > until:
                    raise
        time.sleep(0.05)


def client_app() -> Any:
    """Return the ClientApp; its node config is described in docs/federated.md."""
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query()  # type: ignore[untyped-decorator,unused-ignore]
    def answer(message: Message, context: Context) -> Message:
        config = {str(k): v for k, v in context.node_config.items()}
        text, arrays = from_records(message.content)
        return Message(to_records(*ask_resident(config, text, arrays)), reply_to=message)

    return app
