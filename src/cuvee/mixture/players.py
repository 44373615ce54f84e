"""Define what every minimax method shares: the players, their step sizes, the panel's weights.

The adversary plays a *mixed* strategy: K points w_k with weights q on the simplex. min over α of
the worst w equals min over α of the worst mixture of w's, and that game is convex–linear in (α, q),
so it has a saddle point on at most N+1 points, where a single ascending w has none to settle on. K
= 1 is the paper.

Step sizes: a number given by the caller is used as it is, as in the paper's box. Otherwise each
block takes reach/√(Σ‖gradient‖²) (AdaGrad in norm), which no rescaling of X, of the labels or of
the loss changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from cuvee.components import ALL, Components
from cuvee.hypothesis.base import Space
from cuvee.mixture.objective import Objective, differences

# q_k is multiplied by e^{0.1 · (F_k − max F)/max F} in each step
PANEL_RATE = 0.1
PANEL_FLOOR = 1e-3  # the adversaries share at least this weight equally
ALPHA_REACH = 1.0  # a first step may cross the simplex
W_REACH = 0.25  # of W's radius: slower than α, so that adversaries started apart stay apart
AVERAGING = 3.0  # iterate t enters the average with weight ∝ t³


@dataclass(frozen=True)
class Settings:
    """Hold the settings of a minimax run; `cuvee.estimate` has checked them."""

    beta: float = 0.1
    batch_size: int = 32
    eta: float | None = None
    gamma: float | None = None
    adversaries: int = 16
    climbs: int = 8  # steps of every adversary of the path between two cuts
    whole: bool = False  # whether they climb on all rows, however many these are
    steps: int = 1000
    tol: float = 0.02
    average: bool = True
    checks: int = 20
    seed: int = 0


@dataclass(frozen=True)
class Pace:
    """Hold the step size of one block: a constant if `given`, else adaptive.

    An adaptive step is reach/√(Σ‖gradient‖²) over the gradients so far, at most `cap`.
    """

    given: float | None
    reach: float
    cap: Tensor  # (..., 1)
    square: Tensor  # (..., 1) Σ‖gradient‖²
    step: Tensor  # (..., 1) what to multiply the last gradient with

    @classmethod
    def fresh(
        cls, given: float | None, reach: float, like: Tensor, cap: Tensor | None = None
    ) -> Pace:
        """Return a pace for gradients shaped like `like` (..., P) that has seen none yet."""
        zeros = torch.zeros_like(like[..., :1])
        return cls(
            given, reach, torch.full_like(zeros, torch.inf) if cap is None else cap, zeros, zeros
        )

    def after(self, gradient: Tensor) -> Pace:
        square = self.square + gradient.square().sum(-1, keepdim=True)
        if self.given is not None:
            return replace(self, square=square, step=torch.full_like(square, self.given))
        return replace(
            self,
            square=square,
            step=torch.minimum(self.reach / square.sqrt().clamp(min=1e-30), self.cap),
        )

    def again(self, cap: Tensor) -> Pace:
        """Return the pace with no gradients seen and another cap."""
        return replace(self, cap=cap, square=torch.zeros_like(self.square))


@dataclass(frozen=True)
class Play:
    """Hold both players after t steps."""

    t: int
    alpha: Tensor  # (M, J)
    w: Tensor  # (M, K, P)
    q: Tensor  # (M, K)
    alpha_mean: Tensor  # (M, J), late iterates count more
    q_mean: Tensor  # (M, K)
    eta: Pace  # of α, (M, 1)
    gamma: Pace  # of w, (M, K, 1)
    unit: Tensor  # (M,) the discrepancy the panel started with: what F is measured against
    objective: Tensor  # (M,) Σ_k q_k F(α, w_k) as last estimated

    def advance(
        self, alpha: Tensor, w: Tensor, q: Tensor, eta: Pace, gamma: Pace, values: Tensor
    ) -> Play:
        """Return the players after one step, in which the adversaries' F (M, K) were seen."""
        t = self.t + 1
        return replace(
            self,
            t=t,
            alpha=alpha,
            w=w,
            q=q,
            alpha_mean=averaged(self.alpha_mean, alpha, t),
            q_mean=averaged(self.q_mean, q, t),
            eta=eta,
            gamma=gamma,
            objective=(self.q * values).sum(-1),
        )

    def strategies(self, average: bool) -> tuple[Tensor, Tensor]:
        """Return (α, q) as results: the averages of the run, or the current values."""
        return (self.alpha_mean, self.q_mean) if average else (self.alpha, self.q)


