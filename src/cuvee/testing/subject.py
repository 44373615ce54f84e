"""What the checks look at: a hypothesis bound to small tables, with random models beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cuvee.errors import InputError
from cuvee.hypothesis.base import Hypothesis
from cuvee.problem import Array, Domain, Problem

ROWS, FEATURES = (30, 40, 36), 3
SPREAD = 0.7  # of random parameters


def problem_of(kind: str, seed: int = 0) -> Problem:
    """Return three sources that disagree and one small target, with labels of this kind."""
    rng = np.random.default_rng(seed)

    def domain(name: str, rows: int) -> Domain:
        X = rng.normal(size=(rows, FEATURES)) + 0.3 * rng.normal(size=FEATURES)
        scores = X @ (0.6 * rng.normal(size=(FEATURES, 3)))
        labels: dict[str, Callable[[], Array]] = {
            "quantities": lambda: scores[:, 0] + 0.3 * rng.normal(size=rows),
            "amounts of 0 or more": lambda: rng.gamma(2.0, np.exp(0.5 * scores[:, 0])),
            "two classes": lambda: (scores[:, 0] + rng.logistic(size=rows) > 0).astype(int),
            "three classes": lambda: (scores + rng.gumbel(size=scores.shape)).argmax(1),
        }
        return Domain(name, X, labels[kind]())

    return Problem(
        [domain(f"source {j}", rows) for j, rows in enumerate(ROWS)], [domain("target", 12)]
    )


KINDS = ("quantities", "amounts of 0 or more", "two classes", "three classes")


@dataclass(frozen=True)
class Subject:
    """Hold a hypothesis and a problem that it can be bound to."""

    hypothesis: Hypothesis
    problem: Problem
    labels: str

    @property
    def name(self) -> str:
        """Return how sentences name it."""
        return f"{type(self.hypothesis).__name__} ({self.labels})"

    def require(self, holds: Any, sentence: str) -> None:
        """Raise `AssertionError` with the sentence unless the condition holds everywhere."""
        if not bool(torch.as_tensor(holds).all()):
            raise AssertionError(f"{self.name}: {sentence}")

    def check(self, checks: Iterable[Callable[[Any], None]]) -> None:
        """Run checks; an error that the checked code raises becomes a failed check."""
        for each in checks:
            try:
                each(self)
            except AssertionError:
                raise
            except Exception as error:
                promise = " ".join((each.__doc__ or each.__name__).split()).removeprefix("Check ")
                raise AssertionError(
                    f"{self.name}: {type(error).__name__} was raised when it was checked "
                    f"{promise.rstrip('.')}: {error}"
                ) from error

    @cached_property
    def space(self) -> Any:
        return self.hypothesis.bind(self.problem.facts)

    @cached_property
    def standardised(self) -> Any:
        return self.hypothesis.bind(self.problem.facts, standardised=True)

    @cached_property
    def X(self) -> Tensor:
        """Return the prepared rows of the first source."""
        return self.prepared(self.problem.sources[0].X)

    @cached_property
    def y(self) -> Tensor:
        """Return the encoded labels of the first source."""
        return self.encoded(self.problem.sources[0])

    def prepared(self, X: Array) -> Tensor:
        rows: Tensor = self.space.prepare(torch.as_tensor(X, dtype=self.space.dtype))
        return rows

    def encoded(self, domain: Domain) -> Tensor:
        return torch.as_tensor(self.space.encode(domain.y, domain.name))

    def models(self, *shape: int, seed: int = 0, scale: float = SPREAD) -> Tensor:
        """Return random parameters (*shape, P)."""
        drawn = np.random.default_rng([7, seed]).normal(size=(*shape, self.space.n_params))
        return torch.as_tensor(scale * drawn, dtype=self.space.dtype)

    def losses(self, w: Tensor) -> Tensor:
        """Return the trained losses (..., rows) of models w (..., P) on the first source."""
        losses: Tensor = self.space.trained(self.space.scores(w, self.X), self.y)
        return losses

    @property
    def rounding(self) -> float:
        """Return how far two computations of a number may lie apart, relative to its size."""
        return 1e-9 if self.space.dtype == torch.float64 else 1e-4

    def close(self, a: Tensor, b: Tensor, slack: float = 1.0) -> bool:
        """Return whether two computations of the same numbers agree but for rounding."""
        tol = slack * self.rounding
        return torch.allclose(a.double(), b.double(), rtol=tol, atol=tol)


def subjects(hypothesis: Hypothesis, problem: Problem | None) -> list[Subject]:
    """Return the hypothesis with the caller's problem, or with each default that it binds to."""
    if problem is not None:
        return [Subject(hypothesis, problem, "the given problem")]
    bound, refusals = [], []
    for kind in KINDS:
        subject = Subject(hypothesis, problem_of(kind), kind)
        try:
            hypothesis.bind(subject.problem.facts)
        except InputError as refusal:
            refusals.append(f"{kind}: {refusal}")
        else:
            bound.append(subject)
    if not bound:
        raise AssertionError(
            f"{type(hypothesis).__name__} refuses every table that is tried by default (rows of "
            f"{FEATURES} numbers; {'; '.join(refusals)}): pass problem=, a cuvee.Problem it is for"
        )
    return bound
