"""Test losses of `--model auto` against every simple mixture × {linear, trees, forest}; a matter of
quality, not of time.

    CUVEE_DATA=folder cuvee bench trees --json

Simple mixtures: the target's own rows only, all rows pooled, all sources and the own rows alike
(uniform), half own and half all others. Losses are squared errors or cross-entropies on test rows
(with 1 % of "any class", as in `cuvee.estimators.folds`), shares of wrong answers beside them. A
seed is the mean of its targets. Each table has the mean loss of auto and of every pair, which pair
is best, auto's loss over the best pair's and over that of `--model linear` with 95 % intervals from
paired differences, the mean rank of auto among the 13, and how often it took which model.
`benchmarks/_tree_tables.py` has the tables.

Options, as variables: `CUVEE_TABLES="school;office"`, `CUVEE_LABELLED="20;80"`, `CUVEE_FIRST=8000`
and `CUVEE_SEEDS=10`; `CUVEE_RAW=file` keeps a line for every table, number of rows and seed, and
goes on where it was cut; `CUVEE_EVERY=1` has auto's mixtures with each of the three models as well.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks._tree_tables import TABLES, Case
from scipy import stats

import cuvee
from cuvee import erm
from cuvee.components import ALL
from cuvee.data.task import Task
from cuvee.estimators.auto import contest, verdict
from cuvee.estimators.blended import coded
from cuvee.estimators.candidates import of_target, simple
from cuvee.estimators.choose import Target, choose, fit_model
from cuvee.estimators.folds import DOUBT
from cuvee.estimators.named import linear, named
from cuvee.estimators.routing import Learner
from cuvee.estimators.weights import Table
from cuvee.numerics.parallel import workers
from cuvee.problem import Array
from cuvee.results import Floats

FIRST, SEEDS, LABELLED = 8000, 10, "20;80"
MODELS = ("linear", "trees", "forest")
MIXTURES = ("own only", "pooled", "uniform", "half own")
Scores = tuple[float, float]  # mean loss of test rows, share of wrong answers (of classes)


def run(quick: bool = False) -> dict[str, Any]:
    """Losses on every table."""
    asked = os.environ.get
    names = ["linear"] if quick else asked("CUVEE_TABLES", ";".join(TABLES)).split(";")
    rows = [20] if quick else [int(k) for k in asked("CUVEE_LABELLED", LABELLED).split(";")]
    first = int(asked("CUVEE_FIRST", FIRST))
    seeds = range(first, first + (2 if quick else int(asked("CUVEE_SEEDS", SEEDS))))
    raw = None if quick else asked("CUVEE_RAW")
    known = _read(raw)
    cells: dict[tuple[str, int], list[Any]] = {(n, k): [] for n in names for k in rows}
    for seed in seeds:  # so that a run that is cut has some seeds of every table
        for (name, k), cell in cells.items():
            if (record := known.get((name, k, seed))) is None:
                record = {"table": name, "labelled": k, "seed": seed}
                record |= scores(TABLES[name](seed, k), seed, every=bool(asked("CUVEE_EVERY")))
                _append(raw, record)
            cell.append(record)
    result: dict[str, Any] = {"benchmark": "trees", "seeds": [seeds.start, seeds.stop]}
    for (name, k), cell in cells.items():
        result[f"{name}, {k} rows"] = summary(cell)
    result["all"] = {"mean_rank": mean_ranks([r for cell in cells.values() for r in cell])}
    return result


def _read(raw: str | None) -> dict[tuple[str, int, int], Any]:
    """Return what a file of raw results holds."""
    if raw is None or not Path(raw).is_file():
        return {}
    records = [json.loads(line) for line in Path(raw).read_text().splitlines()]
    return {(r["table"], r["labelled"], r["seed"]): r for r in records}


def _append(raw: str | None, record: Mapping[str, Any]) -> None:
    losses = {name: round(values[0], 4) for name, values in record["losses"].items()}
    print(record["table"], record["labelled"], record["seed"], losses, file=sys.stderr, flush=True)
    if raw is not None:
        with Path(raw).open("a") as file:
            file.write(json.dumps(record) + "\n")


@workers()
def scores(case: Case, seed: int, *, every: bool = False) -> dict[str, Any]:
    """Return the mean test loss and error of auto and of each pair; which model auto took."""
    problem, test, hypothesis = case
    classify = isinstance(hypothesis, cuvee.Logistic)
    task = Task.classification if classify else Task.regression
    classes = np.unique(np.concatenate([s.y for s in problem.sources])) if classify else None
    mixtures = cuvee.estimate(problem, hypothesis)
    learners = {m: Learner.of(named(m, task), classes, seed) for m in MODELS[1:]}
    learner = learners["trees"]
    table = Table.of([s.X for s in problem.sources], [coded(learner, s) for s in problem.sources])
    rows = [table.with_own(t.X, coded(learner, t)) for t in problem.targets]
    targets = [
        Target(t.name, rows[i], *of_target(mixtures, i)) for i, t in enumerate(problem.targets)
    ]
    contests = []
    for target in targets:
        surrogate = Learner.of(linear(task, hypothesis.l2, len(target.rows.y)), classes, seed)
        contests.append(contest({"linear": surrogate, **learners}, target))
    won = verdict(contests, classify=classify).winner
    # (M, mixtures, N+1): the simple ones, and what the linear model found
    by_hand = [_simple(t.rows.counts) for t in targets]
    alpha = np.stack([[*one, t.alpha] for one, t in zip(by_hand, targets, strict=True)])
    losses: dict[str, list[Scores]] = {}
    for q, values in enumerate(_linear(problem, hypothesis, alpha, test)):
        losses[f"linear, {[*MIXTURES, 'auto'][q]}"] = values
    for name, one in learners.items():
        for q, mixture in enumerate(MIXTURES):
            losses[f"{name}, {mixture}"] = [
                _score(fit_model(one, t.rows, alpha[i, q], t.name), test[i], one)
                for i, t in enumerate(targets)
            ]
        if every or name == won:
            losses[f"{name}, auto"] = []
            for i, t in enumerate(targets):
                chosen = choose(one, t, known=contests[i].mixtures[name])
                model = fit_model(one, t.rows, chosen.alpha, t.name)
                losses[f"{name}, auto"].append(_score(model, test[i], one))
    losses["auto"] = losses[f"{won}, auto"]
    folds = [{m: np.round(v, 5).tolist() for m, v in c.loss.items()} for c in contests]
    return {
        "chosen": won,
        "losses": {name: np.mean(values, 0).tolist() for name, values in losses.items()},
        "targets": {name: [v[0] for v in values] for name, values in losses.items()},
        "folds": folds,
    }


def _simple(counts: Floats) -> list[Floats]:
    """Return α (N+1,) of the simple mixtures, in the order of MIXTURES."""
    by_name = dict(simple(counts))
    uniform = np.full(len(counts), 1.0 / len(counts))
    return [by_name["target_only"], by_name["pooled_own"], uniform, by_name["half own"]]


def _linear(
    problem: cuvee.Problem, hypothesis: Any, alpha: Floats, test: Sequence[tuple[Array, Array]]
) -> list[list[Scores]]:
    """Return the scores of linear models on mixtures (M, mixtures, N+1): by mixture and target."""
    space = hypothesis.bind(problem.facts)
    components = erm.components(problem, space)
    w = erm.solve(components, ALL, torch.as_tensor(alpha), tol=1e-6)
    by_mixture: list[list[Scores]] = [[] for _ in range(alpha.shape[1])]
    for models, (X, y) in zip(w, test, strict=True):
        for q, model in enumerate(models):
            if space.quadratic:
                error = float(((np.asarray(space.predict(model[None], X))[0] - y) ** 2).mean())
                by_mixture[q].append((error, float("nan")))
                continue
            each = space.scores(model, space.prepare(torch.as_tensor(X)))
            chance = np.asarray(space.probabilities(each))
            by_mixture[q].append(_of_classes(chance, np.searchsorted(space.classes, y)))
    return by_mixture


def _score(model: Any, test: tuple[Array, Array], learner: Learner) -> Scores:
    """Return the scores of a fitted model."""
    X, y = test
    if learner.classes is None:
        return float(((model.predict(X) - y) ** 2).mean()), float("nan")
    return _of_classes(model.predict_proba(X), np.searchsorted(learner.classes, y))


def _of_classes(chance: Floats, code: Array) -> Scores:
    right = np.take_along_axis(chance, code[:, None], 1)[:, 0]
    loss = -np.log((1.0 - DOUBT) * right + DOUBT / chance.shape[1])
    return float(loss.mean()), float((chance.argmax(1) != code).mean())


DEFAULT = "linear, auto"  # what `cuvee adapt` delivers without --model: linear, on α of its own
PAIRS = tuple(f"{model}, {mixture}" for model in MODELS for mixture in MIXTURES)


def summary(cell: Sequence[Any]) -> dict[str, Any]:
    """Return means over seeds, and auto beside the pair that is best on the same seeds."""
    names = ("auto", *PAIRS)
    loss = np.array([[r["losses"][name][0] for name in names] for r in cell])  # (seeds, 13)
    wrong = np.array([[r["losses"][name][1] for name in names] for r in cell])
    default = np.array([r["losses"][DEFAULT][0] for r in cell])
    best = 1 + int(np.argmin(loss[:, 1:].mean(0)))
    row: dict[str, Any] = {
        "auto": round(float(loss[:, 0].mean()), 4),
        "best_pair": names[best],
        "best": round(float(loss[:, best].mean()), 4),
        "over_best": ratio(loss[:, 0], loss[:, best]),
        "over_default": ratio(loss[:, 0], default),
        "mean_rank": round(float(_ranks(loss)[:, 0].mean()), 2),
        "chosen": {m: sum(r["chosen"] == m for r in cell) for m in MODELS},
        "losses": dict(zip(names, loss.mean(0).round(4).tolist(), strict=True)),
    }
    if np.isfinite(wrong).all():
        row["wrong"] = dict(zip(names, wrong.mean(0).round(4).tolist(), strict=True))
    return row


def ratio(a: Floats, b: Floats) -> list[float]:
    """[mean of a / mean of b, and the ends of a 95 % interval from the paired differences]."""
    difference, unit = a - b, b.mean()
    half = stats.t.ppf(0.975, len(a) - 1) * difference.std(ddof=1) / len(a) ** 0.5
    middle = difference.mean()
    return [round(float(1 + x / unit), 4) for x in (middle, middle - half, middle + half)]


def mean_ranks(records: Sequence[Any]) -> dict[str, float]:
    """Return the mean rank of auto and of every pair over all tables and seeds; 1 is best."""
    names = ("auto", *PAIRS)
    ranks = _ranks(np.array([[r["losses"][name][0] for name in names] for r in records]))
    return dict(
        sorted(zip(names, ranks.mean(0).round(2).tolist(), strict=True), key=lambda r: r[1])
    )


def _ranks(loss: Floats) -> Floats:
    return np.asarray(stats.rankdata(loss, axis=1))