def start(components: Components, objective: Objective, settings: Settings) -> Play:
    """Return players with uniform α and adversaries that start apart, the same for every target."""
    space, K = components.space, settings.adversaries
    M, J = len(components.own_counts), objective.inverse_counts.shape[-1]
    first = space.start(K, settings.seed).to(components.counts.device)
    w = first.expand(M, -1, -1).contiguous()
    alpha = w.new_full((M, J), 1.0 / J, dtype=torch.float64)
    q = w.new_full((M, K), 1.0 / K, dtype=torch.float64)
    z = differences(components.values(w, ALL))
    return Play(
        t=0,
        alpha=alpha,
        w=w,
        q=q,
        alpha_mean=alpha,
        q_mean=q,
        eta=Pace.fresh(settings.eta, ALPHA_REACH, alpha, alpha_cap(objective, alpha)),
        gamma=Pace.fresh(settings.gamma, W_REACH * w_reach(space, first), w),
        unit=objective.g(z).mean(-1).amax(-1),
        objective=alpha.new_full((M,), torch.inf),
    )


def w_reach(space: Space, start: Tensor) -> float:
    """Return how far w may travel: the radius of W, or the mean ‖w‖ at the start (at least 1)."""
    return space.radius or float(torch.linalg.vector_norm(start, dim=-1).mean().clamp(min=1.0))


def again(players: Play, objective: Objective, settings: Settings) -> Play:
    """Return the players for a warm start: same positions, new clocks, averages and step sizes."""
    alpha, _ = players.strategies(settings.average)
    return replace(
        players,
        t=0,
        alpha=alpha,
        alpha_mean=alpha,
        eta=players.eta.again(alpha_cap(objective, alpha)),
        gamma=players.gamma.again(players.gamma.cap),
    )


def alpha_cap(objective: Objective, alpha: Tensor) -> Tensor:
    """Return the largest step size of α, 1/(2C/m_min): (M, 1).

    With a larger one the penalty alone would throw α from one face of the simplex to another.
    """
    curvature = (
        (2.0 * objective.C * objective.inverse_counts).expand(len(alpha), -1).amax(-1, keepdim=True)
    )
    return 1.0 / curvature.clamp(min=1e-30)


class Scales(NamedTuple):
    """Hold the η and γ that gaps are measured with."""

    eta: Tensor  # (M, 1)
    gamma: Tensor  # (M, 1, 1)


def scales(players: Play) -> Scales:
    """Return the η and γ of the gap: those of the problem, whatever steps the run takes.

    With u the F that the adversaries started with, η = min(1/u, 1/(2C/m_min)) would move α across
    the simplex where F changes by u across it, and γ = R²/u an adversary by W's radius R. The maps
    of Definition 1 shrink as 1/η and 1/γ: measured with the run's own steps, large ones would look
    like small gaps.
    """
    unit = players.unit.double().clamp(min=1e-30)[:, None]
    reach = players.gamma.reach / W_REACH
    return Scales(torch.minimum(1.0 / unit, players.eta.cap.double()), (reach**2 / unit)[..., None])


def gap(alpha_map: Tensor, w_map: Tensor, q: Tensor, values: Tensor) -> Tensor:
    """Return ‖∇G‖ of Definition 1 from the projected-gradient maps (M, J) and (M, K, P): (M,).

    The maps are those of α and w. A panel adds what its weights could still gain; for K = 1 that is
    0 and this is the paper's gap.
    """
    w_part = (q * w_map.square().sum(-1)).sum(-1)
    q_part = (values.max(-1).values - (q * values).sum(-1)).square()
    return (alpha_map.square().sum(-1) + w_part + q_part).sqrt()


def centred(gradient: Tensor) -> Tensor:
    """Return the part of an α-gradient that moves α: the projection onto Δ drops the mean."""
    return gradient - gradient.mean(-1, keepdim=True)


def reweigh(q: Tensor, values: Tensor) -> Tensor:
    """Return q after a multiplicative update: adversaries with larger distance (M, K) gain."""
    if q.shape[-1] == 1:
        return q
    best = values.max(-1, keepdim=True).values
    gain = PANEL_RATE * (values - best) / best.abs().clamp(min=1e-30)
    q = q * gain.exp()
    return (1.0 - PANEL_FLOOR) * q / q.sum(-1, keepdim=True) + PANEL_FLOOR / q.shape[-1]


def averaged(mean: Tensor, new: Tensor, t: int) -> Tensor:
    """Return the running mean of iterates 1..t with weights ∝ t^AVERAGING."""
    share = (1.0 + AVERAGING) / (t + AVERAGING)
    return mean + share * (new - mean)
