"""State what a mixture must satisfy, and say in words which wishes cannot be met together.

All are linear in α. `Constraints` holds them as people state them, by names of domains; `Polytope`
holds them as limits on the N shares and on sums of shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from cuvee.errors import InputError, OptionError, check_number, option
from cuvee.results import Floats

DUST = 1e-12  # a smaller share is rounding, and 0 is meant
EXACT = 1e-9  # how far a mixture may be outside of a limit: rounding alone


class InfeasibleError(InputError):
    """No mixture satisfies all constraints; `clash` names those that cannot be met together."""

    def __init__(self, message: str, clash: tuple[str, ...]) -> None:
        super().__init__(message)
        self.clash = clash


@dataclass(frozen=True)
class Constraints:
    """Hold what a mixture must satisfy; domains that are not named are free.

    Example:
        >>> limits = Constraints(budget=100, tokens={"code": 20}, repeat=2, minimum={"web": 0.1})
        >>> limits.polytope(["web", "code", "books"]).upper.tolist()
        [1.0, 0.4, 1.0]
    """

    tokens: Mapping[str, float] = field(default_factory=dict)
    """Tokens that a domain has, in the unit of `budget`."""
    budget: float | None = None
    """Tokens of the training run."""
    repeat: float | Mapping[str, float] = 1.0
    """How often a domain's tokens may be seen: for all domains, or by name (others: once)."""
    fixed: Mapping[str, float] = field(default_factory=dict)
    minimum: float | Mapping[str, float] = field(default_factory=dict)
    """Least share, for all domains or by name."""
    maximum: float | Mapping[str, float] = field(default_factory=dict)
    groups: Mapping[str, tuple[Sequence[str], float, float]] = field(default_factory=dict)
    """Name of a group -> (its domains, least share, largest share) of their sum."""

    def polytope(self, domains: Sequence[str]) -> Polytope:
        """Return the mixtures that satisfy all this; raise `InfeasibleError` if there are none."""
        names = list(domains)
        for what, given in (
            ("tokens", self.tokens), ("repeat", self.repeat), ("fixed", self.fixed),
            ("minimum", self.minimum), ("maximum", self.maximum),
        ):  # fmt: skip
            _check_values(option(what), given, names)
        if self.tokens and self.budget is None:
            raise OptionError(
                f"{option('tokens')} limits shares only together with {option('budget')}: give both"
            )
        if self.budget is not None:
            check_number(option("budget"), self.budget, above=0.0)
        limits = [*self._below(names), *self._above(names), *self._groups(names)]
        made = Polytope(tuple(names), tuple(limits))
        made.centre  # noqa: B018  # raises if there is none
        return made

    def _below(self, names: list[str]) -> list[Limit]:
        limits = [
            Limit((names.index(name),), -np.inf, self._supply(name), self._supply_in_words(name))
            for name in self.tokens
        ]
        for name, value in _by_name(self.maximum, names).items():
            limits.append(
                Limit((names.index(name),), -np.inf, value, f"maximum share {value:g} of {name!r}")
            )
        return limits

    def _above(self, names: list[str]) -> list[Limit]:
        limits = [
            Limit((names.index(name),), value, np.inf, f"minimum share {value:g} of {name!r}")
            for name, value in _by_name(self.minimum, names).items()
        ]
        for name, value in self.fixed.items():
            limits.append(
                Limit((names.index(name),), value, value, f"fixed share {value:g} of {name!r}")
            )
        return limits

    def _groups(self, names: list[str]) -> list[Limit]:
        limits = []
        for group, given in self.groups.items():
            members, least, most = _group(group, given)
            _check_values(f"groups[{group!r}]", dict.fromkeys(members, 0.0), names)
            places = tuple(names.index(name) for name in dict.fromkeys(members))
            words = f"share of group {group!r} between {least:g} and {most:g}"
            limits.append(Limit(places, float(least), float(most), words))
        return limits

    def _repeat(self, name: str) -> float:
        return float(
            self.repeat.get(name, 1.0) if isinstance(self.repeat, Mapping) else self.repeat
        )

    def _supply(self, name: str) -> float:
        assert self.budget is not None
        return float(self.tokens[name]) * self._repeat(name) / self.budget

    def _supply_in_words(self, name: str) -> str:
        return (
            f"{self.tokens[name]:g} tokens of {name!r}, seen at most {self._repeat(name):g} times, "
            f"in a budget of {self.budget:g} (share at most {self._supply(name):.4g})"
        )


