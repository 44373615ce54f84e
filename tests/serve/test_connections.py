"""Connections that ask for nothing: they are closed in time, and keep nobody else out."""

from __future__ import annotations

import json
import logging
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest
import uvicorn

from cuvee.errors import OptionError
from cuvee.serve.auth import Tokens
from cuvee.serve.door import Connection, Door, Listening, places
from cuvee.serve.limits import Limits
from cuvee.serve.metrics import Metrics
from cuvee.serve.seldom import MOST, Seldom
from cuvee.serve.server import Serving, _config, _listen
from cuvee.serve.state import State
from serve_builders import TOKENS

HEALTHY = Path(__file__).resolve().parents[2] / "deploy" / "healthy.py"
BEGUN = b"GET / HTTP/1.1\r\nHost: x\r\n"
ALIVE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
UPLOAD = (
    b"POST /v1/targets/new%2Fward/predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Content-Length: 1000\r\nAuthorization: Bearer " + TOKENS["predict"].encode() + b"\r\n\r\n"
)


@contextmanager
def listening(path, limits, **how):
    """A server with real sockets in a thread of this process; its port and its door."""
    serving, metrics, door = Serving(path, limits=limits, **how), Metrics(), Door(limits)
    serving.check()
    state = State(path, metrics, learn=False, read_only=True)
    tokens = Tokens.read("\n".join(f"{role} {token}" for role, token in TOKENS.items()))
    server = uvicorn.Server(_config(serving, state, tokens, metrics, door))
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    sockets = [Listening(listener, door)]
    thread = threading.Thread(target=server.run, args=(sockets,))
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield port, door
    finally:
        server.should_exit = True
        thread.join()


def connected(port, *parts, seconds=10.0):
    client = socket.create_connection(("127.0.0.1", port), timeout=seconds)
    for part in parts:
        client.sendall(part)
    return client


def ends(client):
    """What a connection still sends until it is closed by the server."""
    content = b""
    with suppress(ConnectionError):
        while part := client.recv(2**16):
            content += part
    return content


def asks(client):
    """Whether a connection is answered that it is alive."""
    client.sendall(ALIVE)
    content = b""
    while b"alive" not in content and (part := client.recv(2**16)):
        content += part
    return b"200 OK" in content


def wait_until(true, seconds=10.0):
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


def answered(port):
    return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=5).status_code


def test_headers_that_do_not_end(made):
    limits = Limits(header_seconds=0.5)
    upload = b"POST /v1/targets HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
    with listening(made["cost"], limits) as (port, door), ExitStack() as stack:
        good = stack.enter_context(connected(port))
        kept = stack.enter_context(connected(port))
        assert asks(kept)  # and is idle then
        bad = [connected(port), connected(port, BEGUN), connected(port)]
        assert asks(bad[-1])
        bad[-1].sendall(BEGUN)
        dripping = [connected(port, BEGUN), connected(port, upload)]  # headers, and a body
        for client in (*bad, *dripping):
            stack.enter_context(client)
        began = time.monotonic()
        while time.monotonic() - began < 2.5:
            assert asks(good)
            for client in dripping:
                with suppress(ConnectionError):
                    client.sendall(b"X-More: 1\r\n")
            time.sleep(0.2)
        for client in (*bad, *dripping):
            client.settimeout(0.5)
            ends(client)  # without a timeout
        assert asks(kept) and len(door.open) == 2


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (b"Authorization: Bearer another-token-of-somebody\r\n", b"'Authorization' is there more"),
        (b"Transfer-Encoding: chunked\r\n", b"'Transfer-Encoding' exclude each other"),
        (b"Content-Type: text/csv\r\n", b"'Content-Type' is there more"),
    ],
)
@pytest.mark.parametrize("path", [b"POST /v1/targets/new%2Fward/predict", b"GET /healthz"])
def test_headers_that_contradict_each_other(made, path, more, words):
    smuggled = b"0\r\n\r\n" + ALIVE  # what another reader of these headers takes for a request
    head = UPLOAD.partition(b"\r\n")[2][:-2].replace(b": 1000", b": %d" % len(smuggled))
    with listening(made["cost"], Limits()) as (port, _):
        for headers in (head + more, more + head):
            first = path + b" HTTP/1.1\r\n" + headers
            with connected(port, first + b"\r\n" + smuggled) as client:
                told = ends(client)  # the connection is closed: nothing of the rest is a request
            assert told.startswith(b"HTTP/1.1 400 ") and told.count(b"HTTP/1.1 ") == 1, told
            assert words in told or b"Invalid HTTP request" in told, told
        assert answered(port) == 200


