"""Train M copies of a network together on their mixtures, by Adam on shared minibatches.

`train` trains each copy as long as its held-out loss improves: these models are delivered.
`train_briefly` takes a fixed number of steps on all rows: these models only compare candidates, on
folds that are held out. Nothing here is certified, because a network's risk is not convex: what is
known of an answer is its held-out loss and the gradient norm of its mixture's risk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from math import cos, pi

import torch
from torch import Tensor, nn

from cuvee.components import ALL, HELD_OUT, Batch, Components
from cuvee.hypothesis.base import Space
from cuvee.numerics.parallel import workers

MAX_STEPS = 5000
BATCH, LEAST = 60, 4
"""Rows of a minibatch over all sources together, and the fewest that a source gives."""
RATE = 2e-2
FORGET = 0.03
"""Iterates are averaged with weights that fall by this share per step, which allows large steps on
small minibatches.
"""
EVERY = 5
"""Steps between two iterates that are averaged: neighbours differ little."""
CHECK = 20
"""Steps between two checks of the held-out loss; a multiple of EVERY."""
CHECKED = 8192
"""Held-out rows of all sources together that a check looks at, always the same ones, where there
are more: they tell as much, and all of a million rows would cost more than the steps between.
"""
PATIENCE = 5
"""A copy ends after so many checks in a row without IMPROVEMENT, a relative fall of the loss."""
IMPROVEMENT = 1e-3
CROWD = 0.9
"""Copies that have ended leave the batch once no more than this share of it is still moving."""
MEMORY = 2**30

BRIEF_STEPS = 300
BRIEF_BATCH = 16
"""Rows of a minibatch per source."""
BRIEF_RATE = 3e-3
"""The rate falls to 0 along a cosine; the last quarter of the iterates is averaged."""


@dataclass(frozen=True)
class Trained:
    """Hold M trained copies."""

    w: Tensor  # (M, P) the best on held-out rows; the start where there is none
    gradient: Tensor  # (M,) ‖∇‖∞ of the mixture's risk, penalty included, on all rows at w
    held_out: Tensor  # (M,) α-weighted held-out loss at w
    stopped: Tensor  # (M,) bool: held-out rows stopped improving; False: the step limit
    steps: Tensor  # (M,) int64 minibatches taken
    diverged: Tensor  # (M,) bool: the held-out loss was never finite
    curves: Tensor
    """(M, checks, 3) at every check its step, the mean α-weighted loss of the minibatches since the
    last one, and the held-out loss; NaN once the copy has ended. No penalty is in these.
    """


@workers(graph=True)
def train(
    components: Components,
    alpha: Tensor,
    *,
    seed: int = 0,
    max_steps: int = MAX_STEPS,
    memory: int = MEMORY,
    progress: Callable[[int, int], None] | None = None,
) -> Trained:
    """Return trained copies for α (M, N), or for (M, N+1) with own samples last.

    With N columns α may have any number of rows; the column N+1 weighs target i's own sample. Every
    copy starts from the same initialisation and sees the same minibatches, so that copies differ
    only by their mixtures. `progress(ended, M)` is called at every check of the held-out rows.
    """
    space, M, N = components.space, len(alpha), len(components.counts)
    n_targets = len(components.own_counts)
    own = alpha.shape[1] == N + 1
    if alpha.shape[1] not in (N, N + 1) or (own and n_targets != M):
        raise ValueError(
            f"alpha {tuple(alpha.shape)} does not fit {N} sources and {n_targets} targets"
        )
    if not own:
        components = components.without_targets()
    alpha = alpha.to(components.counts.device, space.dtype)
    if M == 0:
        none, no = alpha.new_zeros(0), torch.zeros(0, dtype=torch.bool, device=alpha.device)
        w, curves = alpha.new_zeros(0, space.n_params), alpha.new_zeros(0, 0, 3)
        return Trained(w, none, none, no, no.long(), no, curves)
    batch = max(LEAST, BATCH // N)
    per_row = components.bytes_per_row()
    # Parameters, their gradient, two moments, the average, the best and a spare; rows forward and
    # backward.
    per_copy = 7 * space.n_params * alpha.element_size() + 2 * per_row * batch * alpha.shape[1]
    parts = []
    for chunk in _blocks(M, per_copy, memory):
        part = components.narrow(torch.arange(M, device=alpha.device)[chunk])
        report = _offset(progress, chunk.start, M)
        parts.append(
            _Training(part, alpha[chunk], seed, batch, per_row, memory).run(max_steps, report)
        )
    checks = max(one.curves.shape[1] for one in parts)
    for i, one in enumerate(parts):
        ended = (0, 0, 0, checks - one.curves.shape[1])
        parts[i] = replace(one, curves=nn.functional.pad(one.curves, ended, value=torch.nan))
    return Trained(*(torch.cat([getattr(part, f.name) for part in parts]) for f in fields(Trained)))


@workers(graph=True)
def train_briefly(
    components: Components, batch: Batch, alpha: Tensor, *, seed: int = 0, steps: int = BRIEF_STEPS
) -> Tensor:
    """Return w (M, Q, P) for α (M, Q, N+1) after `steps` minibatches.

    A minibatch has rows of every source and all own rows. As in `train`, copies differ only by
    their mixtures.
    """
    space = components.space
    moving = _Moving(
        space.start(1, seed).to(alpha.device).expand(*alpha.shape[:-1], -1).contiguous(), space
    )
    alpha = alpha.to(moving.w)
    mean, averaged = torch.zeros_like(moving.w), 0
    for t in range(1, steps + 1):
        rate = BRIEF_RATE * 0.5 * (1 + cos(pi * t / steps))
        moving.step(
            components, replace(batch, step=t, size=BRIEF_BATCH, own_whole=True), alpha, rate
        )
        if t > steps * 3 // 4:
            mean, averaged = mean + moving.w, averaged + 1
    return mean / averaged


class _Training:
    """Train one block of copies."""

    def __init__(
        self,
        components: Components,
        alpha: Tensor,
        seed: int,
        batch: int,
        per_row: int,
        memory: int,
    ) -> None:
        self.components, self.space = components, components.space
        self.alpha, self.batch, self.per_row, self.memory = alpha[:, None], batch, per_row, memory
        self.penalty = (self.space.l2 * self.space.penalised).to(alpha)
        self.start = self.space.start(1, seed).to(alpha)
        few = HELD_OUT * components.n_rows <= CHECKED
        size = max(LEAST, CHECKED // len(components.counts))
        self.held_out = Batch(part="held out") if few else Batch(0, size, True, part="held out")
        self.checked = (
            components.n_rows if few else size * len(components.counts)
        ) + components.own_rows

    def run(self, max_steps: int, report: Callable[[int], None]) -> Trained:
        M = len(self.alpha)
        best = self.start.repeat(M, 1)[:, None]  # (M, 1, P), as components take it
        lowest = self.alpha.new_full((M,), torch.inf)
        goal = lowest.clone()  # the next check has to be below it
        waited, steps = torch.zeros(2, M, dtype=torch.int64, device=lowest.device)
        stopped = torch.zeros_like(waited, dtype=torch.bool)
        copies = torch.arange(M, device=lowest.device)  # those in the batch
        components = self.components  # narrowed to the copies in the batch
        curves = []
        moving = _Moving(best, self.space)
        for t in range(1, max_steps + 1):
            if len(copies) == 0:
                break
            moving.step(components, Batch(t, self.batch, part="training"), self.alpha[copies], RATE)
            moving.stay_inside()
            if t % CHECK and t < max_steps:
                continue
            at = ~stopped[copies]
            live = copies[at]
            loss = self._held_out_loss(components, moving.average, self.alpha[copies])[at]
            now = self.alpha.new_full((M, 3), torch.nan)
            since = torch.full_like(loss, (t - 1) % CHECK + 1)
            now[live] = torch.stack(
                [torch.full_like(loss, t), moving.loss[at, 0] / since, loss], -1
            )
            curves.append(now)
            moving.loss.zero_()
            better = loss < lowest[live]  # false for a loss that is not finite
            lowest[live] = torch.where(better, loss, lowest[live])
            best[live[better]] = moving.average[at][better]
            progress = loss < goal[live]
            goal[live] = torch.where(progress, loss - IMPROVEMENT * loss.abs(), goal[live])
            waited[live] = torch.where(progress, 0, waited[live] + 1)
            steps[live] = t
            stopped[live] = waited[live] >= PATIENCE
            report(int(stopped.sum()))
            still = ~stopped[copies]
            if int(still.sum()) <= CROWD * len(copies):
                copies, components = copies[still], components.narrow(still.nonzero()[:, 0])
                moving.keep(still)
        report(M)
        ended = stopped, steps, ~lowest.isfinite(), torch.stack(curves, 1)
        return Trained(best[:, 0], self._gradient(best), lowest, *ended)

    def _held_out_loss(self, components: Components, w: Tensor, alpha: Tensor) -> Tensor:
        """Return the α-weighted loss on held-out rows, (copies,)."""
        by_block = []
        for chunk, part in self._row_blocks(components, len(w), self.checked):
            losses = part.values(w[chunk], self.held_out)
            # A source with weight 0 must not matter, even if its loss is infinite.
            by_block.append(torch.where(alpha[chunk] > 0, alpha[chunk] * losses, 0.0).sum(-1)[:, 0])
        return torch.cat(by_block)

    def _gradient(self, w: Tensor) -> Tensor:
        """Return ‖∇‖∞ of the mixtures' risks on all rows, (M,)."""
        by_block = []
        rows = self.components.n_rows + self.components.own_rows
        for chunk, part in self._row_blocks(self.components, len(w), rows):
            risk = part.pull(w[chunk], self.alpha[chunk], ALL)
            by_block.append((risk + self.penalty * w[chunk]).abs().amax(-1)[:, 0])
        return torch.cat(by_block)

    def _row_blocks(
        self, components: Components, copies: int, rows: int
    ) -> Iterator[tuple[slice, Components]]:
        """Yield chunks of copies for which so many rows fit into memory, and their components."""
        for chunk in _blocks(copies, 2 * self.per_row * rows, self.memory):
            all_copies = chunk.stop - chunk.start == copies
            yield (
                chunk,
                components
                if all_copies
                else components.narrow(torch.arange(copies)[chunk].to(components.counts)),
            )


