"""Take gradients of networks from one block of rows after the other, where rows are many."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from cuvee.components.rows import Rows
from cuvee.hypothesis.base import LossKind, Space
from cuvee.numerics.parallel import workers

GRAPH = 2**28  # bytes that the graph of one block may keep


def size(per_row: int, w: Tensor) -> int:
    """Return the rows of a block for models w (..., P), which keep `per_row` bytes each."""
    return max(1, GRAPH // max(1, per_row * w.shape[:-1].numel()))


@workers(graph=True)
def pull(space: Space, loss: LossKind, w: Tensor, v: Tensor, rows: Rows, size: int) -> Tensor:
    """Return Σ_j v_j ∇f_j(w) for w (M, Q, P), v (M, Q or 1, N or N+1).

    The graph of `size` rows of the sources is built at a time, and that of all own rows at last.
    """
    N = len(rows.lengths)
    source = torch.arange(N, device=w.device).repeat_interleave(rows.lengths)  # (rows,)
    total = torch.zeros_like(w)

    def gradient(risk: Callable[..., Tensor], *at: slice) -> Tensor:
        leaf = w.detach().requires_grad_()
        with torch.enable_grad():
            return torch.autograd.grad(risk(leaf, *at), leaf)[0]

    def of_sources(leaf: Tensor, at: slice) -> Tensor:
        by_row = space.loss(loss, space.scores(leaf, rows.X[at]), rows.y[at])  # (M, Q, size)
        return (by_row * v[..., source[at]] * rows.weight[at]).sum()

    def of_own(leaf: Tensor) -> Tensor:
        by_row = space.loss(loss, space.own_scores(leaf, rows.own_X), rows.own_y)  # (M, Q, k)
        return ((by_row * rows.own_weight).sum(-1) * v[..., N]).sum()

    for low in range(0, len(rows.X), size):
        total += gradient(of_sources, slice(low, low + size))
    return total + gradient(of_own) if len(rows.own_X) else total
