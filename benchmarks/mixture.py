"""Algorithm 1, batched, against a straightforward loop over sources; and M targets together against
one by one.

    cuvee bench mixture --json

Both sides take the same step on the same rows of the same two-layer network (784 inputs, one
adversary, B = 16) and a check says that they agree. The slow side is what one writes first from the
paper's box: a module for w^t, one for w^{t−1}, a forward through each per source, one backward for
the sum. Its tensors are made once, its previous losses need no graph, and it updates parameters in
place.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import cuvee
from cuvee.components import LocalComponents
from cuvee.components.sampling import RowStream
from cuvee.hypothesis.base import Space
from cuvee.mixture import scgda
from cuvee.mixture.objective import Objective, inverse_counts
from cuvee.mixture.players import Settings
from cuvee.simplex import project

INPUTS, HIDDEN, CLASSES, ROWS, BATCH = 784, 32, 10, 100, 16
C, SMOOTHING, BETA, ETA, GAMMA = 10.0, 1e-4, 0.1, 0.01, 0.01
REPEATS = 7


def run(quick: bool = False) -> dict[str, Any]:
    """Every ratio, each the median of REPEATS interleaved runs in this process."""
    sources = {15: 3.0, 100: 8.0}
    result: dict[str, Any] = {
        "benchmark": "mixture",
        "threads": torch.get_num_threads(),
        "network": f"{INPUTS}-{HIDDEN}-{CLASSES}, float32, B={BATCH}, one adversary",
        "repeats": 3 if quick else REPEATS,
    }
    repeats, steps = (3, 5) if quick else (REPEATS, 40)
    for n_sources, wanted in sources.items():
        fast = Batched(n_sources, 1)
        slow = PerSourceLoop(fast.components)
        ratio = compare(fast.advance, slow.advance, steps, repeats)
        result[f"N={n_sources}"] = {
            **ratio,
            "wanted": wanted,
            "met": ratio["ratio"] >= wanted,
            "largest_alpha_difference": difference(n_sources),
        }
    together, apart = Batched(15, 32), [Batched(15, 1, only=i) for i in range(32)]

    def one_by_one() -> None:
        for single in apart:
            single.advance()

    ratio = compare(together.advance, one_by_one, max(2, steps // 4), repeats)
    result["32 targets together, N=15"] = {**ratio, "wanted": 3.0, "met": ratio["ratio"] >= 3.0}
    result["growth"] = growth(repeats, max(2, steps // 4))
    return result


def compare(
    fast: Callable[[], None], slow: Callable[[], None], steps: int, repeats: int
) -> dict[str, float]:
    """Milliseconds per step of both sides, taken in turns, and their ratio."""
    times: dict[str, list[float]] = {"fast": [], "slow": []}
    for i in range(repeats + 1):  # the first round only warms up
        for name, advance in (("fast", fast), ("slow", slow)):
            began = time.perf_counter()
            for _ in range(steps):
                advance()
            if i:
                times[name].append((time.perf_counter() - began) / steps)
    ms = {name: 1000 * statistics.median(t) for name, t in times.items()}
    ratios = sorted(s / f for f, s in zip(times["fast"], times["slow"], strict=True))
    return {
        "fast_ms": round(ms["fast"], 3),
        "slow_ms": round(ms["slow"], 3),
        "ratio": round(statistics.median(ratios), 2),
        "ratio_low": round(ratios[0], 2),
        "ratio_high": round(ratios[-1], 2),
    }


def growth(repeats: int, steps: int) -> dict[str, Any]:
    """Milliseconds per step against N (one target) and M (15 sources), and the exponent of each."""
    found: dict[str, Any] = {}
    for axis, sizes in (("N", (10, 20, 40, 80, 160)), ("M", (1, 4, 16, 64))):
        runs = {s: Batched(s, 1) if axis == "N" else Batched(15, s) for s in sizes}
        times: dict[int, list[float]] = {s: [] for s in sizes}
        for i in range(repeats + 1):
            for size, job in runs.items():
                began = time.perf_counter()
                for _ in range(steps):
                    job.advance()
                if i:
                    times[size].append((time.perf_counter() - began) / steps)
        ms = {s: 1000 * statistics.median(t) for s, t in times.items()}
        exponent = np.polyfit(np.log(list(ms)), np.log(list(ms.values())), 1)[0]
        found[axis] = {
            "ms": {str(s): round(v, 3) for s, v in ms.items()},
            "exponent": round(float(exponent), 2),
            "met": bool(exponent <= 1),
        }
    return found


def difference(n_sources: int, steps: int = 10) -> float:
    """How far apart the two sides' α are after a few steps from the same start: they do the same
    thing.
    """
    fast = Batched(n_sources, 1)
    slow = PerSourceLoop(fast.components)
    for _ in range(steps):
        fast.advance()
        slow.advance()
    return float((fast.state.play.alpha[0] - slow.alpha).abs().max())


def problem(n_sources: int, n_targets: int, only: int | None = None) -> cuvee.Problem:
    """Random images; what they show does not matter here. `only` keeps one of 32 targets."""

    def domain(name: str, key: int) -> cuvee.Domain:
        rng = np.random.default_rng(key)
        X = rng.random((ROWS, INPUTS), dtype=np.float32)
        return cuvee.Domain(name, X, np.arange(ROWS) % CLASSES)

    numbers = range(n_targets) if only is None else [only]
    return cuvee.Problem(
        [domain(f"source {j}", j) for j in range(n_sources)],
        [domain(f"target {i}", 10_000 + i) for i in numbers],
    )


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))


class Batched:
    """cuvee's own step."""

    def __init__(self, n_sources: int, n_targets: int, only: int | None = None) -> None:
        data = problem(n_sources, n_targets, only)
        space: Space = cuvee.Network(network(), radius=50.0).bind(data.facts)
        self.components = LocalComponents(data, space, "bounded")
        inverse = inverse_counts(self.components)[:, :-1]
        self.objective = Objective("sum", SMOOTHING, C, inverse)
        self.settings = Settings(beta=BETA, batch_size=BATCH, eta=ETA, gamma=GAMMA, adversaries=1)
        self.state = scgda.init(self.components, self.objective, self.settings)

    def advance(self) -> None:
        self.state = scgda.step(self.state, self.components, self.objective, self.settings)


