"""`cuvee serve` as a process of its own: docs/serve.md, kills, shutdown, TLS."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import ssl
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest

from cuvee.data.synthetic import visits as sample
from cuvee.run import adapt, open_run
from serve_builders import served, serving, visits

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
LINES = [
    line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()
]
TOKEN = "a-token-for-this-test"
SERVERS = multiprocessing.get_context("forkserver")
SERVERS.set_forkserver_preload(
    [
        "cuvee.serve.server",
        "serve_builders",
        "pandas",
        "pyarrow.csv",
        "pyarrow.parquet",
        "sklearn.utils",
    ]
)


def body(name, seed=0):
    frame = visits({"ward": 2.5}, rows=12, seed=seed)[["age", "dose", "sex", "cost"]]
    return {"name": name, "rows": json.loads(frame.to_json(orient="records"))}


@pytest.fixture
def path(tmp_path):
    visits().to_csv(tmp_path / "visits.csv", index=False)
    adapt(tmp_path / "visits.csv", tmp_path / "run", label="cost", domain="hospital", drop=("sick",),
          targets="new/ward", method="uniform")  # fmt: skip
    return tmp_path / "run"


def test_the_page_and_a_graceful_end(tmp_path):
    sample().to_csv(tmp_path / "visits.csv", index=False)
    adapt(tmp_path / "visits.csv", tmp_path / "run", label="readmitted", domain="hospital", drop=("visit",),
          targets=("fir", "oak"), labelled=20, method="uniform")  # fmt: skip
    with serving("run", cwd=tmp_path) as (ready, process):
        shell = {**os.environ, "URL": ready["url"], "TOKEN": ready["token"]}
        assert sum("curl" in line for line in LINES) >= 10
        for line in LINES:
            ended = subprocess.run(
                ["bash", "-c", line], cwd=tmp_path, env=shell, capture_output=True, text=True
            )
            assert ended.returncode == 0, (line, ended)
            if "predict" in line:
                assert len(json.loads(ended.stdout)["predictions"]) == (
                    5 if "text/csv" in line else 1
                )
            if "mixtures" in line:
                assert json.loads(ended.stdout)["certificate"]["proven"] in (True, False)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
        assert "Traceback" not in errors and ready["token"] not in errors
    assert open_run(tmp_path / "run").targets == ("fir", "oak")


@contextmanager
def forked(path):
    """A server in a child with all modules loaded, so that it starts at once; what it said, its kill.

    It is a child of a process without threads: one of this process may hang at locks of threads
    that it does not have.
    """
    ours, theirs = SERVERS.Pipe()
    child = SERVERS.Process(target=served, args=(path, theirs, TOKEN))
    child.start()
    try:
        assert ours.poll(60)
        yield ours.recv(), child.kill
    finally:
        child.kill()
        child.join()


def _page(url, headers, offset):
    answered = httpx.get(
        f"{url}/v1/targets?limit=1000&offset={offset}", headers=headers, timeout=60
    )
    return answered.raise_for_status().json()


def killed_while_adding(path, rounds, seed=0):
    """Kill a server again and again while targets are added; all that it accepted are there.

    Returns the seconds of a processor that each start took, whatever else the machine was doing, and
    how many targets were accepted.
    """
    accepted, headers, starts = [], {"Authorization": f"Bearer {TOKEN}"}, []
    rng = np.random.default_rng(seed)
    for kill in range(rounds):
        with forked(path) as (ready, end):
            starts.append(ready["seconds"])
            timer = threading.Timer(rng.uniform(0.0, 0.5), end)
            if kill % 3 == 0:
                timer.start()  # else when the first target was accepted
            with httpx.Client(base_url=ready["url"], headers=headers, timeout=20) as client:
                for i in range(1000):
                    try:
                        answered = client.post("/v1/targets", json=body(f"{kill}.{i}", seed=i))
                        if answered.status_code in (201, 202):
                            accepted.append(f"{kill}.{i}")
                            if timer.ident is None:
                                timer.start()
                        client.get("/v1/targets").raise_for_status()
                    except httpx.TransportError:
                        break
        open_run(path)  # whole at any moment
    with forked(path) as (ready, _):
        url, until = ready["url"], time.monotonic() + 120
        while time.monotonic() < until:
            text = httpx.get(f"{url}/metrics", headers=headers).text
            if 'state="queued"} 0' in text and 'state="running"} 0' in text:
                break
            time.sleep(0.05)
        listed = []
        while len(listed) < (total := _page(url, headers, len(listed))["total"]):
            listed += _page(url, headers, len(listed))["targets"]
    run = open_run(path)
    assert total == len(listed) and len(accepted) >= rounds // 2
    assert {*accepted} <= {*run.added} and {t["name"] for t in listed} == {*run.targets}
    assert not list(path.rglob("*.part"))
    run.report()
    return starts, len(accepted)


@pytest.mark.slow
def test_a_kill_loses_nothing_that_was_accepted(path):
    killed_while_adding(path, 2, seed=4)


@pytest.mark.slow
def test_many_kills_lose_nothing_that_was_accepted(path):
    starts, accepted = killed_while_adding(path, 300)
    first, middle, last = starts[0], np.median(starts), max(starts[1:])
    print(
        f"{accepted} accepted; starts: first {first:.2f} s, median {middle:.2f}, longest {last:.2f}"
    )
    assert middle <= 3.0


def started_anew(run, rounds=3):
    """The seconds of `cuvee serve` from its command line to its address, and to its /readyz.

    It is killed each time, and starts with all imports.
    """
    seconds = []
    for _ in range(rounds):
        began = time.monotonic()
        with serving(run, env={"CUVEE_TOKEN": TOKEN}) as (ready, process):
            said = time.monotonic() - began
            assert httpx.get(f"{ready['url']}/readyz", timeout=60).json()["status"] == "ready"
            seconds.append((said, time.monotonic() - began))
            process.kill()
    return seconds


@pytest.mark.slow
def test_starts_from_the_command_line(path):
    for said, answered in started_anew(path):
        busy = os.getloadavg()[0] / (os.cpu_count() or 1)
        print(
            f"address after {said:.2f} s, /readyz after {answered:.2f} s; {busy:.1f} jobs per core"
        )


@pytest.mark.slow
def test_tls_and_read_only(path, tmp_path):
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem",
         "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        cwd=tmp_path, capture_output=True,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("openssl makes no certificate here")
    files = ("--certificate", tmp_path / "cert.pem", "--key", tmp_path / "key.pem", "--read-only")
    with serving(path, *files) as (ready, _):
        assert ready["url"].startswith("https://127.0.0.1:") and ready["token"]
        trusted = ssl.create_default_context(cafile=tmp_path / "cert.pem")
        headers = {"Authorization": f"Bearer {ready['token']}"}
        with httpx.Client(base_url=ready["url"], headers=headers, verify=trusted) as client:
            assert client.get("/v1/targets").status_code == 200
            assert client.post("/v1/targets", json=body("ward")).status_code == 403
    assert not (path / "serve").exists()


@pytest.mark.slow
def test_several_processes_share_a_run_and_end_together(path):
    with serving(path, "--workers", 2, env={"CUVEE_TOKEN": TOKEN}) as (ready, process):
        headers = {"Authorization": f"Bearer {TOKEN}"}
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True
        ).stdout.split()
        assert len(children) >= 2
        for i in range(6):  # each request is a connection of its own, which any process may take
            answered = httpx.post(
                f"{ready['url']}/v1/targets", json=body(f"ward {i}", i), headers=headers, timeout=60
            )
            assert answered.status_code in (201, 202)
        until = time.monotonic() + 60
        while len(open_run(path).added) < 6 and time.monotonic() < until:
            time.sleep(0.1)
        for _ in range(10):  # whoever answers knows all of them
            listed = httpx.get(f"{ready['url']}/v1/targets", headers=headers, timeout=60).json()
            assert listed["total"] == 7
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0 and "Traceback" not in errors
        until = time.monotonic() + 20  # one of them keeps track of the others, and ends after them
        while any(Path(f"/proc/{child}").exists() for child in children):
            assert time.monotonic() < until
            time.sleep(0.1)
