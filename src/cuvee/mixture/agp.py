"""Run alternating gradient projection (Xu et al. 2023): Algorithm 1 without its sampling.

It works on full data. In each step α moves against the panel first, then the panel answers the new
α. A step costs one forward and one backward.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from cuvee import simplex
from cuvee.components import ALL, Components
from cuvee.mixture import driver
from cuvee.mixture import players as play
from cuvee.mixture.method import MINIMAX, AlphaMethod, Estimate, Request
from cuvee.mixture.objective import Objective, differences
from cuvee.mixture.players import Play, Settings


@dataclass(frozen=True)
class State:
    """Hold where the run stands before step t."""

    play: Play
    z: Tensor | None  # (M, K, N) f_T(w) − f_j(w) before the last step


def init(
    components: Components, objective: Objective, settings: Settings, warm: Play | None = None
) -> State:
    return State(play=warm or play.start(components, objective, settings), z=None)


def step(state: State, components: Components, objective: Objective, settings: Settings) -> State:
    """Return the state after α ← P_Δ(α − η∇_αF(α, w)), then w ← P_W(w + γ∇_wF) at the new α."""
    p = state.play
    losses, pullback = components.losses(p.w, ALL)
    z = differences(losses)

    g_alpha = objective.gradient_alpha(p.alpha, z, p.q)
    eta = p.eta.after(play.centred(g_alpha))
    alpha = simplex.project(p.alpha - eta.step * g_alpha)

    coefficients, side = objective.ascent(alpha, z)
    g_w = side.to(p.w) * pullback(coefficients)
    gamma = p.gamma.after(g_w)
    w = components.space.project(p.w + gamma.step * g_w)

    distance = objective.distance(alpha, z)
    q = play.reweigh(p.q, distance)
    values = distance + objective.penalty(alpha)[:, None]
    return State(play=p.advance(alpha, w, q, eta, gamma, values), z=z)


def estimate(request: Request) -> Estimate:
    """Return the α of a run on full data."""
    return driver.answer(driver.Steps(init, step), request)


METHOD = AlphaMethod(
    "agp",
    estimate,
    "Alternating gradient projection on all rows, without minibatch noise.",
    steps=1000,
    takes=MINIMAX,
)
