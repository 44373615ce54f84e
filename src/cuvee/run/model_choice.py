"""`--model auto`: linear, trees or a forest, whichever predicts held-out rows of targets best."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cuvee.data.options import LINEAR, Options
from cuvee.data.prepared import Prepared
from cuvee.estimators.auto import Contest, Verdict, contest, verdict
from cuvee.estimators.candidates import of_target
from cuvee.estimators.choose import Target
from cuvee.estimators.named import linear, named
from cuvee.estimators.routing import Learner
from cuvee.results import Mixtures
from cuvee.run import fitted
from cuvee.run.fitted import Fitting
from cuvee.run.folder import CHOSEN, RunFolder, as_json

Progress = Callable[[str, int, int], None]
CONTENDERS = (LINEAR, "trees", "forest")
MOST = 8  # targets whose rows decide: more would cost more than they tell
SPENT = 1 / 3  # of a budget, at most
STEP = "model"
BARE = {
    "model": LINEAR,
    "why": "model: linear, because no target has labels that could judge another",
    "judged": {},
}


def choose(
    folder: RunFolder,
    prepared: Prepared,
    options: Options,
    mixtures: Sequence[Mixtures],
    progress: Progress,
) -> None:
    """Choose one model and commit the choice; what was chosen once stays."""
    if not folder.done(STEP):
        began = time.monotonic()
        contests = _contests(prepared, options, mixtures, progress)
        content = _verdict(contests, prepared.classes is not None) if contests else BARE
        folder.commit(STEP, {CHOSEN: as_json(content)}, seconds=time.monotonic() - began)


def _verdict(contests: Mapping[str, Contest], classify: bool) -> dict[str, Any]:
    """Return which model won, and why, for a file."""
    won = verdict(list(contests.values()), classify=classify)
    return {
        "model": won.winner,
        "why": _why(won, list(contests.values()), classify),
        "judged": {t: one.mixtures.get(won.winner, {}) for t, one in contests.items()},
    }


def known(folder: RunFolder, target: str) -> Mapping[str, float]:
    """Return the held-out losses of mixtures that were judged while the model was chosen."""
    if not folder.done(STEP):
        return {}
    losses = folder.json(CHOSEN)["judged"].get(target, {})
    return {name: float(value) for name, value in losses.items() if value is not None}


def _contests(
    prepared: Prepared, options: Options, mixtures: Sequence[Mixtures], progress: Progress
) -> dict[str, Contest]:
    """Return what every contender lost on some of the targets."""
    bare = {*prepared.label_free}
    where = [
        (g, i)
        for g, m in enumerate(prepared.members)
        for i, name in enumerate(m.targets)
        if name not in bare
    ]
    if not where:
        return {}
    at = np.unique(np.linspace(0, len(where) - 1, min(MOST, len(where))).astype(int))
    mix_of = {t: mix for mix in mixtures for t in mix.targets}
    end = np.inf if options.budget is None else time.monotonic() + SPENT * options.budget
    contests, kept = {}, -1
    for done, (g, i) in enumerate(where[k] for k in at):
        progress("choosing a model", done, len(at))
        members = prepared.members[g]
        if g != kept:
            fitting, kept = Fitting.of(prepared, members, replace(options, model="trees")), g
        rows = fitting.rows(fitting.problem, fitting.group.problem, i)
        name, task = members.targets[i], prepared.inferred.task
        alpha = of_target(fitted.only(mix_of[name], name, members.sources), 0)[0]
        estimators = {model: named(model, task) for model in CONTENDERS[1:]}
        learners = {
            model: Learner.of(estimator, members.classes, options.seed)
            for model, estimator in (
                (LINEAR, linear(task, options.l2, len(rows.y))),
                *estimators.items(),
            )
        }
        now = time.monotonic()
        share = (end - now) / ((len(at) - done) * len(estimators))
        # the linear model is always judged: it is what remains where a budget is short
        deadlines = {m: now + (n + 1) * share for n, m in enumerate(estimators)}
        contests[name] = contest(learners, Target(name, rows, alpha), deadlines)
    progress("choosing a model", len(at), len(at))
    return contests


def _why(won: Verdict, contests: Sequence[Contest], classify: bool) -> str:
    """Return what was chosen and what that cost, in a sentence."""
    measure = "log loss" if classify else "squared error (that of linear models is 1)"
    seconds = {name: sum(one.seconds[name] for one in contests) for name in won.loss}
    each = ", ".join(
        f"{name} {value:.3g} ({seconds[name]:.0f} s)" if np.isfinite(value) else f"{name} unknown"
        for name, value in won.loss.items()
    )
    least = min((v, name) for name, v in won.loss.items() if np.isfinite(v))[1]
    reason = (
        "the least"
        if least == won.winner
        else f"within {won.error[won.winner]:.2g}, one standard error, of the least"
    )
    return f"model: {won.winner}, whose cross-validated {measure} is {reason} of {each}"
