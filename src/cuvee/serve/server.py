"""A process that serves a run: the socket, the token, and how it begins and ends."""

from __future__ import annotations

import errno
import math
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cuvee.errors import MissingExtra, OptionError

try:
    import uvicorn

    from cuvee.serve.app import create_app
    from cuvee.serve.auth import Tokens, tokens_of
    from cuvee.serve.door import Door, Listening, protocol
    from cuvee.serve.limits import Limits
    from cuvee.serve.metrics import Metrics
    from cuvee.serve.seldom import say_seldom
    from cuvee.serve.state import State, check_finished, home
    from cuvee.serve.workers import serve_together
except ModuleNotFoundError as _error:
    if (_error.name or "").partition(".")[0] == "cuvee":
        raise
    raise MissingExtra(
        "cuvee serve needs FastAPI and uvicorn: pip install 'cuvee[serve]'"
    ) from None

MOST_WORKERS = 64
GRACE = 10  # seconds that requests have to end after the process was told to
OPEN_ADDRESS = (
    "other machines can reach this address, and without --certificate they send their tokens "
    "unencrypted"
)


@dataclass(frozen=True)
class Serving:
    """What a server is asked to be."""

    run: Path
    host: str = "127.0.0.1"
    port: int = 8765
    token_file: Path | None = None
    table: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    read_only: bool = False
    workers: int = 1  # processes
    hypothesis: str | None = None  # code that the run names, and that may be imported
    limits: Limits = field(default_factory=Limits)

    def check(self) -> None:
        """Raise `OptionError` where options cannot be meant."""
        if not 0 <= self.port < 2**16:
            raise OptionError(f"--port must be from 0 to 65535; got {self.port}")
        if not 1 <= self.workers <= MOST_WORKERS:
            raise OptionError(f"--workers must be from 1 to {MOST_WORKERS}; got {self.workers}")
        if (self.certificate is None) != (self.key is None):
            raise OptionError("--certificate and --key belong together: give both, or neither")
        for option, file in (("--certificate", self.certificate), ("--key", self.key)):
            if file is not None and not file.is_file():
                raise OptionError(f"{option} {file}: there is no such file")
        if self.certificate is not None and self.key is not None:
            _check_pair(self.certificate, self.key)

    @property
    def exposed(self) -> bool:
        """Return whether tokens may travel between machines unencrypted."""
        if self.certificate is not None or self.host == "localhost":
            return False
        with suppress(ValueError):
            return not ip_address(self.host).is_loopback
        return True


def serve(
    serving: Serving,
    ready: Callable[[dict[str, Any]], None],
    note: Callable[[str], None],
    environment: Mapping[str, str] | None = None,
) -> None:
    """Serve a run until the process is told to end.

    `ready` is called with the address, and with the token where one was made, once all models are
    in memory; `note` with what is worth knowing.
    """
    serving.check()
    check_finished(serving.run, serving.hypothesis)
    listening = _listen(serving.host, serving.port)
    try:
        tokens, shown = _tokens(serving, os.environ if environment is None else environment)

        def said(about: dict[str, Any]) -> None:
            if about["why_not"]:
                note(f"no new mixtures and no new targets can be made: {about['why_not']}")
            if serving.exposed:
                note(OPEN_ADDRESS)
            url = _url(serving, listening)
            ready({"url": url, "token": shown, "targets": about["targets"]})

        work = partial(_serve, serving, tokens)
        if serving.workers > 1:
            serve_together(work, serving.workers, listening, said)
        else:
            work(listening, said, lambda server: None)
    finally:
        listening.close()


def _serve(
    serving: Serving,
    tokens: Tokens,
    listening: socket.socket,
    ready: Callable[[dict[str, Any]], None],
    began: Callable[[Any], None],
) -> None:
    """Serve in this process, which may be one of several."""
    say_seldom()
    metrics, door = Metrics(), Door(serving.limits)
    how: Any = {"hypothesis": serving.hypothesis, "read_only": serving.read_only}
    state = State(serving.run, metrics, serving.table, **how)
    server = uvicorn.Server(_config(serving, state, tokens, metrics, door))
    began(server)
    ready({"why_not": state.why_not, "targets": len(state.run.targets)})
    server.run(sockets=[Listening(listening, door)])


def _config(
    serving: Serving, state: State, tokens: Tokens, metrics: Metrics, door: Door
) -> uvicorn.Config:
    return uvicorn.Config(
        create_app(state, tokens, serving.limits, metrics),
        http=protocol(door),
        loop="asyncio",  # others take connections from the system by themselves
        callback_notify=door.sweep,
        timeout_notify=0,  # as often as uvicorn looks, each second
        ssl_certfile=serving.certificate,
        ssl_keyfile=serving.key,
        access_log=False,  # addresses hold names of targets
        log_config=None,
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        timeout_keep_alive=math.ceil(serving.limits.idle_seconds),
        timeout_graceful_shutdown=GRACE,
    )


def _check_pair(certificate: Path, key: Path) -> None:
    """Raise `OptionError` unless these hold a certificate and its private key."""

    def locked() -> str:
        raise OptionError(
            f"--key {key} asks for a passphrase: give --certificate {certificate} and a key "
            "without one"
        )

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, locked)
    except OptionError:
        raise
    except (OSError, ValueError) as error:
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            problem = "the key does not belong to the certificate; give two that do"
        elif isinstance(error, ssl.SSLError):
            problem = "they must hold a certificate and its private key, in PEM; give such files"
        else:
            problem = f"they cannot be read ({error}); give other files"
        raise OptionError(f"--certificate {certificate} and --key {key}: {problem}") from None


def _tokens(serving: Serving, environment: Mapping[str, str]) -> tuple[Tokens, str | None]:
    folder = None if serving.read_only else home(serving.run)
    return tokens_of(serving.token_file, environment, folder)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=2048)
        # connections inherit it; without it an answer in two parts waits 40 ms for the first to be
        # acknowledged, because asyncio sets it only where the protocol is named
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise OptionError(
                f"another program listens at {host}, port {port} already: end it, or give another "
                "--port"
            ) from None
        why = (error.strerror or str(error)).partition(" (while")[0]  # Python adds the address
        raise OptionError(
            f"nothing can listen at {host}, port {port} ({why}): give another --host or --port"
        ) from None


def _url(serving: Serving, listening: socket.socket) -> str:
    host = f"[{serving.host}]" if ":" in serving.host else serving.host
    scheme = "http" if serving.certificate is None else "https"
    return f"{scheme}://{host}:{listening.getsockname()[1]}"
