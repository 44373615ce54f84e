"""What unlabelled rows of a target are worth: scores with them, without them, and with no label at
all; a matter of quality, not of time.

    CUVEE_DATA=folder cuvee bench unlabelled --json

Half of the rows that a target has beside its 20 labelled ones are its unlabelled rows (at most
MOST), the other half is scored. Tables: the MNIST groups of the paper on 40 principal components,
office, and two synthetic ones in which domains differ in their inputs: labels follow one rule of
the inputs everywhere ("inputs shift"), or each target has a rule of its own ("rule shifts").
Rivals reweight rows of sources by the same unlabelled rows: skada's, with and without the labelled
rows of the target among those that they learn from. Seeds start at FIRST: nothing was chosen on
these. Each row has mean accuracies and the paired differences with
95 % intervals over seeds (a seed is the mean of its targets). `CUVEE_TABLES="office"` names some of
the tables, `CUVEE_SEEDS=20` their number. `CUVEE_LABELS=none` leaves out whatever uses labels of a
target, and the rivals, which takes most of the time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from benchmarks import quality
from benchmarks.quality import Case, Test
from experiments import _peers_methods as peers
from experiments._peers_tables import Case as PeerCase
from scipy import stats

import cuvee
from cuvee import Domain, Problem, erm
from cuvee.components import ALL
from cuvee.problem import Array

FIRST, SEEDS = 9100, 10
LABELLED, MOST = 20, 1_000
RIVALS = ("nearest", "density", "Gaussian", "discriminator", "KLIEP", "KMM")
BARE = ("uniform", "pooled", "no labels")
OURS = (*BARE, "labels alone", "labels and unlabelled rows")


def run(quick: bool = False) -> dict[str, Any]:
    """Accuracies on every table."""
    asked = os.environ.get("CUVEE_TABLES", ";".join(TABLES))
    names = ["inputs shift"] if quick else asked.split(";")
    seeds = range(FIRST, FIRST + (2 if quick else int(os.environ.get("CUVEE_SEEDS", SEEDS))))
    result: dict[str, Any] = {"benchmark": "unlabelled", "seeds": [seeds.start, seeds.stop]}
    bare = os.environ.get("CUVEE_LABELS") == "none"
    for name in names:
        by_seed = [_of_seed(TABLES[name](seed), bare) for seed in seeds]
        result[name] = without_labels(by_seed) if bare else summary(by_seed)
        print(name, result[name], file=sys.stderr, flush=True)
    return result


def _of_seed(cases: Iterator[Case], bare: bool = False) -> dict[str, tuple[float, float]]:
    """Return name -> mean loss and accuracy over the targets of a seed; rivals have no loss.

    With `bare`, of what uses no label of a target.
    """
    rows: dict[str, list[Array]] = {}
    for problem, test, hypothesis in cases:
        seen, held = with_unlabelled(problem, test)
        found = ours(seen, held, hypothesis, BARE if bare else OURS)
        found |= {} if bare else rivals(seen, held)
        for name, score in found.items():
            rows.setdefault(name, []).extend(score)
    return {name: tuple(np.mean(score, 0).tolist()) for name, score in rows.items()}


def with_unlabelled(problem: Problem, test: Test) -> tuple[Problem, Test]:
    """Return the problem with LABELLED and unlabelled rows per target, and the rows to score."""
    targets, held = [], []
    for target, (X, y) in zip(problem.targets, test, strict=True):
        half = min(len(X) // 2, MOST)
        first = slice(LABELLED)
        targets.append(Domain(target.name, target.X[first], target.y[first], unlabelled=X[:half]))
        held.append((X[half:], y[half:]))
    return problem.with_targets(targets), held


def ours(
    problem: Problem, test: Test, hypothesis: Any, wanted: tuple[str, ...] = OURS
) -> dict[str, list[Array]]:
    """Return name -> (loss, accuracy) of every target, for those of OURS that are wanted."""
    plain = problem.with_targets([Domain(t.name, t.X, t.y) for t in problem.targets])
    bare = problem.with_targets(
        [Domain(t.name, None, None, unlabelled=t.unlabelled) for t in problem.targets]  # type: ignore[arg-type]
    )
    M, N = problem.n_targets, problem.n_sources
    rows = np.array([s.n_rows for s in problem.sources], dtype=float)
    mixtures = [
        *(np.tile(np.append(a, 0.0), (M, 1)) for a in (np.full(N, 1.0 / N), rows / rows.sum())),
        *(
            cuvee.estimate(seen, hypothesis).alpha
            for seen in (bare, plain, problem)[: len(wanted) - 2]
        ),
    ]
    space = hypothesis.bind(plain.facts)
    w = erm.solve(
        erm.components(plain, space), ALL, torch.as_tensor(np.stack(mixtures, 1)), tol=1e-6
    )
    scores = []
    for models, (X, y) in zip(w, test, strict=True):
        labels = torch.as_tensor(space.encode(y, "test rows"))
        loss = space.trained(space.scores(models, space.prepare(torch.as_tensor(X))), labels)
        right = (space.predict(models, X) == y).mean(-1)
        scores.append(np.stack([loss.mean(-1).numpy(), right], -1))  # (mixtures, 2)
    return {name: [s[i] for s in scores] for i, name in enumerate(wanted)}


def rivals(problem: Problem, test: Test) -> dict[str, list[Array]]:
    """Return name -> (NaN, accuracy) of every target, for skada's reweighting."""
    case = PeerCase(problem, test, False, 1e-2)
    Xs, ys = case.pooled()
    wide = Xs.shape[1] > peers.FEW_FEATURES  # of which covariances and kernels take minutes
    rng = np.random.default_rng(0)
    found: dict[str, list[Array]] = {}
    for name in RIVALS:
        if wide and name in ("Gaussian", "KLIEP", "KMM"):
            continue
        most = peers.KERNEL_ROWS if name in peers.KERNELS else len(Xs)
        some = np.sort(rng.permutation(len(Xs))[:most])
        for target, (X, y) in zip(problem.targets, test, strict=True):
            assert target.unlabelled is not None
            inputs = np.concatenate([target.X, target.unlabelled])
            weight = peers.weights(name, Xs[some], ys[some], inputs)
            joined = np.concatenate([Xs[some], target.X]), np.concatenate([ys[some], target.y])
            models = {
                name: peers._fitted(case, Xs[some], ys[some], weight, case.l2),
                f"{name} + own": peers._fitted(
                    case, *joined, np.concatenate([weight, np.ones(target.n_rows)]), case.l2
                ),
            }
            for who, model in models.items():
                right = float((model.predict(X) == y).mean())
                found.setdefault(who, []).append(np.array([np.nan, right]))
    return found


