"""Class labels: found in the sources, numbered 0…K−1, and checked domain by domain."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuvee.errors import DomainError
from cuvee.facts import Array, Facts

MOST_CLASSES = 1000


def find_classes(facts: Facts) -> Array:
    """Return the sorted classes of the sources.

    A class that only a target has is an error, as no source can teach it.
    """
    first = facts.domains[0]
    for domain in facts.domains:
        if domain.labels.not_whole is not None:
            row, label = domain.labels.not_whole
            raise DomainError(
                f"domain {domain.name!r}: label {_shown(label)} at row {row} is not a class; "
                "classes are whole numbers or text (for a quantity use Ridge)"
            )
        if domain.labels.text != first.labels.text:
            raise DomainError(
                f"domain {domain.name!r} has labels like {_shown(domain.labels.first)}, but "
                f"{first.name!r} has labels "
                f"like {_shown(first.labels.first)}: use text or numbers throughout"
            )
    by_source = [s.classes.values for s in facts.sources]
    try:
        classes = np.unique(np.concatenate([_comparable(values) for values in by_source]))
    except TypeError:
        raise DomainError(
            "the sources mix labels that cannot be compared (text and numbers?)"
        ) from None
    if len(classes) < 2:
        raise DomainError(
            f"every source row has the label {_shown(classes[0])}; a classifier needs two classes"
        )
    if len(classes) > MOST_CLASSES:
        raise DomainError(
            f"{len(classes)} different labels: if y is a quantity, use Ridge instead of Logistic"
        )
    for target in facts.targets:
        known = target.classes
        if known.values is None or known.rows is None:
            raise _unknown(target.name, target.labels.first, 0, classes)
        lost = _positions(known.values, classes)[1]
        if lost.any():
            # the first such row
            at = int(np.argmin(np.where(lost, known.rows, np.iinfo(known.rows.dtype).max)))
            raise _unknown(target.name, known.values[at], int(known.rows[at]), classes)
    return classes


def check_numeric(facts: Facts) -> None:
    """Raise `DomainError` for the first label that is not a number."""
    for domain in facts.domains:
        if domain.labels.not_number is not None:
            row, label = domain.labels.not_number
            raise DomainError(
                f"domain {domain.name!r}: label {_shown(label)} at row {row} is not a number"
            )


def number_labels(y: Array, classes: Array, name: str) -> Array:
    """Return y as positions in `classes`.

    Raise an error that names the first label that is not there, and its row.
    """
    position, lost = _positions(y, classes)
    if lost.any():
        row = int(np.argmax(lost))
        raise _unknown(name, y[row], row, classes)
    return position


def _positions(y: Array, classes: Array) -> tuple[Array, Array]:
    """Return the position of every label among the classes, and which labels are not among them."""
    try:
        position = np.searchsorted(classes, y).clip(max=len(classes) - 1)
        lost = np.asarray(classes[position] != y)
    except TypeError:
        position, lost = np.zeros(len(y), int), np.ones(len(y), bool)
    return np.asarray(position, dtype=np.int64), lost


def _comparable(values: Array | None) -> Array:
    if values is None:
        raise TypeError
    return values


def _unknown(name: str, label: Any, row: int, classes: Array) -> DomainError:
    return DomainError(
        f"domain {name!r}: label {_shown(label)} at row {row} appears in no source "
        f"(classes: {', '.join(map(str, classes[:10]))}{', …' if len(classes) > 10 else ''}); "
        "add a source that has it, or drop such rows"
    )


def _shown(label: object) -> str:
    """Return a label as the user wrote it, without NumPy's wrapping."""
    return repr(label.item() if isinstance(label, np.generic) else label)
