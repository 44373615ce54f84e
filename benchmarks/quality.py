"""Test losses of the default α against simple mixtures and against another version of cuvee; a
matter of quality, not of time.

    CUVEE_DATA=folder CUVEE_OTHER=other/.venv/bin/python cuvee bench quality --json

Tables: school and parkinsons (with every domain's level in the labels and taken out), office, the
MNIST groups of the paper on 40 principal components, and synthetic ones: all sources of the
target's own law, none like it, two of five, one law of rows with shifted labels, 45 small sources.
Seeds start at FIRST, far from those that anything was chosen on. Each row has the mean test loss (½
squared error or cross-entropy) of each mixture, the default's loss over the best simple mixture's,
and, with `CUVEE_OTHER`, the other version's with the paired difference and its 95 % interval over
seeds (a seed is the mean of its targets). `CUVEE_TABLES="school;office"` names some of the tables,
`CUVEE_SEEDS=20` their number.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks import alpha as timing
from benchmarks import tables
from scipy import stats

import cuvee
from cuvee import erm
from cuvee.components import ALL
from cuvee.problem import Array

FIRST, SEEDS = 7000, 10
SIMPLE = ("uniform", "pooled", "pooled + own", "target only")
Test = list[tuple[Array, Array]]
Case = tuple[cuvee.Problem, Test, Any]


def run(quick: bool = False) -> dict[str, Any]:
    """Losses on every table."""
    other = os.environ.get("CUVEE_OTHER")
    names = ["all alike"] if quick else os.environ.get("CUVEE_TABLES", ";".join(TABLES)).split(";")
    seeds = range(FIRST, FIRST + (2 if quick else int(os.environ.get("CUVEE_SEEDS", SEEDS))))
    result: dict[str, Any] = {"benchmark": "quality", "seeds": [seeds.start, seeds.stop]}
    for name in names:
        by_seed = []
        for seed in seeds:
            losses = [scores(*case, other) for case in TABLES[name](seed)]
            by_seed.append(np.concatenate(losses).mean(0))
        result[name] = summary(np.stack(by_seed), other is not None)
        print(name, result[name], file=sys.stderr, flush=True)
    return result


def scores(problem: cuvee.Problem, test: Test, hypothesis: Any, other: str | None) -> Array:
    """(M, mixtures): mean test losses of each mixture's model on each target's test rows."""
    rows = np.array([s.n_rows for s in problem.sources], dtype=float)
    own_rows = np.array([t.n_rows for t in problem.targets], dtype=float)
    M, N = problem.n_targets, problem.n_sources
    with_own = np.column_stack([np.tile(rows, (M, 1)), own_rows])
    mixtures = [
        np.tile(np.append(np.full(N, 1.0 / N), 0.0), (M, 1)),
        np.tile(np.append(rows / rows.sum(), 0.0), (M, 1)),
        with_own / with_own.sum(1, keepdims=True),
        np.tile(np.append(np.zeros(N), 1.0), (M, 1)),
        cuvee.estimate(problem, hypothesis).alpha,
    ]
    if other:
        mixtures.append(alpha_of(other, problem, hypothesis))
    space = hypothesis.bind(problem.facts)
    components = erm.components(problem, space)
    w = erm.solve(components, ALL, torch.as_tensor(np.stack(mixtures, 1)), tol=1e-6)
    by_target = []
    for models, (X, y) in zip(w, test, strict=True):
        labels = torch.as_tensor(space.encode(y, "test rows"))
        losses = space.trained(space.scores(models, space.prepare(torch.as_tensor(X))), labels)
        by_target.append(losses.mean(-1).numpy())
    return np.array(by_target)


def alpha_of(python: str, problem: cuvee.Problem, hypothesis: Any) -> Array:
    """α of the cuvee that another Python has."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "problem.npz", Path(folder) / "alpha.npy"
        timing.write(path, problem, hypothesis)
        timing.once(python, path, 1, str(out))
        return np.asarray(np.load(out))


def summary(by_seed: Array, other: bool) -> dict[str, Any]:
    """Means over seeds, and paired differences with intervals."""
    mean = by_seed.mean(0)
    best = int(np.argmin(mean[:4]))
    row: dict[str, Any] = dict(zip(SIMPLE, mean[:4].round(4).tolist(), strict=True))
    row |= {"default": round(float(mean[4]), 4), "over_best_simple": ratio(by_seed, 4, best)}
    if other:
        row |= {"other": round(float(mean[5]), 4), "over_other": ratio(by_seed, 4, 5)}
    return row


