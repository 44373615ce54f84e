"""Targets without number: batches of them side by side on Ray workers, the sources stored once.

The other way round than `cuvee.on_ray`: here every worker sees all rows of the sources, which lie
in the object store once per node, and has targets of its own. It is for many targets beside sources
that fit a machine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from cuvee.api import estimate, solve
from cuvee.api.checks import check_hypothesis, check_problem
from cuvee.components.shards import Plain
from cuvee.components.sites import lives_elsewhere
from cuvee.errors import DomainError, MixtureError, OptionError
from cuvee.hypothesis.base import Hypothesis
from cuvee.inputs.alpha import ordered_alpha
from cuvee.problem import Domain, Problem
from cuvee.results import Mixtures
from cuvee.scale.ray_cluster import address_of, connect, engine
from cuvee.simplex import check_alpha
from cuvee.solution import Certificate, Solution

AHEAD = 2  # batches in flight for each CPU
RETRIES = 10  # of a batch whose worker died
Progress = Callable[[str, int, int], None]
Say = Callable[[str], None]


def estimate_on_ray(
    problem: Problem,
    hypothesis: Hypothesis,
    *,
    on: str = "ray",
    batch: int = 64,
    exclude: Mapping[str, Collection[str]] | None = None,
    progress: Progress | None = None,
    say: Say | None = None,
    **options: Any,
) -> Mixtures:
    """Return what `cuvee.estimate` returns, batches of targets side by side on Ray workers.

    Args:
        problem: any number of targets; the sources go into the object store once.
        hypothesis: as for `cuvee.estimate`.
        on: "ray", or "ray:HOST:PORT" for the cluster at that address.
        batch: targets that a worker takes at a time.
        exclude: target -> names of the sources that it may not learn from.
        progress: called with (what, done, total), in targets.
        say: called with what was found or started, a sentence each.
        options: all others of `cuvee.estimate`.

    Example:
        >>> cuvee.estimate_on_ray(problem, cuvee.Ridge()).alpha.shape  # doctest: +SKIP
        (100000, 12)
    """
    _check(problem, hypothesis, batch)

    def given(part: slice) -> dict[str, Any]:
        names = {t.name for t in problem.targets[part]}
        without = {t: list(of) for t, of in (exclude or {}).items() if t in names}
        return {**options, "exclude": without} if without else options

    parts = _side_by_side(problem, batch, on, say, progress, _estimate, hypothesis, given)
    return replace(Mixtures.concat(parts), notes=problem.notes)


def solve_on_ray(
    problem: Problem,
    hypothesis: Hypothesis,
    alpha: Any,
    *,
    on: str = "ray",
    batch: int = 1024,
    progress: Progress | None = None,
    say: Say | None = None,
    **options: Any,
) -> Solution:
    """Return what `cuvee.solve` returns, batches of targets side by side on Ray workers.

    `alpha` has a row per target; the other arguments are those of `cuvee.estimate_on_ray`, and
    `options` those of `cuvee.solve`.

    Example:
        >>> cuvee.solve_on_ray(problem, cuvee.Ridge(), mix).w.shape  # doctest: +SKIP
        (100000, 31)
    """
    _check(problem, hypothesis, batch)
    N, M = problem.n_sources, problem.n_targets
    mixtures = check_alpha(
        ordered_alpha(alpha, problem.source_names, problem.target_names, own=True), (N, N + 1)
    )
    if len(mixtures) != M:
        raise MixtureError(f"alpha has {len(mixtures)} rows, but there are {M} targets: a row each")
    parts = _side_by_side(
        problem, batch, on, say, progress, _solve, hypothesis,
        lambda part: {**options, "alpha": mixtures[part]},
    )  # fmt: skip
    return _joined(parts)


def _check(problem: Problem, hypothesis: Hypothesis, batch: int) -> None:
    check_problem(problem)
    check_hypothesis(hypothesis)
    if problem.n_targets == 0:
        raise OptionError("the problem has no targets: pass targets=[...]")
    if batch < 1:
        raise OptionError(f"batch must be at least 1; got {batch}")
    if lives_elsewhere(problem):
        raise DomainError("the sources of this problem are at workers already: give their rows")


def _side_by_side(
    problem: Problem,
    batch: int,
    on: str,
    say: Say | None,
    progress: Progress | None,
    work: Callable[..., Any],
    hypothesis: Hypothesis,
    given: Callable[[slice], dict[str, Any]],
) -> list[Any]:
    """Return the results of all batches in order, a few of them in flight at a time.

    A batch whose worker dies is done again by Ray, on another one.
    """
    ray = connect(address_of(on), put=sum(s.X.nbytes for s in problem.sources), say=say)
    stored = ray.put([_plain(source) for source in problem.sources])
    task = ray.remote(num_cpus=1, max_retries=RETRIES, retry_exceptions=False)(work)
    most = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    M = problem.n_targets
    waiting = [slice(low, min(low + batch, M)) for low in range(0, M, batch)][::-1]
    flying: dict[Any, slice] = {}
    results: dict[int, Any] = {}
    done = 0
    while waiting or flying:
        while waiting and len(flying) < most:
            part = waiting.pop()
            targets = [_plain(target) for target in problem.targets[part]]
            flying[task.remote([stored], targets, hypothesis, given(part))] = part
        (ready,), _ = ray.wait(list(flying), num_returns=1)
        part = flying.pop(ready)
        try:
            results[part.start] = ray.get(ready)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        done += part.stop - part.start
        if progress is not None:
            progress("targets", done, M)
    return [results[low] for low in sorted(results)]


def _plain(domain: Domain) -> tuple[str, Plain]:
    return domain.name, Plain(domain.X, domain.y, domain.weight, domain.features)


def _domain(given: tuple[str, Plain]) -> Domain:
    name, rows = given
    return Domain(name, rows.X, rows.y, rows.weight, rows.features)


@lru_cache(maxsize=1)
def _sources(stored: Any) -> Problem:
    """Return the sources that lie in the object store; a worker makes them once."""
    return Problem([_domain(one) for one in engine().get(stored)])


def _estimate(stored: list[Any], targets: list[Any], hypothesis: Any, given: Any) -> Mixtures:
    problem = _sources(stored[0]).with_targets([_domain(one) for one in targets])
    return estimate(problem, hypothesis, **given)


def _solve(stored: list[Any], targets: list[Any], hypothesis: Any, given: Any) -> Solution:
    problem = _sources(stored[0]).with_targets([_domain(one) for one in targets])
    return solve(problem, hypothesis, **given)


def _joined(parts: list[Solution]) -> Solution:
    """Return the models of all parts in one solution."""
    bounds = [part.certificate for part in parts]
    proven: dict[str, Any] = {
        f.name: np.concatenate([getattr(bound, f.name) for bound in bounds])
        for f in fields(Certificate)
        if f.name not in ("rests_on", "calibrated")
    }
    numbers: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("w", "alpha", "passes")
    }
    curves = [part.curves for part in parts if part.curves is not None]  # networks have some
    checks = max((one.shape[1] for one in curves), default=0)
    padded = [
        np.pad(one, [(0, 0), (0, checks - one.shape[1]), (0, 0)], constant_values=np.nan)
        for one in curves
    ]
    return replace(
        parts[0],
        curves=np.concatenate(padded) if padded else None,
        targets=tuple(name for part in parts for name in part.targets),
        certificate=replace(bounds[0], **proven),
        status=tuple(status for part in parts for status in part.status),
        **numbers,
    )
