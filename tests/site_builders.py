"""Problems of every kind, and everything that may be asked of them, for rows that live elsewhere."""

from __future__ import annotations

import numpy as np

import cuvee
from builders import mlp
from cuvee import Domain, Logistic, Network, Poisson, Problem, Ridge
from cuvee.mixture.registry import find

HYPOTHESES = {
    "ridge": Ridge(),
    "logistic": Logistic(),
    "softmax": Logistic(),
    "poisson": Poisson(),
    "network": Network(mlp(3, 3, 2).double(), radius=5.0),
}
METHODS = (
    "path",
    "scgda",
    "sgda",
    "agp",
    "konstantinov_lampert",
    "uniform",
    "pooled",
    "pooled_own",
    "target_only",
    "matching",
)

SHORT = {"steps": 12, "adversaries": 4, "folds": 3}


def domain(kind, name, rows, shift, make=Domain, seed=0, unlabelled=0):
    rng = np.random.default_rng([seed, rows])
    X = rng.normal(size=(rows, 3)) + 0.2 * shift
    score = X @ [1.0, -0.5, shift] + 0.5 * rng.normal(size=rows)
    y = score
    if kind in ("logistic", "network"):
        y = (score > 0).astype(int)
    elif kind == "softmax":
        y = np.digitize(score, [-0.7, 0.7])
    elif kind == "poisson":
        y = rng.poisson(np.exp(np.clip(0.5 * score, -2, 2)))
    if kind in ("logistic", "network", "softmax"):
        y[:3] = [0, 1, 2 if kind == "softmax" else 1]
    weight = rng.uniform(0.5, 2.0, rows) if name == "b" else None
    more = rng.normal(size=(unlabelled, 3)) + 0.2 * shift if unlabelled else None
    return make(name, X, y, weight=weight, unlabelled=more)


def problem_of(kind, make=Domain):
    shifts = {"a": 0.0, "b": 0.2, "c": 2.0}
    sources = [
        domain(kind, name, 30 + 7 * j, shift, make)
        for j, (name, shift) in enumerate(shifts.items())
    ]
    targets = [domain(kind, f"t{i}", 8 + i, 0.1, make, seed=1, unlabelled=20 * i) for i in range(2)]
    return Problem(sources, targets)


def ask_everything(problem, kind, methods=METHODS):
    """Return α and w of every public function, by name."""
    hypothesis = HYPOTHESES[kind]
    convex = kind != "network"
    alpha = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    own = np.array([[0.4, 0.3, 0.1, 0.2], [0.1, 0.2, 0.6, 0.1]])
    answers = {
        f"estimate {method}": cuvee.estimate(
            problem,
            hypothesis,
            method=method,
            **{name: n for name, n in SHORT.items() if name in find(method).takes},
        ).alpha
        for method in methods
    }
    solved = cuvee.solve(problem, hypothesis, own, steps=None if convex else 20)
    answers |= {
        "solve": solved.w,
        "certify": cuvee.certify(problem, hypothesis, own, solved.w).gradient_norm,
    }
    answers["descent"] = cuvee.solve(problem, hypothesis, alpha, method="descent", steps=30).w
    if convex:
        answers["sensitivity"] = cuvee.sensitivity(problem, hypothesis, own, solved.w)
    return answers


def learn_everything(
    problem, kind, methods=("auto", "network", "ntf", "kernel", "surface", "meta")
):
    hypothesis, alpha = HYPOTHESES[kind], np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    answers = {}
    for method in methods:
        options = {"steps": 40} if method in ("network", "meta") else {}
        options |= {"width": 16} if method in ("network", "ntf") else {}
        atlas = cuvee.learn(
            problem, hypothesis, method=method, n_labels=12, n_calibration=20, **options
        )
        answers[f"learn {method}"] = atlas(alpha, trust="predicted").w
        answers[f"corrected {method}"] = atlas(alpha, trust="corrected", tol=1e-6).w
    online = cuvee.OnlineMap(problem, hypothesis)
    for mixture in np.random.default_rng(0).dirichlet(np.ones(3), size=6):
        online.learn_one(mixture)
    answers["OnlineMap"] = online.predict_one(alpha[0])
    return answers
