"""Counts and times of this process, as the text that Prometheus reads."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from itertools import accumulate
from threading import Lock

EDGES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TYPE = "text/plain; version=0.0.4; charset=utf-8"
HELP = {
    "cuvee_requests_total": ("counter", "Requests that were answered."),
    "cuvee_request_seconds": ("histogram", "Seconds from a request to its answer."),
    "cuvee_requests_under_way": ("gauge", "Requests that are under way."),
    "cuvee_predicted_rows_total": ("counter", "Rows that were predicted."),
    "cuvee_batches_total": ("counter", "Batches that requests were answered in."),
    "cuvee_batched_requests_total": ("counter", "Requests that were answered in batches."),
    "cuvee_targets": ("gauge", "Targets that have a model."),
    "cuvee_jobs": ("gauge", "Jobs, by state."),
}


class Metrics:
    """Numbers by name and labels; routes are labelled by their pattern, never by what was sent."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: defaultdict[tuple[str, tuple[tuple[str, str], ...]], float] = defaultdict(
            float
        )
        # route -> answers between two edges, the last beyond all
        self._times: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(EDGES) + 1))

    def add(self, name: str, by: float = 1.0, **labels: str) -> None:
        """Add to a number."""
        with self._lock:
            self._values[name, tuple(sorted(labels.items()))] += by

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answer, and its time."""
        self.add("cuvee_requests_total", route=route, method=method, status=str(status))
        self.add("cuvee_request_seconds_sum", seconds, route=route)
        with self._lock:
            self._times[route][bisect_left(EDGES, seconds)] += 1

    def text(self, gauges: Mapping[str, Mapping[str, float]]) -> str:
        """Return all numbers, and those of `gauges`: name -> state -> value; "" is no state.

        >>> print(Metrics().text({"cuvee_targets": {"": 3}}).splitlines()[-3])
        cuvee_targets 3
        """
        with self._lock:
            values = dict(self._values)
            times = {route: tuple(counts) for route, counts in self._times.items()}
        for route, counts in times.items():  # each bucket counts what the ones before it do, too
            for edge, total in zip(
                (*map("{:g}".format, EDGES), "+Inf"), accumulate(counts), strict=True
            ):
                values["cuvee_request_seconds_bucket", (("le", edge), ("route", route))] = total
            values["cuvee_request_seconds_count", (("route", route),)] = sum(counts)
        for name, states in gauges.items():
            for state, value in states.items():
                values[name, (("state", state),) if state else ()] = value
        lines = []
        for name, (kind, meaning) in HELP.items():
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"]
            lines += [
                f"{key}{_labels(labels)} {value:.15g}"
                for (key, labels), value in sorted(values.items(), key=_order)
                if key == name or (kind == "histogram" and key.rpartition("_")[0] == name)
            ]
        return "\n".join(lines) + "\n"


def _order(item: tuple[tuple[str, tuple[tuple[str, str], ...]], float]) -> tuple[object, ...]:
    (key, labels), _ = item
    edge = float(dict(labels).get("le", "0"))
    return key, [pair for pair in labels if pair[0] != "le"], edge


def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    def escaped(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{k}="{escaped(v)}"' for k, v in labels) + "}" if labels else ""
