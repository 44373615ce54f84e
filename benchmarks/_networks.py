"""32 two-layer networks, each on its own mixture of 15 MNIST sources: trained together, and one
after the other.

The slow side is what a good PyTorch user writes: one plain module per mixture, an eager loop, fused
Adam, minibatches drawn from the mixture (many steps ahead, as a draw costs as much as a forward).
It starts from the same weights, stops by the same rule on the same held-out rows, and averages its
iterates as the fast side does, which serves it too. Its batch size, rate and averaging reached the
lowest held-out loss soonest on other seeds; so small a model is faster on one thread than on two,
so it runs on one. Two processes beside each other halve its time.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import cuvee
from cuvee.components import LocalComponents, Part, rows
from cuvee.data import mnist
from cuvee.erm.network import training as network
from cuvee.problem import Problem

M, HIDDEN, L2, WANTED = 32, 32, 1e-3, 4.0
BATCH, RATE, FORGET = 64, 2e-2, 0.05
AHEAD = 100
FIRST = 1100  # seeds of the reported problems; nothing was chosen on them

Outcome = tuple[float, float]  # mean held-out loss and mean number of steps


def networks(quick: bool) -> dict[str, Any]:
    """Both sides in turns, setup included, on a new problem each time; the ratio is the median over
    problems.
    """
    repeats, threads = 2 if quick else 7, torch.get_num_threads()
    sides: dict[str, Callable[[Problem, nn.Module, Tensor, int], Outcome]] = {
        "together": together,
        "loop": loop,
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    outcomes: dict[str, list[Outcome]] = {name: [] for name in sides}
    for seed in range(FIRST, FIRST + 1 + repeats):
        task = problem(seed)
        for name, side in sides.items():
            torch.set_num_threads(1 if name == "loop" else threads)
            began = time.perf_counter()
            outcome = side(*task, seed)
            if seed > FIRST:  # the first round only warms up
                seconds[name].append(time.perf_counter() - began)
                outcomes[name].append(outcome)
    torch.set_num_threads(threads)
    loss = {name: statistics.mean(loss for loss, _ in found) for name, found in outcomes.items()}
    ratio = statistics.median(
        s / f for f, s in zip(seconds["together"], seconds["loop"], strict=True)
    )
    return {
        "models": (
            f"{M} networks 784-{HIDDEN}-10, float32, "
            "each on a Dirichlet(1) mixture of 15 sources × 80 images"
        ),
        "threads": {"together": threads, "loop": 1},
        "repeats": repeats,
        "seconds": {name: round(statistics.median(s), 3) for name, s in seconds.items()},
        "ratio": round(ratio, 2),
        "held_out_loss": {name: round(value, 4) for name, value in loss.items()},
        "steps": {
            name: round(statistics.mean(n for _, n in found)) for name, found in outcomes.items()
        },
        "loop": (
            f"all {M} measured; fused Adam, batch {BATCH} from the mixture, "
            f"rate {RATE}, average {FORGET}"
        ),
        "wanted": WANTED,
        "met": ratio >= WANTED and loss["together"] <= 1.02 * loss["loop"],
    }


def problem(seed: int) -> tuple[Problem, nn.Module, Tensor]:
    """Sources, the network as it starts, and the mixtures (M, N)."""
    sources = mnist.groups(seed, test_rows=100).problem.sources
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(784, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))
    alpha = np.random.default_rng(seed).dirichlet(np.ones(len(sources)), M)
    return Problem(sources), module, torch.as_tensor(alpha, dtype=torch.float32)


def together(data: Problem, module: nn.Module, alpha: Tensor, seed: int) -> Outcome:
    space = cuvee.Network(module, l2=L2).bind(data.facts)
    trained = network.train(LocalComponents(data, space, seed=seed), alpha, seed=seed)
    return float(trained.held_out.mean()), float(trained.steps.double().mean())


def loop(data: Problem, module: nn.Module, alpha: Tensor, seed: int) -> Outcome:
    # The same held-out rows as on the other side.
    parts: tuple[Part, Part] = ("training", "held out")
    (X, y, domain), (X_held, y_held, domain_held) = (
        tables([rows.part_of("source", s, seed, part) for s in data.sources]) for part in parts
    )
    share, share_held = 1 / domain.bincount()[domain], 1 / domain_held.bincount()[domain_held]
    draw = torch.Generator().manual_seed(seed)
    losses, steps = [], []
    for a in alpha:
        loss, taken = train_one(
            copy.deepcopy(module),
            (X, y, a[domain] * share),
            (X_held, y_held, a[domain_held] * share_held),
            draw,
        )
        losses.append(loss)
        steps.append(taken)
    return statistics.mean(losses), statistics.mean(steps)


def tables(domains: Any) -> tuple[Tensor, Tensor, Tensor]:
    """All rows, their labels and the number of their domain."""
    X = torch.as_tensor(np.concatenate([d.X for d in domains]))
    y = torch.as_tensor(np.concatenate([d.y for d in domains]))
    return (
        X,
        y,
        torch.arange(len(domains)).repeat_interleave(torch.tensor([d.n_rows for d in domains])),
    )


Table = tuple[Tensor, Tensor, Tensor]  # rows, labels, weights


def train_one(
    model: nn.Module, training: Table, held: Table, draw: torch.Generator
) -> tuple[float, int]:
    """One mixture: the lowest held-out loss and the steps taken."""
    X, y, chance = training
    X_held, y_held, weight = held
    average = copy.deepcopy(model)
    parameters: list[Tensor] = list(model.parameters())
    averages: list[Tensor] = list(average.parameters())
    optimiser = torch.optim.Adam(parameters, lr=RATE, weight_decay=L2, fused=True)
    lowest, goal, waited, t = np.inf, np.inf, 0, 0
    best = copy.deepcopy(model.state_dict())
    while t < network.MAX_STEPS:
        if t % AHEAD == 0:
            picked = torch.multinomial(
                chance, AHEAD * BATCH, replacement=True, generator=draw
            ).view(AHEAD, BATCH)
        rows = picked[t % AHEAD]
        optimiser.zero_grad()
        cross_entropy(model(X[rows]), y[rows]).backward()
        optimiser.step()
        t += 1
        with torch.no_grad():
            torch._foreach_lerp_(averages, parameters, max(FORGET, 1 / t))
            if t % network.CHECK:
                continue
            loss = float(cross_entropy(average(X_held), y_held, reduction="none") @ weight)
        if loss < lowest:
            lowest, best = loss, copy.deepcopy(average.state_dict())
        waited = 0 if loss < goal else waited + 1
        goal = loss * (1 - network.IMPROVEMENT) if loss < goal else goal
        if waited >= network.PATIENCE:
            break
    model.load_state_dict(best)
    return lowest, t
