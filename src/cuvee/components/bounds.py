"""Bound the steepness, curvature and size of losses over a ball from the lengths of rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cuvee.components.rows import Rows, source_sums
from cuvee.hypothesis.base import LossKind
from cuvee.hypothesis.linear import LinearSpace


@dataclass(frozen=True)
class RowConstants:
    """Hold G_f and L_f of Assumption 1 and the largest loss, for every row and every w in W."""

    G_f: float
    L_f: float
    largest_loss: float


@dataclass(frozen=True)
class RiskBounds:
    """Hold bounds on the sources' mean losses over a ball, (N, ...) each, without a penalty."""

    least: Tensor  # (N, width, width) no Hessian in the ball is below this matrix, output by output
    most: Tensor  # (N, width, width) nor above this one
    gradient: Tensor  # (N,) no gradient in the ball is longer


def row_constants(rows: Rows, space: LinearSpace, loss: LossKind) -> RowConstants:
    """Return the constants G_f, L_f and the largest loss of single rows."""
    X, y = torch.cat([rows.X, rows.own_X.flatten(0, 1)]), torch.cat([rows.y, rows.own_y.flatten()])
    length = torch.linalg.vector_norm(X.double(), dim=-1)
    slope, bend, largest = space.score_bounds(loss, length, y, space.radius)
    return RowConstants(
        G_f=float((slope * length).max()),
        L_f=bend * float(length.max()) ** 2,
        largest_loss=float(largest.max()),
    )


def squared_lengths(rows: Rows, space: LinearSpace, loss: LossKind) -> tuple[Tensor, Tensor]:
    """Return Σ_i p_i² ρ_i² ‖x_i‖² of sources (N,) and of own samples (M,).

    ρ_i is how steep row i's loss is.
    """

    def squares(X: Tensor, y: Tensor, p: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(X.double(), dim=-1)
        slope, _, _ = space.score_bounds(loss, length, y, space.radius)
        return (p.double() * slope * length).square()

    sources = source_sums(squares(rows.X, rows.y, rows.weight), rows)
    return sources, squares(rows.own_X, rows.own_y[:, 0], rows.own_weight[:, 0]).sum(-1)


def risk_bounds(rows: Rows, space: LinearSpace, radius: float) -> RiskBounds:
    """Return bounds on curvature and gradients of the sources' mean losses, ‖w‖ ≤ radius."""
    length = torch.linalg.vector_norm(rows.X, dim=-1)
    slope, _, _ = space.score_bounds("trained", length, rows.y, radius)
    low, high = space.curvature_range(length * radius, rows.y)
    lengths = rows.lengths.tolist()

    def moments(by_row: Tensor) -> Tensor:
        parts = zip(rows.X.split(lengths), (rows.weight * by_row).split(lengths), strict=True)
        return torch.stack([(X * p[:, None]).T @ X for X, p in parts])

    return RiskBounds(moments(low), moments(high), source_sums(rows.weight * slope * length, rows))
