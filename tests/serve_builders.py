"""A small table of visits, and a service of a run of it in this process."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pandas as pd

from cuvee.serve.app import create_app
from cuvee.serve.auth import Tokens
from cuvee.serve.limits import Limits
from cuvee.serve.metrics import Metrics
from cuvee.serve.server import Serving, serve
from cuvee.serve.state import State

EFFECTS = {"north": 2.0, "east": 1.5, "south": -3.0, "<b>west</b>": 1.0, "new/ward": 2.0}
TOKENS = {role: f"token-of-role-{role}" for role in ("read", "predict", "adapt")}


def visits(effects=EFFECTS, rows=24, seed=0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    parts = []
    for name, effect in effects.items():
        age, dose, sex = rng.normal(size=rows), rng.normal(size=rows), rng.choice(["f", "m"], rows)
        score = age + effect * dose + 0.5 * (sex == "f") + 0.5 * rng.normal(size=rows)
        columns = {"age": age, "dose": dose, "sex": sex, "hospital": name}
        parts.append(
            pd.DataFrame({**columns, "cost": score, "sick": np.where(score > 0, "yes", "no")})
        )
    return pd.concat(parts, ignore_index=True).round(3)


class Client:
    """A service in this process, asked one request at a time or many at once.

    Its map is learnt only where that is asked for, because that takes long.
    """

    def __init__(self, path: Path, limits: Limits | None = None, **how) -> None:
        self.path, self.metrics, self.limits = path, Metrics(), limits or Limits()
        self.state = State(path, self.metrics, **{"learn": False, **how})
        tokens = Tokens.read("\n".join(f"{role} {token}" for role, token in TOKENS.items()))
        self.app = create_app(self.state, tokens, self.limits, self.metrics)

    def ask(self, method, path, role="adapt", **how) -> httpx.Response:
        return self.together([(method, path, {"role": role, **how})])[0]

    def get(self, path, role="read", **how) -> httpx.Response:
        return self.ask("GET", path, role, **how)

    def post(self, path, json=None, role="adapt", **how) -> httpx.Response:
        return self.ask("POST", path, role, json=json, **how)

    def together(self, requests) -> list[httpx.Response]:
        async def one(client, method, path, how):
            role, headers = how.pop("role", "adapt"), how.pop("headers", {})
            if role:
                headers = {"Authorization": f"Bearer {TOKENS.get(role, role)}", **headers}
            return await client.request(method, path, headers=headers, **how)

        async def all_of_them():
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await asyncio.gather(*(one(client, *request) for request in requests))

        return asyncio.run(all_of_them())


def served(path: Path, pipe, token: str) -> None:
    """Serve a run in this process, which a test may kill; `pipe` gets what is said when it is ready,
    and the seconds of a processor that it took until then.

    New targets are not waited for, so that many are accepted and not yet made when the kill comes.
    """
    limits = Limits(at_once_seconds=0.05)
    began = time.process_time()

    def ready(about):
        pipe.send({**about, "seconds": time.process_time() - began})

    serve(Serving(path, port=0, limits=limits), ready, pipe.send, {"CUVEE_TOKEN": token})


@contextmanager
def serving(run, *words, env=None, **how):
    """A server on a free port; what it said when it was ready, and its process."""
    command = [
        sys.executable,
        "-m",
        "cuvee",
        "serve",
        str(run),
        "--port",
        "0",
        "--json",
        *map(str, words),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, **(env or {})}, **how)  # fmt: skip
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield json.loads(line), process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