def test_an_answer_to_head_has_no_body(made):
    with listening(made["cost"], Limits()) as (port, _), connected(port) as client:
        client.sendall(ALIVE.replace(b"GET", b"HEAD"))
        time.sleep(0.2)
        heading = client.recv(2**16)
        assert b"200 OK" in heading and b"content-length: 18" in heading
        assert heading.endswith(b"\r\n\r\n") and asks(client)


def test_answers_that_nobody_reads(made):
    limits = Limits(body_seconds=0.5, idle_seconds=1, header_seconds=5)
    with listening(made["cost"], limits) as (port, door), socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", port))
        ask = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
        client.sendall(ask * 300)
        wait_until(lambda: door.open)
        wait_until(lambda: not door.open)


def test_beyond_the_most_connections_idle_ones_make_room(made, caplog):
    limits = Limits(connections=3)
    with listening(made["cost"], limits) as (port, door), ExitStack() as stack:
        for content in (b"", BEGUN, ALIVE, BEGUN, b""):
            stack.enter_context(connected(port, content))
            assert answered(port) == 200
            wait_until(lambda: len(door.open) <= 3)
        for i in range(3):  # they are at work, and stay
            stack.enter_context(connected(port, UPLOAD, b"{"))
            wait_until(lambda i=i: len(door.open) - sum(map(len, door._idle.values())) == i + 1)
        with connected(port, ALIVE) as refused:
            assert ends(refused) == b""
        assert len(door.open) == 3 and "places for connections" in caplog.text
        stack.close()
        wait_until(lambda: not door.open)
        assert answered(port) == 200


def test_who_holds_most_gives_way_first():
    door, pairs = Door(Limits(connections=4)), [socket.socketpair() for _ in range(4)]
    names = ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2"]
    each = [Connection(ours, door, name) for (ours, _), name in zip(pairs, names, strict=True)]
    for one in each:
        door.came(one)
    door.work(each[1])
    assert door.full and door.make_room() and not door.full
    pairs[2][1].settimeout(5)
    assert pairs[2][1].recv(1) == b""  # the oldest idle one of 10.0.0.2, and no other
    for i in (0, 1, 3):
        pairs[i][1].setblocking(False)
        with pytest.raises(BlockingIOError):
            pairs[i][1].recv(1)
    for one in each:
        one.close()
    assert not door.open and not door.full and not door.make_room()
    for _, theirs in pairs:
        theirs.close()


def test_places_follow_the_files_that_may_be_open(monkeypatch):
    for files, many in ((100, 50), (300, 172), (1024, 896), (10**6, 2000), (-1, 2000)):
        monkeypatch.setattr("resource.getrlimit", lambda kind, n=files: (n, n))
        assert places(Limits()) == many


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    for name in ("one", "other"):
        made = subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key",
             "-out", f"{name}.pem", "-days", "2", "-subj", "/CN=127.0.0.1"],
            cwd=folder, capture_output=True,
        )  # fmt: skip
        if made.returncode:
            pytest.skip("openssl makes no certificate here")
    (folder / "junk.pem").write_text("this is no certificate\n")
    lock = [
        "openssl",
        "rsa",
        "-aes128",
        "-passout",
        "pass:x",
        "-in",
        "one.key",
        "-out",
        "locked.key",
    ]
    subprocess.run(lock, cwd=folder, capture_output=True, check=True)
    return folder


def test_the_container_is_healthy_by_http_and_by_https(made, certificate):
    def asked(port):
        return subprocess.run([sys.executable, HEALTHY, str(port)], capture_output=True).returncode

    files = {"certificate": certificate / "one.pem", "key": certificate / "one.key"}
    for how in ({}, files):
        with listening(made["cost"], Limits(), **how) as (port, _):
            assert asked(port) == 0
        assert asked(port) == 1


