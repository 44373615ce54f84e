"""Findings of every shape that a report may meet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cuvee import OWN
from cuvee.report.findings import Convergence, Findings, Tried

METHODS = ("cuvee", "uniform", "pooled", "pooled_own", "target_only")
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onload='alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "]]></svg><style>*{display:none}</style>",
    "Krankenhaus Süd – 北京医院 – مستشفى",
    "x" * 5000,
    "a\x00b\x1bc\u202edlrow\ud800 \n end",
    "&lt;b&gt; &amp; <b>",
    "",
)


def findings(
    M=10,
    N=10,
    *,
    seed=0,
    own=True,
    regression=False,
    tried=True,
    convergence=True,
    sensitivity=True,
    R=60,
):
    """What a run of M targets and N sources might have found."""
    rng = np.random.default_rng(seed)
    sources = tuple(f"source {j + 1}" for j in range(N))
    columns = (*sources, OWN) if own else sources
    K = len(columns)
    kinds = np.arange(M) % 3
    alpha = rng.dirichlet(np.full(K, 0.25), size=M) + np.eye(K)[(kinds * max(K // 3, 1)) % K]
    alpha /= alpha.sum(1, keepdims=True)
    higher = not regression
    base = (
        np.array([0.86, 0.80, 0.82, 0.84, 0.78]) if higher else np.array([3.1, 4.0, 3.8, 3.3, 4.4])
    )
    value = (
        base
        + (0.03 if higher else 0.4) * rng.normal(size=(M, 1))
        + (0.02 if higher else 0.2) * rng.normal(size=(M, 5))
    )
    half = (0.05 if higher else 0.5) * rng.uniform(0.7, 1.3, size=(M, 5))
    scores = np.stack([value, value - half, value + half], -1)
    return Findings(
        title="visits.parquet",
        about={
            "data": {"name": "visits.parquet", "rows": 12_345, "fingerprint": "9f2c" * 16},
            "options": {
                "label": "readmitted",
                "targets": "each",
                "l2": 0.01,
                "drop": [],
                "impute": False,
                "labelled": None,
            },
            "versions": {"cuvee": "0.1.0", "python": "3.11.7", "numpy": "2.2.1", "torch": "2.13.0"},
        },
        task="regression" if regression else "classification",
        hypothesis="Ridge(l2=0.01)" if regression else "Logistic(l2=0.01)",
        domain="hospital",
        label="readmitted",
        n_features=17,
        columns=columns,
        source_rows=rng.integers(50, 900, size=N).astype(float),
        targets=tuple(f"target {i + 1}" for i in range(M)),
        learn_rows=rng.integers(15, 60, size=M).astype(float),
        test_rows=rng.integers(20, 90, size=M).astype(float),
        alpha=alpha,
        alpha_status=("converged",) * M,
        gap=rng.uniform(0.001, 0.01, size=M),
        model_status=("solved",) * M,
        distance=10.0 ** rng.uniform(-6, -4, size=M),
        excess_risk=10.0 ** rng.uniform(-12, -9, size=M),
        gradient=10.0 ** rng.uniform(-8, -6, size=M),
        rests_on="λ-strong convexity with λ = 0.01",
        metric="root mean squared error" if regression else "accuracy",
        higher_is_better=higher,
        methods=METHODS,
        scores=scores,
        **compared(scores, higher),
        sensitivity=rng.gamma(1.5, 0.3, size=(M, K)) if sensitivity else None,
        tried=tuple(_tried(rng, alpha[i], own) if tried else None for i in range(M)),
        convergence=tuple(_course(rng, R) if convergence else None for _ in range(M)),
        seconds=(
            ("reading", 0.42),
            ("mixtures", 11.7),
            ("models", 0.9),
            ("scores", 2.4),
            ("report", 0.31),
        ),
        notes=("column 'ward' has one value and is left out",),
    )


def compared(scores, higher):
    """mean, mean_rank and gain of scores (M, methods, 3), as a run computes them."""
    value = scores[:, :, 0]
    value = value[np.isfinite(value).all(1)]
    n, sign = len(value), 1.0 if higher else -1.0
    if n == 0:
        nothing = np.full((scores.shape[1], 3), np.nan)
        return {"mean": nothing, "mean_rank": nothing[:, 0], "gain": nothing}
    rank = (-sign * value).argsort(1).argsort(1) + 1.0

    def spread(x):
        half = 1.96 * x.std(0, ddof=1) / np.sqrt(n) if n > 1 else np.full(x.shape[1], np.nan)
        return np.stack([x.mean(0), x.mean(0) - half, x.mean(0) + half], -1)

    return {
        "mean": spread(value),
        "mean_rank": rank.mean(0),
        "gain": spread(sign * (value[:, :1] - value)),
    }


def rescored(f, scores):
    """The same with other scores."""
    return replace(f, scores=scores, **compared(scores, f.higher_is_better))


def with_constant(f, accuracy=0.6, balanced=0.5):
    """The same beside one answer for all, with such scores of it, and of cuvee where every class
    counts alike.
    """
    M, regression = len(f.targets), not f.higher_is_better
    one = np.full((M, 1, 3), accuracy) + np.array([0.0, -0.01, 0.01])
    scores = np.concatenate([f.scores, one], 1)
    also = {
        "balanced accuracy": np.column_stack([np.full((M, 5), balanced), np.full(M, 0.5)]),
        "AUC": np.column_stack([np.linspace(0.5, 0.9, 5 * M).reshape(M, 5), np.full(M, 0.5)]),
        "log loss": np.full((M, 6), 0.4),
    }
    also["AUC"][0] = np.nan  # test rows of one class
    method = "own mean" if regression else "majority class"
    f = replace(f, methods=(*METHODS, method), also={} if regression else also)
    return rescored(f, scores)


def nothing_known(M=4, N=3):
    """Everything that may be NaN is."""
    f = findings(M, N)
    void = {
        name: np.full_like(getattr(f, name), np.nan)
        for name in (
            "source_rows",
            "learn_rows",
            "test_rows",
            "alpha",
            "gap",
            "excess_risk",
            "gradient",
            "scores",
            "mean",
            "mean_rank",
            "gain",
            "sensitivity",
        )
    }
    tried = Tried(
        ("uniform", "path 1/2", "path 2/2"),
        np.full((3, N + 1), np.nan),
        np.full(3, np.nan),
        np.full(3, np.nan),
    )
    course = Convergence(np.arange(5.0), np.full(5, np.nan), np.full(5, np.nan))
    return replace(
        f,
        **void,
        distance=np.full(M, np.inf),
        alpha_status=("diverged",) * M,
        model_status=("ill-conditioned",) * M,
        tried=(tried,) * M,
        convergence=(course,) * M,
    )


def in_turn(M=6):
    """Every domain in turn: M targets that are sources of each other, with NaN where one would
    learn from itself.
    """
    f = findings(M, M, seed=3)
    names = tuple(f"clinic {i + 1}" for i in range(M))
    alpha = f.alpha.copy()
    alpha[np.arange(M), np.arange(M)] = 0.0
    alpha /= alpha.sum(1, keepdims=True)
    alpha[np.arange(M), np.arange(M)] = np.nan
    sensitivity = f.sensitivity.copy()
    sensitivity[np.arange(M), np.arange(M)] = np.nan
    tried = tuple(
        replace(t, alpha=np.where(np.isnan(alpha[i]), np.nan, t.alpha))
        for i, t in enumerate(f.tried)
    )
    return replace(
        f, targets=names, columns=(*names, OWN), alpha=alpha, sensitivity=sensitivity, tried=tried
    )


def hostile():
    """Names that try to break out of whatever holds them."""
    f = findings(len(HOSTILE), len(HOSTILE), seed=5)
    about = {
        "data": {"name": HOSTILE[0], "rows": 10, "fingerprint": HOSTILE[1]},
        "options": {HOSTILE[0]: HOSTILE, "x": HOSTILE[2]},
    }
    return replace(
        f,
        title=HOSTILE[0],
        about=about,
        domain=HOSTILE[1],
        label=HOSTILE[2],
        hypothesis=HOSTILE[0],
        rests_on=HOSTILE[0],
        targets=HOSTILE,
        columns=(*HOSTILE[::-1], OWN),
        notes=HOSTILE,
        seconds=((HOSTILE[0], 1.0), (HOSTILE[1], 2.0)),
    )


def bare(M=3, N=2):
    """One closed form asked for, and nothing else computed."""
    f = findings(M, N, own=False, tried=False, convergence=False, sensitivity=False)
    return replace(f, about={}, seconds=(), notes=())


SHAPES = {
    "one": lambda: findings(1, 1),
    "ten": lambda: findings(10, 10),
    "regression": lambda: findings(8, 5, regression=True, seed=2),
    "nothing known": nothing_known,
    "in turn": in_turn,
    "hostile": hostile,
    "bare": bare,
    "one answer": lambda: with_constant(findings(6, 4)),
    "many": lambda: findings(500, 60, R=200),
}


def _tried(rng, alpha, own, points=8):
    K = len(alpha)
    last = np.eye(K)[-1] if own else alpha
    start = np.full(K, 1.0 / K)
    path = []
    for t in np.linspace(0, 1, points):
        a = (1 - t) * start + t * last + np.sin(np.pi * t) * alpha
        path.append(a / a.sum())
    names = (
        "pooled_own",
        "pooled",
        "uniform",
        "target_only",
        *(f"path {i + 1}/{points}" for i in range(points)),
    )
    every = np.stack([start, start, start, last, *path])
    loss = (
        0.5
        + 0.15 * rng.uniform(size=len(names))
        + np.r_[0.05, 0.1, 0.1, 0.2, 0.1 * np.abs(np.linspace(-1, 1, points))]
    )
    share = np.exp(-40 * (loss - loss.min()))
    return Tried(names, every, loss, share / share.sum())


def _course(rng, R):
    step = np.arange(R) * 20.0
    decay = np.exp(-step / step[-1] * 5) if R > 1 else np.ones(1)
    return Convergence(
        step,
        0.3 + decay * rng.uniform(0.5, 1),
        (decay * rng.uniform(0.2, 1) + 1e-3) * np.exp(0.2 * rng.normal(size=R)),
    )