@dataclass(frozen=True)
class Limit:
    """Keep the sum of the shares of some domains between two numbers."""

    places: tuple[int, ...]
    least: float
    most: float
    words: str


@dataclass(frozen=True, eq=False)
class Polytope:
    """Hold the mixtures that satisfy all limits."""

    domains: tuple[str, ...]
    limits: tuple[Limit, ...] = ()

    @cached_property
    def lower(self) -> Floats:
        """Return the least share (N,) of every domain."""
        single = np.zeros(len(self.domains))
        for limit in self.limits:
            if len(limit.places) == 1:
                single[limit.places[0]] = max(single[limit.places[0]], limit.least)
        return single

    @cached_property
    def upper(self) -> Floats:
        """Return the largest share (N,) of every domain."""
        single = np.ones(len(self.domains))
        for limit in self.limits:
            if len(limit.places) == 1:
                single[limit.places[0]] = min(single[limit.places[0]], limit.most)
        return single

    @cached_property
    def rows(self) -> tuple[Floats, Floats]:
        """Return A (r, N) and b (r,) of the limits on sums of several shares: Aα ≤ b."""
        A, b = [np.zeros((0, len(self.domains)))], [np.zeros(0)]
        for limit in self.limits:
            row = np.zeros((1, len(self.domains)))
            row[0, list(limit.places)] = 1.0
            for sign, end in ((1.0, limit.most), (-1.0, -limit.least)):
                if len(limit.places) != 1 and np.isfinite(end):
                    A.append(sign * row)
                    b.append(np.array([end]))
        return np.concatenate(A), np.concatenate(b)

    @cached_property
    def centre(self) -> Floats:
        """Return a mixture far from the limits; raise `InfeasibleError` where there is none.

        Only limits that are met with room are kept away from: a fixed share has none.
        """
        point = _roomiest(self.lower, self.upper, *self.rows)
        if point is None:
            raise self._clash()
        return point

    def _clash(self) -> InfeasibleError:
        """Return the error that names limits of which each is needed for the clash."""
        needed = list(self.limits)
        for limit in self.limits:
            without = Polytope(self.domains, tuple(x for x in needed if x is not limit))
            if _roomiest(without.lower, without.upper, *without.rows) is None:
                needed.remove(limit)
        words = tuple(limit.words for limit in needed)
        return InfeasibleError(
            "no mixture satisfies these constraints together, with shares of at least 0 that sum "
            f"to 1: {'; '.join(words)}. Loosen one of them",
            words,
        )

    def violation(self, alpha: Floats) -> Floats:
        """Return how far each mixture (m, N) is outside of the limits, at least 0."""
        A, b = self.rows
        outside = np.concatenate(
            [
                self.lower - alpha,
                alpha - self.upper,
                alpha @ A.T - b,
                np.abs(alpha.sum(1, keepdims=True) - 1.0),
            ],
            1,
        )
        return np.maximum(outside.max(1), 0.0)

    def repaired(self, alpha: Floats) -> Floats:
        """Return mixtures (m, N) moved inside: clipped to limits and sum 1, then to the centre."""
        alpha = _boxed(np.asarray(alpha, dtype=np.float64), self.lower, self.upper)
        A, b = self.rows
        if len(b):
            slack, excess = b - A @ self.centre, (alpha - self.centre) @ A.T
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.where(excess > slack, np.maximum(slack, 0.0) / excess, 1.0)
            alpha = self.centre + share.min(1, keepdims=True) * (alpha - self.centre)
            alpha = np.clip(alpha, self.lower, self.upper)
        return np.where((alpha < DUST) & (self.lower <= 0.0), 0.0, alpha)

    def draws(self, n: int, seed: int | Sequence[int], around: Floats | None = None) -> Floats:
        """Return n mixtures inside, spread out: many of them sparse, a third near `around`."""
        rng = np.random.default_rng(seed)
        N = len(self.domains)
        concentration = np.exp(rng.uniform(np.log(0.05), np.log(2.0), n))
        gamma = rng.gamma(concentration[:, None], size=(n, N)) + 1e-12
        centre = np.full(N, 1.0 / N) if around is None else around
        near = rng.random(n) < 1 / 3
        strength = np.exp(rng.uniform(np.log(5.0), np.log(200.0), n))
        gamma[near] = rng.gamma(centre * strength[near, None] + 1e-3)
        gamma[gamma < 0.01 * gamma.max(1, keepdims=True)] = 0.0
        return self.repaired(gamma / gamma.sum(1, keepdims=True))


