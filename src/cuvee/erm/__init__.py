"""Co-component ERM: the minimiser of every mixture's risk, all mixtures together.

`family(problem, space)` solves, certifies and differentiates for (M, N) mixtures; the public functions ask it.
`solve(components, rows, alpha) -> w` is the inner call of the mixture path: α (M, Q, N+1) weighs the N sources and, in
the last column, the target's own block (whose row weights may hold out a fold per q); w is (M, Q, P).
"""

from __future__ import annotations

from typing import Any

from cuvee.erm import descent, rows_space
from cuvee.erm.logistic_family import LogisticFamily
from cuvee.erm.network_family import NetworkFamily
from cuvee.erm.ridge_family import RidgeFamily
from cuvee.erm.solver import components, solve
from cuvee.erm.wide_family import WideFamily
from cuvee.hypothesis.base import Space
from cuvee.hypothesis.linear import LinearSpace
from cuvee.hypothesis.logistic import LogisticSpace
from cuvee.hypothesis.ridge import RidgeSpace
from cuvee.oracle import Oracle
from cuvee.problem import Problem

__all__ = ["components", "descent", "family", "solve"]


def family(
    problem: Problem,
    space: Space,
    *,
    own: bool,
    device: str,
    memory: int,
    models: int | None = None,
    **training: Any,
) -> Oracle:
    """Return the family of a space, with the data bound.

    `models` says how many will be asked for, if that is known; `training` (seed, steps) matters to networks alone.
    """
    if not isinstance(space, LinearSpace):
        return NetworkFamily(problem, space, own=own, device=device, memory=memory, **training)

    def linear(problem: Problem, space: LinearSpace, roundings: int = 0) -> Oracle:
        options: dict[str, Any] = {"own": own, "device": device, "memory": memory, "roundings": roundings}
        if isinstance(space, RidgeSpace):
            return RidgeFamily(problem, space, **options)
        assert isinstance(space, LogisticSpace)
        return LogisticFamily(problem, space, **options)

    wide = space.l2 > 0 and rows_space.targets_at_a_time(problem, space) >= 1
    if wide and rows_space.basis_pays(problem, space, models):
        return WideFamily(problem, space, linear, own=own, device=device)
    return linear(problem, space)
