"""Which components and which solver for which space."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from cuvee.components import (
    Batch,
    BoundedComponents,
    LinearComponents,
    LocalComponents,
    QuadraticComponents,
)
from cuvee.components.quadratic import Grams
from cuvee.erm import logistic, network, ridge
from cuvee.hypothesis.base import LossKind, Space
from cuvee.hypothesis.logistic import LogisticSpace
from cuvee.hypothesis.ridge import RidgeSpace
from cuvee.problem import Problem

MEMORY = 2**28
ROUGH_PAYS = 2**20  # numbers in the table of the sources' rows
ROUGH = 1e-5  # ‖∇‖∞ that is enough for a held-out loss, when every digit more costs seconds


def components(problem: Problem, space: Space, loss: LossKind = "trained", **options: Any) -> LocalComponents:
    """Local components with all the structure that the space and the loss allow."""
    kind: type[LocalComponents] = LocalComponents
    if loss == "trained":
        kind = (
            QuadraticComponents if space.quadratic else LinearComponents if isinstance(space, LogisticSpace) else kind
        )
    elif isinstance(space, LogisticSpace):
        kind = BoundedComponents
    return kind(problem, space, loss, **options)


def solve(components: LocalComponents, batch: Batch, alpha: Tensor, *, seed: int = 0, tol: float = 1e-8) -> Tensor:
    """w (M, Q, P) that minimise Σ_j α_j f_j(w) + λ/2‖w‖² for every α (M, Q, N+1).

    Squared loss is solved directly, logistic losses by quasi-Newton steps to ‖∇‖∞ ≤ tol (on many rows ROUGH), networks
    by Adam on minibatches.
    """
    space = components.space
    if alpha.numel() == 0:
        return alpha.new_zeros(*alpha.shape[:-1], space.n_params)
    if isinstance(components, QuadraticComponents) and isinstance(space, RidgeSpace):
        sources, _ = components.grams

        def own(targets: slice, models: slice) -> Grams:
            return components.own_grams(targets=targets, folds=batch.folds, models=models)

        penalty = (space.l2 * space.penalised).to(alpha)
        return ridge.solve(sources, own, alpha, penalty, intercept=space.intercept).w
    if isinstance(components, LinearComponents):
        # Targets have no say in it: what one gets must not depend on how many others there are.
        rough = components.n_rows * components.space.width >= ROUGH_PAYS
        tol = ROUGH if rough else tol
        return logistic.solve(components, batch, alpha, tol=tol, memory=MEMORY, certified=not rough).w
    if space.convex:
        raise TypeError("build the components with erm.components: plain LocalComponents lack what this solver needs")
    return network.train_briefly(components, batch, alpha, seed=seed)
