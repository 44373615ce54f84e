"""Choose the solver that fits a space."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from cuvee.components import (
    Batch,
    Components,
    LinearSums,
    QuadraticSums,
)
from cuvee.components.protocol import Grams
from cuvee.erm.convex import solver as convex
from cuvee.erm.linear import solver as generalised
from cuvee.erm.network import training as network
from cuvee.erm.ridge import solver as ridge

MEMORY = 2**28
ROUGH = generalised.ROUGH
ROUGH_UNSCALED = 1e-4  # the same where the columns' root mean squares are not known


def solve(
    components: Components,
    batch: Batch,
    alpha: Tensor,
    start: Tensor | None = None,
    *,
    seed: int = 0,
    tol: float = 1e-8,
    passes: int | None = None,
) -> Tensor:
    """Return w (M, Q, P) that minimise Σ_j α_j f_j(w) + λ/2‖w‖² for every α (M, Q, N+1).

    Squared loss is solved directly, logistic losses by quasi-Newton steps to ‖∇‖∞ ≤ tol, networks
    by Adam on minibatches. From `ROUGH` on, tol is in units of each column's root mean square.
    `start` (M, Q, P) is where quasi-Newton steps begin. With `passes`, logistic losses end after so
    many, wherever they are then.
    """
    space = components.space
    if alpha.numel() == 0:
        return alpha.new_zeros(*alpha.shape[:-1], space.n_params)
    if space.quadratic and components.loss == "trained":
        quadratic = cast(QuadraticSums, components)
        sources, _ = quadratic.grams

        def own(targets: slice, models: slice) -> Grams:
            return quadratic.own_grams(targets=targets, folds=batch.folds, models=models)

        penalty = (space.l2 * space.penalised).to(alpha)
        return ridge.solve(sources, own, alpha, penalty, intercept=space.intercept).w
    if space.generalised and components.loss == "trained":
        wanted = generalised.Wanted(tol, MEMORY, start=start, certified=tol < ROUGH, passes=passes)
        return generalised.solve(cast(LinearSums, components), batch, alpha, wanted).w
    if space.convex:
        tol = min(tol, ROUGH_UNSCALED)
        return convex.solve(components, batch, alpha, tol=tol, memory=MEMORY, start=start).w
    return network.train_briefly(components, batch, alpha, seed=seed)
