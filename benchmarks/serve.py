"""`cuvee serve` under load, beside a bare FastAPI endpoint that multiplies one matrix by NumPy.

    cuvee bench serve --json

15 sources and 64 columns, so that a ridge model has 65 parameters. Both services are processes of
their own on this machine, and so is the client, which sends bytes made beforehand over 8
connections. Predictions: the two are asked in turns, 5 times each, with the same rows {column:
value}; `ratio` is the median of ours against the bare one's requests per second (1 row) or rows per
second (1,000). Ours also checks a token, counts, limits rates and bodies, checks every value, and
picks the model. Slider: one connection, a new mixture each time, from the request to the model; by
the learnt map, and with the target's own sample, where the model is solved. New targets: 100
requests at once, each with 20 labelled rows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks._load import Connection, latencies, milliseconds, request

from cuvee.results import OWN
from cuvee.run import adapt, open_run

SOURCES, COLUMNS, ROWS = 15, 64, 300
CONNECTIONS, REPEATS = 8, 5
TARGET, TOKEN = "site 0", "a-token-for-this-benchmark"
NAMES = [f"x{j}" for j in range(COLUMNS)]


def run(quick: bool = False) -> dict[str, Any]:
    """Predictions, the slider, and 100 new targets at once."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        frame = _table()
        frame.to_csv(Path(folder) / "table.csv", index=False)
        adapt(
            Path(folder) / "table.csv",
            path,
            label="y",
            domain="site",
            targets=TARGET,
            method="pooled_own",
        )
        with _ours(path) as ours, _bare() as bare:
            result: dict[str, Any] = {
                "benchmark": "serve",
                "cores": os.cpu_count(),
                "connections": CONNECTIONS,
            }
            for rows, seconds in ((1, 2.0), (1000, 4.0)):
                result[f"{rows} rows" if rows > 1 else "1 row"] = _predictions(
                    ours, bare, frame, rows, 0.3 if quick else seconds
                )
            result["slider"] = _slider(ours, 50 if quick else 500)
            result["new targets"] = _new_targets(ours, path, 10 if quick else 100)
    return result


def _table() -> Any:
    """15 sources and a target, whose effects differ a little."""
    import pandas as pd

    rng = np.random.default_rng(0)
    common, parts = rng.normal(size=COLUMNS), []
    for k in range(SOURCES + 1):
        X = rng.normal(size=(ROWS, COLUMNS)).round(4)
        y = X @ (common + 0.5 * rng.normal(size=COLUMNS)) + rng.normal(size=ROWS)
        parts.append(pd.DataFrame(X, columns=NAMES).assign(y=y.round(4), site=f"site {k}"))
    return pd.concat(parts, ignore_index=True)


def _predictions(ours: int, bare: int, frame: Any, rows: int, seconds: float) -> dict[str, Any]:
    """Return requests per second of both, in turns, and the latencies of all answers."""
    bodies = [{"rows": frame[NAMES][k : k + rows].to_dict("records")} for k in range(16)]
    path = f"/v1/targets/{TARGET.replace(' ', '%20')}/predict"
    sides = {
        "cuvee": (ours, [request(path, body, TOKEN) for body in bodies]),
        "bare": (bare, [request("/predict", body) for body in bodies]),
    }
    taken: dict[str, list[float]] = {side: [] for side in sides}
    rates: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(REPEATS):
        for side, (port, contents) in sides.items():
            latencies(port, contents, seconds / 10, CONNECTIONS)  # warm
            began = time.perf_counter()
            part = latencies(port, contents, seconds, CONNECTIONS)
            rates[side].append(len(part) / (time.perf_counter() - began))
            taken[side] += part
    ratios = [a / b for a, b in zip(rates["cuvee"], rates["bare"], strict=True)]
    return {
        "ratio": round(float(np.median(ratios)), 3),
        "ratio_low": round(min(ratios), 3),
        "ratio_high": round(max(ratios), 3),
        **{
            side: {
                "requests_per_s": round(float(np.median(rates[side])), 1),
                "rows_per_s": round(rows * float(np.median(rates[side]))),
                **milliseconds(taken[side]),
            }
            for side in sides
        },
    }


