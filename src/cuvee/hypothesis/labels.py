"""Class labels: found in the sources, numbered 0…K−1, and checked domain by domain."""

from __future__ import annotations

import numpy as np

from cuvee.errors import DomainError
from cuvee.problem import Array, Domain, Problem


def find_classes(problem: Problem) -> Array:
    """The sorted classes of the sources; a class that only a target has is an error, as no source can teach it."""
    for domain in (*problem.sources, *problem.targets):
        _check_discrete(domain)
    try:
        classes = np.unique(np.concatenate([np.unique(s.y) for s in problem.sources]))
    except TypeError:
        raise DomainError("the sources mix labels that cannot be compared (text and numbers?)") from None
    if len(classes) < 2:
        raise DomainError(f"every source row has the label {classes[0]!r}; a classifier needs two classes")
    if len(classes) > 1000:
        raise DomainError(f"{len(classes)} different labels: if y is a quantity, use Ridge instead of Logistic")
    for target in problem.targets:
        number_labels(target, classes)
    return classes


def number_labels(domain: Domain, classes: Array) -> Array:
    """y as positions in `classes`; the first label that is not there is named with its row."""
    try:
        position = np.searchsorted(classes, domain.y).clip(max=len(classes) - 1)
        unknown = classes[position] != domain.y
    except TypeError:
        position, unknown = np.zeros(domain.n_rows, int), np.ones(domain.n_rows, bool)
    if np.any(unknown):
        row = int(np.argmax(unknown))
        raise DomainError(
            f"domain {domain.name!r}: label {domain.y[row]!r} at row {row} appears in no source "
            f"(classes: {', '.join(map(str, classes[:10]))}{', …' if len(classes) > 10 else ''})"
        )
    return np.asarray(position, dtype=np.int64)


def _check_discrete(domain: Domain) -> None:
    if domain.y.dtype.kind == "f":
        broken = domain.y != np.round(domain.y)
        if broken.any():
            row = int(np.argmax(broken))
            raise DomainError(
                f"domain {domain.name!r}: label {domain.y[row]!r} at row {row} is not a class; "
                "classes are whole numbers or text (for a quantity use Ridge)"
            )
