"""`--model auto`: linear, trees or a forest, whichever predicts held-out rows of targets best."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cuvee.data.options import AUTO, LINEAR, Options
from cuvee.data.prepared import Prepared
from cuvee.estimators.candidates import few, of_target
from cuvee.estimators.folds import held_out
from cuvee.estimators.named import linear, named
from cuvee.estimators.routing import Learner
from cuvee.results import Floats, Mixtures
from cuvee.run import fitted
from cuvee.run.fitted import Fitting
from cuvee.run.folder import CHOSEN, RunFolder, as_json

Progress = Callable[[str, int, int], None]
CONTENDERS = (LINEAR, "trees", "forest")
MOST = 8  # targets whose rows decide: more would cost more than they tell
JUDGED = 2  # mixtures of each: the linear model's average, and half own
SPENT = 1 / 3  # of a budget, at most
STEP = "model"


def decided(folder: RunFolder, options: Options) -> Options:
    """Return the options with the model that was chosen, or asked for."""
    if options.model != AUTO:
        return options
    return replace(options, model=str(folder.json(CHOSEN)["model"]))


def decide(
    folder: RunFolder,
    prepared: Prepared,
    options: Options,
    mixtures: Sequence[Mixtures],
    progress: Progress,
) -> Options:
    """Return the options with one model; what was chosen once is committed, and stays.

    All models are judged on the same folds of the same targets, each by the better of two mixtures.
    """
    if options.model == AUTO and not folder.done(STEP):
        began = time.monotonic()
        losses, seconds = _losses(prepared, options, mixtures, progress)
        classify = prepared.classes is not None
        score = {name: _mean(values, classify) for name, values in losses.items()}
        best = min(score, key=lambda name: score[name])
        content = {"model": best, "why": _why(best, score, seconds, classify)}
        folder.commit(STEP, {CHOSEN: as_json(content)}, seconds=time.monotonic() - began)
    return decided(folder, options)


def _losses(
    prepared: Prepared, options: Options, mixtures: Sequence[Mixtures], progress: Progress
) -> tuple[Mapping[str, Floats], Mapping[str, float]]:
    """Return held-out losses (targets,) by model, and what each took."""
    where = [(g, i) for g, m in enumerate(prepared.members) for i in range(len(m.targets))]
    at = np.unique(np.linspace(0, len(where) - 1, min(MOST, len(where))).astype(int))
    models, mix_of = CONTENDERS, {t: mix for mix in mixtures for t in mix.targets}
    losses = {model: np.full(len(at), np.inf) for model in models}
    seconds = dict.fromkeys(models, 0.0)
    end = np.inf if options.budget is None else time.monotonic() + SPENT * options.budget
    total, done, kept = len(models) * len(at), 0, -1
    for n, (g, i) in enumerate(where[k] for k in at):
        members = prepared.members[g]
        if g != kept:
            fitting, kept = Fitting.of(prepared, members, replace(options, model="trees")), g
        rows = fitting.rows(fitting.problem, fitting.group.problem, i)
        target = members.targets[i]
        one = fitted.only(mix_of[target], target, members.sources)
        candidates = few(rows.counts, of_target(one, 0)[0], ())[:JUDGED]
        for model in models:
            progress("choosing a model", done, total)
            began, task = time.monotonic(), prepared.inferred.task
            estimator = (
                linear(task, options.l2, len(rows.y)) if model == LINEAR else named(model, task)
            )
            learner = Learner.of(estimator, members.classes, options.seed)
            # the linear model is always judged: it is what remains where a budget is short
            until = np.inf if model == LINEAR else began + (end - began) / (total - done)
            judged = held_out(learner, rows, candidates, target=target, deadline=until)
            if np.isfinite(judged.loss).any():
                losses[model][n] = np.nanmin(judged.loss)
            seconds[model] += time.monotonic() - began
            done += 1
    progress("choosing a model", total, total)
    return losses, seconds


def _mean(losses: Floats, classify: bool) -> float:
    """Return the mean log loss, or the geometric mean of squared errors, which has no unit."""
    return float(losses.mean() if classify else np.exp(np.log(np.maximum(losses, 1e-300)).mean()))


def _why(
    best: str, score: Mapping[str, float], seconds: Mapping[str, float], classify: bool
) -> str:
    """Return what was chosen and what that cost, in a sentence."""
    measure = "log loss" if classify else "squared error"
    each = ", ".join(
        f"{name} {value:.3g} ({seconds[name]:.0f} s)" if np.isfinite(value) else f"{name} unknown"
        for name, value in score.items()
    )
    return f"model: {best}, which has the least cross-validated {measure} of {each}"
