"""Keep the accounts of a stream while it runs; `Ledger` reports them."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuvee.online.growable import Rows
from cuvee.online.ledger import Ledger
from cuvee.problem import Array
from cuvee.results import Floats

NOTES = 1_000  # notes kept at most


class Accounts:
    """Count labels and centres after every round, and keep losses and notes of failures."""

    def __init__(self) -> None:
        self.paid = self.failed = self.centres = self.looks = 0
        self.labels_at, self.centres_at = Rows(dtype=np.int64), Rows(dtype=np.int64)
        self.losses = Rows()
        self.notes: list[str] = []

    @property
    def rounds(self) -> int:
        return len(self.labels_at)

    def begin(self, centres: int) -> None:
        """Begin a round."""
        self.centres = centres
        self.labels_at.append(self.paid)
        self.centres_at.append(centres)

    def pay(self) -> None:
        """Count a label paid for in the current round."""
        self.paid += 1
        self.labels_at.values[-1:] = self.paid  # no entry before the first round

    def learnt(self, centres: int) -> None:
        """Record the number of centres after a label was learnt from."""
        self.centres = centres
        self.centres_at.values[-1:] = centres

    def fail(self, why: str) -> None:
        """Count a label that failed, and note why."""
        self.failed += 1
        self.note(f"round {self.rounds}: {why}")

    def note(self, text: str) -> None:
        """Keep a note for the reader, at most NOTES of them so that memory stays bounded."""
        if len(self.notes) < NOTES:
            self.notes.append(
                text if len(self.notes) < NOTES - 1 else f"{text}; later problems are not listed"
            )

    def evaluate(self, losses: Floats) -> None:
        """Record the losses of the next rounds; NaN where there is no w* to compare with."""
        for loss in losses:
            self.losses.append(loss)
        if np.isnan(losses).any():
            self.note(
                f"{np.isnan(losses).sum()} rounds up to {len(self.losses)} could not be evaluated"
            )

    def ledger(self, n_sources: int, more: Floats) -> Ledger:
        """Return the ledger, with `more` losses of rounds evaluated but not recorded."""
        losses = np.concatenate([self.losses.values, more])
        evaluated = ~np.isnan(losses)
        return Ledger(
            rounds=self.rounds,
            labels=self.paid,
            failed=self.failed,
            centres=self.centres,
            looks=self.looks,
            loss=float(losses[evaluated].sum()) if evaluated.any() else np.nan,
            evaluated=int(evaluated.sum()),
            notes=tuple(self.notes),
            n_sources=n_sources,
            losses=losses,
            labels_at=self.labels_at.values.copy(),
            centres_at=self.centres_at.values.copy(),
        )

    def state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return arrays, and what JSON can hold."""
        arrays = {
            name: getattr(self, name).values for name in ("losses", "labels_at", "centres_at")
        }
        plain = {
            name: getattr(self, name) for name in ("paid", "failed", "centres", "looks", "notes")
        }
        return arrays, plain

    @classmethod
    def restored(cls, arrays: dict[str, Array], plain: dict[str, Any]) -> Accounts:
        books = cls()
        for name in ("paid", "failed", "centres", "looks"):
            setattr(books, name, int(plain[name]))
        books.notes = [str(note) for note in plain["notes"]]
        books.losses, books.labels_at, books.centres_at = (
            Rows.of(arrays[name]) for name in ("losses", "labels_at", "centres_at")
        )
        if len(books.labels_at) != len(books.centres_at):
            raise ValueError("labels and centres are of different rounds")
        return books


def in_short(error: Exception) -> str:
    """Return an error's message on one line of at most 200 characters, for a note."""
    return " ".join(str(error).split())[:200] or repr(error)
