"""A frozen start of a module: rows pass it once, and only what follows is learnt.

A backbone that somebody trained costs thousands of times what a head costs. Its answers for a row,
the row's embedding, never change, so that they are computed when a table is prepared and not in
every step for every copy.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

ROWS = 1024  # that pass at a time


def learnt(module: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that are not frozen, by name."""
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


def split(module: nn.Module) -> tuple[FrozenStart | None, nn.Module]:
    """Return the layers of a `Sequential` before the first that learns, and the others.

    None stands for no such layer. A module of any other kind is not taken apart: whatever it does
    in its forward, it does for every copy.
    """
    hooked = any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
    if type(module) is not nn.Sequential or hooked:
        return None, module
    layers = list(module)
    learns = [any(p.requires_grad for p in layer.parameters()) for layer in layers]
    first = learns.index(True)
    if first == 0:
        return None, module
    return FrozenStart(nn.Sequential(*layers[:first])), nn.Sequential(*layers[first:])


class FrozenStart:
    """Layers that every row passes once, in blocks, on the device where the rows are."""

    def __init__(self, layers: nn.Sequential) -> None:
        self._layers = layers
        self._dtype = next((p.dtype for p in layers.parameters()), None)

    def __call__(self, X: Tensor) -> Tensor:
        """Return the embeddings (rows, …) of rows X (rows, …)."""
        layers = self._layers.to(X.device)
        with torch.no_grad():
            blocks = [layers(block.to(self._dtype or X.dtype)) for block in X.split(ROWS)]
        return torch.cat(blocks)