class PerSourceLoop:
    """The paper's box with a loop over sources, in plain torch, on the very tensors the batched
    side holds.
    """

    def __init__(self, components: LocalComponents) -> None:
        rows, n_sources = components._all(torch.float32), len(components.counts)
        self.sources = list(zip(rows.X.split(ROWS), rows.y.split(ROWS), strict=True))
        self.target = rows.own_X[0], rows.own_y[0, 0]
        self.model, self.previous = network(), network()
        self.alpha = torch.full((n_sources,), 1.0 / n_sources)
        self.inverse_counts = torch.full((n_sources,), 1.0 / ROWS)
        self.t = 0
        # The same rows as the batched side draws, so that the two can be compared.
        names = [*(f"source source {j}" for j in range(n_sources)), "target target 0"]
        self.stream = RowStream(names, torch.full((n_sources + 1,), ROWS), seed=0)
        with torch.no_grad():
            target = self.loss(self.model, *self.target)
            self.z = torch.stack([target - self.loss(self.model, X, y) for X, y in self.sources])

    @staticmethod
    def loss(model: nn.Module, X: Tensor, y: Tensor) -> Tensor:
        """Mean of 1 − p_y."""
        return 1.0 - model(X).softmax(-1)[torch.arange(len(y)), y].mean()

    def advance(self) -> None:
        *picked, own = self.stream.draw(self.t, BATCH)
        X, y = self.target[0][own], self.target[1][own]
        f_T = self.loss(self.model, X, y)
        with torch.no_grad():
            f_T_previous = self.loss(self.previous, X, y)
        differences, new_z = [], []
        for j, (X_j, y_j) in enumerate(self.sources):
            X, y = X_j[picked[j]], y_j[picked[j]]
            d = f_T - self.loss(self.model, X, y)
            with torch.no_grad():
                d_previous = f_T_previous - self.loss(self.previous, X, y)
                new_z.append((1 - BETA) * (self.z[j] + d - d_previous) + BETA * d)
            differences.append(d)
        z = torch.stack(new_z)
        slope = self.alpha * z / (z**2 + SMOOTHING).sqrt()
        surrogate = torch.stack(differences) @ slope  # its gradient is g_w
        self.model.zero_grad()
        surrogate.backward()
        with torch.no_grad():
            for p, q in zip(self.model.parameters(), self.previous.parameters(), strict=True):
                q.copy_(p)
                assert p.grad is not None
                p.add_(p.grad, alpha=GAMMA)
            g_alpha = (self.z**2 + SMOOTHING).sqrt() + 2 * C * self.inverse_counts * self.alpha
            self.alpha = project(self.alpha - ETA * g_alpha)
        self.z, self.t = z, self.t + 1