def _slider(port: int, moves: int) -> dict[str, Any]:
    """Return the milliseconds from a new mixture to its model; a tenth as many come first."""
    rng, names = np.random.default_rng(1), [f"site {k}" for k in range(1, SOURCES + 1)]
    answers: dict[str, Any] = {}
    for kind, columns in (("by the map", names), ("with the own sample", [*names, OWN])):
        connection, taken, trusts = Connection(port), [], set()
        for k in range(moves + moves // 10):
            alpha = dict(zip(columns, rng.dirichlet(np.ones(len(columns))).tolist(), strict=True))
            content = request(
                "/v1/mixtures", {"alpha": alpha, "target": TARGET, "sensitivity": False}, TOKEN
            )
            began = time.perf_counter()
            status, body = connection.ask(content)
            if k >= moves // 10:
                taken.append(time.perf_counter() - began)
            assert status == 200, body[:300]
            model = json.loads(body)
            assert len(model["model"]["parameters"]) == COLUMNS + 1
            trusts.add(model["trust"])
        connection.close()
        answers[kind] = {**milliseconds(taken), "trust": sorted(trusts), "moves": moves}
    return answers


def _new_targets(port: int, path: Path, many: int) -> dict[str, Any]:
    """Return how many new targets were answered, and how many the run has afterwards."""
    frame = _table().drop(columns="site")
    contents = [
        request(
            "/v1/targets",
            {"name": f"new {k}", "rows": frame[20 * k : 20 * k + 20].to_dict("records")},
            TOKEN,
        )
        for k in range(many)
    ]
    connections = [Connection(port) for _ in range(many)]
    began = time.perf_counter()
    with ThreadPoolExecutor(many) as pool:
        answered = list(
            pool.map(lambda both: both[0].ask(both[1])[0], zip(connections, contents, strict=True))
        )
    seconds = time.perf_counter() - began
    accepted = sum(status in (201, 202) for status in answered)
    until = time.monotonic() + 120
    while len(open_run(path).added) < accepted and time.monotonic() < until:
        time.sleep(0.1)
    kept = {*open_run(path).added}
    return {
        "asked": many,
        "answered_2xx": accepted,
        "seconds_to_all_answers": round(seconds, 2),
        "seconds_to_all_models": round(time.perf_counter() - began, 2),
        "lost": accepted - len(kept & {f"new {k}" for k in range(many)}),
    }


@contextmanager
def _ours(path: Path) -> Iterator[int]:
    """A server of the run, when its map is learnt: its port."""
    import urllib.request

    command = [
        sys.executable,
        "-m",
        "cuvee",
        "serve",
        str(path),
        "--port",
        "0",
        "--json",
        "--rate",
        "1000000",
    ]
    with _process(command, {"CUVEE_TOKEN": TOKEN}) as line:
        url = json.loads(line)["url"]
        until = time.monotonic() + 120
        while time.monotonic() < until:
            with urllib.request.urlopen(f"{url}/readyz") as answered:  # noqa: S310  # our own
                if json.loads(answered.read())["map"] == "learnt":
                    break
            time.sleep(0.1)
        yield int(url.rpartition(":")[2])


@contextmanager
def _bare() -> Iterator[int]:
    with _process([sys.executable, "-m", "benchmarks._bare_service", str(COLUMNS)], {}) as line:
        port = int(line)
        until = time.monotonic() + 30
        while time.monotonic() < until:
            try:
                Connection(port).close()
                break
            except OSError:
                time.sleep(0.1)
        yield port


@contextmanager
def _process(command: list[str], variables: dict[str, str]) -> Iterator[str]:
    """A process that says a line when it is ready: that line."""
    root = str(Path(__file__).resolve().parents[1])
    places = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "OMP_NUM_THREADS": "1", **variables, "PYTHONPATH": places}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)  # noqa: S603
    assert process.stdout is not None
    try:
        yield process.stdout.readline()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
