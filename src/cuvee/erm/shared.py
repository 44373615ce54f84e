"""Provide what the families of models have in common.

What may be asked of a family is the protocol of `cuvee.oracle`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from cuvee.hypothesis.base import Space
from cuvee.problem import Array
from cuvee.results import Status


def not_penalised(space: Space) -> str:
    """Return what certificates say where a parameter without a penalty leaves them nothing."""
    binding = ", except where W binds" if space.radius is not None else ""
    if space.l2 == 0:
        free = space.intercept and not (space.quadratic or space.generalised)
        return (
            f"not certified: l2 = 0 leaves no strong convexity{binding}; set l2 above 0"
            f"{' and intercept=False' if free else ''}"
        )
    remedy = "set intercept=False" if space.intercept else "let `penalised` be 1 everywhere"
    what = "the intercept is" if space.intercept else "some parameters are"
    return (
        f"not certified: {what} not penalised, which leaves no strong convexity{binding}; {remedy} "
        "for a certificate"
    )


def statuses(M: int, *marks: tuple[Tensor, Status]) -> Array:
    """Return the status (M,) of each model: SOLVED, unless a mask (M,) says otherwise.

    Later masks override earlier ones.
    """
    status = np.full(M, Status.SOLVED, dtype=object)
    for mask, value in marks:
        status[mask.cpu().numpy()] = value
    return status


def implicit_derivative(
    solve: Callable[[Tensor], Tensor], gradients: Tensor, w: Tensor, active: Tensor
) -> Tensor:
    """Return −H⁻¹∇f_j (M, N, P), kept on the sphere for models whose ball is active.

    `solve` applies (H + ν)⁻¹ to stacks (M, R, P). On the sphere ν changes with α so that w·dw = 0.
    """
    if not bool(active.any()):
        return -solve(gradients)
    solved = solve(torch.cat([gradients, w[:, None]], 1))
    free, along = solved[:, :-1], solved[:, -1:]
    share = (free @ w[..., None]) / (along @ w[..., None])
    return -(free - torch.where(active[:, None, None], share * along, 0.0))
