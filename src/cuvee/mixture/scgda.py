"""Run Algorithm 1: stochastic corrected gradient descent ascent.

`step` is the paper's box, line by line, for M targets and K adversaries at once. A step costs two
forwards (w^t and w^{t−1} on the same minibatch) and one backward, however many sources there are.
Where box and proof differ (g(z^t) against g(z^{t+1}) in the gradient for α) this is the box. β = 1
is plain SGDA without correction.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cuvee import simplex
from cuvee.components import ALL, Batch, Components
from cuvee.mixture import driver
from cuvee.mixture import players as play
from cuvee.mixture.method import MINIMAX, AlphaMethod, Estimate, Request
from cuvee.mixture.objective import Objective, differences
from cuvee.mixture.players import Play, Settings


@dataclass(frozen=True)
class State:
    """Hold where the run stands before step t."""

    play: Play
    z: Tensor  # (M, K, N) tracks f_T(w) − f_j(w)
    w_previous: Tensor  # (M, K, P)


def init(
    components: Components, objective: Objective, settings: Settings, warm: Play | None = None
) -> State:
    """Return the first state: w^{−1} = w^0 and z^0 = f_T(w^0) − f_j(w^0) on full data.

    The proof asks for this start.
    """
    players = warm or play.start(components, objective, settings)
    z = differences(components.values(players.w, ALL))
    return State(play=players, z=z, w_previous=players.w)


def step(state: State, components: Components, objective: Objective, settings: Settings) -> State:
    """Return the state after one pass through the loop of Algorithm 1."""
    p, beta = state.play, settings.beta
    minibatch = Batch(p.t, settings.batch_size)  # ξ_T^t, ξ_1^t, …, ξ_N^t

    d_previous = differences(components.values(state.w_previous, minibatch))  # f_T − f_j at w^{t−1}
    losses, pullback = components.losses(p.w, minibatch)
    d = differences(losses)  # f_T − f_j at w^t
    z = (1 - beta) * (state.z + d - d_previous) + beta * d  # z^{t+1}

    # coefficients of ∇f_1, …, ∇f_N, ∇f_T in the sum below
    coefficients, side = objective.ascent(p.alpha, z)
    g_w = side.to(p.w) * pullback(coefficients)  # Σ_j α_j g'(z_j^{t+1}) (∇f_T − ∇f_j)
    gamma = p.gamma.after(g_w)
    w = components.space.project(p.w + gamma.step * g_w)  # P_W(w + γ g_w)

    v = objective.v(p.alpha, state.z, p.q)  # v_j = g(z_j^t)
    g_alpha = v + objective.penalty_gradient(p.alpha)  # v + 2CMα
    eta = p.eta.after(play.centred(g_alpha))
    alpha = simplex.project(p.alpha - eta.step * g_alpha)  # P_Δ(α − η g_α)

    distance = objective.distance(p.alpha, z)
    q = play.reweigh(p.q, distance)
    values = distance + objective.penalty(p.alpha)[:, None]
    return State(play=p.advance(alpha, w, q, eta, gamma, values), z=z, w_previous=p.w)


def estimate(request: Request) -> Estimate:
    """Return the α of a run of Algorithm 1."""
    return driver.answer(driver.Steps(init, step), request)


METHOD = AlphaMethod(
    "scgda",
    estimate,
    "Algorithm 1 of the paper, stochastic corrected descent ascent.",
    steps=3000,
    takes=(*MINIMAX, "batch_size", "beta"),
)


def tracking_error(state: State, components: Components) -> Tensor:
    """Return the mean of |z_j − (f_T − f_j)(w^{t−1})| over sources and adversaries: (M,).

    The correction of Algorithm 1 keeps it small.
    """
    exact = differences(components.values(state.w_previous, ALL))
    return torch.mean((state.z - exact).abs(), dim=(-2, -1))
