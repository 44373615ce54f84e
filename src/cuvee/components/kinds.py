"""Choose the local components for a hypothesis and a loss."""

from __future__ import annotations

from cuvee.components.bounded import BoundedComponents
from cuvee.components.linear import LinearComponents
from cuvee.components.local import LocalComponents
from cuvee.components.quadratic import QuadraticComponents
from cuvee.hypothesis.base import LossKind, Space


def local_kind(space: Space, loss: LossKind) -> type[LocalComponents]:
    """Return the class of components for rows in this process."""
    if loss == "trained":
        return (
            QuadraticComponents
            if space.quadratic
            else LinearComponents
            if space.generalised
            else LocalComponents
        )
    return BoundedComponents if space.chances else LocalComponents
