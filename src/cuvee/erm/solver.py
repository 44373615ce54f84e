"""Which solver for which space."""

from __future__ import annotations

import torch
from torch import Tensor

from cuvee.components import LocalComponents, Rows
from cuvee.erm import adam, lbfgs, ridge
from cuvee.gram import GramComponents


def solve(components: LocalComponents, rows: Rows, alpha: Tensor, *, seed: int = 0, tol: float = 1e-5) -> Tensor:
    """w (M, Q, P) that minimise Σ_j α_j f_j(w) + λ/2‖w‖² for every α (M, Q, N+1).

    Squared loss is solved directly, other convex losses by L-BFGS to ‖∇‖∞ ≤ tol, networks by Adam on minibatches.
    """
    if alpha.numel() == 0:
        return alpha.new_zeros(*alpha.shape[:-1], components.space.n_params)
    if isinstance(components, GramComponents):
        return ridge.solve(components, rows, alpha)
    if components.space.convex:
        start = torch.zeros(*alpha.shape[:-1], components.space.n_params, dtype=alpha.dtype, device=alpha.device)
        return lbfgs.solve(components, rows, alpha, start, tol=tol).w
    return adam.solve(components, rows, alpha, seed=seed)
