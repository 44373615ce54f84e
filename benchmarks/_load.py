"""A client that costs next to nothing: requests are bytes made beforehand, over plain sockets."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import Any

import numpy as np


def request(path: str, content: Any, token: str = "") -> bytes:  # no secret
    """Return a POST with JSON as bytes."""
    body = json.dumps(content).encode()
    head = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"Authorization: Bearer {token}",
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


class Connection:
    """One connection that stays open; each answer must have a length."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, content: bytes) -> tuple[int, bytes]:
        """Return the status and the body of the answer."""
        self._socket.sendall(content)
        got = b""
        while b"\r\n\r\n" not in got:
            got += self._more()
        head, _, body = got.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        while len(body) < int(fields[b"content-length"]):
            body += self._more()
        return int(head.split(b" ", 2)[1]), body

    def close(self) -> None:
        self._socket.close()

    def _more(self) -> bytes:
        part = self._socket.recv(2**20)
        if not part:
            raise ConnectionError("the server closed the connection")
        return part


def latencies(port: int, contents: Sequence[bytes], seconds: float, at_once: int) -> list[float]:
    """Return the seconds of every answer, asked over so many connections for so long."""

    def one(first: int) -> list[float]:
        connection, taken = Connection(port), []
        until = time.perf_counter() + seconds
        for content in cycle([*contents[first:], *contents[:first]]):
            began = time.perf_counter()
            status, body = connection.ask(content)
            taken.append(time.perf_counter() - began)
            assert status == 200, body[:300]
            if time.perf_counter() > until:
                connection.close()
                return taken
        raise AssertionError("there is nothing to ask")

    with ThreadPoolExecutor(at_once) as pool:
        parts = pool.map(one, [k % len(contents) for k in range(at_once)])
        return [t for part in parts for t in part]


def milliseconds(taken: Sequence[float]) -> dict[str, float]:
    """Return the median, and what one answer in a hundred takes longer than."""
    p50, p99 = np.percentile(taken, [50, 99])
    return {"p50_ms": round(1e3 * float(p50), 2), "p99_ms": round(1e3 * float(p99), 2)}
