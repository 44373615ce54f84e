"""Random domains and problems, every hypothesis as a named case, and single-model scores to compare
with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from cuvee.hypothesis import Hypothesis, Logistic, Network, Ridge, Space
from cuvee.problem import Domain, Problem


def make_domain(name: str, rows: int, rng, *, shape=(3,), classes=0, weighted=False) -> Domain:
    """Labels are numbers when `classes` is 0, else 0…classes−1, each at least once where rows
    allow.
    """
    X = rng.normal(size=(rows, *shape)) + rng.normal(size=shape)
    y = (
        rng.permutation(np.arange(rows) % classes)
        if classes
        else rng.normal(size=rows) * 2 + rng.normal()
    )
    return Domain(name, X, y, weight=rng.uniform(0.1, 3.0, rows) if weighted else None)


def make_problem(
    sources: Sequence[int] = (5, 7, 4),
    targets: Sequence[int] = (3, 2),
    *,
    shape: tuple[int, ...] = (3,),
    classes: int = 0,
    weighted: bool = False,
    seed: int = 0,
) -> Problem:
    """One source per entry of `sources` (its rows), one target per entry of `targets`."""
    rng = np.random.default_rng(seed)
    options = {"shape": shape, "classes": classes, "weighted": weighted}
    return Problem(
        [make_domain(f"s{j}", rows, rng, **options) for j, rows in enumerate(sources)],
        [make_domain(f"t{i}", rows, rng, **options) for i, rows in enumerate(targets)],
    )


def mlp(inputs: int, outputs: int, hidden: int = 4) -> nn.Module:
    return _seeded(
        lambda: nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs))
    )


def conv_net(outputs: int) -> nn.Module:
    """For rows of shape (1, 4, 4)."""
    return _seeded(
        lambda: nn.Sequential(
            nn.Conv2d(1, 2, 3, padding=1),
            nn.Tanh(),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Linear(8, outputs),
        )
    )


class MeanOfSteps(nn.Module):
    """The mean over the steps of a sequence: (rows, steps, width) -> (rows, width)."""

    def forward(self, rows: Tensor) -> Tensor:
        return rows.mean(1)


class Attending(nn.Module):
    """Attention by itself, and masked, as decoders have it; for rows of shape (5, 8)."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=True)
        self.last = nn.Linear(8, 3)

    def forward(self, rows: Tensor) -> Tensor:
        past = nn.Transformer.generate_square_subsequent_mask(rows.shape[1], dtype=rows.dtype)
        past = past.to(rows.device)
        seen, _ = self.attention(rows, rows, rows, attn_mask=past, is_causal=True)
        again, weights = self.attention(seen, rows, rows)
        assert weights.shape[-2:] == (rows.shape[1], rows.shape[1])
        return self.last(again.mean(1))


def transformer(
    kind: str = "layer", *, dropout: float = 0.1, batch_first: bool = True
) -> nn.Module:
    """For rows of shape (5, 8), three outputs."""

    def made() -> nn.Module:
        if kind == "attention":
            return Attending()
        layer = nn.TransformerEncoderLayer(
            8, 2, 12, dropout, batch_first=batch_first, norm_first=kind == "encoder"
        )
        if kind == "encoder":
            layer = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        start = nn.Linear(8, 8).requires_grad_(kind != "frozen")
        if kind == "frozen":  # the start, and a part in the middle of what is learnt
            layer.linear1.requires_grad_(False)
        return nn.Sequential(start, layer, MeanOfSteps(), nn.Linear(8, 3))

    return _seeded(made)


class Wrapped(nn.Module):
    """A module that hides what it is made of, so that only vmap can run many copies of it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, rows: Tensor) -> Tensor:
        return self.inner(rows)


def log_cosh(scores: Tensor, y: Tensor) -> Tensor:
    """A custom row loss over two outputs: (2, rows), (rows,) -> (rows,)."""
    return torch.log(torch.cosh(scores[0] - y)) + 0.1 * scores[1].square()


def _seeded(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make().double()


@dataclass(frozen=True)
class Case:
    name: str
    hypothesis: Hypothesis
    classes: int = 0
    shape: tuple[int, ...] = (3,)

    def problem(self, sources=(5, 7, 4), targets=(3, 2), **options) -> Problem:
        return make_problem(sources, targets, shape=self.shape, classes=self.classes, **options)

    def __repr__(self) -> str:
        return self.name


CASES = [
    Case("ridge", Ridge()),
    Case("ridge-no-intercept", Ridge(intercept=False)),
    Case("logistic", Logistic(), classes=2),
    Case("logistic-no-intercept", Logistic(intercept=False), classes=2),
    Case("softmax", Logistic(), classes=3),
    Case("softmax-no-intercept", Logistic(intercept=False), classes=3),
    Case("net-cross-entropy", Network(mlp(3, 3)), classes=3),
    Case("net-one-output", Network(mlp(3, 1)), classes=2),
    Case("net-squared", Network(mlp(3, 1), loss="squared")),
    Case("net-custom", Network(mlp(3, 2), loss=log_cosh)),
    Case("net-vmap", Network(Wrapped(mlp(3, 3))), classes=3),
    Case("net-conv", Network(conv_net(3)), classes=3, shape=(1, 4, 4)),
]


def models(space: Space, *lead: int, seed: int = 0, scale: float = 0.7) -> Tensor:
    """Random parameters (*lead, P)."""
    return torch.as_tensor(np.random.default_rng(seed).normal(size=(*lead, space.n_params)) * scale)


def slow_scores(hypothesis: Hypothesis, w: Tensor, X: Tensor) -> Tensor:
    """One model w (P,) on raw rows X (rows, …) -> (outputs, rows), without vmap or stacking."""
    if isinstance(hypothesis, Network):
        named, first = {}, 0
        for name, parameter in hypothesis.module.named_parameters():
            named[name] = w[first : first + parameter.numel()].view(parameter.shape)
            first += parameter.numel()
        return torch.func.functional_call(hypothesis.module, named, (X,)).reshape(len(X), -1).T
    n_features = X.shape[1]
    table = w.view(-1, n_features + hypothesis.intercept)  # a row per output, the intercept last
    return torch.stack(
        [
            sum((X[:, c] * row[c] for c in range(n_features)), row[n_features:].sum())
            for row in table
        ]
    )
