"""The data behind a map, bound to an oracle once: what learning, online rounds and
saved maps ask.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cuvee import erm
from cuvee.hypothesis.base import Hypothesis, Space
from cuvee.oracle import Oracle
from cuvee.problem import Domain, Problem, digest


@dataclass(frozen=True)
class Bound:
    """Hold the data that maps are learnt from, and the oracle that answers for them."""

    problem: Problem
    hypothesis: Hypothesis
    space: Space
    oracle: Oracle
    device: str
    memory: int
    training: dict[str, Any]  # what training a network needs to know

    @classmethod
    def of(
        cls, problem: Problem, hypothesis: Hypothesis, device: str, memory: int, seed: int
    ) -> Bound:
        """Return the sources of a problem, ready to be asked; `seed` is of a network's training."""
        sources = problem.without_targets()
        space = hypothesis.bind(sources.facts)
        training = {} if space.convex else {"seed": seed}
        oracle = erm.family(sources, space, own=False, device=device, memory=memory, **training)
        return cls(problem, hypothesis, space, oracle, device, memory, training)

    def with_targets(self, targets: Sequence[Domain]) -> Oracle:
        """Return the oracle of the same sources with each target's own sample as last component."""
        problem = self.problem.with_targets(targets, warn=True)
        return self.family(problem, self.hypothesis.bind(problem.facts))

    def family(self, problem: Problem, space: Space) -> Oracle:
        """Return the oracle of a problem with each target's own sample as last component."""
        return erm.family(
            problem, space, own=True, device=self.device, memory=self.memory, **self.training
        )

    def descend(self, v: Tensor, alpha: Tensor, K: int) -> Tensor:
        """Return GD(v, α, K), with γ = 1/L_f: v (M, P), α (M, N) -> (M, P)."""
        gamma = 1.0 / (alpha @ self._curvatures.to(alpha))
        return erm.descent.gd(self.oracle.gradient, self.space, v, alpha, K, gamma)[0]

    @functools.cached_property
    def _curvatures(self) -> Tensor:
        """Return the smoothness L_j (N,) of every source, so that each is asked for once.

        L_f = Σ_j α_j L_j is at least the mixture's.
        """
        space, N = self.space, self.problem.n_sources
        start = (
            torch.zeros(N, space.n_params, dtype=space.dtype)
            if space.convex
            else space.start(1, 0).expand(N, -1)
        )
        each = torch.eye(N, dtype=torch.float64, device=self.device)
        return erm.descent.smoothness(self.oracle.gradient, space, start.to(self.device), each)

    @property
    def features(self) -> tuple[str, ...]:
        """Return the names of the columns, where the sources had some."""
        return next((d.features for d in self.problem.sources if d.features), ())

    @functools.cached_property
    def fingerprint(self) -> str:
        """Return a digest of everything that w*(α) depends on."""
        digested = hashlib.sha256(type(self.hypothesis).__name__.encode())
        for name, value in vars(self.hypothesis).items():
            digested.update(f"{name}={_described(value)}".encode())
        for domain in self.problem.sources:
            digested.update(repr((domain.name, domain.features, digest(domain))).encode())
        return digested.hexdigest()


def _described(value: Any) -> str:
    """Return words for a value that are the same in every process.

    A module is described with its parameters, a function by its name.
    """
    if isinstance(value, torch.nn.Module):
        state = {
            name: np.asarray(t.detach().cpu()).tobytes().hex()
            for name, t in value.state_dict().items()
        }
        return f"{value!r} {state}"
    if isinstance(value, functools.partial):
        return f"partial of {_described(value.func)} {value.args} {value.keywords}"
    if hasattr(value, "__code__"):
        return (
            f"{value.__module__}.{value.__qualname__} {value.__code__.co_code.hex()} "
            f"{value.__code__.co_consts}"
        )
    return (
        f"{type(value).__module__}.{type(value).__qualname__}" if callable(value) else repr(value)
    )
