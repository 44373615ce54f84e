"""`cuvee.plan`: solve or learn, measured on this machine before it is paid for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal

import torch
from torch import Tensor

from cuvee.api.bound import Bound
from cuvee.api.checks import check_device, check_hypothesis, check_memory, check_whole
from cuvee.api.learning import (
    assembled,
    bind,
    check_sources,
    learn_map,
    material,
    mixes_of,
    silent,
    solved,
)
from cuvee.api.model_map import ModelMap, as_map
from cuvee.errors import check_number
from cuvee.hypothesis.base import Hypothesis
from cuvee.learn import auto, reduced
from cuvee.learn.mixtures import Mixes
from cuvee.learn.options import Options
from cuvee.learn.planner import Line, Plan, clocked, crossing, measured_line
from cuvee.learn.settings import Settings
from cuvee.numerics.parallel import workers
from cuvee.problem import Domain, Problem, as_problem

PILOT = (64, 256)  # labels of maps that every plan learns
# and of those that it learns in SHARE of the time that solving takes
PILOTS = (*PILOT, 1_024, 4_096)
SHARE = 0.2
CALIBRATION = 512
MOST = 2**14  # mixtures that solving is timed on
DEAR = 2.0  # seconds for the pilot's labels: more is not spent on a plan
FEW = 0.05  # of the rows may have a bound beyond the tolerance before more labels are tried
CORRECTING = 1.3  # times what solving such a row from nothing takes
# what may cost much is learnt, to be measured, where solving takes so many times longer
STAKE = 1.0
LEAST = 8  # labels, of mixtures that the caller gives
ASKED = 2_048  # mixtures that they are timed on


@workers()
def plan(
    data: Problem | Sequence[Domain],
    hypothesis: Hypothesis,
    *,
    n_targets: int,
    tol: float = 1e-3,
    mixtures: Any = None,
    concentration: float = 1.0,
    seed: int = 0,
    device: str = "cpu",
    memory: int | None = None,
) -> Plan:
    """Return whether to solve or to learn a map for this many targets.

    Some mixtures are solved and a small map is learnt, and both are timed.

    Args:
        data, hypothesis, tol, mixtures, concentration, seed, device, memory: as for `cuvee.learn`.
        n_targets: how many models are wanted.

    Example:
        >>> import numpy as np, cuvee
        >>> from cuvee.data.synthetic import shifted_sources
        >>> sources = shifted_sources(3, 50, 4)
        >>> plan = cuvee.plan(sources, cuvee.Logistic(l2=0.1), n_targets=10, tol=1e-3)
        >>> plan.choice
        'solve'
    """
    began = time.perf_counter()
    check_whole("n_targets", n_targets, 0)
    check_number("concentration", concentration, above=0.0)
    check_hypothesis(hypothesis)
    check_device(device)
    problem = as_problem(data)
    check_sources(problem)
    settings = Settings(
        method="auto",
        n_labels=PILOT[-1],
        n_calibration=CALIBRATION,
        concentration=concentration if mixtures is None else None,
        level=0.95,
        options=Options(tol, seed=seed),
        device=device,
        memory=check_memory(memory, device),
    )
    mixes = mixes_of(problem, mixtures, settings, LEAST)
    bound = bind(problem, hypothesis, settings)
    fresh = torch.as_tensor(mixes.again(MOST), device=device)
    solve = measured_line(lambda n: bound.oracle.solve(fresh[:n], tol=tol), most=MOST)
    ways = [_shallow(bound, mixes, settings, solve, fresh, n_targets)]
    if reduced.reducible(bound.space, len(mixes.labels)):
        ways.append(_deep(bound, mixes, settings, solve, fresh, n_targets))
    faster = [way for way in ways if not way.at_best and way.line(n_targets) < solve(n_targets)]
    choice: Literal["learn", "solve"] = "learn" if faster else "solve"
    # What was not tried cannot win, but it may be what learning looks like for more targets.
    learn = min(
        faster or ways, key=lambda way: way.line(n_targets) if faster else crossing(solve, way.line)
    )
    return Plan(
        choice=choice,
        n_targets=n_targets,
        tol=tol,
        n_labels=learn.n_labels,
        method=learn.method,
        solve=solve,
        learn=learn.line,
        curve=learn.curve,
        at_best=learn.at_best,
        seconds=time.perf_counter() - began,
        atlas=learn.atlas if choice == "learn" else None,
    )


@dataclass(frozen=True)
class _Option:
    """One way to learn, as measured or foreseen."""

    line: Line
    n_labels: int
    method: str
    curve: tuple[tuple[int, float], ...] = ()
    atlas: ModelMap | None = None
    at_best: bool = False  # it was not tried: it costs at least this


def _shallow(
    bound: Bound, mixes: Mixes, settings: Settings, solve: Line, fresh: Tensor, n_targets: int
) -> _Option:
    """Return the best choice of polynomials and kernels.

    They are learnt from more and more labels; the best number is that with which all targets take
    least.
    """
    least = solve(PILOT[-1] + CALIBRATION)
    if least > DEAR and solve(n_targets) < STAKE * least:  # no map costs less than its labels
        return _Option(Line(least, 0.0), PILOT[-1], "a map", at_best=True)
    pool = mixes.labels
    if mixes.concentration is not None:  # the labels that a map from so many would have
        pool = Mixes.drawn(
            PILOTS[-1], 0, bound.problem.n_sources, mixes.concentration, mixes.seed
        ).labels
    options, tol = replace(settings.options, shallow=True), settings.options.tol
    began = time.perf_counter()
    held_out, _ = solved(bound, mixes.calibration, settings)
    calibrating = time.perf_counter() - began
    choices: list[_Option] = []
    for n in [n for n in PILOTS if n <= len(pool)] or [len(pool)]:
        spent = time.perf_counter() - began
        if n > PILOT[-1] and solve(n) + spent > SHARE * solve(n_targets):
            break
        clock = time.perf_counter()
        labels, _ = solved(bound, pool[:n], settings)
        chosen = auto.fit(material(bound, labels, mixes), options)
        atlas = as_map(assembled(bound, chosen, labels, held_out, mixes.law, settings))
        learning = time.perf_counter() - clock + calibrating
        bounds = atlas.calibration.bounds(fresh).gradient
        missed = float((bounds > tol).double().mean())
        asking = clocked(lambda: atlas.predicted(fresh)) / len(fresh)  # noqa: B023 - it runs here and now
        curve = ((n, min(t.gradient for t in chosen.trials)),)
        # Rows of a network cannot be corrected: a map that misses some is no way to its tolerance.
        useless = missed >= FEW and not bound.space.convex
        line = Line(inf if useless else learning, asking + CORRECTING * missed * solve.each)
        choices.append(_Option(line, n, chosen.name, curve, atlas))
        if missed < FEW:
            break
    curves = tuple(point for option in choices for point in option.curve)
    best = min(choices, key=lambda option: option.line(n_targets))
    return replace(best, curve=curves)


def _deep(
    bound: Bound, mixes: Mixes, settings: Settings, solve: Line, fresh: Tensor, n_targets: int
) -> _Option:
    """Return the choice of reduced components.

    They are learnt and asked where solving takes longer than that; else their cost is only
    foreseen.
    """
    cost = solve(PILOT[-1] + CALIBRATION) + _foreseen(bound, mixes, settings)
    if solve(n_targets) < STAKE * cost:
        return _Option(Line(cost, 0.0), PILOT[-1], "reduced components", at_best=True)
    began = time.perf_counter()
    atlas = as_map(learn_map(bound, mixes, settings, silent))
    took = time.perf_counter() - began
    asked = fresh[-ASKED:].cpu().numpy()
    each = min(clocked(lambda: atlas(asked)) for _ in range(2)) / len(asked)
    errors = tuple(
        (len(atlas.labels), t.gradient) for t in atlas.plan.trials if t.name == atlas.plan.method
    )
    return _Option(Line(took, each), len(atlas.labels), atlas.plan.method, errors, atlas)


def _foreseen(bound: Bound, mixes: Mixes, settings: Settings) -> float:
    """Return the seconds for the Hessians and gradients that reduced components are made from."""
    P, N = bound.space.n_params, bound.problem.n_sources
    if bound.space.quadratic:
        return 0.0
    w = torch.zeros(64, P, dtype=torch.float64, device=settings.device)
    hessians = 2 * reduced.n_hessians(N, reduced.bends(N, P, len(mixes.labels)))
    gradients = reduced.n_points(P, reduced.DEGREE)
    one = clocked(lambda: bound.oracle.component_hessians(w[0], rough=True))
    return hessians * one + gradients / len(w) * clocked(
        lambda: bound.oracle.component_gradients(w, rough=True)
    )
