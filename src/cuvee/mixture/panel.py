"""Send adversaries up: a panel answers weights α with the cuts that its adversaries reach.

A panel shares its adversaries among the G weights of a target, at least two for each. In the
"mixture" form |x| = max(x, −x): every other adversary climbs Σ_j α_j z_j, the rest descend it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Protocol, cast

import torch
from torch import Tensor

from cuvee.components import Batch, Components, Part, QuadraticSums
from cuvee.mixture import players as play
from cuvee.mixture.largest import quadratic_maximisers
from cuvee.mixture.objective import Objective, differences
from cuvee.mixture.players import Pace, Settings

SEASON = 24  # steps after which the adversaries start afresh, elsewhere
REACH = 0.5  # of W's radius: how far the first step goes
LARGE = 2**13  # rows from which on adversaries climb on minibatches
SAMPLED = 2**20  # rows from which on cuts are taken on a sample of about so many
FIRST_SAMPLE = 2**30  # the number of the first minibatch for cuts; no adversary climbs on those
SIGNS = 4  # turns of an exact adversary in the "sum" form
EXACT = 64  # parameters up to which quadratic adversaries are solved for


class Answer(NamedTuple):
    """Hold the cuts of K adversaries for each of M targets."""

    z: Tensor  # (M, K, N) f_T − f_j at each of them
    error: Tensor  # (M, N) standard error of z where it comes from a sample of the rows, else 0


class Panel(Protocol):
    """Answer weights with cuts."""

    def answer(self, alpha: Tensor, t: int) -> Answer:
        """Return new cuts for the weights α (M, G, J) of round t."""
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

    def answer(self, alpha: Tensor, t: int) -> Answer:
        each = _shared(alpha, self.settings)
        space = self.components.space
        climbs = self.settings.climbs
        if t % season(self.settings) == 0 or self._w is None or self._pace is None:
            self._w = _afresh(self.components, each.shape[:2], self.settings.seed + t)
            reach = REACH * play.w_reach(space, self._w)
            self._pace = Pace.fresh(None, reach, self._w)
        w, pace = self._w, self._pace
        for i in range(climbs):
            losses, pullback = self.components.losses(w, self._batch(t * climbs + i))
            gradient = pullback(ascent(self.objective, each, differences(losses)))
            pace = pace.after(gradient)
            w = space.project(w + pace.step * gradient)
        self._w, self._pace = w, pace
        return self._judged(w, t)

    def _judged(self, w: Tensor, t: int) -> Answer:
        """Return the cuts at adversaries w (M, K, P) of round t.

        Where rows are very many, two samples of the sources' rows tell how far chance goes.
        """
        if self.components.n_rows <= SAMPLED or self.settings.whole:
            return _whole(differences(self.components.values(w, Batch(part=self.judge))))
        size = SAMPLED // (2 * len(self.components.counts))
        first, second = (
            differences(
                self.components.values(
                    w, Batch(FIRST_SAMPLE + 2 * t + i, size, own_whole=True, part=self.judge)
                )
            )
            for i in range(2)
        )
        apart = (first - second).nan_to_num(0.0, 0.0, 0.0)  # of an adversary that overflowed
        return Answer((first + second) / 2, apart.square().mean(1).sqrt() / 2)

    def settled(self, t: int) -> bool:
        rounds = season(self.settings)
        return t % rounds == rounds - 1 and t >= rounds

    def narrow(self, targets: Tensor) -> Climbers:
        # A panel settles at the end of a season, so its adversaries start afresh next.
        components, objective = self.components.narrow(targets), self.objective.narrow(targets)
        return replace(self, components=components, objective=objective, _w=None, _pace=None)

    def _batch(self, step: int) -> Batch:
        """Return what to climb on in a step: all rows, or a minibatch where they are many."""
        rows = self.components.n_rows
        if rows <= LARGE or self.settings.whole:
            return Batch(part=self.climb)
        size = max(self.settings.batch_size, LARGE // len(self.components.counts))
        return Batch(step, size, part=self.climb)


@dataclass(frozen=True)
class Exact:
    """Solve for the adversaries of squared losses in a ball: each is a trust-region problem.

    In the "mixture" form both sides are solved globally. In the "sum" form,
    Σ_j α_j |z_j| = max over signs s of Σ_j α_j s_j z_j: an adversary takes the best w for its signs
    and the signs of that w in turn, so that F never falls.
    """

    components: QuadraticSums
    objective: Objective
    settings: Settings
    climb: Part = "all"
    judge: Part = "all"

    def answer(self, alpha: Tensor, t: int) -> Answer:
        n = len(self.components.counts)
        if self.objective.discrepancy == "mixture":
            u = torch.stack([alpha[..., :n], -alpha[..., :n]], 2).flatten(1, 2)  # (M, 2G, N)
            w = quadratic_maximisers(self.components, u, self.climb)
        else:
            each = _shared(alpha, self.settings)[..., :n]
            w = _afresh(self.components, each.shape[:2], self.settings.seed + t)
            for _ in range(SIGNS):
                z = differences(self.components.values(w, Batch(part=self.climb)))
                w = quadratic_maximisers(self.components, each * z.sign(), self.climb)
        return _whole(differences(self.components.values(w, Batch(part=self.judge))))

    def settled(self, t: int) -> bool:
        return self.objective.discrepancy == "mixture" or t >= season(self.settings)

    def narrow(self, targets: Tensor) -> Exact:
        components, objective = self.components.narrow(targets), self.objective.narrow(targets)
        return replace(self, components=components, objective=objective)


@dataclass(frozen=True)
class Several:
    """Ask several panels, each with its own adversaries."""

    components: Components
    panels: tuple[Panel, ...]

    def answer(self, alpha: Tensor, t: int) -> Answer:
        answers = self.components.together(
            [partial(panel.answer, alpha, t) for panel in self.panels]
        )
        errors = torch.stack([answer.error for answer in answers])
        return Answer(
            torch.cat([answer.z for answer in answers], 1), errors.square().mean(0).sqrt()
        )

    def settled(self, t: int) -> bool:
        return all(panel.settled(t) for panel in self.panels)

    def narrow(self, targets: Tensor) -> Several:
        panels = tuple(panel.narrow(targets) for panel in self.panels)
        return Several(self.components, panels)


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
    if quadratic and space.n_params <= EXACT:
        sums = cast(QuadraticSums, components)
        return Exact(sums, objective, settings, climb, judge)
    return Climbers(components, objective, settings, climb, judge)


def season(settings: Settings) -> int:
    """Return the rounds after which adversaries start afresh."""
    return SEASON // settings.climbs


def _whole(z: Tensor) -> Answer:
    """Return cuts (M, K, N) that were taken on all rows."""
    return Answer(z, z.new_zeros(z.shape[0], z.shape[2]))


def _shared(alpha: Tensor, settings: Settings) -> Tensor:
    """Return the weights (M, K, J) of every adversary, from those of G points (M, G, J)."""
    pairs = max(1, settings.adversaries // (2 * alpha.shape[1]))
    return alpha.repeat_interleave(2 * pairs, 1)


def _afresh(components: Components, shape: torch.Size, seed: int) -> Tensor:
    """Return where the adversaries of M targets start, (M, K, P): the same for every target."""
    first = components.space.start(shape[1], seed).to(components.counts.device)
    return first.expand(shape[0], -1, -1).contiguous()


def ascent(objective: Objective, alpha: Tensor, z: Tensor) -> Tensor:
    """Return the coefficients (M, K, N+1) whose pullback moves adversary k up its own F.

    α is (M, K, J): each adversary has its own weights.
    """
    a = alpha[..., : z.shape[-1]]
    u = a * objective.g_prime(z) if objective.discrepancy == "sum" else a * _sides(z)[:, None]
    return torch.cat([-u, u.sum(-1, keepdim=True)], -1)


def _sides(z: Tensor) -> Tensor:
    """Return +1 for adversaries that climb, −1 for those that descend: (K,)."""
    return 1.0 - 2.0 * (torch.arange(z.shape[1], device=z.device) % 2).to(z)
