"""Models of a run that are not linear: mixtures judged by their own folds, fitted, scored, kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from cuvee.data.encode import Encoder
from cuvee.data.options import FITTED as WORDS
from cuvee.data.options import Options
from cuvee.data.prepared import Group, Members, Prepared
from cuvee.estimators import files
from cuvee.estimators.blended import coded
from cuvee.estimators.candidates import of_target
from cuvee.estimators.choose import Target, choose, fit_model
from cuvee.estimators.named import named
from cuvee.estimators.routing import FittedModel, Learner
from cuvee.estimators.weights import Rows, Table
from cuvee.hypothesis import Hypothesis
from cuvee.numerics.parallel import each
from cuvee.problem import Array, Domain, Problem
from cuvee.results import OWN, Candidate, Floats, Mixtures, Status
from cuvee.run import expected
from cuvee.run.explained import importance
from cuvee.run.folder import FITTED, RunFolder
from cuvee.run.judge import Judged, judge_answers
from cuvee.run.models import Delivered, levels
from cuvee.run.scores import METHODS, simple_mixtures

NOTHING_PROVEN = (
    "no certificate: {words} is not the one best model of a convex risk, so that there is no w* to "
    "be close to. The scores on held-out rows say how good it is; the gap of α is that of the "
    "linear hypothesis, which found the mixtures"
)


@dataclass(frozen=True, eq=False)
class Fitting:
    """A group of targets, its sources' rows put together, and the estimator for them."""

    learner: Learner
    group: Group
    problem: Table
    whole: Table
    plain: Table
    hypothesis: Hypothesis  # the linear one, which finds mixtures
    metric: str
    encoder: Encoder

    @classmethod
    def of(cls, prepared: Prepared, members: Members, options: Options) -> Fitting:
        """Return a group, ready to be fitted."""
        group = prepared.group(members)
        estimator = named(options.model, prepared.inferred.task)
        learner = Learner.of(estimator, members.classes, options.seed)
        table = _table(learner, group.problem)
        whole, plain = (
            table if p is group.problem else replace(table, y=_labels(learner, p))
            for p in (group.whole, group.plain)
        )
        hypothesis, metric = prepared.hypothesis(members), prepared.metric
        return cls(learner, group, table, whole, plain, hypothesis, metric, members.encoder)

    @cached_property
    def without_labels(self) -> Floats:
        """Return the weights (M, N) of the targets as if they had no labels."""
        return expected.without_labels(self.group, self.hypothesis, self.learner.seed)

    def rows(self, table: Table, problem: Problem, i: int) -> Rows:
        """Return what target i may learn from."""
        own = problem.targets[i]
        labels = coded(self.learner, own) if own.n_rows else table.y[:0]
        return table.with_own(own.X, labels)


def _labels(learner: Learner, problem: Problem) -> Array:
    return np.concatenate([coded(learner, s) for s in problem.sources])


def _table(learner: Learner, problem: Problem) -> Table:
    return Table.of([s.X for s in problem.sources], [coded(learner, s) for s in problem.sources])


def only(mixtures: Mixtures, target: str, sources: tuple[str, ...]) -> Mixtures:
    """Return the mixture of one target over its own sources, and its own sample."""
    i = mixtures.targets.index(target)
    columns = (*sources, *([OWN] if OWN in mixtures.columns else []))
    at = [mixtures.columns.index(c) for c in columns]
    one = slice(i, i + 1)
    trace = mixtures.trace
    return replace(
        mixtures,
        alpha=mixtures.alpha[one][:, at],
        columns=columns,
        targets=(target,),
        gap=mixtures.gap[one],
        status=mixtures.status[one],
        objective=mixtures.objective[one],
        trace=trace and replace(trace, objective=trace.objective[:, one], gap=trace.gap[:, one]),
        candidates=tuple(
            Candidate(c.name, c.alpha[one][:, at], c.cv_loss[one], c.share[one])
            for c in mixtures.candidates
        ),
    )


def judged(
    fitting: Fitting, i: int, mixtures: Mixtures, seconds: float, known: Mapping[str, float]
) -> Mixtures:
    """Return the mixture of target i, chosen by folds of the estimator, with what was judged.

    `mixtures` is what the linear hypothesis found for it (1, columns); the losses of some of them
    may be `known`.
    """
    name = fitting.group.problem.targets[i].name
    rows = fitting.rows(fitting.problem, fitting.group.problem, i)
    target = Target(name, rows, *of_target(mixtures, 0))
    choice = choose(fitting.learner, target, seconds=seconds, known=known)
    if choice.candidates is None or choice.cv_loss is None or choice.share is None:
        return mixtures
    each_one = zip(choice.names, choice.candidates, choice.cv_loss, choice.share, strict=True)
    return replace(
        mixtures,
        alpha=choice.alpha[None],
        columns=(*fitting.group.problem.source_names, OWN),
        candidates=tuple(
            Candidate(name, a[None], np.array([loss]), np.array([share]))
            for name, a, loss, share in each_one
        ),
        notes=choice.notes,
    )


