"""Class labels: found in the sources, numbered 0…K−1, and checked domain by domain."""

from __future__ import annotations

from numbers import Real

import numpy as np

from cuvee.errors import DomainError
from cuvee.problem import Array, Domain, Problem


def find_classes(problem: Problem) -> Array:
    """The sorted classes of the sources; a class that only a target has is an error, as no source can teach it."""
    domains = (*problem.sources, *problem.targets)
    for domain in domains:
        _check_discrete(domain)
        if _is_text(domain) != _is_text(domains[0]):
            raise DomainError(
                f"domain {domain.name!r} has labels like {_shown(domain.y[0])}, but {domains[0].name!r} has labels "
                f"like {_shown(domains[0].y[0])}: use text or numbers throughout"
            )
    try:
        classes = np.unique(np.concatenate([np.unique(s.y) for s in problem.sources]))
    except TypeError:
        raise DomainError("the sources mix labels that cannot be compared (text and numbers?)") from None
    if len(classes) < 2:
        raise DomainError(f"every source row has the label {_shown(classes[0])}; a classifier needs two classes")
    if len(classes) > 1000:
        raise DomainError(f"{len(classes)} different labels: if y is a quantity, use Ridge instead of Logistic")
    for target in problem.targets:
        number_labels(target, classes)
    return classes


def check_numeric(problem: Problem) -> None:
    """Every label is a number, or the first that is not is named."""
    for domain in (*problem.sources, *problem.targets):
        if domain.y.dtype.kind not in "iufb":
            row = next((i for i, v in enumerate(domain.y) if not isinstance(v, Real)), 0)
            raise DomainError(f"domain {domain.name!r}: label {_shown(domain.y[row])} at row {row} is not a number")


def _shown(label: object) -> str:
    """A label as the user wrote it, without NumPy's wrapping."""
    return repr(label.item() if isinstance(label, np.generic) else label)


def _is_text(domain: Domain) -> bool:
    return domain.y.dtype.kind not in "iufb"


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
            f"domain {domain.name!r}: label {_shown(domain.y[row])} at row {row} appears in no source "
            f"(classes: {', '.join(map(str, classes[:10]))}{', …' if len(classes) > 10 else ''}); "
            "add a source that has it, or drop such rows"
        )
    return np.asarray(position, dtype=np.int64)


def _check_discrete(domain: Domain) -> None:
    if domain.y.dtype.kind == "f":
        broken = domain.y != np.round(domain.y)
        if broken.any():
            row = int(np.argmax(broken))
            raise DomainError(
                f"domain {domain.name!r}: label {_shown(domain.y[row])} at row {row} is not a class; "
                "classes are whole numbers or text (for a quantity use Ridge)"
            )
