"""Run Algorithm 4 of the paper: label-efficient nonparametric online regression.

The box, with its two misprints corrected (a new centre is t, not s; and variants.py says what T_s
is)::

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
ROUNDING = 1e-12  # above the rounding errors of products of numbers up to 1


@dataclass(frozen=True, eq=False)
class Round:
    """Hold what happened to one mixture."""

    t: int
    alpha: Floats  # (N,)
    w: Floats  # (P,) ŵ_t
    # s with t ∈ T_s, the ball that a label belongs to; None if there is none
    ball: int | None
    distance: float  # ‖α_t − α_s‖ to the active centre; ∞ before there was one
    radius: float  # ε_t
    known: bool  # whether T_s of the active centre was not empty


def paper_radius(n_sources: int) -> Radius:
    """Return the radius ε_t = t^{−1/(1+N)} as a function of t."""
    return lambda t: float(t ** (-1.0 / (1 + n_sources)))


class Regressor:
    """Hold the state of Algorithm 4: the round t, the centres S, their radii and balls."""

    def __init__(
        self, balls: Averages, n_sources: int, radius: Radius, prior: Floats, *, nearest: bool
    ) -> None:
        self.balls, self.radius = balls, radius
        # (P,), and whether the nearest ball with T_s ≠ ∅ is used before the prior
        self.prior, self.nearest = prior, nearest
        self.t = 0
        self.S = Centres(n_sources)
        self.radii = Rows()  # (n,) ε_t when each was opened

    def observe(self, alpha: Floats) -> Round:
        """Return the round of α_t (N,): predict, then join a ball or open one."""
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
        """Return a round 0 of the uniform mixture, so that a label of it can be learnt.

        It is called before the first round.
        """
        N = self.S.points.shape[1]
        alpha = np.full(N, 1.0 / N)
        epsilon = self.radius(1)
        ball = None if self.balls.around_labels else self._open(alpha, epsilon)
        if ball is not None:
            self.balls.join(ball)
        return Round(0, alpha, self.prior, ball, inf, epsilon, False)

    def learn(self, now: Round, w: Floats, slopes: Floats | None) -> None:
        """Learn from the label w_t (P,), with dw*/dα (N, P) where balls need it.

        In the algorithm as printed, the label of the round that opens a ball is lost.
        """
        ball = now.ball
        if ball is None and self.balls.around_labels:
            ball = self._open(now.alpha, 0.0)
        if ball is not None:
            self.balls.learn(ball, now.alpha, w, slopes)

    def predict(self, alpha: Floats) -> Floats:
        """Return predictions (M, P) for mixtures (M, N), without a round."""
        w = np.tile(self.prior, (len(alpha), 1))
        size = max(1, CHUNK // max(len(self.S), self.balls.total.values[:1].size, 1))
        for low in range(0, len(alpha) if len(self.S) else 0, size):
            chunk = alpha[low : low + size]
            w[low : low + size] = self._answer(chunk, _nearest(chunk, self.S.points))
        return w

    def state(self) -> dict[str, Array]:
        return {"centres": self.S.points, "radii": self.radii.values, **self.balls.state()}

    def restore(self, t: int, state: dict[str, Array]) -> None:
        self.t, self.S, self.radii = t, Centres.of(state["centres"]), Rows.of(state["radii"])
        self.balls.restore(state)
        sizes = {len(self.S), len(self.radii), *self.balls.lengths}
        if len(sizes) != 1:
            raise ValueError("the numbers of centres and balls differ")

    def _open(self, alpha: Floats, epsilon: float) -> int:
        """Open a ball: S ← S ∪ {t}, T_t ← ∅; return its number."""
        self.balls.open()
        self.radii.append(epsilon)
        return self.S.add(alpha)

    def _answer(self, alpha: Floats, s: Array) -> Floats:
        """Return predictions (M, P) of balls s (M,) for α (M, N).

        Where T_s is empty, the nearest ball with T_s ≠ ∅ answers if `nearest` is set, else the
        prior.
        """
        known = self.balls.known(s)
        if self.nearest and not known.all():
            labelled = np.flatnonzero(self.balls.known(np.arange(len(self.S))))
            if len(labelled):
                s = s.copy()
                s[~known] = labelled[_nearest(alpha[~known], self.S.points[labelled])]
                known[:] = True
        w = np.tile(self.prior, (len(alpha), 1))
        if known.any():
            w[known] = self.balls.say(s[known], alpha[known])
        return w


def _nearest(alpha: Floats, points: Floats) -> Array:
    """Return the number of the point (n, N) nearest to each α (M, N): (M,).

    Like `Centres`, it is exact and takes the first among ties.
    """
    score = (points**2).sum(1) / 2 - alpha @ points.T  # (d² − |α|²)/2, but for rounding
    nearest = score.argmin(1)
    tied = np.flatnonzero((score <= score.min(1, keepdims=True) + ROUNDING).sum(1) > 1)
    for i in tied:
        near = np.flatnonzero(score[i] <= score[i, nearest[i]] + ROUNDING)
        nearest[i] = near[((points[near] - alpha[i]) ** 2).sum(1).argmin()]
    return np.asarray(nearest)
