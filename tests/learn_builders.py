"""Small sources with models worth learning, and every kind of map by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from builders import mlp
from cuvee import Domain, Logistic, Network, Ridge
from cuvee.hypothesis import Hypothesis
from cuvee.learn import network
from cuvee.outputs import files

HYPOTHESES: dict[str, tuple[int, Hypothesis]] = {  # classes, hypothesis
    "ridge": (0, Ridge(0.1)),
    "binary": (2, Logistic(0.1)),
    "softmax": (3, Logistic(0.1)),
    "net": (3, Network(mlp(3, 3))),
}

KINDS: dict[str, dict[str, Any]] = {
    "auto": {},
    "network-own": {"method": "network", "width": 64, "steps": 60, "K": 4},
    "network-shared": {"method": "network", "trunk": "shared", "width": 128, "steps": 200},
    "ntf-own": {"method": "ntf", "width": 64},
    "ntf-shared": {"method": "ntf", "trunk": "shared", "width": 128},
    "kernel-exact": {"method": "kernel"},
    "kernel-descent": {"method": "kernel", "solver": "descent"},
    "surface-degree-2": {"method": "surface", "degree": 2},
    "surface-order-1": {"method": "surface", "order": 1},
    "surface-order-2": {"method": "surface", "order": 2},
    "surface": {"method": "surface"},
    "meta": {"method": "meta"},
}


def make_sources(
    classes: int = 2,
    n_sources: int = 4,
    d: int = 3,
    rows: int = 50,
    seed: int = 0,
    only: dict[int, int] | None = None,
) -> list[Domain]:
    """Sources that disagree: each has its own coefficients. `only` maps a source to the one class
    it has.
    """
    rng = np.random.default_rng(seed)
    found = []
    for j in range(n_sources):
        X = rng.normal(size=(rows, d)) + 0.5 * rng.normal(size=d)
        scores = X @ rng.normal(size=(d, max(classes, 1)))
        if classes == 0:
            y = scores[:, 0] + 0.3 * rng.normal(size=rows)
        elif classes == 2:
            y = (scores[:, 0] + rng.logistic(size=rows) > 0).astype(int)
        else:
            y = (scores + rng.gumbel(size=scores.shape)).argmax(1)
        if only and j in only:
            y = np.full(rows, only[j])
        found.append(Domain(f"s{j}", X, y))
    return found


def begin(n_sources: int, n_outputs: int, n_labels: int, **options: Any) -> network.State:
    """Algorithm 2 before its first step, with labels 0."""
    return network.init(n_sources, torch.zeros(n_labels, n_outputs, dtype=torch.float64), **options)


def train(
    alpha: Any, w0: Any, *, refine: Any = None, held_out: Any = None, **options: Any
) -> network.Trained:
    return network.train(alpha, w0, network.Training(**options), refine=refine, held_out=held_out)


def rescaled(sources: list[Domain], factor: Any) -> list[Domain]:
    return [Domain(s.name, s.X * factor, s.y) for s in sources]


def relative(a: Any, b: Any) -> Any:
    """‖a − b‖/‖b‖ per row."""
    return np.linalg.norm(np.asarray(a) - b, axis=1) / np.linalg.norm(b, axis=1)


def rewritten(file: Path, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> Path:
    """A file of cuvee's beside another, its header and tensors changed, and its
    checksum with them.
    """
    header, tensors = files.header_of(file), load_file(file)
    change(header, tensors)
    other = file.with_name("changed")
    files.write(other, tensors, header)
    return other
