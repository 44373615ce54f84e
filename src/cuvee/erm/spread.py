"""How far rows lie around a reference row, per source and mixed: what the logistic certificates know of the data."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cuvee.components import Rows
from cuvee.erm.certificate import Spread
from cuvee.glm import GLMComponents
from cuvee.gram import nearest_to_zero

MANY_FEATURES = 256
MOST_FEATURES = 2048


@dataclass(frozen=True)
class Spreads:
    """Of every source; the own samples' are worked out when asked for."""

    reference: Tensor  # (features,) near the sources' means
    reach: Tensor  # (N,)
    second_moment: Tensor  # (N,)

    @classmethod
    def of(cls, components: GLMComponents) -> Spreads:
        rows, lengths = components.everything, components.counts.tolist()
        parts = list(zip(rows.X[:, :-1].split(lengths), rows.weight.split(lengths), strict=True))
        reference = nearest_to_zero(torch.stack([weight @ X for X, weight in parts]))
        reach, largest = [], []
        for X, weight in parts:
            centred = X - reference
            reach.append(torch.linalg.vector_norm(centred, dim=-1).amax())
            largest.append(largest_moment(centred.mul_(weight.sqrt()[:, None])))
        return cls(reference, torch.stack(reach), torch.stack(largest))

    def of_mixtures(self, alpha: Tensor, rows: Rows) -> Spread:
        """α (M, N or N+1): reach is a maximum over what is mixed, second moments add up."""
        N = len(self.reach)
        shares = alpha[:, :N]
        reach = torch.where(shares > 0, self.reach, 0.0).amax(-1)
        second_moment = torch.where(shares > 0, shares * self.second_moment, 0.0).sum(-1)  # some may have overflowed
        if alpha.shape[1] > N:
            size = torch.linalg.vector_norm(rows.own_X[..., :-1] - self.reference, dim=-1)  # (M, k)
            reach = torch.maximum(reach, torch.where(alpha[:, N:] > 0, size, 0.0).amax(-1))
            second_moment = second_moment + alpha[:, N] * (rows.own_weight[:, 0] * size.square()).sum(-1)
        return Spread(self.reference, reach, second_moment)


def largest_moment(R: Tensor) -> Tensor:
    """Return an upper bound on λ_max(RᵀR) for rows R (m, d), from the smaller one of RᵀR and RRᵀ."""
    if min(R.shape) > MOST_FEATURES:  # either matrix would cost more than the models themselves
        return R.square().sum() * (1 + 1e-9)
    return top_eigenvalue(R @ R.T if len(R) < R.shape[1] else R.T @ R)


def top_eigenvalue(A: Tensor) -> Tensor:
    """An upper bound on λ_max of positive semidefinite A (..., d, d), within a few percent: ‖A^(2^s)‖_F^(1/2^s)."""
    bound = torch.linalg.matrix_norm(A).clamp(min=torch.finfo(A.dtype).tiny)
    power, exponent = A / bound[..., None, None], 1.0
    for _ in range(5 if A.shape[-1] <= MANY_FEATURES else 2):
        power = power @ power
        norm = torch.linalg.matrix_norm(power).clamp(min=1e-300)
        power, exponent = power / norm[..., None, None], exponent / 2
        bound = bound * norm**exponent
    return bound * (1 + 1e-9)  # more than rounding can have lost
