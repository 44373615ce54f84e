"""Tables and tensors at addresses that vector instructions do not like: what the tests expect must
not depend on them.

Set CUVEE_UNALIGNED=1, and every array that enters torch starts 8, 24, 40 or 56 bytes past a
multiple of 64, a different one each time. NumPy's own arrays start anywhere on multiples of 16,
torch's on multiples of 64.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np
import torch

from cuvee.components import rows
from cuvee.problem import Domain

LINE = 64  # bytes in a line of the cache, and in the widest vector
OFFSETS = cycle((8, 24, 40, 56))


def moved(array: Any) -> Any:
    """Return a copy of a contiguous array of numbers, starting at the next of the offsets."""
    if array.nbytes == 0 or array.dtype.kind not in "fiu":
        return array
    room = np.empty(array.nbytes + 2 * LINE, np.uint8)
    first = (next(OFFSETS) - room.ctypes.data) % LINE
    copy = room[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def moved_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same for a tensor; those on a GPU and those that carry gradients stay what they
    are.
    """
    if tensor.device.type != "cpu" or tensor.requires_grad or not tensor.is_contiguous():
        return tensor
    return _from_numpy(moved(tensor.numpy()))


_from_numpy = torch.from_numpy


def install() -> None:
    """Patch the three doors through which rows, mixtures and models come in, for this process."""
    as_tensor, stack, check = torch.as_tensor, rows._stack, Domain.__post_init__

    def entering(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def changed(data: Any, *args: Any, **options: Any) -> torch.Tensor:
            made = make(data, *args, **options)
            return made if isinstance(data, torch.Tensor) else moved_tensor(made)

        return changed

    def checked(domain: Domain) -> None:
        check(domain)
        for name in ("X", "weight"):
            value = getattr(domain, name)
            if value is not None and not isinstance(value.base, np.memmap):
                object.__setattr__(domain, name, moved(value))

    torch.as_tensor, torch.from_numpy = entering(as_tensor), entering(_from_numpy)
    rows._stack = lambda *args: tuple(moved_tensor(part) for part in stack(*args))
    Domain.__post_init__ = checked