def deliver(
    fitting: Fitting, i: int, alpha: Floats, options: Options, bare: bool = False
) -> tuple[Delivered, bytes]:
    """Return the model of target i with its scores beside the simple mixtures, and as a file.

    α is (N,) or (N+1,). The model delivered learns from all labelled rows, the others from those
    that are not kept for scores. With `bare` the target is scored as if it had no labels, too.
    """
    group, learner = fitting.group, fitting.learner
    N, test = group.problem.n_sources, group.test[i]
    alpha = np.append(alpha, np.zeros(N + 1 - len(alpha)))
    scored = fitting.rows(fitting.problem, group.problem, i)
    jobs = [(fitting.rows(fitting.whole, group.whole, i), alpha)]
    if test is not None:
        plain = fitting.rows(fitting.plain, group.plain, i)
        counts = plain.counts
        simple = simple_mixtures(counts[:N], counts[N:])[0]
        jobs += [(scored, alpha), *((plain, one) for one in simple)]
    name = group.problem.targets[i].name

    def fit(job: tuple[Rows, Floats]) -> FittedModel:
        return fit_model(learner, *job, name)

    final, *others = each(fit, jobs, "cpu")
    scores = _nothing(fitting) if test is None else _scores(fitting, i, others)
    nan = np.full(1, np.nan)
    delivered = Delivered(
        w=np.zeros((1, 0)),
        offset=levels(group.part(slice(i, i + 1)), alpha[None]),
        status=np.array([str(Status.FITTED)], dtype=object),
        distance=nan,
        excess_risk=nan,
        gradient=nan,
        loss=scores.loss,
        error=scores.error,
        paired=scores.paired,
        also=scores.also,
        moved=np.zeros((1, 0)),
        rests_on=NOTHING_PROVEN.format(words=WORDS[options.model]),
        importance=_importance(fitting, i, others, options),
        bare=_without_labels(fitting, i) if bare else expected.unknown(1),
    )
    return delivered, files.to_bytes(final)


def _without_labels(fitting: Fitting, i: int) -> Floats:
    """Return what a model of target i reaches that saw none of its labels, (1, COLUMNS)."""
    group, learner = fitting.group, fitting.learner
    rows, test = expected.labelled_rows(group, i), group.test[i]
    if rows is None:
        return expected.unknown(1)
    alpha, own = fitting.without_labels[i], group.plain.targets[i]
    sources = fitting.problem.with_own(own.X[:0], fitting.problem.y[:0])
    model = fit_model(learner, sources, np.append(alpha, 0.0), own.name)

    def judged(on: Domain) -> Judged:
        if learner.classes is None:
            answers = model.predict(on.X) + alpha @ group.levels
        else:
            answers = model.predict_proba(on.X)
        return judge_answers(answers[None], on, own, learner.classes, fitting.metric, also=False)

    return expected.columns(judged(rows), _nothing(fitting) if test is None else judged(test))


def _scores(fitting: Fitting, i: int, models: list[FittedModel]) -> Judged:
    group, classes = fitting.group, fitting.learner.classes
    test = group.test[i]
    assert test is not None
    if classes is None:
        answers = np.stack([m.predict(test.X) for m in models])
        answers[0] += group.offset[i]
    else:
        answers = np.stack([m.predict_proba(test.X) for m in models])
    own = group.plain.targets[i]
    return judge_answers(answers, test, own, classes, fitting.metric, also=True)


def _importance(fitting: Fitting, i: int, models: list[FittedModel], options: Options) -> Floats:
    """Return how much the score of target i's model needs each raw column, (1, columns, 2)."""
    group, classes = fitting.group, fitting.learner.classes
    if not options.importance:
        return np.zeros((1, 0, 2))

    def answer(X: Floats) -> Floats:
        model = models[0]
        return model.predict(X) + group.offset[i] if classes is None else model.predict_proba(X)

    how = classes, fitting.metric, fitting.encoder, options.seed
    return importance(answer, group.test[i], *how)[None]


def _nothing(fitting: Fitting) -> Judged:
    """Return the scores of a target without test rows."""
    return Judged.nothing(1, len(METHODS) + 1, fitting.metric)


def file_of(i: int) -> str:
    """Return the name of the file with the model of target i of the run."""
    return f"{FITTED}/{i}.skops"


def answering(
    folder: RunFolder, offset: Floats, classes: Array | None
) -> Callable[[int, Array], tuple[Array, Any]]:
    """Return what answers encoded rows by the fitted model of target i, read from its file."""

    def answer(i: int, X: Array) -> tuple[Array, Any]:
        name = file_of(i)
        n_classes = None if classes is None else len(classes)
        model = files.from_bytes(folder.read(name), n_classes, folder.path / name)
        if classes is None:
            return model.predict(X) + offset[i], None
        chance = model.predict_proba(X)
        return classes[chance.argmax(1)], chance

    return answer
