"""Ask a server whatever its schema allows, and what it does not: `make test-fuzz`.

Requests are Schemathesis's, with all its checks: with a token, with one of a lower role, with a wrong
one and without any. Some of them are given the names of real targets, columns and sources, so that
they are not refused at the door.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import httpx
import schemathesis
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi import checks

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

CONFIG = """
[checks.positive_data_acceptance]  # values are refused, too, that no schema can know of
expected-statuses = ["2xx", 401, 403, 404, 409, 413, 415, 422, 429, 503]
[checks.negative_data_rejection]
expected-statuses = ["4xx", 503]
"""
NAME, COLUMNS, SOURCES = (
    "new/ward",
    ("age", "dose", "sex", "cost"),
    ("north", "east", "south", "(own sample)"),
)
SECONDS = 20.0  # after which an answer counts as lost
GROWTH = 50.0  # MB
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)


@dataclass
class Fuzz:
    """Send the cases of a schema; count the answers, and keep what was wrong with them."""

    schema: schemathesis.BaseSchema
    tokens: dict[str, str | None]
    how: dict = field(default_factory=dict)  # of each call
    answers: Counter = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def round(self, examples: int, number: int) -> None:
        """Send so many cases to each operation, in each way."""
        for operation in (each.ok() for each in self.schema.get_all_operations()):
            for mode in MODES:
                for who, token in self.tokens.items():
                    for real in (False, True) if who == "adapt" else (False,):
                        self._cases(operation, mode, token, real, examples, number)

    def _cases(self, operation, mode, token, real, examples, number) -> None:
        @seed(number)
        @settings(max_examples=examples, database=None, deadline=None, phases=[Phase.generate],
                  suppress_health_check=list(HealthCheck), verbosity=Verbosity.quiet)  # fmt: skip
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case):
            self._send(case, token, real)

        try:
            send()
        except Exception as error:  # nothing of such an operation can be wrong
            if "Unsatisfiable" not in type(error).__name__:
                raise

    def _send(self, case, token, real) -> None:
        if real:
            make_real(case)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        began = time.monotonic()
        try:
            answered = case.call(headers=headers, **self.how)
        except Exception as error:
            self.answers["no answer"] += 1
            self.wrong.append(f"{case.method} {case.path}: {type(error).__name__}: {error}")
            return
        self.slowest = max(self.slowest, time.monotonic() - began)
        self.answers[str(answered.status_code)] += 1
        if answered.status_code >= 500 and answered.status_code != 503:
            self.wrong.append(f"{case.method} {case.path}: {answered.status_code}")
        try:
            excluded = [*UNTOLD, checks.positive_data_acceptance] if real else UNTOLD
            case.validate_response(answered, headers=headers, excluded_checks=excluded)
        except schemathesis.errors.FailureGroup as error:
            self.wrong.append(f"{case.method} {case.path}: {error}"[:1000])


# The first asks by itself, so that nobody counts it; the second takes a request for wrong whose
# header was wrong before a good one was put in its place. Both are checked in `phases`.
UNTOLD = [checks.ignored_auth, checks.negative_data_rejection]


def make_real(case) -> None:
    """Give a case the names of a real target, of columns and of sources."""
    if (
        isinstance(case.path_parameters, dict)
        and "name" in case.path_parameters
        and case.method != "DELETE"
    ):
        case.path_parameters["name"] = NAME
    if not isinstance(case.body, dict):
        return
    if isinstance(rows := case.body.get("rows"), list):
        case.body["rows"] = [
            dict(zip(COLUMNS, row.values(), strict=False)) if isinstance(row, dict) else row
            for row in rows
        ]
    if isinstance(weights := case.body.get("alpha"), dict):
        values = [
            v for v in weights.values() if isinstance(v, int | float) and not isinstance(v, bool)
        ]
        total = sum(values) or 1.0
        case.body["alpha"] = {name: v / total for name, v in zip(SOURCES, values, strict=False)}
        case.body["target"] = NAME


def memory(process: int) -> float:
    """The MB that a process holds."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def run(requests: int, number: int) -> dict:
    """Fuzz a server of its own until it has had so many requests; what came out."""
    from cuvee.run import adapt
    from serve_builders import TOKENS, serving, visits

    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        visits().to_csv(at / "visits.csv", index=False)
        adapt(at / "visits.csv", at / "run", label="cost", domain="hospital", drop=("sick",),
              targets=NAME, method="uniform")  # fmt: skip
        tokens = "\n".join(f"{role} {token}" for role, token in TOKENS.items())
        with serving(at / "run", env={"CUVEE_TOKEN": tokens}) as (ready, process):
            told = phases(ready["url"], TOKENS["adapt"], at, number)
            config = schemathesis.Config.from_str(CONFIG)
            schema = schemathesis.openapi.from_url(f"{ready['url']}/openapi.json", config=config)
            who = {
                "adapt": TOKENS["adapt"],
                "read": TOKENS["read"],
                "wrong": "not-a-token-of-theirs",
                "none": None,
            }
            fuzz, began = Fuzz(schema, who, {"timeout": SECONDS}), time.monotonic()
            first = None
            for k in cycle([number]):
                fuzz.round(40, k + fuzz.answers.total())
                first = first or memory(process.pid)
                note = {
                    "requests": fuzz.answers.total(),
                    "wrong": len(fuzz.wrong),
                    "MB": memory(process.pid),
                }
                sys.stderr.write(json.dumps(note) + "\n")
                if fuzz.answers.total() >= requests:
                    break
            last = memory(process.pid)
            alive = httpx.get(f"{ready['url']}/healthz", timeout=SECONDS).status_code == 200
            return {
                "requests": fuzz.answers.total(),
                "answers": dict(sorted(fuzz.answers.items())),
                "wrong": sorted({*fuzz.wrong, *told})[:20],
                "slowest_seconds": round(fuzz.slowest, 2),
                "seconds": round(time.monotonic() - began),
                "MB_after_the_first_round": round(first, 1),
                "MB_at_the_end": round(last, 1),
                "alive": alive,
            }


def phases(url: str, token: str, folder: Path, number: int) -> list[str]:
    """Schemathesis's own phases over the whole schema: examples, edges, sequences of requests."""
    (folder / "schemathesis.toml").write_text(CONFIG)
    program = Path(sys.executable).with_name("schemathesis")
    ended = subprocess.run(
        [program, "--no-color", "--config-file", folder / "schemathesis.toml", "run", f"{url}/openapi.json",
         "-H", f"Authorization: Bearer {token}", "-n", "20", "--checks", "all", "--continue-on-failure",
         "--request-timeout", str(SECONDS), "--seed", str(number)],
        capture_output=True, text=True, cwd=folder,
    )  # fmt: skip
    return [] if ended.returncode == 0 else [ended.stdout[-3000:]]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    outcome = run(asked.requests, asked.seed)
    sys.stdout.write(json.dumps(outcome, indent=2) + "\n")
    grown = outcome["MB_at_the_end"] - outcome["MB_after_the_first_round"]
    sys.exit(bool(outcome["wrong"]) or grown > GROWTH or not outcome["alive"])
