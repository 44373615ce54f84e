"""Take models and derivatives to coordinates around a reference row x0 and label y0, and back.

There w stays the same and b' = b + x0·w − y0. Without a reference everything stays as it is.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cuvee.components.protocol import Reference
from cuvee.erm.ridge import compensated


def shift(w: Tensor, around: Reference | None, sign: float, memory: int) -> tuple[Tensor, Tensor]:
    """Return w (M, P) around the reference (sign 1), or back (−1), and what rounding left out.

    Where means are large, b' is a small difference of large numbers: plain float64 would lose most
    of it.
    """
    left_out = w.new_zeros(len(w))
    if around is None:
        return w, left_out
    w = w.clone()
    row = around.row[:-1]
    coefficients = torch.cat([sign * row, row.new_tensor([1.0, -sign])])
    # about thirty numbers are held for every one of w
    size = max(1, memory // (256 * len(row)))
    for low in range(0, len(w), size):
        chunk = slice(low, low + size)
        label = around.label.expand(len(w[chunk]), 1)
        w[chunk, -1], left_out[chunk] = compensated.dot(
            coefficients, torch.cat([w[chunk], label], -1)
        )
    return w, left_out


def by_model(g: Tensor, around: Reference | None, sign: float = 1.0) -> Tensor:
    """Return derivatives (..., P) by w itself, from those around the reference; or back (−1)."""
    return g if around is None else g + sign * around.row * g[..., -1:]


def moved(change: Tensor, around: Reference | None) -> Tensor:
    """Return changes of models (..., P), from those around the reference."""
    if around is None:
        return change
    change = change.clone()
    change[..., -1] -= change @ around.row
    return change