class _Moving:
    """Hold parameters (m, Q, P) of the copies in the batch, Adam's state, and the average."""

    def __init__(self, start: Tensor, space: Space) -> None:
        self.w = start.clone()
        self.average = start.clone()
        self.loss = start.new_zeros(start.shape[:-1])  # sum over the steps since it was set to 0
        self.space, self.t = space, 0
        # One flat tensor for all copies, so that a step is a single fused pass over memory.
        self.optimiser = torch.optim.Adam([self.w], lr=RATE, weight_decay=space.l2, fused=True)

    def step(self, components: Components, batch: Batch, alpha: Tensor, rate: float) -> None:
        """Take one step of Adam on a minibatch."""
        losses, pullback = components.losses(self.w, batch)
        self.loss += torch.where(alpha > 0, alpha * losses.detach(), 0.0).sum(-1)
        self.w.grad = pullback(alpha)
        self.optimiser.param_groups[0]["lr"] = rate
        self.optimiser.step()

    def stay_inside(self) -> None:
        """Project onto W, and count the iterate into the average now and then."""
        self.t += 1
        if self.space.radius is not None:
            self.w.copy_(self.space.project(self.w))
        if self.t % EVERY == 0:
            self.average.lerp_(self.w, max(EVERY * FORGET, EVERY / self.t))

    def keep(self, still: Tensor) -> None:
        """Drop all copies but those marked in `still`."""
        state = self.optimiser.state.pop(self.w)
        self.w, self.average, self.loss = self.w[still], self.average[still], self.loss[still]
        self.optimiser.param_groups[0]["params"] = [self.w]
        self.optimiser.state[self.w] = {k: v[still] if v.ndim else v for k, v in state.items()}


def _blocks(M: int, each: int, memory: int) -> Iterator[slice]:
    """Return slices of 0…M that take no more than `memory` bytes, `each` per copy."""
    size = max(1, memory // max(1, each))
    return (slice(i, min(i + size, M)) for i in range(0, M, size))


def _offset(
    progress: Callable[[int, int], None] | None, before: int, M: int
) -> Callable[[int], None]:
    return lambda ended: None if progress is None else progress(before + ended, M)
