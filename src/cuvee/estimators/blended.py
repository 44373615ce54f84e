"""Models of all targets and of every source alone, from a table that was taken apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuvee.errors import OptionError
from cuvee.estimators.candidates import of_target
from cuvee.estimators.choose import Choice, Progress, Target, fit_targets
from cuvee.estimators.routing import FittedModel, Learner
from cuvee.estimators.weights import Table, take
from cuvee.problem import Array, Domain, Problem
from cuvee.results import Floats, Mixtures


@dataclass(frozen=True, eq=False)
class Blended:
    """What an estimator made of a problem."""

    learner: Learner
    models: tuple[FittedModel, ...]  # (M,) of the targets; of the one domain where there is none
    alone: tuple[FittedModel, ...]  # (N,) of each source alone
    choices: tuple[Choice, ...]  # (M,)
    alpha: Floats  # (M, N+1), or [[1.0]] of one domain


def blended(
    learner: Learner,
    X: Any,
    rows: Mapping[str, Array],
    problem: Problem,
    mixtures: Mixtures | None,
    *,
    budget: float | None = None,
    progress: Progress | None = None,
) -> Blended:
    """Return the models of the targets, and of each source alone.

    Args:
        learner: the estimator.
        X: (all rows, …) what it learns from, an array or a frame.
        rows: the numbers of every domain's rows in X.
        problem: the same rows, with the labels to learn.
        mixtures: of the targets; None where the table is one domain.
        budget: seconds for judging mixtures and fitting the targets' models.
        progress: called with (what, done, total).
    """
    alone = tuple(_alone(learner, take(X, rows[s.name]), s) for s in problem.sources)
    if mixtures is None:
        return Blended(learner, alone, alone, (), np.ones((1, 1)))
    table = Table.of(
        [take(X, rows[s.name]) for s in problem.sources],
        [coded(learner, s) for s in problem.sources],
        [s.weight for s in problem.sources],
    )

    def target(i: int, t: Domain) -> Target:
        own = table.with_own(take(X, rows[t.name]), coded(learner, t), t.weight)
        return Target(t.name, own, *of_target(mixtures, i))

    each = (target(i, t) for i, t in enumerate(problem.targets))
    done = list(fit_targets(learner, each, problem.n_targets, budget=budget, progress=progress))
    choices, models = zip(*done, strict=True)
    return Blended(learner, models, alone, choices, np.stack([c.alpha for c in choices]))


def coded(learner: Learner, domain: Domain) -> Array:
    """Return a domain's labels as the learner has them: numbers of classes, or quantities."""
    if learner.classes is None:
        return np.asarray(domain.y, dtype=np.float64)
    return np.searchsorted(learner.classes, domain.y)


def classes_of(sources: Sequence[Domain]) -> Array:
    """Return the classes that the sources have, sorted."""
    return np.unique(np.concatenate([s.y for s in sources]))


def _alone(learner: Learner, X: Any, source: Domain) -> FittedModel:
    """Return the model of a source alone."""
    worth = np.ones(source.n_rows) if source.weight is None else source.weight
    try:
        return learner.fit(X, coded(learner, source), worth)
    except Exception as error:
        raise OptionError(
            f"source {source.name!r}: the estimator failed on its rows alone "
            f"({type(error).__name__}: {error}): correct the estimator, or exclude the source"
        ) from error
