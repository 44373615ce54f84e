"""The nearest of 100,000 centres on Δ, N = 15, while they grow: `Centres` beside what else could
have been chosen.

    cuvee bench index --json

Streams of mixtures:
  uniform          each α_t is drawn from Dirichlet(1, …, 1), on its own
  drifting         α_0 is drawn so; α_{t+1} = Π_Δ(α_t + 0.001 z_t), z_t standard normal in every
  coordinate drifting faster  the same with 0.003

From empty, the first 100,000 mixtures of a stream are inserted one by one (`insert`); for each of
the next 500 the nearest centre is asked for (`query`); then for those 500 again, each inserted
after it was asked about (`both`). Speeds are ratios to brute force in float64: one matrix-vector
product over all centres and an argmin, in its fastest layout. Every answer is compared with min_c
|c − α| as it is written.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from benchmarks._timing import compared
from scipy.spatial import cKDTree

from cuvee.online.centres import Centres
from cuvee.results import Floats
from cuvee.simplex import project, sample

CENTRES, SOURCES, QUERIES, REPEATS = 100_000, 15, 500, 5
STREAMS = {"uniform": 0.0, "drifting": 0.001, "drifting faster": 0.003}
BRUTE = "brute force, float64"


class Index(Protocol):
    def add(self, alpha: Floats) -> int: ...

    def nearest(self, alpha: Floats) -> tuple[int, float]: ...


def run(quick: bool = False) -> dict[str, Any]:
    n, n_queries, repeats = (3_000, 50, 1) if quick else (CENTRES, QUERIES, REPEATS)
    candidates: dict[str, Callable[[int], Index]] = {
        BRUTE: Brute,
        "brute force, float32 with re-check": Screened,
        "k-d tree, rebuilt as it grows": Tree,
        "cuvee Centres": Centres,
    }
    faiss = "not installed"
    if importlib.util.find_spec("faiss"):
        candidates["FAISS flat with re-check"] = Flat
        faiss = f"{importlib.import_module('faiss').omp_get_max_threads()} threads"
    streams = {name: side_by_side(name, candidates, n, n_queries, repeats) for name in STREAMS}
    ratio = {
        (name, phase): table["cuvee Centres"][phase]["against brute force"]["ratio"]
        for name, table in streams.items()
        for phase in ("query", "both")
    }
    return {
        "benchmark": "index",
        "centres": n,
        "sources": SOURCES,
        "threads": torch.get_num_threads(),
        "blas_threads": [
            p["num_threads"] for p in importlib.import_module("threadpoolctl").threadpool_info()
        ],
        "faiss": faiss,
        **streams,
        "wanted": {"drifting": 5.0, "uniform": 1.0},
        "met": all(
            ratio["drifting", p] >= 5.0 and ratio["uniform", p] >= 1.0 for p in ("query", "both")
        ),
    }


def side_by_side(
    stream: str, candidates: dict[str, Callable[[int], Index]], n: int, n_queries: int, repeats: int
) -> dict[str, Any]:
    alpha = mixtures(STREAMS[stream], n + n_queries)
    right = [plain(alpha[:n], a) for a in alpha[n:]]
    right += [plain(alpha[: n + t], a) for t, a in enumerate(alpha[n:])]
    seconds: dict[str, dict[str, list[float]]] = {
        name: {"insert": [], "query": [], "both": []} for name in candidates
    }
    wrong = dict.fromkeys(candidates, 0)
    for repeat in range(repeats):
        indices = {name: make(SOURCES) for name, make in candidates.items()}
        answers: dict[str, list[tuple[int, float]]] = {name: [] for name in candidates}
        for phase in ("insert", "query", "both"):
            for name, index in indices.items():
                began = time.perf_counter()
                for a in alpha[:n] if phase == "insert" else alpha[n:]:
                    if phase != "insert":
                        answers[name].append(index.nearest(a))
                    if phase != "query":
                        index.add(a)
                seconds[name][phase].append(time.perf_counter() - began)
        for name, given in answers.items():
            wrong[name] += sum(a != b for a, b in zip(given, right, strict=True))
        print(f"index: {stream}, {repeat + 1} of {repeats}", file=sys.stderr)
    return {
        name: {
            "mismatches": f"{wrong[name]} of {repeats * len(right)}",
            **{
                phase: {
                    "per second": round(
                        (n if phase == "insert" else n_queries) / statistics.median(times)
                    ),
                    "against brute force": compared(times, seconds[BRUTE][phase]),
                }
                for phase, times in seconds[name].items()
            },
        }
        for name in candidates
    }


def mixtures(speed: float, n: int) -> Floats:
    if not speed:
        return sample(n, SOURCES, seed=0)
    generator = torch.Generator().manual_seed(0)
    alpha = torch.as_tensor(sample(1, SOURCES, seed=0))
    steps = [alpha]
    for _ in range(n - 1):
        alpha = project(
            alpha + speed * torch.randn(1, SOURCES, generator=generator, dtype=torch.float64)
        )
        steps.append(alpha)
    return torch.cat(steps).numpy()


def plain(points: Floats, alpha: Floats) -> tuple[int, float]:
    d2 = ((points - alpha) ** 2).sum(1)
    k = int(np.argmin(d2))
    return k, float(np.sqrt(d2[k]))


def among(numbers: Any, points: Floats, alpha: Floats) -> tuple[int, float]:
    k, distance = plain(points[numbers], alpha)
    return int(numbers[k]), distance


class Stored:
    """Centres as they came, with room for as many again."""

    def __init__(self, n_sources: int) -> None:
        self.n = 0
        self.points = np.empty((1_024, n_sources))

    def add(self, alpha: Floats) -> int:
        if self.n == len(self.points):
            self.points = np.concatenate([self.points, np.empty_like(self.points)])
        self.points[self.n] = alpha
        self.n += 1
        return self.n - 1


class Brute(Stored):
    """One product over all centres: |c|²/2 − c·α, least where |c − α| is."""

    dtype: type[np.floating[Any]] = np.float64

    def __init__(self, n_sources: int) -> None:
        super().__init__(n_sources)
        # rows are slower: 290 µs against 240
        self.columns = np.empty((n_sources + 1, 1_024), self.dtype)
        self.query = np.ones(n_sources + 1, self.dtype)

    def add(self, alpha: Floats) -> int:
        n = super().add(alpha)
        if n == self.columns.shape[1]:
            self.columns = np.concatenate([self.columns, np.empty_like(self.columns)], axis=1)
        self.columns[:-1, n] = alpha
        self.columns[-1, n] = alpha @ alpha / 2
        return n

    def scores(self, alpha: Floats, start: int = 0) -> Any:
        self.query[:-1] = -alpha
        return self.query @ self.columns[:, start : self.n]

    def nearest(self, alpha: Floats, start: int = 0) -> tuple[int, float]:
        k = start + int(self.scores(alpha, start).argmin())
        return k, plain(self.points[k : k + 1], alpha)[1]


class Screened(Brute):
    """The same in float32; whatever rounding could have kept from being first is checked again."""

    dtype = np.float32

    def nearest(self, alpha: Floats, start: int = 0) -> tuple[int, float]:
        score = self.scores(alpha, start)
        margin = np.float32((len(alpha) + 8) * 2.0**-24 * (1 + math.sqrt(alpha @ alpha)) ** 2)
        return among(start + np.flatnonzero(score <= score.min() + margin), self.points, alpha)


class Tree(Brute):
    """SciPy's k-d tree, made anew when more than a tenth is not in it; brute force over
    the rest.
    """

    def __init__(self, n_sources: int) -> None:
        super().__init__(n_sources)
        self.tree: Any = None
        self.inside = 0

    def add(self, alpha: Floats) -> int:
        n = super().add(alpha)
        if n - self.inside > max(1_000, self.inside // 10):
            self.tree, self.inside = cKDTree(self.points[: self.n].copy()), self.n
        return n

    def nearest(self, alpha: Floats, start: int = 0) -> tuple[int, float]:
        if self.tree is None:
            return super().nearest(alpha)
        distance, number = self.tree.query(alpha, k=2)
        if distance[1] <= distance[0] * (1 + 1e-9):  # it sums in another order
            number = np.asarray(self.tree.query_ball_point(alpha, distance[0] * (1 + 1e-9)))
        best = among(np.sort(number), self.points, alpha)
        if self.inside < self.n:
            best = min(best, super().nearest(alpha, self.inside), key=lambda found: found[1])
        return best


class Flat(Stored):
    """FAISS `IndexFlatL2`: the first eight in float32 are checked again, or all where eight might
    not be enough.
    """

    def __init__(self, n_sources: int) -> None:
        super().__init__(n_sources)
        self.index = importlib.import_module("faiss").IndexFlatL2(n_sources)

    def add(self, alpha: Floats) -> int:
        self.index.add(alpha[None].astype(np.float32))
        return super().add(alpha)

    def nearest(self, alpha: Floats) -> tuple[int, float]:
        squared, number = (
            row[0] for row in self.index.search(alpha[None].astype(np.float32), min(8, self.n))
        )
        # Both points are rounded by no more than 2⁻²⁴ of their lengths, below 1; then N squares are
        # summed.
        distance = math.sqrt(squared[0]) * (1 + (len(alpha) + 4) * 2.0**-24) + 2.0**-22
        enough = self.n <= 8 or squared[-1] > distance**2 * (1 + (len(alpha) + 4) * 2.0**-22)
        return (
            among(np.sort(number), self.points, alpha)
            if enough
            else plain(self.points[: self.n], alpha)
        )
