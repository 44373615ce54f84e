"""Drive every minimax method: step, record, check the gap on full data, set failures aside.

A target that converged or diverged stands still and leaves the batch while the others go on, so
that a batch of M targets gives what M single runs give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from cuvee import simplex
from cuvee.components import ALL, Components
from cuvee.mixture import players as play
from cuvee.mixture.method import Estimate, Progress, Request
from cuvee.mixture.objective import Objective, differences
from cuvee.mixture.players import Play, Settings
from cuvee.results import Status, Trace

RUNAWAY = 1e5  # a target diverged when F is this many times its first value
HOPELESS = 2.0  # times the tolerance: beyond it, no minibatch noise explains the gap
RECORDS = 200  # trace records per run
LOOKS = 0.25  # of the rows that a run reads in its steps: as many again may be read to record gaps
TRACE_BUDGET = 64 * 2**20  # bytes of α kept in a trace


class Algorithm(Protocol):
    """Describe a minimax algorithm: `init` and `step` on a state with the fields `play` and `z`.

    A module with these two functions will do.
    """

    def init(
        self, components: Components, objective: Objective, settings: Settings, warm: Play | None, /
    ) -> Any: ...
    def step(
        self, state: Any, components: Components, objective: Objective, settings: Settings, /
    ) -> Any: ...


class Steps(NamedTuple):
    """Make an algorithm from its two functions."""

    init: Callable[[Components, Objective, Settings, Play | None], Any]
    step: Callable[[Any, Components, Objective, Settings], Any]


@dataclass(frozen=True)
class Outcome(Estimate):
    """Hold how a run ended; one row per target."""

    trace: Trace
    play: Play = field(kw_only=True)  # to warm-start the next run from


def answer(algorithm: Algorithm, request: Request) -> Outcome:
    """Run an algorithm on the request of an α method and return its outcome."""
    run_settings, progress = request.settings.run, request.progress
    return run(algorithm, request.components, request.objective(), run_settings, progress=progress)


def run(
    algorithm: Algorithm,
    components: Components,
    objective: Objective,
    settings: Settings,
    *,
    warm: Play | None = None,
    progress: Progress | None = None,
    what: str = "α",
) -> Outcome:
    """Run the algorithm until every target converged, diverged or `settings.steps` are done."""
    state = everyone = algorithm.init(components, objective, settings, warm)
    M = len(components.own_counts)
    status = np.full(M, Status.STEP_LIMIT)
    penalty = (objective.C * objective.inverse_counts).amax(-1).expand(M)
    runaway = RUNAWAY * (state.play.unit + penalty)
    running = torch.arange(M, device=components.counts.device)
    narrowed, F = components, objective  # narrowed to the targets still running
    check_every = max(1, settings.steps // settings.checks)
    recorder = _Recorder(settings, state.play.alpha, components.n_rows / len(components.counts))
    for t in range(1, settings.steps + 1):
        new = algorithm.step(state, narrowed, F, settings)
        sane = _sane(new.play, runaway[running])
        if not bool(sane.all()):  # targets that diverged keep their last good state
            everyone = _put(everyone, running, state)
            status[running[~sane].cpu().numpy()] = Status.DIVERGED
            narrowed, F, new, running = _staying(sane, narrowed, F, new, running)
        state = new
        check = t % check_every == 0 or t == settings.steps
        if check or recorder.wants(t):
            everyone = state if len(running) == M else _put(everyone, running, state)
            if recorder.wants(t):
                looks = recorder.looks(t)
                gap = (
                    stationarity(components, objective, everyone.play, settings)[0]
                    if looks
                    else None
                )
                recorder.see(t, everyone.play, gap)
        if check and len(running):
            if progress:
                progress(what, t, settings.steps)
            done = _converged(narrowed, F, state, settings)
            status[running[done].cpu().numpy()] = Status.CONVERGED
            if bool(done.any()):
                narrowed, F, state, running = _staying(~done, narrowed, F, state, running)
        if len(running) == 0:
            break
    state = everyone
    gap, value, _ = stationarity(components, objective, state.play, settings)
    recorder.see(t, state.play, gap)
    alpha = state.play.strategies(settings.average)[0].double().cpu().numpy()
    return Outcome(
        alpha=alpha / alpha.sum(-1, keepdims=True),  # float32 sums to 1 within 1e-7 only
        gap=gap.double().cpu().numpy(),
        objective=value.double().cpu().numpy(),
        status=tuple(status),
        trace=recorder.trace(),
        play=state.play,
    )


def stationarity(
    components: Components,
    objective: Objective,
    players: Play,
    settings: Settings,
    scales: play.Scales | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gap of Definition 1, F at the worst adversary, what F could change by: each (M,).

    All three are measured on full data, and none hangs on the steps that the run takes: the maps of
    the gap use the η and γ of `players.scales`, unless others are given. The last output is, to
    first order, what F could still change by: for α the most over the simplex, for an adversary its
    map times the way across W.
    """
    alpha, q = players.strategies(settings.average)
    losses, pullback = components.losses(players.w, ALL)
    z = differences(losses)
    values = objective.value(alpha, z)
    eta, gamma = scales or play.scales(players)
    slope = objective.gradient_alpha(alpha, z, q)
    alpha_map = (alpha - simplex.project(alpha - eta * slope)) / eta
    w, gradient = players.w.double(), pullback(objective.coefficients(alpha, z)).double()
    w_map = (w - components.space.project(w + gamma * gradient)) / gamma
    across = 2.0 * players.gamma.reach / play.W_REACH
    in_units = play.gap(_gain(alpha, slope), across * w_map, q, values)
    return play.gap(alpha_map, w_map, q, values), values.max(-1).values, in_units


