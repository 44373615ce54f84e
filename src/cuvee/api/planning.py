"""`cuvee.plan`: solve or learn, measured on this machine before it is paid for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal

import torch
from torch import Tensor

from cuvee.api.checks import check_device, check_hypothesis, check_memory, check_whole
from cuvee.api.learning import Settings, bind, check_sources, learn_map, material, solved
from cuvee.api.model_map import Bound, ModelMap
from cuvee.errors import check_number
from cuvee.hypothesis.base import Hypothesis
from cuvee.learn import reduced
from cuvee.learn.choose import REDUCED_DEGREE, REDUCED_P, Options, choose
from cuvee.learn.meta import Initialisation
from cuvee.learn.mixtures import Mixes
from cuvee.learn.planner import MARGIN, MAX_LABELS, Line, Plan, clocked, labels_needed, measured_line
from cuvee.problem import Domain, Problem, as_problem
from cuvee.results import Mixtures
from cuvee.simplex import check_alpha

PILOT = (64, 256)  # labels of maps that every plan learns
PILOTS = (*PILOT, 1_024, 4_096)  # and of those that it learns where SHARE of the time to solve allows
SHARE = 0.1
CALIBRATION = 512
MOST = 2**14  # mixtures that solving is timed on
DEAR = 2.0  # seconds for the pilot's labels: more is not spent on a plan
MISSED = 0.08  # of the rows, corrected because a bound that holds for 95 % of them is not within the tolerance
FIT_GROWS = 1.5  # with this power of the labels
STAKE = 1.5  # reduced components are learnt to be measured where solving takes so many times longer than that
ASKED = 2_048  # mixtures that they are timed on


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
    """Solve or learn for this many targets? Some mixtures are solved and a small map is learnt, and both are timed.

    Args:
        data, hypothesis, tol, mixtures, concentration, seed, device, memory: as for `cuvee.learn`.
        n_targets: how many models are wanted.

    Example:
        >>> import numpy as np, cuvee
        >>> from cuvee.data.synthetic import shifted_sources
        >>> plan = cuvee.plan(shifted_sources(3, 50, 4), cuvee.Logistic(l2=0.1), n_targets=10, tol=1e-3)
        >>> plan.choice
        'solve'
    """
    began = time.perf_counter()
    check_whole("n_targets", n_targets, 0)
    check_number("tol", tol, above=0.0)
    check_number("concentration", concentration, above=0.0)
    check_whole("seed", seed, 0)
    check_hypothesis(hypothesis)
    check_device(device)
    problem = as_problem(data)
    check_sources(problem)
    options = Options(tol, seed=seed)
    settings = Settings(
        "auto", PILOT[-1], CALIBRATION, concentration, 0.95, 1, options, device, check_memory(memory, device)
    )
    if mixtures is None:
        mixes = Mixes.drawn(PILOT[-1], CALIBRATION, problem.n_sources, concentration, seed)
    else:
        given = check_alpha(mixtures.alpha if isinstance(mixtures, Mixtures) else mixtures, problem.n_sources)
        mixes = Mixes.given(given, PILOT[-1], CALIBRATION, seed, PILOT[0])
    bound = bind(problem, hypothesis, settings)
    fresh = torch.as_tensor(mixes.more(MOST), device=device)
    solve = measured_line(lambda n: bound.oracle.solve(fresh[:n], tol=tol), most=MOST)
    learn = _shallow(bound, mixes, settings, solve, fresh, n_targets)
    if _reducible(bound, mixes):
        deep = _deep(bound, mixes, settings, solve, fresh, n_targets)
        learn = min(learn, deep, key=lambda option: option.line(n_targets))
    choice: Literal["learn", "solve"] = "learn" if learn.line(n_targets) < solve(n_targets) else "solve"
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


def _shallow(bound: Bound, mixes: Mixes, settings: Settings, solve: Line, fresh: Tensor, n_targets: int) -> _Option:
    """Polynomials and kernels, from as many labels as the errors of smaller maps ask for."""
    if solve(PILOT[-1]) > DEAR:  # then so are labels: no map costs less than its own
        return _Option(Line(solve(PILOT[-1] + CALIBRATION), 0.0), PILOT[-1], "a map", at_best=True)
    pool = mixes.labels if mixes.concentration is None else mixes.more(PILOTS[-1])
    options, tol = replace(settings.options, shallow=True), settings.options.tol
    curve: list[tuple[int, float]] = []
    for n in PILOTS:  # as far as a tenth of what solving takes goes
        if n > len(pool) or (n > PILOT[-1] and (solve(n) > SHARE * solve(n_targets) or curve[-1][1] <= MARGIN * tol)):
            break
        clock = [time.perf_counter()]
        labels, _ = solved(bound, pool[:n], settings)
        clock.append(time.perf_counter())
        chosen = choose(material(bound, labels, mixes, settings), "auto", options)
        clock.append(time.perf_counter())
        curve.append((n, min(t.gradient for t in chosen.trials)))
    if len(curve) < 2 or labels_needed(curve, tol) > MAX_LABELS:
        return _Option(Line(inf, solve.each), PILOT[-1], "no map", tuple(curve))
    n_labels = round(labels_needed(curve, tol))
    per_label, fitting = (clock[1] - clock[0]) / curve[-1][0], clock[2] - clock[1]
    predictor, subspace = chosen.predictor, chosen.subspace
    assert not isinstance(predictor, Initialisation)
    asking = clocked(lambda: subspace.decode(predictor(fresh))) / len(fresh)
    fixed = per_label * (n_labels + CALIBRATION) + fitting * (n_labels / curve[-1][0]) ** FIT_GROWS
    return _Option(Line(fixed, asking + MISSED * solve.each), n_labels, chosen.name, tuple(curve))


def _reducible(bound: Bound, mixes: Mixes) -> bool:
    space = bound.space
    return space.convex and space.radius is None and space.n_params < min(REDUCED_P, len(mixes.labels))


def _deep(bound: Bound, mixes: Mixes, settings: Settings, solve: Line, fresh: Tensor, n_targets: int) -> _Option:
    """Reduced components: learnt and asked where solving takes longer than that, else no more than foreseen."""
    cost = solve(PILOT[-1] + CALIBRATION) + _foreseen(bound, mixes, settings)
    if solve(n_targets) < STAKE * cost:
        return _Option(Line(cost, 0.0), PILOT[-1], "reduced components", at_best=True)
    began = time.perf_counter()
    atlas = learn_map(bound, mixes, settings, lambda what, done, total: None)
    took = time.perf_counter() - began
    asked = fresh[-ASKED:].cpu().numpy()
    each = min(clocked(lambda: atlas(asked)) for _ in range(2)) / len(asked)
    errors = tuple((len(atlas.labels), t.gradient) for t in atlas.plan.trials if t.name == atlas.plan.method)
    return _Option(Line(took, each), len(atlas.labels), atlas.plan.method, errors, atlas)


def _foreseen(bound: Bound, mixes: Mixes, settings: Settings) -> float:
    """Seconds for the Hessians and gradients that reduced components are made from."""
    P, N = bound.space.n_params, bound.problem.n_sources
    if bound.space.quadratic:
        return 0.0
    w = torch.zeros(64, P, dtype=torch.float64, device=settings.device)
    hessians = 2 * reduced.n_hessians(N, reduced.bends(N, P, len(mixes.labels)))
    gradients = reduced.n_points(P, REDUCED_DEGREE)
    one = clocked(lambda: bound.oracle.component_hessians(w[0], rough=True))
    return hessians * one + gradients / len(w) * clocked(lambda: bound.oracle.component_gradients(w, rough=True))
