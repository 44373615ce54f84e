"""`cuvee.on_ray`: the same problem, with the rows of its sources in shards on Ray workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cuvee.api.checks import check_problem
from cuvee.components.sharded import sharded
from cuvee.components.shards import Plain
from cuvee.components.sites import lives_elsewhere
from cuvee.errors import DomainError
from cuvee.problem import Domain, Problem
from cuvee.scale.ray_cluster import address_of, connect, n_workers
from cuvee.scale.ray_crew import RayCrew
from cuvee.scale.ray_worker import FromStore

LEAST_ROWS = 2  # of a worker


def on_ray(
    problem: Problem,
    *,
    on: str = "ray",
    workers: int | None = None,
    say: Callable[[str], None] | None = None,
) -> Problem:
    """Return the same problem with the sources' rows in shards on Ray workers.

    Every function of cuvee takes it as it takes any other problem, and gives the same answers.
    Targets keep their few rows here.

    Args:
        problem: sources and targets in this process.
        on: "ray" joins the cluster that is running here, or starts a local one; "ray:HOST:PORT"
            joins the one at that address.
        workers: processes that hold the rows; by default one for each CPU of the cluster.
        say: called with what was found or started, a sentence each.

    Example:
        >>> far = cuvee.on_ray(problem)  # doctest: +SKIP
        >>> cuvee.estimate(far, cuvee.Ridge()).alpha.shape  # doctest: +SKIP
        (2, 3)
    """
    check_problem(problem)
    if lives_elsewhere(problem):
        raise DomainError("the sources of this problem are elsewhere already: give their rows")
    n_bytes = sum(source.X.nbytes for source in problem.sources)
    ray = connect(address_of(on), put=n_bytes, say=say)
    rows = sum(source.n_rows for source in problem.sources)
    count = n_workers(ray, workers, max(1, rows // LEAST_ROWS), n_bytes)
    crew = RayCrew(ray, [FromStore(pieces) for pieces in _cut(ray, problem.sources, count)])
    sources = sharded(crew, crew.introduce(), problem.source_names)
    return Problem(sources).with_targets(problem.targets)


def _cut(ray: Any, sources: Sequence[Domain], count: int) -> list[list[tuple[str, Any, int, int]]]:
    """Return the pieces of every worker: runs of about equally many rows, source after source."""
    stored = [(s, ray.put(Plain(s.X, s.y, s.weight, s.features))) for s in sources]
    ends = np.cumsum([s.n_rows for s in sources])
    cuts = [int(ends[-1]) * k // count for k in range(count + 1)]
    pieces: list[list[tuple[str, Any, int, int]]] = [[] for _ in range(count)]
    for (source, reference), end in zip(stored, ends.tolist(), strict=True):
        start = end - source.n_rows
        for k in range(count):
            low, high = max(cuts[k], start) - start, min(cuts[k + 1], end) - start
            if high > low:
                pieces[k].append((source.name, reference, low, high))
    return pieces
