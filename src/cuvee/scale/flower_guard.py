"""Refuse what would give a row away: sums over few rows, and sums that differ by few rows.

It counts the rows behind an answer. It cannot know what somebody computes from many answers: a
coordinator that asks for the losses of thousands of models on purpose learns more than one that
runs the program as it is. docs/federated.md says so too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, cast

import torch

from cuvee.components.answering import QUESTIONS
from cuvee.components.protocol import Batch, Folds, Half, Part
from cuvee.components.rows import numbers_in_part
from cuvee.components.sampling import RowStream
from cuvee.errors import CuveeError
from cuvee.problem import Domain

OF_SOURCES = QUESTIONS - {"reference", "source_moments"}
OF_TARGETS = frozenset(
    { "values", "own_values", "pull", "pull_with_second", "hessians", "hessian_times", "own_grams",
    "own_grams_in_folds", "own_grams_of", "own_spread", "own_rows_of_kind", "own_label_sizes",
    "largest", "longest_row", "row_constants", "squared_lengths", }
)  # fmt: skip
"""What may be asked of a target's own sample."""


FEWEST_HALVED = 4
"""Rows that learn as a target are not halved below this many times `min_rows`.

A half and all rows but a fold may else differ by fewer than `min_rows` rows.
"""


def halved(rows: int, min_rows: int, role: str) -> bool:
    """Return whether a site with this role is asked about halves of its rows."""
    return role == "source" or rows >= FEWEST_HALVED * min_rows


class Sayable(CuveeError):
    """A site has no answer, and may say this sentence instead: it names no cell, row or file."""


class Refused(Sayable):
    """A site does not answer a question, because that would give a row away."""


def check(
    domain: Domain, role: str, seed: int, min_rows: int, question: str, inputs: Sequence[Any],
    site: str | None = None,
) -> None:  # fmt: skip
    """Raise `Refused` where an answer, or how it differs from another, is about too few rows.

    `site` is the role of the site, whose rows may learn as a target and be a source too.
    """
    if question not in (OF_SOURCES if role == "source" else OF_TARGETS):
        raise Refused(f"it does not answer {question!r} about a {role}")
    if _has_half(inputs) and not halved(domain.n_rows, min_rows, site or role):
        raise Refused(
            f"it does not answer about halves of fewer than {FEWEST_HALVED * min_rows} rows that "
            "learn as a target: they would differ from folds by few rows"
        )
    for rows, of in _behind(domain, role, seed, question, inputs):
        if rows < min_rows:
            raise Refused(f"{question!r} would be about {rows} rows, and {min_rows} are the least")
        if 0 < of - rows < min_rows:
            raise Refused(
                f"{question!r} would be about all rows of {of} but {of - rows}, and so give these "
                f"away; {min_rows} are the least"
            )


def _has_half(inputs: Sequence[Any]) -> bool:
    parts = [given.part if isinstance(given, Batch) else given for given in inputs]
    return any(isinstance(part, Half) for part in parts)


def _behind(
    domain: Domain, role: str, seed: int, question: str, inputs: Sequence[Any]
) -> Iterator[tuple[int, int]]:
    """Yield how many rows are behind an answer, and how many there are: (rows, of)."""
    n = domain.n_rows
    yield n, n
    for given in inputs:
        if isinstance(given, Folds):
            yield from _of_folds(n, given)
        elif isinstance(given, Batch):
            rows = _in_part(domain, role, seed, given.part)
            yield rows, n
            if given.folds is not None:
                yield from _of_folds(rows, given.folds)
            if given.step is not None and not (role == "target" and given.own_whole):
                drawn = _drawn(domain, role, seed, given, rows)
                yield drawn, drawn  # rows count as often as they were drawn: no plain difference
        elif question in ("source_grams", "own_grams_of") and isinstance(given, str | Half):
            yield _in_part(domain, role, seed, cast(Part, given)), n


def _of_folds(rows: int, folds: Folds) -> Iterator[tuple[int, int]]:
    """Yield the rows in and outside of every fold that is asked about; see `deal_folds`."""
    count = max(1, min(rows, folds.count))
    for number in folds.number.unique().tolist():
        inside = max(0, (rows - number + count - 1) // count) if number < count else 0
        if inside or folds.only:
            yield (inside if folds.only else rows - inside), rows


@lru_cache(maxsize=64)
def _in_part(domain: Domain, role: str, seed: int, part: Part) -> int:
    numbers = numbers_in_part(
        f"{role} {domain.name}", domain.n_rows, lambda: (domain.y, domain.weight), seed, part
    )
    return domain.n_rows if numbers is None else len(numbers)


def _drawn(domain: Domain, role: str, seed: int, batch: Batch, rows: int) -> int:
    """Return how many different rows a minibatch holds."""
    assert batch.step is not None
    stream = RowStream([f"{role} {domain.name}"], torch.tensor([rows]), seed)
    return int(stream.draw(batch.step, batch.size).unique().numel())
