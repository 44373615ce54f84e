"""Average the candidates by the estimator's own held-out losses, and fit the model of a target."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from cuvee.errors import CuveeWarning, OptionError
from cuvee.estimators.candidates import few
from cuvee.estimators.folds import FOLDS, held_out
from cuvee.estimators.routing import FittedModel, Learner
from cuvee.estimators.weights import Rows, row_weights
from cuvee.mixture.path import log_prior, shares
from cuvee.results import Floats

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class Target:
    """A target: the rows it may learn from, the surrogate's α, and what the surrogate tried."""

    name: str
    rows: Rows
    alpha: Floats  # (N+1,)
    # name, α (N+1,) and loss of the surrogate's candidates; nothing: α is used as it is
    tried: Sequence[tuple[str, Floats, float]] = ()


@dataclass(frozen=True, eq=False)
class Choice:
    """The mixtures that an estimator judged for a target, and their average."""

    alpha: Floats  # (N+1,) what its model learns from
    names: tuple[str, ...] = ()  # (G,)
    candidates: Floats | None = None  # (G, N+1)
    cv_loss: Floats | None = None  # (G,) mean held-out loss; NaN: not judged
    share: Floats | None = None  # (G,) in the average
    notes: tuple[str, ...] = ()
    seconds: float = 0.0


def choose(
    learner: Learner,
    target: Target,
    *,
    seconds: float = np.inf,
    progress: Progress | None = None,
    known: Mapping[str, float] | None = None,
) -> Choice:
    """Return the average of the few candidates, weighed as `cuvee.mixture.path` weighs its own.

    `seconds` is for judging them and for the final fit, which takes about as long as the slowest of
    them. Where they are short, the candidates are judged on fewer folds. Those whose held-out loss
    is `known`, by name, are not judged again. One whose fit fails gets no share and a sentence;
    where all fail that is an `OptionError`.
    """
    if not target.tried:
        return Choice(target.alpha)
    began = time.monotonic()
    candidates = few(target.rows.counts, target.alpha, target.tried)
    losses = {name: value for name, value in (known or {}).items() if np.isfinite(value)}
    unknown = [one for one in candidates if one[0] not in losses]
    what = f"judging mixtures for {target.name}"
    judged = held_out(
        learner,
        target.rows,
        unknown,
        target=target.name,
        deadline=began + seconds,
        tell=lambda done: None if progress is None else progress(what, done, FOLDS * len(unknown)),
        some_folds=not losses,  # those that are known are of all folds
    )
    if len(judged.failed) == len(candidates):
        raise OptionError(f"{judged.failed[0]}: correct the estimator, or the rows")
    losses |= {name: value for (name, _), value in zip(unknown, judged.loss, strict=True)}
    cv_loss = np.array([losses[name] for name, _ in candidates])
    alpha = np.stack([a for _, a in candidates])
    counts = np.maximum(target.rows.counts, 1.0)
    prior = log_prior(alpha[None], 1.0 / counts[None])
    likelihood = learner.probabilities
    n_judged = np.array([judged.n_judged], dtype=np.float64)
    loss = cv_loss if likelihood else cv_loss + _doubt(learner, n_judged[0])
    share = shares(loss[None], prior, n_judged, likelihood)[0]
    return Choice(
        alpha=share @ alpha,
        names=tuple(name for name, _ in candidates),
        candidates=alpha,
        cv_loss=cv_loss,
        share=share,
        notes=(*judged.failed, *judged.notes),
        seconds=time.monotonic() - began,
    )


def _doubt(learner: Learner, rows: float) -> float:
    """Return half a wrong answer, so that no wrong one among k rows is not taken for proof."""
    return 0.5 / rows if learner.classes is not None else 0.0


def fit_targets(
    learner: Learner,
    targets: Sequence[Target] | Iterator[Target],
    n_targets: int,
    *,
    budget: float | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[Choice, FittedModel]]:
    """Yield what was chosen for each target and its model, one target after the other.

    `budget` is in seconds, for all of them: a target has its share of what is left. Whoever uses
    one gets what was judged in time, so results then depend on the machine.
    """
    end = np.inf if budget is None else time.monotonic() + budget
    for i, target in enumerate(targets):
        left = (end - time.monotonic()) / (n_targets - i)
        choice = choose(learner, target, seconds=left, progress=progress)
        yield choice, fit_model(learner, target.rows, choice.alpha, target.name)
        if progress is not None:
            progress("fitting models", i + 1, n_targets)


def fit_model(learner: Learner, rows: Rows, alpha: Floats, name: str) -> FittedModel:
    """Return the model of a mixture; an estimator that fails is an `OptionError` that names it."""
    try:
        with threadpool_limits(1, user_api="openmp"):  # as in `cuvee.estimators.folds`
            return learner.fit(rows.X, rows.y, row_weights(rows, alpha))
    except Exception as error:
        raise OptionError(
            f"target {name!r}: the estimator failed on all its rows ({type(error).__name__}: "
            f"{error}): correct the estimator, or the rows"
        ) from error


def warn(choices: Sequence[Choice]) -> None:
    """Warn of what was noticed while candidates were judged, in one sentence for all targets."""
    notes = [note for choice in choices for note in choice.notes]
    if notes:
        more = f" (and {len(notes) - 1} more such notes)" if len(notes) > 1 else ""
        warnings.warn(notes[0] + more, CuveeWarning, stacklevel=4)
