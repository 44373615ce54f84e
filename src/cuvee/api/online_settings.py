"""What an `OnlineMap` is told: its options, checked, and what they stand for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, cast, get_args

import numpy as np

from cuvee.api.checks import check_whole
from cuvee.errors import OptionError, check_choice, check_number
from cuvee.hypothesis.base import Space
from cuvee.online.policy import Budget, Certified, Coin, Policy
from cuvee.online.regressor import Radius, paper_radius
from cuvee.results import Floats
from cuvee.solution import check_w

Variant = Literal["auto", "paper", "paper_repaired", "first_order", "curved"]
PolicyName = Literal["auto", "coin", "budget", "certificate"]
Prior = Literal["auto", "paper", "zero", "centre"]


@dataclass(frozen=True)
class Settings:
    """Everything but the data; what a file says of a map."""

    variant: str
    policy: str
    label_budget: float
    tol: float
    radius: float | str  # a constant, "paper", or "given" for a schedule that a file cannot hold
    centre: bool  # whether a first label, of the uniform mixture, stands in for a prior
    K: int | None
    evaluate: bool
    seed: int

    def __post_init__(self) -> None:
        """Check every option, from a file as from a user."""
        check_choice("variant", self.variant, get_args(Variant)[1:])
        check_choice("policy", self.policy, get_args(PolicyName)[1:])
        check_number("label_budget", self.label_budget, least=0.0, most=1.0)
        check_number("tol", self.tol, above=0.0)
        check_whole("seed", self.seed, 0)
        if self.K is not None:
            check_whole("K", self.K, 1)
        for name in ("centre", "evaluate"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"{name} must be True or False; got {getattr(self, name)!r}")


@dataclass(frozen=True)
class Asked:
    """What the caller of `OnlineMap` asked for, "auto" where it is left to the map."""

    variant: str
    label_budget: float
    policy: str
    tol: float
    radius: Any
    prior: Any
    K: int | None
    evaluate: bool
    seed: int

    def __post_init__(self) -> None:
        check_choice("variant", self.variant, get_args(Variant))
        check_choice("policy", self.policy, get_args(PolicyName))
        if isinstance(self.prior, str):
            check_choice("prior", self.prior, get_args(Prior))

    def settled(self, space: Space) -> Settings:
        """Return the settings, with "auto" decided by what the space has."""
        variant = (
            self.variant
            if self.variant != "auto"
            else "curved"
            if space.convex
            else "paper_repaired"
        )
        papers = variant in ("paper", "paper_repaired")
        policy = self.policy
        if policy == "auto":
            policy = "coin" if papers else "certificate" if variant == "curved" else "budget"
        if not space.convex and (not papers or policy == "certificate" or self.evaluate):
            raise OptionError(
                "a network has neither dw*/dα nor a certificate nor one w* to compare with: take "
                "variant='paper_repaired' or 'paper' with policy='coin' or 'budget', and no "
                "evaluate"
            )
        return Settings(
            variant=variant,
            policy=policy,
            label_budget=_plain(self.label_budget),
            tol=_plain(self.tol),
            radius=_radius_in_file(self.radius),
            centre=isinstance(self.prior, str)
            and (self.prior == "centre" or (self.prior == "auto" and not papers)),
            K=_plain(self.K),
            evaluate=_plain(self.evaluate),
            seed=_plain(self.seed),
        )


def _radius_in_file(radius: Any) -> float | str:
    """Return a radius as a file holds it: a function is "given"."""
    return radius if isinstance(radius, str) else "given" if callable(radius) else float(radius)


def _plain(value: Any) -> Any:
    """Return a number of numpy's as one that JSON holds."""
    return value.item() if isinstance(value, np.generic) else value


def policy_of(settings: Settings) -> Policy:
    if settings.policy == "coin":
        return Coin(settings.label_budget, settings.seed)
    if settings.policy == "budget":
        return Budget(settings.label_budget)
    return Certified(settings.label_budget, settings.tol)


def radius_of(radius: Any, n_sources: int) -> Radius:
    """Return ε_t as a function; what a user's function returns is checked when it is called."""
    if isinstance(radius, str):
        check_choice("radius", radius, ("paper",))
        return paper_radius(n_sources)
    if not callable(radius):
        if not isinstance(radius, Real):
            raise OptionError(
                f"radius must be 'paper', a number or a function of t = 1, 2, …; got {radius!r}"
            )
        check_number("radius", cast(float, radius), least=0.0)
        constant = float(radius)
        return lambda t: constant
    given: Callable[[int], Any] = radius

    def schedule(t: int) -> float:
        epsilon = given(t)
        check_number(f"radius({t})", epsilon, least=0.0)
        return float(epsilon)

    return schedule


def prior_of(prior: Any, settings: Settings, n_params: int) -> Floats:
    if not isinstance(prior, str):
        try:
            return check_w([prior], 1, n_params)[0]
        except OptionError:
            names = ", ".join(map(repr, get_args(Prior)))
            raise OptionError(
                f"prior must be one of {names}, or a model of {n_params} finite numbers"
            ) from None
    ones = prior == "paper" or (prior == "auto" and not settings.centre)
    return np.full(n_params, 1.0 / n_params if ones else 0.0)
