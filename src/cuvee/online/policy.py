"""Decide which rounds are worth a label: by a coin, a budget, or a certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Protocol

import numpy as np

from cuvee.online.regressor import Round


class Policy(Protocol):
    def wants(self, now: Round, paid: int, look: Callable[[], float]) -> bool:
        """Return whether to pay for a label in this round, after `paid` labels so far.

        `look` is one pass over the data: ‖∇‖∞ of the risk at ŵ_t.
        """
        ...


@dataclass(frozen=True)
class Coin:
    """Draw Z_t ~ Bernoulli(p), as in Algorithm 4.

    The coin of a round depends only on its number and the seed.
    """

    p: float
    seed: int

    def wants(self, now: Round, paid: int, look: Callable[[], float]) -> bool:
        bits = np.random.Philox(key=self.seed, counter=now.t)
        return bool(np.random.Generator(bits).random() < self.p)


@dataclass(frozen=True)
class Budget:
    """Pay where no label is within the radius, for at most a share of the rounds."""

    share: float

    def wants(self, now: Round, paid: int, look: Callable[[], float]) -> bool:
        return affordable(self.share, now.t, paid) and (now.distance > now.radius or not now.known)


@dataclass(frozen=True)
class Certified:
    """Pay where one pass over the data shows ‖∇‖∞ > tol, for at most a share of the rounds."""

    share: float
    tol: float

    def wants(self, now: Round, paid: int, look: Callable[[], float]) -> bool:
        return affordable(self.share, now.t, paid) and not look() <= self.tol


def affordable(share: float, rounds: int, paid: int) -> bool:
    """Return whether one more label keeps labels ≤ ⌈share · rounds⌉.

    The first label always is, unless the share is 0.
    """
    return paid < ceil(share * rounds * (1.0 - 1e-12))  # 0.07 · 100 is a little more than 7
