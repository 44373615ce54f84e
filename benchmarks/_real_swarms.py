"""Swarms of real language models, in the form of those in benchmarks/swarms.py.

`Models` are those of examples/mixture_of_texts.py, trained here. The truth about a mixture is the
mean of two trainings with fixed draws, so it can be asked anywhere; the best mixture is what a
direct search over it finds. `Published` is RegMix's swarm (512 + 256 runs of a model with 1 million
parameters, 17 domains, 13 losses): no truth, so no regret.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cuvee.results import Floats

POOL, FRESH, BUDGET, REPEATS = 320, 64, 150_000, 2
TRAIN, TEST = (
    ("train_mixture_1m.csv", "train_pile_loss_1m.csv"),
    (
        "test_mixture_1m.csv",
        "test_pile_loss_1m.csv",
    ),
)


@dataclass(frozen=True)
class Models:
    """A seed's share of one pool of trained models."""

    seed: int

    @cached_property
    def prior(self) -> Floats:
        sizes = np.array([texts.size for texts in _texts()[0].values()], dtype=float)
        return sizes / sizes.sum()

    @cached_property
    def pool(self) -> tuple[Floats, Floats]:
        """Mixtures (POOL, N) and their losses (POOL, K), trained once and kept."""
        alpha, losses = _kept("pool", _train_pool)
        return alpha, losses

    def observed(self, n: int) -> tuple[Floats, Floats]:
        """Return n runs, drawn by the seed from all but the fresh ones."""
        rows = np.random.default_rng([self.seed, 3]).permutation(POOL - FRESH)[:n]
        return self.pool[0][rows], self.pool[1][rows]

    def judged(self) -> tuple[Floats, Floats, Floats]:
        """Return fresh mixtures, their truth and single runs on them."""
        truth = _kept("fresh", lambda: (truths(self.pool[0][-FRESH:]),))[0]
        return self.pool[0][-FRESH:], truth, self.pool[1][-FRESH:]

    @property
    def spread(self) -> Floats:
        """(K,) standard deviations of the losses over the pool."""
        return self.pool[1].std(0)

    def objectives(self) -> dict[str, list[Floats]]:
        """Return the mean over the wanted losses."""
        names, wanted = list(_texts()[1]), _example().WANTED
        mean = np.array([1.0 / len(wanted) if name in wanted else 0.0 for name in names])
        return {"regret": [mean]}

    def regret(self, alpha: Floats, weights: Floats) -> float:
        """Return how much worse a mixture is than the best of a direct search, in spreads."""
        name = "best_" + "".join("1" if w else "0" for w in weights)
        best = _kept(name, lambda: (_searched(*self.pool, weights),))[0]
        values = truths(np.stack([alpha, best])) @ weights
        return float((values[0] - values[1]) / (self.pool[1] @ weights).std())


def truths(alpha: Floats) -> Floats:
    """Return the losses (n, K) of models trained with the same draws for every mixture."""
    example, (domains, judged) = _example(), _texts()
    rows = []
    for a in np.atleast_2d(alpha):
        texts = [
            example.mixed(domains, a, BUDGET, np.random.default_rng([71, repeat]))
            for repeat in range(REPEATS)
        ]
        rows.append(np.mean([example.trained_losses(text, judged) for text in texts], axis=0))
    return np.array(rows)


def _example() -> Any:
    from examples import mixture_of_texts

    return mixture_of_texts


@cache
def _texts() -> Any:
    return _example().read()


def _kept(name: str, make: Any) -> tuple[Floats, ...]:
    """Return arrays from the cache, made if they are not there."""
    path = Path(os.environ["CUVEE_CACHE"]) / f"models_{name}.npz"
    if not path.is_file():
        made = make()
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_suffix(f".{os.getpid()}.npz")  # two workers may make it at once
        np.savez(whole, *made)
        whole.replace(path)
    with np.load(path) as file:
        return tuple(file[key] for key in file.files)


def _train_pool() -> tuple[Floats, Floats]:
    example, (domains, judged) = _example(), _texts()
    rng = np.random.default_rng(70)
    alpha = example.designs(POOL, len(domains), rng)
    texts = (example.mixed(domains, a, BUDGET, rng) for a in alpha)
    return alpha, np.array([example.trained_losses(text, judged) for text in texts])


def _searched(alpha: Floats, losses: Floats, weights: Floats) -> Floats:
    """Return the best mixture that shifting shares from domain to domain finds, in finer and finer
    steps from the best run of the pool.
    """
    best = alpha[np.argmin(losses @ weights)]
    value, step = float((truths(best) @ weights)[0]), 0.08
    pairs = [(i, j) for i in range(len(best)) for j in range(len(best)) if i != j]
    while step > 0.004:
        better = False
        for i, j in pairs:
            trial = best.copy()
            moved = min(step, trial[i])
            trial[i], trial[j] = trial[i] - moved, trial[j] + moved
            if moved > 0 and (new := float((truths(trial) @ weights)[0])) < value:
                best, value, better = trial, new, True
        step = step if better else step / 2
    return np.asarray(best)


@dataclass(frozen=True)
class Published:
    """A seed's share of RegMix's runs, from the files in CUVEE_DATA/regmix."""

    seed: int

    @staticmethod
    def folder() -> Path:
        return Path(os.environ.get("CUVEE_DATA", "data")) / "regmix"

    @cached_property
    def prior(self) -> Floats:
        return self._read(TRAIN)[0].mean(0)

    def _read(self, names: tuple[str, str]) -> tuple[Floats, Floats]:
        import pandas as pd

        mixtures, losses = (
            pd.read_csv(self.folder() / name).iloc[:, 1:].to_numpy(float) for name in names
        )
        return mixtures / mixtures.sum(1, keepdims=True), losses

    def observed(self, n: int) -> tuple[Floats, Floats]:
        """Return n of the 512 runs, drawn by the seed."""
        alpha, losses = self._read(TRAIN)
        rows = np.random.default_rng([self.seed, 3]).permutation(len(alpha))[:n]
        return alpha[rows], losses[rows]

    def judged(self) -> tuple[Floats, Floats, Floats]:
        """Return the 256 test runs; what was measured stands for the truth."""
        alpha, losses = self._read(TEST)
        return alpha, losses, losses

    @cached_property
    def spread(self) -> Floats:
        """(K,) standard deviations of the losses."""
        return self._read(TRAIN)[1].std(0)

    def objectives(self) -> dict[str, list[Floats]]:
        """Return none: nobody knows the truth about a new mixture."""
        return {}

    def regret(self, alpha: Floats, weights: Floats) -> float:
        raise NotImplementedError
