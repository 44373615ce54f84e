"""Draw minibatch rows from one stream of random numbers per domain.

A draw is a hash of (seed, the domain's name, step, position): there is no state to keep. So a
target draws the same rows alone or among a thousand others, reordering the sources reorders their
minibatches and nothing else, and a run can continue from any step on any device.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from hashlib import blake2b

import torch
from torch import Tensor

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit integer
_MIX_1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MIX_2 = -7723592293110705685  # 0x94D049BB133111EB


AHEAD = 65_536  # row numbers drawn at a time


class RowStream:
    """Draw rows uniformly and with replacement from domains of the given sizes."""

    def __init__(self, names: Sequence[str], counts: Tensor, seed: int) -> None:
        keys = torch.tensor([_key(name) for name in names], dtype=torch.int64)
        self._keys = _mix(
            keys.to(counts.device) + _mix(torch.tensor(seed, device=counts.device)) * 2
        )[:, None]
        self._counts = counts.to(torch.float64)[:, None]
        # (first step, size, rows of a run of steps)
        self._drawn: tuple[int, int, Tensor] | None = None

    def of(self, domains: Tensor) -> RowStream:
        """Return the same streams for the given domains only."""
        other = copy(self)
        other._keys, other._counts, other._drawn = self._keys[domains], self._counts[domains], None
        return other

    def draw(self, step: int, size: int) -> Tensor:
        """Return row numbers (domains, size) of one minibatch per domain.

        The rows of many steps are drawn at once and kept, because hashing two dozen numbers takes
        as long as hashing thousands.
        """
        run = max(1, AHEAD // max(1, size * len(self._keys)))
        first = step - step % run
        if self._drawn is None or self._drawn[:2] != (first, size):
            rows = self._rows(first * size, run * size)
            self._drawn = first, size, rows.view(len(rows), run, size).transpose(0, 1).contiguous()
        return self._drawn[2][step - first]

    def _rows(self, start: int, length: int) -> Tensor:
        position = torch.arange(start, start + length, device=self._keys.device)
        bits = _mix(self._keys + position * _GOLDEN)
        uniform = _shift(bits, 11).to(torch.float64) * 2.0**-53
        return (uniform * self._counts).long()


def _key(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little", signed=True)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Return a logical right shift; torch's own shift carries the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _mix(x: Tensor) -> Tensor:
    """Return x through the finaliser of splitmix64: every input bit reaches every output bit."""
    x = (x ^ _shift(x, 30)) * _MIX_1
    x = (x ^ _shift(x, 27)) * _MIX_2
    return x ^ _shift(x, 31)