def ratio(by_seed: Array, a: int, b: int) -> list[float]:
    """[mean loss of a / of b, and the ends of a 95 % interval from the paired differences]."""
    difference, unit = by_seed[:, a] - by_seed[:, b], by_seed[:, b].mean()
    half = stats.t.ppf(0.975, len(by_seed) - 1) * difference.std(ddof=1) / len(by_seed) ** 0.5
    middle = difference.mean()
    return [round(float(1 + x / unit), 4) for x in (middle, middle - half, middle + half)]


def synthetic(kind: str, seed: int) -> Iterator[Case]:
    """Four targets of 40 labelled rows in 10 columns, two classes."""
    rng = np.random.default_rng([seed, 77])
    columns, M = 10, 4
    N = 45 if kind == "45 small" else 5
    base = rng.normal(size=columns)
    apart = {"all alike": 0, "none alike": N, "two of five": 3}.get(kind, 0)
    rules = [base] * (N - apart) + [1.2 * rng.normal(size=columns) for _ in range(apart)]
    wanted, shifts, shifted = [base] * M, np.zeros(N), np.zeros(M)
    sizes = np.full(N, 300)
    if kind == "shifted labels":
        shifts, shifted = 2.0 * rng.normal(size=N), 2.0 * rng.normal(size=M)
    if kind == "45 small":
        rules = [base + 0.5 * rng.normal(size=columns) for _ in range(N)]
        wanted = [base + 0.5 * rng.normal(size=columns) for _ in range(M)]
        sizes = rng.integers(6, 120, size=N)

    def draw(n: int, rule: Array, shift: float) -> tuple[Array, Array]:
        X = rng.normal(size=(n, columns))
        y = (X @ rule + shift + rng.logistic(size=n) > 0).astype(int)
        y[:2] = (0, 1)  # no domain is without a class
        return X, y

    sources = [cuvee.Domain(f"s{j}", *draw(int(sizes[j]), rules[j], shifts[j])) for j in range(N)]
    targets = [cuvee.Domain(f"t{i}", *draw(40, wanted[i], shifted[i])) for i in range(M)]
    test = [draw(2000, wanted[i], shifted[i]) for i in range(M)]
    yield cuvee.Problem(sources, targets), test, cuvee.Logistic(1e-2)


def real(name: str, levels: bool, seed: int) -> Iterator[Case]:
    hypothesis = cuvee.Logistic(1e-2) if name.startswith("office") else cuvee.Ridge(1e-2)
    for problem, test in tables.splits(timing.data_file(f"{name}.parquet"), seed):
        if levels:
            problem, test = tables.one_level(problem, test, hypothesis.l2)
        yield problem, test, hypothesis


def mnist(seed: int, components: int = 40) -> Iterator[Case]:
    from cuvee.data import mnist as images

    train, test = images.read(timing.data_file("mnist.npz"))
    made = images.groups(seed, images=train, test_images=test)
    X = np.concatenate([d.X for d in (*made.problem.sources, *made.problem.targets)]).astype(float)
    mean = X.mean(0)
    basis = np.linalg.svd(X - mean, full_matrices=False)[2][:components].T

    def reduced(d: cuvee.Domain) -> cuvee.Domain:
        return cuvee.Domain(d.name, (d.X - mean) @ basis, d.y)

    problem = cuvee.Problem(
        [reduced(s) for s in made.problem.sources], [reduced(t) for t in made.problem.targets]
    )
    yield problem, [(reduced(t).X, t.y) for t in made.test], cuvee.Logistic(1e-2)


SYNTHETIC = ("all alike", "none alike", "two of five", "shifted labels", "45 small")
TABLES: dict[str, Callable[[int], Iterator[Case]]] = {
    **{kind: partial(synthetic, kind) for kind in SYNTHETIC},
    "school": partial(real, "school", False),
    "school, levels taken out": partial(real, "school", True),
    "parkinsons": partial(real, "parkinsons", False),
    "parkinsons, levels taken out": partial(real, "parkinsons", True),
    "mnist groups": mnist,
    "office": partial(real, "office_caltech10", False),
}
