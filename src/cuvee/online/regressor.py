"""Algorithm 4 of the paper: label-efficient nonparametric online regression.

The box, with its two misprints mended (a new centre is t, not s; and the variants in balls.py say
what T_s is)::

    observe α_t
    s ← argmin_{s ∈ S} ‖α_t − α_s‖                       the active centre
    ŵ_t ← average of the labels in T_s, or the prior        predict
    if ‖α_t − α_s‖ ≤ ε_t:  T_s ← T_s ∪ {t}                  join its ball
    else:                  S ← S ∪ {t}, T_t ← ∅             or open a new one
    observe w_t, if it is paid for                             learn
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np

from cuvee.online.centres import Centres
from cuvee.online.growable import Rows
from cuvee.online.variants import Averages
from cuvee.problem import Array
from cuvee.results import Floats

Radius = Callable[[int], float]
CHUNK = 2**22  # numbers that are held at a time
ROUNDING = 1e-12  # more than products of numbers up to 1 are off by


@dataclass(frozen=True, eq=False)
class Round:
    """What happened to one mixture."""

    t: int
    alpha: Floats  # (N,)
    w: Floats  # (P,) ŵ_t
    # s with t ∈ T_s, where a label belongs; None if it belongs to no ball that is open
    ball: int | None
    distance: float  # ‖α_t − α_s‖ to the active centre; ∞ before there was one
    radius: float  # ε_t
    known: bool  # whether the active centre had something to say


def paper_radius(n_sources: int) -> Radius:
    """ε_t = t^{−1/(1+N)}."""
    return lambda t: float(t ** (-1.0 / (1 + n_sources)))


class Regressor:
    """The state of Algorithm 4: the round t, centres S with the radii they were opened at, what
    their balls know.
    """

    def __init__(
        self, balls: Averages, n_sources: int, radius: Radius, prior: Floats, *, nearest: bool
    ) -> None:
        self.balls, self.radius = balls, radius
        # (P,), and whether the nearest ball that knows something goes first
        self.prior, self.nearest = prior, nearest
        self.t = 0
        self.S = Centres(n_sources)
        self.radii = Rows()  # (n,) ε_t when each was opened

    def observe(self, alpha: Floats) -> Round:
        """A round for α_t (N,): predict, then join a ball or open one."""
        epsilon = self.radius(self.t + 1)
        self.t += 1
        if len(self.S) == 0 and self.balls.around_labels:
            return Round(self.t, alpha, self.prior.copy(), None, inf, epsilon, False)
        if len(self.S) == 0:
            self._open(alpha, epsilon)
        s, distance = self.S.nearest(alpha)
        known = bool(self.balls.known(np.array([s]))[0])
        w = self._answer(alpha[None], np.array([s]))[0]
        ball: int | None = s
        if self.balls.around_labels:
            ball = s if distance == 0.0 else None
        elif distance <= epsilon:
            self.balls.join(s)
        else:
            opened = self._open(alpha, epsilon)
            ball = opened if self.balls.keep_own else None
        return Round(self.t, alpha, w, ball, distance, epsilon, known)

    def centre(self) -> Round:
        """Before the first round: the uniform mixture, as if it had come, so that a label of it can
        be learnt.
        """
        N = self.S.points.shape[1]
        alpha = np.full(N, 1.0 / N)
        epsilon = self.radius(1)
        ball = None if self.balls.around_labels else self._open(alpha, epsilon)
        if ball is not None:
            self.balls.join(ball)
        return Round(0, alpha, self.prior, ball, inf, epsilon, False)

    def learn(self, now: Round, w: Floats, slopes: Floats | None) -> None:
        """w_t (P,) is observed, with dw*/dα (N, P) where balls want it; as printed, that of a
        ball's first is lost.
        """
        ball = now.ball
        if ball is None and self.balls.around_labels:
            ball = self._open(now.alpha, 0.0)
        if ball is not None:
            self.balls.learn(ball, now.alpha, w, slopes)

    def predict(self, alpha: Floats) -> Floats:
        """What would be said of mixtures (M, N), without a round: (M, P)."""
        w = np.tile(self.prior, (len(alpha), 1))
        size = max(1, CHUNK // max(len(self.S), self.balls.total.values[:1].size, 1))
        for low in range(0, len(alpha) if len(self.S) else 0, size):
            some = alpha[low : low + size]
            w[low : low + size] = self._answer(some, _nearest(some, self.S.points))
        return w

    def state(self) -> dict[str, Array]:
        return {"centres": self.S.points, "radii": self.radii.values, **self.balls.state()}

    def restore(self, t: int, state: dict[str, Array]) -> None:
        self.t, self.S, self.radii = t, Centres.of(state["centres"]), Rows.of(state["radii"])
        self.balls.restore(state)
        sizes = {len(self.S), len(self.radii), *self.balls.lengths}
        if len(sizes) != 1:
            raise ValueError("centres and balls are not equally many")

    def _open(self, alpha: Floats, epsilon: float) -> int:
        """S ← S ∪ {t}, T_t ← ∅."""
        self.balls.open()
        self.radii.append(epsilon)
        return self.S.add(alpha)

    def _answer(self, alpha: Floats, s: Array) -> Floats:
        """What balls s (M,) say of α (M, N), or those nearest of all that know something, or the
        prior: (M, P).
        """
        known = self.balls.known(s)
        if self.nearest and not known.all():
            others = np.flatnonzero(self.balls.known(np.arange(len(self.S))))
            if len(others):
                s = s.copy()
                s[~known] = others[_nearest(alpha[~known], self.S.points[others])]
                known[:] = True
        w = np.tile(self.prior, (len(alpha), 1))
        if known.any():
            w[known] = self.balls.say(s[known], alpha[known])
        return w


def _nearest(alpha: Floats, points: Floats) -> Array:
    """(M, N), (n, N) -> (M,), as `Centres` has it for one at a time: exact, and the first among
    ties.
    """
    score = (points**2).sum(1) / 2 - alpha @ points.T  # (d² − |α|²)/2, but for rounding
    found = score.argmin(1)
    tied = np.flatnonzero((score <= score.min(1, keepdims=True) + ROUNDING).sum(1) > 1)
    for i in tied:
        near = np.flatnonzero(score[i] <= score[i, found[i]] + ROUNDING)
        found[i] = near[((points[near] - alpha[i]) ** 2).sum(1).argmin()]
    return np.asarray(found)
