"""Minimise the risk of every mixture, all mixtures together (co-component ERM).

`family(problem, space)` solves, certifies and differentiates for (M, N) mixtures; the public
functions ask it. `solve(components, rows, alpha) -> w` is the inner call of the mixture path: α (M,
Q, N+1) weighs the N sources and, in the last column, the target's own block (whose row weights may
hold out a fold per q); w is (M, Q, P).
"""

from __future__ import annotations

from typing import Any

from cuvee.components import bind as components
from cuvee.components import rows_space
from cuvee.erm import descent
from cuvee.erm.convex.family import ConvexFamily
from cuvee.erm.linear.family import GeneralisedFamily
from cuvee.erm.network.family import NetworkFamily
from cuvee.erm.ridge.family import RidgeFamily
from cuvee.erm.solver import ROUGH, solve
from cuvee.erm.wide_family import WideFamily
from cuvee.hypothesis.base import Space
from cuvee.oracle import Oracle
from cuvee.problem import Problem

__all__ = ["ROUGH", "components", "descent", "family", "rows_space", "solve"]


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
    """Return the oracle of a space, with the data bound.

    `models` says how many models will be asked for, if that is known; `training` (seed, steps)
    matters to networks only.
    """
    if not space.convex:
        return NetworkFamily(problem, space, own=own, device=device, memory=memory, **training)
    kind: Any = (
        RidgeFamily if space.quadratic else GeneralisedFamily if space.generalised else ConvexFamily
    )

    def made(problem: Problem, space: Space, roundings: int = 0) -> Oracle:
        bound: Oracle = kind(
            problem, space, own=own, device=device, memory=memory, roundings=roundings
        )
        return bound

    wide = space.l2 > 0 and rows_space.targets_at_a_time(problem, space) >= 1
    if wide and rows_space.basis_pays(problem, space, models):
        return WideFamily(problem, space, made, own=own, device=device, memory=memory)
    return made(problem, space)
