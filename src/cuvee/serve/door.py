"""Connections: how many there are, and how long one may stay that asks for nothing.

A connection without a request under way has a time by which it is closed. Where all places are
taken, the oldest of these makes room for a new one, so that nobody keeps others out by holding
connections open.
"""

from __future__ import annotations

import errno
import logging
import os
import resource
import socket
import time
from contextlib import suppress
from math import inf
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from cuvee.serve.limits import Limits

PATIENCE = 1.0  # seconds for a connection that makes room to be closed
LEAVING = 8  # connections that make room at a time; so many may be open beyond the most
OWN_FILES = 128  # that are kept free for the models, the jobs and what else the server opens
FULL = "all %d places for connections are taken: idle ones are closed, or new ones refused"
log = logging.getLogger("cuvee.serve")


class Connection(socket.socket):
    """The socket of a client, which tells the door when it is closed."""

    def __init__(self, accepted: socket.socket, door: Door, address: str) -> None:
        kind = accepted.family, accepted.type, accepted.proto
        super().__init__(*kind, fileno=accepted.detach())
        self.door, self.address = door, address
        self.transport: Any = None  # until a request may come, which by TLS takes a handshake
        self.unread = inf  # bytes of an answer, when they were counted last

    def close(self) -> None:
        self.door.gone(self)
        super().close()

    def end(self) -> None:
        """Have it closed, whatever state it is in."""
        if self.transport is not None:
            self.transport.abort()
            return
        with suppress(OSError):  # it is closed at the other end
            self.shutdown(socket.SHUT_RDWR)

    def reads(self) -> bool:
        """Return whether more of an answer was read since this was asked last."""
        before = self.unread
        self.unread = 0 if self.transport is None else self.transport.get_write_buffer_size()
        return 0 < self.unread < before


class Door:
    """Know all connections of a process, and until when those may stay that ask for nothing."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.most = limits, places(limits)
        self.open: dict[int, Connection] = {}  # by the number of their file
        # address -> its connections without a request under way, the oldest first -> the time by
        # which each is closed
        self._idle: dict[str, dict[Connection, float]] = {}
        # those that were told to end and are not closed yet -> when they were told
        self._leaving: dict[Connection, float] = {}

    def came(self, connection: Connection) -> None:
        """Note a new connection."""
        self.open[connection.fileno()] = connection
        self.wait(connection, self.limits.header_seconds)

    def gone(self, connection: Connection) -> None:
        """Forget a connection that is closed now."""
        self.open.pop(connection.fileno(), None)
        self._leaving.pop(connection, None)
        self.work(connection)

    def wait(self, connection: Connection, seconds: float) -> None:
        """Close a connection after so many seconds, unless it is told to `work` before."""
        self.work(connection)
        idle = self._idle.setdefault(connection.address, {})
        idle[connection] = time.monotonic() + seconds

    def work(self, connection: Connection) -> None:
        """Let a connection stay: a request is under way."""
        idle = self._idle.get(connection.address)
        if idle is not None and idle.pop(connection, None) is not None and not idle:
            del self._idle[connection.address]

    @property
    def full(self) -> bool:
        """Return whether there is no place for another connection."""
        return len(self.open) - len(self._leaving) >= self.most

    @property
    def crowded(self) -> bool:
        """Return whether connections that make room have to be closed before another may come."""
        return len(self._leaving) >= LEAVING

    def make_room(self) -> bool:
        """Close the oldest idle connection of whoever has most; return whether there was one."""
        if not self._idle:
            return False
        most = max(self._idle.values(), key=lambda idle: len(idle))
        self._end(next(iter(most)))
        return True

    async def sweep(self) -> None:
        """Close the connections whose time is over, unless their answers are being read."""
        now = time.monotonic()
        late = [one for idle in self._idle.values() for one, until in idle.items() if until <= now]
        # who has not left after so long is not waited for
        self._leaving = {one: told for one, told in self._leaving.items() if now - told < PATIENCE}
        for one in late:
            if one.reads():
                self.wait(one, self.limits.body_seconds)
            else:
                self._end(one)

    def _end(self, connection: Connection) -> None:
        self.work(connection)
        self._leaving[connection] = time.monotonic()
        connection.end()


class Listening(socket.socket):
    """The socket that a server listens at; it gives away as many connections as there are places.

    asyncio takes new connections by `accept`, and comes again where that raises BlockingIOError.
    """

    def __init__(self, listening: socket.socket, door: Door) -> None:
        kind = listening.family, listening.type, listening.proto
        super().__init__(*kind, fileno=listening.detach())
        self._door = door
        self._spare = os.open(os.devnull, os.O_RDONLY)  # given up where no file is left

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a new connection, for which there may have to be made room."""
        while True:
            if self._door.crowded:
                raise BlockingIOError
            try:
                accepted, address = super().accept()
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
                self._refuse()
                raise BlockingIOError from None
            if self._door.full:
                log.warning(FULL, self._door.most)
                if not self._door.make_room():
                    accepted.close()
                    continue
            connection = Connection(accepted, self._door, str(address[0]))
            self._door.came(connection)
            return connection, address

    def close(self) -> None:
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1
        super().close()

    def _refuse(self) -> None:
        """Refuse the next connection, with the file that is kept for this."""
        log.warning("no file is left for new connections: they are refused (ulimit -n)")
        self._door.make_room()
        if self._spare < 0:
            time.sleep(0.01)  # nothing else can be done
        else:
            os.close(self._spare)
        self._spare = -1
        with suppress(OSError):  # somebody else took the file, or the client has gone
            super().accept()[0].close()
        with suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY)


class _Watched:
    """What the door needs to know of each connection, beside what uvicorn does."""

    door: Door
    cycle: Any  # of uvicorn: the request that came last
    flow: Any  # of uvicorn: whether writing is paused
    _place: Connection | None = None
    _begun = True  # whether bytes of a request came, or are waited for, whose headers do not end

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)  # type: ignore[misc]
        place = self.door.open.get(transport.get_extra_info("socket").fileno())
        if place is not None:
            place.transport, self._place = transport, place
            self.door.wait(place, self.door.limits.header_seconds)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)  # type: ignore[misc]
        place = self._place
        if place is None:
            return
        if self._under_way:
            if not self.flow.write_paused:
                self.door.work(place)
        elif not self._begun:
            self._begun = True
            self.door.wait(place, self.door.limits.header_seconds)

    def on_response_complete(self) -> None:
        super().on_response_complete()  # type: ignore[misc]
        if self._place is not None and not self._under_way:  # else the next request came, too
            self._begun, limits = False, self.door.limits
            # uvicorn closes it before, unless it waits for the answer to be read
            self.door.wait(self._place, limits.idle_seconds + limits.body_seconds)

    def pause_writing(self) -> None:
        super().pause_writing()  # type: ignore[misc]
        if self._place is not None:  # the client does not read its answer
            self._place.unread = inf
            self.door.wait(self._place, self.door.limits.body_seconds)

    def resume_writing(self) -> None:
        super().resume_writing()  # type: ignore[misc]
        if self._place is not None and self._under_way:
            self.door.work(self._place)

    @property
    def _under_way(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete


def protocol(door: Door) -> Any:
    """Return the protocol that uvicorn would choose, watched by the door."""
    return type("Protocol", (_Watched, AutoHTTPProtocol), {"door": door})


def places(limits: Limits) -> int:
    """Return how many connections a process may have: the files that it may open bound them."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return limits.connections
    return max(1, min(limits.connections, max(files - OWN_FILES, files // 2)))
