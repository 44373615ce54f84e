"""Bind a problem to a hypothesis and a loss, wherever its rows live."""

from __future__ import annotations

from typing import Any

from cuvee.components.inputs import InputSums
from cuvee.components.kinds import local_kind
from cuvee.components.local import LocalComponents
from cuvee.components.sites import RemoteDomain
from cuvee.hypothesis.base import LossKind, Space
from cuvee.problem import Problem


def bind(problem: Problem, space: Space, loss: LossKind = "trained", **options: Any) -> Any:
    """Return the components of a problem, with all the sums that the space and the loss allow.

    Rows may live in this process or at sites.
    """
    remote = next((s for s in problem.sources if isinstance(s, RemoteDomain)), None)
    if remote is not None:
        return remote.components(problem, space, loss, **options)
    return local_kind(space, loss)(problem, space, loss, **options)


def input_sums(problem: Problem, space: Space) -> InputSums:
    """Return what answers for the inputs of a problem's sources; local rows are read when asked."""
    remote = next((s for s in problem.sources if isinstance(s, RemoteDomain)), None)
    sources = problem.without_targets()
    if remote is not None:
        return remote.components(sources, space, "trained")
    return LocalComponents(sources, space)
