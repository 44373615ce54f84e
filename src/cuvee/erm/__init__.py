"""Co-component ERM: the minimiser of every mixture's risk, all mixtures together.

`family(problem, space)` solves, certifies and differentiates for (M, N) mixtures; the public functions ask it.
`solve(components, rows, alpha) -> w` is the inner call of the mixture path: α (M, Q, N+1) weighs the N sources and, in
the last column, the target's own block (whose row weights may hold out a fold per q); w is (M, Q, P).
"""

from __future__ import annotations

from typing import Any

from cuvee.erm import descent
from cuvee.erm.family import Family
from cuvee.erm.logistic_family import LogisticFamily
from cuvee.erm.network_family import NetworkFamily
from cuvee.erm.ridge_family import RidgeFamily
from cuvee.erm.solver import components, solve
from cuvee.hypothesis.base import Space
from cuvee.hypothesis.logistic import LogisticSpace
from cuvee.hypothesis.ridge import RidgeSpace
from cuvee.problem import Problem

__all__ = ["Family", "components", "descent", "family", "solve"]


def family(problem: Problem, space: Space, *, own: bool, device: str, memory: int, **training: Any) -> Family:
    """The family of a space, with the data bound; `training` (seed, steps) matters to networks alone."""
    if isinstance(space, RidgeSpace):
        return RidgeFamily(problem, space, own=own, device=device, memory=memory)
    if isinstance(space, LogisticSpace):
        return LogisticFamily(problem, space, own=own, device=device, memory=memory)
    return NetworkFamily(problem, space, own=own, device=device, memory=memory, **training)