def _roomiest(lower: Floats, upper: Floats, A: Floats, b: Floats) -> Floats | None:
    """Return a mixture inside with much room, or None if there is none, by linear programs.

    First the room that all limits with any width can have at once, then a mixture with it.
    """
    from scipy.optimize import linprog

    N = len(lower)
    if (lower > upper + EXACT).any():
        return None
    wide = (upper - lower > EXACT).astype(float)
    room = np.concatenate(
        [
            np.column_stack([-np.eye(N), wide]),
            np.column_stack([np.eye(N), wide]),
            np.column_stack([A, np.zeros(len(b))]),
        ]
    )
    ends = np.concatenate([-lower, np.maximum(upper, lower), b])
    found = linprog(
        np.append(np.zeros(N), -1.0), A_ub=room, b_ub=ends, A_eq=np.append(np.ones(N), 0.0)[None],
        b_eq=[1.0], bounds=[(0.0, 1.0)] * N + [(0.0, 1.0 / N)], method="highs",
    )  # fmt: skip
    if found.status != 0:
        return None
    return _boxed(found.x[None, :N], lower, np.maximum(upper, lower))[0]


def _boxed(alpha: Floats, lower: Floats, upper: Floats) -> Floats:
    """Return the nearest points (m, N) between the limits whose sum is 1, by bisection."""
    upper = np.maximum(upper, lower)
    low = (lower - alpha).min(1) - 1.0
    high = (upper - alpha).max(1) + 1.0
    for _ in range(80):
        middle = (low + high) / 2.0
        too_much = np.clip(alpha + middle[:, None], lower, upper).sum(1) > 1.0
        high, low = np.where(too_much, middle, high), np.where(too_much, low, middle)
    inside = np.clip(alpha + low[:, None], lower, upper)
    inside[inside < 1e-15] = 0.0
    # what rounding leaves goes to the share with most room
    left = 1.0 - inside.sum(1)
    place = np.where(left[:, None] > 0, upper - inside, inside - lower).argmax(1)
    rows = np.arange(len(inside))
    inside[rows, place] = np.clip(inside[rows, place] + left, lower[place], upper[place])
    return inside


def _by_name(given: float | Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    values = given if isinstance(given, Mapping) else dict.fromkeys(names, given)
    return {name: float(value) for name, value in values.items()}


def _group(name: str, given: Any) -> tuple[Sequence[str], float, float]:
    """Return the domains of a group, and its least and largest share, or raise `OptionError`."""
    try:
        members, least, most = given
        good = not isinstance(members, str) and not np.isnan([float(least), float(most)]).any()
    except (TypeError, ValueError):
        good = False
    if not good:
        raise OptionError(
            f"groups[{name!r}] must be a list of domains, a least and a largest share, such as "
            f"(['web', 'code'], 0.1, 0.5); got {given!r}"
        )
    return members, least, most


def _check_values(what: str, given: Any, names: Sequence[str]) -> None:
    """Raise `OptionError` for a domain that is not there, or a value that is no number ≥ 0."""
    if not isinstance(given, Mapping):
        if what in (option("tokens"), option("fixed")):
            raise OptionError(
                f"{what} must be given by name, such as {{'web': 0.2}}; got {given!r}"
            )
        check_number(what, given, least=0.0)
        return
    for name, value in given.items():
        if name not in names:
            raise OptionError(
                f"{what} names the domain {name!r}, which is not one of {', '.join(names)}"
            )
        check_number(f"the value of {name!r} in {what}", value, least=0.0)
