"""The driver loop of every minimax method: step, record, check the gap on full data, keep failures apart.

A target that converged or diverged stands still while the others go on, so that a batch of M targets gives
what M single runs give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from cuvee import simplex
from cuvee.components import Components
from cuvee.mixture import play
from cuvee.mixture.objective import Objective, differences
from cuvee.mixture.play import Play, Settings
from cuvee.results import Floats, Status, Trace

Progress = Callable[[str, int, int], None]
"""Called with (what, done, total) now and then."""

RUNAWAY = 1e5  # an F this many times what it started with is not coming back
RECORDS = 200  # trace records per run
TRACE_BUDGET = 64 * 2**20  # bytes of α kept in a trace


class HasPlay(Protocol):
    @property
    def play(self) -> Play: ...


class Method(Protocol):
    """A module such as `scgda` or `agp`: `init` and `step` on a small state."""

    def init(self, components: Components, objective: Objective, settings: Settings, warm: Play | None) -> Any: ...
    def step(self, state: Any, components: Components, objective: Objective, settings: Settings) -> Any: ...


@dataclass(frozen=True)
class Outcome:
    """How a run ended; one row per target."""

    alpha: Floats  # (M, J)
    gap: Floats  # (M,)
    objective: Floats  # (M,)
    status: tuple[Status, ...]
    trace: Trace
    play: Play  # to warm-start the next run from


def run(
    method: Method,
    components: Components,
    objective: Objective,
    settings: Settings,
    *,
    warm: Play | None = None,
    progress: Progress | None = None,
    what: str = "α",
) -> Outcome:
    """Run `method` until every target converged, diverged or `settings.steps` are done."""
    state = method.init(components, objective, settings, warm)
    M = len(components.own_counts)
    status = np.full(M, Status.STEP_LIMIT)
    active = torch.ones(M, dtype=torch.bool, device=components.counts.device)
    penalty = (objective.C * objective.inverse_counts).amax(-1)
    runaway = RUNAWAY * (state.play.unit + penalty)
    check_every = max(1, settings.steps // settings.checks)
    recorder = _Recorder(settings.steps, state.play.alpha)
    for t in range(1, settings.steps + 1):
        new = method.step(state, components, objective, settings)
        lost = active & ~_sane(new.play, runaway)
        if bool(lost.any()):
            status[lost.cpu().numpy()] = Status.DIVERGED
            active &= ~lost
        state = new if bool(active.all()) else _merge(state, new, active)
        recorder.see(t, state.play)
        if t % check_every == 0 or t == settings.steps or not bool(active.any()):
            if progress:
                progress(what, t, settings.steps)
            done = active & _converged(components, objective, state.play, settings)
            status[done.cpu().numpy()] = Status.CONVERGED
            active &= ~done
            if not bool(active.any()):
                break
    gap, value, _ = stationarity(components, objective, state.play, settings)
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
    components: Components, objective: Objective, players: Play, settings: Settings
) -> tuple[Tensor, Tensor, Tensor]:
    """On full data: (gap of Definition 1, F against the worst adversary, gap in units of F), each (M,).

    The maps use the run's own last η and γ. The last output weighs each block by how far its player could go
    (√2 across the simplex, 2·reach across W): to first order, what F could still change by.
    """
    alpha, q = players.strategies(settings.average)
    losses, pullback = components.losses(players.w, components.everything)
    z = differences(losses)
    values = objective.value(alpha, z)
    eta, gamma = (p.step.double().clamp(min=1e-30) for p in (players.eta, players.gamma))
    alpha_map = (alpha - simplex.project(alpha - eta * objective.gradient_alpha(alpha, z, q))) / eta
    w, gradient = players.w.double(), pullback(objective.coefficients(alpha, z)).double()
    w_map = (w - components.space.project(w + gamma * gradient)) / gamma
    across = 2.0 * players.gamma.reach / play.W_REACH
    in_units = play.gap(2**0.5 * alpha_map, across * w_map, q, values)
    return play.gap(alpha_map, w_map, q, values), values.max(-1).values, in_units


def _converged(components: Components, objective: Objective, players: Play, settings: Settings) -> Tensor:
    _, value, could_change = stationarity(components, objective, players, settings)
    return could_change <= settings.tol * torch.maximum(value.abs(), players.unit)


def _sane(players: Play, runaway: Tensor) -> Tensor:
    finite = players.objective.isfinite() & players.alpha.isfinite().all(-1) & players.w.isfinite().all(-1).all(-1)
    return finite & (players.objective.abs() <= runaway)


def _merge(old: Any, new: Any, active: Tensor) -> Any:
    """The new state where a target is active, the old one elsewhere; every tensor has targets as first axis."""
    if isinstance(old, Tensor):
        return torch.where(active.view(-1, *[1] * (new.ndim - 1)), new, old)
    if is_dataclass(old) and not isinstance(old, type):
        parts = {f.name: _merge(getattr(old, f.name), getattr(new, f.name), active) for f in fields(old)}
        return replace(old, **parts)
    return new


class _Recorder:
    """Keeps at most RECORDS steps, fewer when α is large."""

    def __init__(self, steps: int, alpha: Tensor) -> None:
        room = max(2, min(RECORDS, TRACE_BUDGET // max(1, 8 * alpha.numel())))
        self._every = max(1, -(-steps // room))
        self._last = steps
        self._rows: list[tuple[int, Tensor, Tensor, Tensor]] = []

    def see(self, t: int, players: Play) -> None:
        if t == 1 or t % self._every == 0 or t == self._last:
            self._rows.append((t, players.objective, players.gap, players.alpha))

    def trace(self) -> Trace:
        step, objective, gap, alpha = zip(*self._rows, strict=True)
        stack = [torch.stack(part).double().cpu().numpy() for part in (objective, gap, alpha)]
        return Trace(np.array(step), *stack)
