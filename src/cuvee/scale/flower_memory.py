"""Remember what sites have answered lately, by model: what is asked twice travels once."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from cuvee.components.protocol import Batch, Half
from cuvee.scale.flower_totals import Member

# numbers in answers that are kept; what jobs side by side have just asked for is kept in any case
REMEMBERED, LEAST_CALLS = 2**23, 1000

Row = tuple[bytes, int]  # a model, and the fold that it does not see (−1: none)


@dataclass(eq=False)
class Memory:
    """Keep the last answers, each by the key of what was asked."""

    _answers: dict[tuple[Any, ...], Tensor] = field(default_factory=dict)
    _calls: deque[tuple[list[tuple[Any, ...]], int]] = field(default_factory=deque)
    _size: int = 0  # numbers in all answers
    _lock: Lock = field(default_factory=Lock)

    def keep(self, keys: list[tuple[Any, ...]], answer: Any) -> None:
        """Keep the answer to one call, a model for each key, and forget the oldest."""
        if isinstance(answer, tuple):  # gradients, and curvature in the intercepts
            answer = torch.cat([answer[0], answer[1].flatten(-2)], -1)
        with self._lock:
            self._answers.update(zip(keys, answer[0], strict=True))
            self._calls.append((keys, answer.numel()))
            self._size += answer.numel()
            while len(self._calls) > LEAST_CALLS and self._size > REMEMBERED:
                forgotten, size = self._calls.popleft()
                self._size -= size
                for key in forgotten:
                    self._answers.pop(key, None)

    def get(self, key: tuple[Any, ...]) -> Tensor | None:
        return self._answers.get(key)


def answer_key(member: Member, question: str, batch: Batch, row: Row) -> tuple[Any, ...]:
    """Return what an answer depends on."""
    folds = None if batch.folds is None else (batch.folds.count, batch.folds.only)
    rows = batch.step, batch.size, batch.own_whole, member.part(batch.part), folds
    return member.key, member.domain.name, question, rows, row


def model_names(w: Tensor) -> list[bytes]:
    """Return a name for each of the models w (M, Q, P), the same for equal ones."""
    flat = w.detach().reshape(-1, w.shape[-1]).numpy()
    return [flat.dtype.char.encode() + one.tobytes() for one in flat]


def own_models(models: Sequence[bytes], batch: Batch, M: int, Q: int) -> list[list[Row]]:
    """Return the models of every target, each with the fold that it does not see."""
    folds = [-1] * Q if batch.folds is None else batch.folds.number.tolist()
    return [list(zip(models[i * Q : (i + 1) * Q], folds, strict=True)) for i in range(M)]


def halves(batch: Batch) -> list[Batch]:
    """Return a batch; of a half also the other one, which is asked about at the same models."""
    if not isinstance(batch.part, Half):
        return [batch]
    return [replace(batch, part=Half(batch.part.split, side)) for side in (0, 1)]