def _converged(
    components: Components, objective: Objective, state: Any, settings: Settings
) -> Tensor:
    """Return which targets have converged (M,), by the gap on full data.

    The gap is computed only for targets that look close in what the run itself has seen.
    """
    done = ~_far(objective, state.play, state.z, settings)
    near = done.nonzero()[:, 0]
    if len(near) == 0:
        return done
    if len(near) < len(done):
        components, objective, state = (
            components.narrow(near),
            objective.narrow(near),
            _take(state, near),
        )
    _, value, could_change = stationarity(components, objective, state.play, settings)
    done[near] = could_change <= settings.tol * torch.maximum(value.abs(), state.play.unit)
    return done


def _far(objective: Objective, players: Play, z: Tensor, settings: Settings) -> Tensor:
    """Return (M,) where α and q alone could still change F by far more than the tolerance.

    F is taken at z (M, K, N) as the run last saw it.
    """
    alpha, q = players.strategies(settings.average)
    values = objective.value(alpha, z)
    gain = _gain(alpha, objective.gradient_alpha(alpha, z, q))
    could_change = play.gap(gain, torch.zeros_like(players.w), q, values)
    return could_change > HOPELESS * settings.tol * torch.maximum(
        values.amax(-1).abs(), players.unit
    )


def _gain(alpha: Tensor, slope: Tensor) -> Tensor:
    """Return how far F could fall to first order if α went where it falls most: (M, 1)."""
    return (alpha * slope).sum(-1, keepdim=True) - slope.amin(-1, keepdim=True)


def _sane(players: Play, runaway: Tensor) -> Tensor:
    finite = (
        players.objective.isfinite()
        & players.alpha.isfinite().all(-1)
        & players.w.isfinite().all(-1).all(-1)
    )
    return finite & (players.objective.abs() <= runaway)


def _staying(
    stay: Tensor, components: Components, objective: Objective, state: Any, running: Tensor
) -> tuple[Components, Objective, Any, Tensor]:
    """Return components, objective, state and target numbers narrowed to the mask `stay`."""
    rows = stay.nonzero()[:, 0]
    return components.narrow(rows), objective.narrow(rows), _take(state, rows), running[rows]


def _take(state: Any, targets: Tensor) -> Any:
    """Return the state of the given targets; the first axis of every tensor is the target."""
    return _each(lambda whole, _: whole[targets], state, state)


def _put(state: Any, targets: Tensor, part: Any) -> Any:
    """Return `state` with the rows of the given targets replaced by `part`.

    What is not a tensor is taken from `part`.
    """
    return _each(lambda whole, new: whole.index_copy(0, targets, new), state, part)


def _each(do: Callable[[Tensor, Tensor], Tensor], a: Any, b: Any) -> Any:
    if isinstance(a, Tensor):
        return do(a, b)
    if is_dataclass(a) and not isinstance(a, type):
        return replace(
            a, **{f.name: _each(do, getattr(a, f.name), getattr(b, f.name)) for f in fields(a)}
        )
    return b


class _Recorder:
    """Keep at most RECORDS steps of a run, fewer when α is large.

    Some of them have the gap, on full data; fewer when the rows are many.
    """

    def __init__(self, settings: Settings, alpha: Tensor, rows_per_source: float) -> None:
        steps = settings.steps
        room = max(2, min(RECORDS, TRACE_BUDGET // max(1, 8 * alpha.numel())))
        self._every = max(1, -(-steps // room))
        looks = LOOKS * steps * settings.batch_size / max(rows_per_source, 1.0)
        self._look = self._every * max(1, -(-room // max(2, int(looks))))
        self._rows: list[tuple[int, Tensor, Tensor, Tensor]] = []

    def wants(self, t: int) -> bool:
        return t == 1 or t % self._every == 0

    def looks(self, t: int) -> bool:
        return t == 1 or t % self._look == 0

    def see(self, t: int, players: Play, gap: Tensor | None) -> None:
        """Keep step t, in place of what was kept of it before."""
        if self._rows and self._rows[-1][0] == t:
            self._rows.pop()
        gap = torch.full_like(players.objective, torch.nan) if gap is None else gap
        self._rows.append((t, players.objective, gap, players.alpha))

    def trace(self) -> Trace:
        step, objective, gap, alpha = zip(*self._rows, strict=True)
        stack = [torch.stack(part).double().cpu().numpy() for part in (objective, gap, alpha)]
        return Trace(np.array(step), *stack)
