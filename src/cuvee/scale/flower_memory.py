"""Remember what sites have answered lately, by model: what is asked twice travels once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from torch import Tensor

from cuvee.components.protocol import Batch, Half
from cuvee.scale.flower_totals import Member

REMEMBERED = 2**23  # numbers in answers that are kept

Row = tuple[bytes, int]  # a model, and the fold that it does not see (−1: none)


@dataclass(eq=False)
class Memory:
    """Keep the answers of the last rounds, each by the key of what was asked."""

    _rounds: list[dict[tuple[Any, ...], Tensor]] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def add(self, answers: dict[tuple[Any, ...], Tensor]) -> None:
        """Keep the answers of a round, and forget the oldest."""
        with self._lock:
            rounds = [*self._rounds, answers]
            sizes = [sum(a.numel() for a in one.values()) for one in rounds]
            while len(rounds) > 2 and sum(sizes) > REMEMBERED:
                del rounds[0], sizes[0]
            self._rounds = rounds

    def get(self, key: tuple[Any, ...]) -> Tensor | None:
        return next((answers[key] for answers in self._rounds if key in answers), None)


def answer_key(member: Member, question: str, batch: Batch, row: Row) -> tuple[Any, ...]:
    """Return what an answer depends on."""
    folds = None if batch.folds is None else (batch.folds.count, batch.folds.only)
    rows = batch.step, batch.size, batch.own_whole, batch.part, folds
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
