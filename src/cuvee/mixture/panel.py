"""Send adversaries up: a panel answers weights α with the cuts its adversaries reach.

A panel has SIDES adversaries for each of the G weights of a target. In the "mixture" form
|x| = max(x, −x): one of them climbs Σ_j α_j z_j, the other descends it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, cast

import torch
from torch import Tensor

from cuvee.components import Batch, Components, Part, QuadraticSums
from cuvee.mixture import players as play
from cuvee.mixture.largest import quadratic_maximisers
from cuvee.mixture.objective import Objective, differences
from cuvee.mixture.players import Pace, Settings

SIDES = 2
CLIMBS = 8  # steps of every adversary in a round
SEASON = 3  # rounds after which the adversaries start afresh, elsewhere
REACH = 0.5  # of W's radius: how far the first step goes
LARGE = 2**13  # rows from which on adversaries climb on minibatches
EXACT = 64  # parameters up to which quadratic adversaries are solved for


class Panel(Protocol):
    """Answer weights with cuts."""

    def answer(self, alpha: Tensor, t: int) -> Tensor:
        """Return new cuts z (M, K, N) for the weights α (M, G, J) of round t."""
        ...

    def settled(self, t: int) -> bool:
        """Return whether the panel, after round t, has looked as hard as it can."""
        ...

    def narrow(self, targets: Tensor) -> Panel:
        """Return the panel of the given targets only."""
        ...


@dataclass
class Climbers:
    """Climb by adaptive gradient steps on some rows; the cuts are taken on others or the same."""

    components: Components
    objective: Objective
    settings: Settings
    climb: Part = "all"
    judge: Part = "all"
    _w: Tensor | None = None
    _pace: Pace | None = None

    def answer(self, alpha: Tensor, t: int) -> Tensor:
        each = alpha.repeat_interleave(SIDES, 1)  # (M, G · SIDES, J)
        space = self.components.space
        if t % SEASON == 0 or self._w is None or self._pace is None:
            first = space.start(each.shape[1], self.settings.seed + t).to(alpha.device)
            self._w = first.expand(len(alpha), -1, -1).contiguous()
            reach = REACH * play.w_reach(space, first)
            self._pace = Pace.fresh(self.settings.gamma, reach, self._w)
        w, pace, cuts = self._w, self._pace, []
        for i in range(CLIMBS):
            batch = self._batch(t * CLIMBS + i)
            losses, pullback = self.components.losses(w, batch)
            z = differences(losses)
            if batch == Batch(part=self.judge):
                cuts.append(z)
            gradient = pullback(ascent(self.objective, each, z))
            pace = pace.after(gradient)
            w = space.project(w + pace.step * gradient)
        self._w, self._pace = w, pace
        cuts.append(differences(self.components.values(w, Batch(part=self.judge))))
        return torch.cat(cuts, 1)

    def settled(self, t: int) -> bool:
        return t % SEASON == SEASON - 1 and t >= SEASON

    def narrow(self, targets: Tensor) -> Climbers:
        # A panel settles at the end of a season, so its adversaries start afresh next.
        components, objective = self.components.narrow(targets), self.objective.narrow(targets)
        return replace(self, components=components, objective=objective, _w=None, _pace=None)

    def _batch(self, step: int) -> Batch:
        """Return what to climb on in a step: all rows, or a minibatch where they are many."""
        rows = self.components.n_rows
        if rows <= LARGE:
            return Batch(part=self.climb)
        size = max(self.settings.batch_size, LARGE // len(self.components.counts))
        return Batch(step, size, part=self.climb)


@dataclass(frozen=True)
class Exact:
    """Solve for the adversaries of squared losses in a ball: each is a trust-region problem."""

    components: QuadraticSums
    climb: Part = "all"
    judge: Part = "all"

    def answer(self, alpha: Tensor, t: int) -> Tensor:
        """Return the cuts of the exact adversaries."""
        w = quadratic_maximisers(self.components, alpha, self.climb)  # (M, G · 2, P)
        return differences(self.components.values(w, Batch(part=self.judge)))

    def settled(self, t: int) -> bool:
        return True

    def narrow(self, targets: Tensor) -> Exact:
        return replace(self, components=self.components.narrow(targets))


@dataclass(frozen=True)
class Several:
    """Ask several panels, each with its own adversaries."""

    panels: tuple[Panel, ...]

    def answer(self, alpha: Tensor, t: int) -> Tensor:
        return torch.cat([panel.answer(alpha, t) for panel in self.panels], 1)

    def settled(self, t: int) -> bool:
        return all(panel.settled(t) for panel in self.panels)

    def narrow(self, targets: Tensor) -> Several:
        return Several(tuple(panel.narrow(targets) for panel in self.panels))


def of(
    components: Components,
    objective: Objective,
    settings: Settings,
    climb: Part = "all",
    judge: Part = "all",
) -> Panel:
    """Return the panel that suits the losses: exact where that is cheap, climbing elsewhere."""
    space = components.space
    quadratic = space.quadratic and components.loss == "trained" and space.radius
    if quadratic and objective.discrepancy == "mixture" and space.n_params <= EXACT:
        return Exact(cast(QuadraticSums, components), climb, judge)
    return Climbers(components, objective, settings, climb, judge)


def ascent(objective: Objective, alpha: Tensor, z: Tensor) -> Tensor:
    """Return the coefficients (M, K, N+1) whose pullback moves adversary k up its own F.

    α is (M, K, J): each adversary has its own weights.
    """
    a = alpha[..., : z.shape[-1]]
    if objective.discrepancy == "sum":
        u = a * objective.g_prime(z)
    else:
        side = 1.0 - 2.0 * (torch.arange(z.shape[1], device=z.device) % SIDES).to(z)
        u = a * side[:, None]
    return torch.cat([-u, u.sum(-1, keepdim=True)], -1)
