"""Cut a pass over all rows into blocks for the workers: some models on some rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from cuvee.numerics.parallel import cut, each, tiles

TILE_ROWS = 1024  # rows of a tile
SMALL = 128  # sources with fewer rows share tiles
PARTIAL = 2**23  # numbers in the sums of all cuts of the rows


@dataclass(frozen=True)
class Tile:
    """Hold the rows low:high, which belong to the sources first:last."""

    low: int
    high: int
    first: int
    last: int


@dataclass(frozen=True)
class Block:
    """Hold the work that one worker does at a time: some models on some tiles."""

    models: slice
    tiles: list[Tile]


Add = Callable[..., None]
"""Called with a block and, for each total, the part of it that belongs to the block's models."""


def cut_rows(lengths: list[int], *, on_gpu: bool) -> Iterator[Tile]:
    """Yield row ranges of at most TILE_ROWS: parts of a source, or several small sources."""
    longest = 16 * TILE_ROWS if on_gpu else TILE_ROWS
    low, first = 0, 0  # first row and first source of the current run of small sources
    end = 0
    for j, length in enumerate(lengths):
        start, end = end, end + length
        if length < SMALL and end - low <= longest:
            continue
        if start > low:
            yield Tile(low, start, first, j)
        low, first = start, j
        if length >= SMALL:
            parts = -(-length // longest)
            cuts = [start + length * i // parts for i in range(parts + 1)]
            yield from (Tile(a, b, j, j + 1) for a, b in pairwise(cuts))
            low, first = end, j + 1
    if end > low:
        yield Tile(low, end, first, len(lengths))


def share_out(
    add: Add, totals: tuple[Tensor, ...], rows: list[Tile], size: int, work: float
) -> None:
    """Let workers add their blocks to the totals (models, …); `work` is in multiplications.

    At most `size` models are in a block, and each belongs to one worker. If that makes too few
    blocks, the rows are cut too; then every cut has totals of its own, which are added up in the
    order of the rows.
    """
    models, device = len(totals[0]), totals[0].device
    chunks = cut(models, -(-models // size))
    if not chunks:
        return
    cuts = -(-tiles(work) // len(chunks))
    cuts = min(cuts, len(rows), PARTIAL // sum(total.numel() for total in totals))
    if cuts <= 1:
        blocks = [Block(chunk, rows) for chunk in chunks]
        each(lambda b: add(b, *(total[b.models] for total in totals)), blocks, device, cost=work)
        return
    blocks = [Block(chunk, rows[run]) for chunk in chunks for run in cut(len(rows), cuts)]

    def partial(block: Block) -> list[Tensor]:
        sums = [torch.zeros_like(total[block.models]) for total in totals]
        add(block, *sums)
        return sums

    for block, sums in zip(blocks, each(partial, blocks, device, cost=work), strict=True):
        for total, part in zip(totals, sums, strict=True):
            total[block.models] += part