def summary(by_seed: list[dict[str, tuple[float, float]]]) -> dict[str, Any]:
    """Mean accuracies, and paired differences with intervals."""
    names = list(by_seed[0])
    right = _accuracies(by_seed)
    loss = {name: np.array([one[name][0] for one in by_seed]) for name in OURS}
    others = [name for name in names if name not in OURS]

    def best(own: bool) -> str:
        return max((n for n in others if n.endswith("+ own") == own), key=lambda n: right[n].mean())

    no_labels, with_both, alone = OURS[2], OURS[4], OURS[3]
    return {
        **without_labels(by_seed),
        "loss": {name: round(float(loss[name].mean()), 4) for name in OURS},
        f"no labels − {best(False)}": interval(right[no_labels] - right[best(False)]),
        "unlabelled rows − labels alone": interval(right[with_both] - right[alone]),
        "loss, unlabelled rows / labels alone": quality.ratio(
            np.stack([loss[with_both], loss[alone]], 1), 0, 1
        ),
        f"unlabelled rows − {best(True)}": interval(right[with_both] - right[best(True)]),
    }


def without_labels(by_seed: list[dict[str, tuple[float, float]]]) -> dict[str, Any]:
    """Mean accuracies, and what weights without labels gain over the simple mixtures."""
    right = _accuracies(by_seed)
    return {
        "accuracy": {name: round(float(each.mean()), 4) for name, each in right.items()},
        "no labels − uniform": interval(right["no labels"] - right["uniform"]),
        "no labels − pooled": interval(right["no labels"] - right["pooled"]),
    }


def _accuracies(by_seed: list[dict[str, tuple[float, float]]]) -> dict[str, Array]:
    return {name: np.array([one[name][1] for one in by_seed]) for name in by_seed[0]}


def interval(differences: Array) -> list[float]:
    """[mean, and the ends of a 95 % interval over seeds]."""
    n, middle = len(differences), differences.mean()
    half = stats.t.ppf(0.975, n - 1) * differences.std(ddof=1) / n**0.5
    return [round(float(x), 4) for x in (middle, middle - half, middle + half)]


def regions(shifted: bool, seed: int, targets: int = 4, own: int | None = None) -> Iterator[Case]:
    """Targets and six sources in three regions of ten columns, two classes.

    Sources have 90 % of their rows in one region, targets any blend of them. What a row's label
    depends on is another direction in every region; with `shifted` each target has directions of
    its own, or the last `own` of them.
    """
    rng = np.random.default_rng([seed, 91])
    columns, M, N = 10, targets, 6
    centres = rng.normal(size=(3, columns))
    rule = 1.5 * rng.normal(size=(3, columns))
    first = M - (M if own is None else own)
    rules = [
        1.5 * rng.normal(size=(3, columns)) if shifted and i >= first else rule for i in range(M)
    ]

    def draw(n: int, shares: Array, rule: Array) -> tuple[Array, Array]:
        X = centres[rng.choice(3, size=n, p=shares)] + 0.7 * rng.normal(size=(n, columns))
        region = ((X[:, None] - centres) ** 2).sum(-1).argmin(1)
        score = ((X - centres[region]) * rule[region]).sum(1)
        y = (score + 0.5 * rng.logistic(size=n) > 0).astype(int)
        y[:2] = (0, 1)  # no domain is without a class
        return X, y

    mostly = np.repeat(0.85 * np.eye(3) + 0.05, 2, axis=0)
    blends = rng.dirichlet(np.full(3, 0.5), size=M)
    sources = [Domain(f"s{j}", *draw(200, mostly[j], rule)) for j in range(N)]
    drawn = [Domain(f"t{i}", *draw(LABELLED, blends[i], rules[i])) for i in range(M)]
    test = [draw(2_000, blends[i], rules[i]) for i in range(M)]
    yield Problem(sources, drawn), test, cuvee.Logistic(1e-2)


TABLES: dict[str, Callable[[int], Iterator[Case]]] = {
    "inputs shift": partial(regions, False),
    "rule shifts": partial(regions, True),
    "mnist groups": quality.mnist,
    "office": quality.TABLES["office"],
}