def test_handshakes_that_do_not_end(made, certificate):
    files = {"certificate": certificate / "one.pem", "key": certificate / "one.key"}
    limits = Limits(header_seconds=0.5, connections=3)
    with listening(made["cost"], limits, **files) as (port, door), ExitStack() as stack:
        trusting = ssl.create_default_context(cafile=certificate / "one.pem")
        trusting.check_hostname = False

        def alive():
            with trusting.wrap_socket(connected(port)) as client:
                return asks(client)

        clients = [connected(port), connected(port, b"\x16\x03\x01"), connected(port, BEGUN)]
        half = trusting.wrap_socket(connected(port))  # and then no header
        for client in (*clients, half):
            stack.enter_context(client)
        assert alive() and len(door.open) <= 3
        for client in (*clients, half):
            ends(client)
        assert alive()


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (("junk.pem", "junk.pem"), "junk.pem"),
        (("one.pem", "junk.pem"), "junk.pem"),
        (("one.pem", "other.key"), "does not belong"),
        (("one.pem", "locked.key"), "passphrase"),
    ],
)
def test_certificates_that_cannot_be_used(certificate, files, words):
    pem, key = (certificate / name for name in files)
    with pytest.raises(OptionError, match=words) as refused:
        Serving(Path("run"), certificate=pem, key=key).check()
    assert "--certificate" in str(refused.value) and "--key" in str(refused.value)


def test_addresses_that_cannot_be_listened_at():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OptionError) as refused:
            _listen("127.0.0.1", port)
    assert str(refused.value) == (
        f"another program listens at 127.0.0.1, port {port} already: end it, or give another --port"
    )
    with pytest.raises(OptionError) as refused:
        _listen("192.0.2.1", 8765)  # which no machine has
    sentence = str(refused.value)
    assert sentence.startswith("nothing can listen at 192.0.2.1, port 8765 (")
    assert sentence.count("192.0.2.1") == 1


SCRIPT = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
from pathlib import Path
from cuvee.serve.limits import Limits
from cuvee.serve.server import Serving, serve
serving = Serving(Path(sys.argv[1]), port=0, read_only=True, limits=Limits(header_seconds=2.0))
serve(serving, lambda about: print(json.dumps(about), flush=True), lambda note: None)
"""


def test_more_connections_than_files(made, tmp_path):
    with (tmp_path / "err").open("w+b") as errors, ExitStack() as stack:
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(made["cost"])], stdout=subprocess.PIPE,
                                   stderr=errors, env={**os.environ, "CUVEE_TOKEN": "x" * 20})  # fmt: skip
        stack.callback(process.wait)
        stack.callback(process.kill)
        stack.enter_context(process.stdout)
        port = int(json.loads(process.stdout.readline())["url"].rpartition(":")[2])
        clients = [stack.enter_context(connected(port, BEGUN)) for _ in range(320)]
        for _ in range(10):
            began = time.monotonic()
            assert answered(port) == 200 and time.monotonic() - began < 2.0
            with suppress(ConnectionError):
                for client in clients[::7]:
                    client.sendall(b"X-More: 1\r\n")
        files = (
            len(list(Path(f"/proc/{process.pid}/fd").iterdir())) if sys.platform == "linux" else 0
        )
        assert files < 200
        for client in clients:
            ends(client)
        assert answered(port) == 200
        assert errors.seek(0, os.SEEK_END) < 10_000


def test_the_log_says_the_same_seldom(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    seldom, lines = Seldom(), []
    logger = logging.getLogger("test of seldom")
    logger.propagate = False
    logger.addFilter(seldom)
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger.addHandler(handler)
    for i in range(1000):
        logger.warning("no file is left, %d", i)
    logger.warning("another line")
    assert len(lines) == MOST + 1
    for i in range(1001):
        now[0] = 61.0 * (i // 1000)
        logger.warning("no file is left, %s", i)
    assert lines[-1] == "no file is left, 1000 (and 990 times more before this)"
