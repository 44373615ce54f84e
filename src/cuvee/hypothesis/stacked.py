"""Many copies of one feed-forward network at once, without `torch.func`.

`torch.func.vmap` runs any module but spends most of a small network's time on bookkeeping. A plain
stack of `Linear` layers and elementwise activations needs none: its first layer is one matrix
product for all copies on shared rows, the others are batched products. `NetworkSpace` uses this
where it applies; a test holds it against `vmap`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

ELEMENTWISE = (
    nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Softplus, nn.Identity,
)  # fmt: skip


class StackedLayers:
    """A `Sequential` of `Linear` and elementwise layers, run on w (..., P)."""

    def __init__(self, layers: list[nn.Module]) -> None:
        self._layers = layers
        self._sizes = [p.numel() for layer in layers for p in layer.parameters()]

    @classmethod
    def of(cls, module: nn.Module) -> StackedLayers | None:
        """Return the stack behind a module, or None if it is anything more than that."""
        layers = list(module) if type(module) is nn.Sequential else [module]
        if not _plain(layers) or _shares_or_hooks(module, layers):
            return None
        return cls(layers)

    def scores(self, w: Tensor, X: Tensor) -> Tensor:
        """Return scores (..., outputs, rows) of w (..., P) on shared rows X (rows, inputs)."""
        flat = w.reshape(-1, w.shape[-1])
        scores = self._run(flat, X.T)
        return scores.view(*w.shape[:-1], *scores.shape[1:])

    def own_scores(self, w: Tensor, X: Tensor) -> Tensor:
        """Return scores (M, Q, outputs, rows) of w (M, Q, P) on own rows X (M, rows, inputs)."""
        return self._run(w, X.transpose(-1, -2)[:, None])

    def _run(self, w: Tensor, h: Tensor) -> Tensor:
        """Return scores of w (..., P) on h (inputs, rows), in which features stand before rows.

        h may also broadcast, like (M, 1, inputs, rows).
        """
        parts = iter(w.split(self._sizes, -1))
        for layer in self._layers:
            if not isinstance(layer, nn.Linear):
                h = layer(h)
                continue
            weight = next(parts).unflatten(-1, layer.weight.shape)
            if h.ndim == 2 and len(w) == 1:  # a tall product: rows first is the faster way round
                h = (h.T @ weight[0].T).T[None]
            elif h.ndim == 2:  # the first layer on shared rows: one product for all copies
                h = (weight.reshape(-1, layer.in_features) @ h).view(len(w), layer.out_features, -1)
            else:
                h = torch.matmul(weight, h)
            if layer.bias is not None:
                h = h + next(parts).unsqueeze(-1)
        return h


def _plain(layers: list[nn.Module]) -> bool:
    """Return whether layers are linear (in one precision) or elementwise, a linear one first."""
    linear = [layer for layer in layers if type(layer) is nn.Linear]
    known = all(type(layer) is nn.Linear or type(layer) in ELEMENTWISE for layer in layers)
    one_precision = len({layer.weight.dtype for layer in linear}) == 1
    return known and type(layers[0]) is nn.Linear and one_precision


def _shares_or_hooks(module: nn.Module, layers: list[nn.Module]) -> bool:
    """Return whether a layer or a weight stands twice, or something is hooked to the forward."""
    weights = [id(p) for layer in layers for p in layer.parameters()]
    twice = len(set(weights)) < len(weights) or len({id(layer) for layer in layers}) < len(layers)
    return twice or any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
