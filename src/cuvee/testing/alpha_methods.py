"""What every α method must keep, whoever wrote it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cuvee import api
from cuvee.errors import CuveeWarning
from cuvee.hypothesis import Logistic
from cuvee.hypothesis.base import Hypothesis
from cuvee.mixture import registry
from cuvee.mixture.method import AlphaMethod
from cuvee.problem import Domain, Problem
from cuvee.results import Mixtures, Status
from cuvee.testing.subject import Subject

STEPS = 80  # at most, of a search
COMPANY = 1e-7  # hundreds of steps carry the roundings of another batch along
EFFECTS = ((3.0, 0.0, 0.0), (-3.0, 0.0, 0.0), (0.0, 3.0, 0.0))  # of three sources that disagree
ROWS = (60, 66, 54)
COPIED = (2, 0)  # the sources that the two targets are copies of


def check_alpha_method(
    method: AlphaMethod | str,
    problem: Problem | None = None,
    hypothesis: Hypothesis | None = None,
) -> None:
    """Raise `AssertionError` if an α method does not keep what callers of `cuvee.estimate` rely on.

    `cuvee.estimate` refuses a problem without targets, so no method is asked about M = 0.

    Args:
        method: a `cuvee.mixture.method.AlphaMethod`, registered or not; or the name of a registered
            one.
        problem: at least two sources and two targets. By default small sources with two classes and
            targets that are copies of them, which a method that searches must find.
        hypothesis: by default `cuvee.Logistic(l2=0.1)`.

    Example:
        >>> from cuvee.testing import check_alpha_method
        >>> check_alpha_method("uniform")
    """
    record = registry.find(method) if isinstance(method, str) else method
    check_record(record)
    with _registered(record):
        AlphaSubject(
            hypothesis or Logistic(0.1), problem or _copies(), record.name, record, problem is None
        ).check(CHECKS)


@contextmanager
def _registered(record: AlphaMethod) -> Iterator[None]:
    """Keep the method registered meanwhile."""
    new = record.name not in registry.names()
    if new:
        registry.register(record)
    elif registry.find(record.name) is not record:
        raise AssertionError(
            f"α method {record.name!r}: another method is registered by this name; choose another"
        )
    try:
        yield
    finally:
        if new:
            registry.unregister(record.name)


def check_record(record: AlphaMethod) -> None:
    """Check that an `AlphaMethod` has a name for options and says in one sentence what it is."""
    for holds, sentence in (
        (re.fullmatch(r"[a-z]\w*", record.name), "name must be a word, as an option is written"),
        (record.summary.endswith("."), "summary must be one sentence, for the pages: end it"),
        (record.steps >= 0, "steps must be 0 for a method that takes none, or above"),
    ):
        if not holds:
            raise AssertionError(f"α method {record.name!r}: {sentence}")


def _copies() -> Problem:
    """Return three sources that disagree and two targets that are copies of sources."""
    rng = np.random.default_rng(0)

    def domain(name: str, effect: tuple[float, ...], rows: int) -> Domain:
        X = rng.normal(size=(rows, len(effect)))
        return Domain(name, X, (X @ effect + rng.logistic(size=rows) > 0).astype(int))

    sources = [
        domain(f"source {j}", effect, rows)
        for j, (effect, rows) in enumerate(zip(EFFECTS, ROWS, strict=True))
    ]
    targets = [Domain(f"target {j}", sources[j].X, sources[j].y) for j in COPIED]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CuveeWarning)  # that these are the very same data
        return Problem(sources, targets)


@dataclass(frozen=True)
class AlphaSubject(Subject):
    """Hold an α method to check: `labels` is its name here."""

    method: AlphaMethod
    copies: bool  # whether targets are copies of sources

    @property
    def name(self) -> str:
        return f"α method {self.labels!r}"

    @property
    def joins(self) -> tuple[bool, ...]:
        """Return what may be asked for: without and with the own sample, or only with it."""
        return (True,) if self.method.own else (False, True)

    def ask(self, own: bool, problem: Problem | None = None) -> Mixtures:
        """Return the weights, after a few steps where it searches."""
        options: dict[str, Any] = {"own": own}
        if "folds" in (self.method.takes or ()):
            options["folds"] = 3
        if self.method.steps:
            options["steps"] = min(STEPS, self.method.steps)
        return api.estimate(problem or self.problem, self.hypothesis, method=self.labels, **options)  # type: ignore[arg-type]

    @cached_property
    def whole(self) -> dict[bool, Mixtures]:
        """Return the weights of all targets, without and with the own sample."""
        return {own: self.ask(own) for own in self.joins}


def check_simplex(s: AlphaSubject) -> None:
    """Check that each target gets weights on the simplex, one more where its own sample joins."""
    for own, mixtures in s.whole.items():
        _require_simplex(s, mixtures, s.problem, own)


def _require_simplex(s: AlphaSubject, mixtures: Mixtures, problem: Problem, own: bool) -> None:
    alpha, columns = mixtures.alpha, problem.n_sources + int(own)
    s.require(
        alpha.shape == (problem.n_targets, columns),
        f"{problem.n_targets} targets and {problem.n_sources} sources get weights of shape "
        f"{alpha.shape} with own={own}; they must have ({problem.n_targets}, {columns}): one more "
        "column where request.settings.own is True",
    )
    s.require(np.isfinite(alpha), f"a weight is not finite with own={own}")
    s.require(
        (alpha >= 0) & (np.abs(alpha.sum(1, keepdims=True) - 1) <= 1e-9),
        f"weights with own={own} are not on the simplex: each must be 0 or more, and a row sum to "
        "1; cuvee.simplex.project brings them there",
    )


def check_status(s: AlphaSubject) -> None:
    """Check that every target has a status that fits the number of steps."""
    for mixtures in s.whole.values():
        s.require(
            len(mixtures.status) == s.problem.n_targets
            and all(isinstance(status, Status) for status in mixtures.status),
            "each target must have a cuvee.Status of its own",
        )
        searched = [str(status) for status in mixtures.status if status is not Status.CLOSED_FORM]
        s.require(
            s.method.steps or not searched,
            f"steps is 0, but a status is {searched[:1]}: a method that takes steps sets steps "
            "above 0, any other returns closed_form(alpha)",
        )


def check_copy(s: AlphaSubject) -> None:
    """Check that a search finds the source that a target is a copy of."""
    if not s.method.steps or not s.copies:
        return
    for own, mixtures in s.whole.items():
        best = mixtures.alpha[:, : s.problem.n_sources].argmax(1)
        s.require(
            best == np.array(COPIED),
            f"with own={own}, targets that are copies of sources {list(COPIED)} get most weight on "
            f"sources {best.tolist()}: look at the sign of the losses and the order of columns; a "
            "method that does not search sets steps=0",
        )


def check_alone(s: AlphaSubject) -> None:
    """Check that a target gets the same weights alone as among others."""
    for own, mixtures in s.whole.items():
        for i, target in enumerate(s.problem.targets):
            alone = s.ask(own, s.problem.with_targets([target])).alpha[0]
            s.require(
                np.abs(alone - mixtures.alpha[i]) <= COMPANY,
                f"with own={own}, {target.name!r} gets other weights alone than among others: no "
                "row may depend on the others, so take no means or norms over the targets",
            )


def check_repeated(s: AlphaSubject) -> None:
    """Check that the same seed gives the same weights."""
    own = s.joins[0]
    s.require(
        np.abs(s.ask(own).alpha - s.whole[own].alpha) <= COMPANY,
        "the same call gives other weights: draw random numbers from a generator made of "
        "request.settings.run.seed",
    )


def check_one_source(s: AlphaSubject) -> None:
    """Check that one source and the own sample are weighed, too."""
    one = Problem(s.problem.sources[:1], [s.problem.targets[0]])
    _require_simplex(s, s.ask(True, one), one, own=True)


CHECKS = (
    check_simplex,
    check_status,
    check_copy,
    check_alone,
    check_repeated,
    check_one_source,
)
