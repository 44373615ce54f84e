"""LibMOON, which has an environment of its own: asked by files, in a process of its own.

sh experiments/peers_libmoon/build FOLDER && export CUVEE_LIBMOON=FOLDER
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from experiments._peers_methods import Found
from experiments._peers_tables import Case

import cuvee
from cuvee.problem import Domain

MOON = "LibMOON"
BUILD = "sh experiments/peers_libmoon/build FOLDER; export CUVEE_LIBMOON=FOLDER"
WORKER = Path(__file__).parent / "peers_libmoon" / "worker.py"


def there() -> bool:
    """Whether an environment of LibMOON's was named: nothing is run that was not."""
    return "CUVEE_LIBMOON" in os.environ and _python().is_file()


def train(
    domains: Sequence[Domain], hypothesis: Any, alpha: Any, epochs: Sequence[int], seed: int
) -> dict[str, Any]:
    """w (checkpoints, K, P) for alpha (K, domains) after so many epochs; seconds (checkpoints,);
    predict_s of all K.
    """
    quantity = isinstance(hypothesis, cuvee.Ridge)
    task = {
        "kind": "ridge" if quantity else "logistic",
        "X": np.concatenate([d.X for d in domains]),
        "y": np.concatenate([d.y for d in domains]).astype(float),
        "domain": np.repeat(np.arange(len(domains)), [d.n_rows for d in domains]),
        "l2": hypothesis.l2,
        "intercept": hypothesis.intercept,
        "alpha": np.asarray(alpha),
        "epochs": np.asarray(epochs),
        "seed": seed,
    }
    with TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "task.npz", Path(folder) / "found.npz"
        np.savez(asked, **task)
        one = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
        # the interpreter is the one that the user named, the rest are files made here
        subprocess.run([_python(), WORKER, asked, answered], check=True, env=one)  # noqa: S603
        with np.load(answered, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}


def at_our_mixtures(case: Case, epochs: int, seed: int) -> Iterator[Found]:
    """Models from LibMOON's map at the mixtures that `cuvee.estimate` finds, instead of
    `cuvee.solve`.

    Its objectives are the sources and every target's labelled rows. A quantity is standardised for
    it, as its networks start near 0, and put back.
    """
    problem, N, M = case.problem, case.problem.n_sources, case.problem.n_targets
    began = time.perf_counter()
    mix = cuvee.estimate(problem, case.hypothesis)
    spent = time.perf_counter() - began
    alpha = np.zeros((M, N + M))
    alpha[:, :N], alpha[np.arange(M), N + np.arange(M)] = mix.alpha[:, :N], mix.alpha[:, N]
    mean, scale = (
        (float(f(case.pooled()[1])) for f in (np.mean, np.std)) if case.quantity else (0.0, 1.0)
    )
    domains = [
        Domain(d.name, d.X, (d.y - mean) / scale if case.quantity else d.y)
        for d in (*problem.sources, *problem.targets)
    ]
    found = train(domains, case.hypothesis, alpha, [epochs], seed)
    space = case.hypothesis.bind(problem.facts)
    for i, (X, _) in enumerate(case.test):
        predicted = space.predict(found["w"][-1, i], X)
        yield (
            mean + scale * predicted if case.quantity else predicted,
            (spent + float(found["seconds"][-1])) / M,
        )


def _python() -> Path:
    return Path(os.environ["CUVEE_LIBMOON"]) / "bin" / "python"
