"""Rows with a domain each, as scikit-learn and skada pass them: whose each is, and the problem they
make.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from cuvee.data.groups import assigned, taught
from cuvee.data.labelled import Labelled
from cuvee.data.roles import SMALL, excluded, pool
from cuvee.data.task import Task
from cuvee.errors import DomainError, OptionError
from cuvee.problem import Array, Domain, Problem

ALL = "all rows"  # the one source of a table without sample_domain
HIDDEN = -1  # skada's label of a row without one, where y holds classes


class Roles(NamedTuple):
    """Whose row each is: labels (rows,), and which of them are sources (N,) and targets (M,)."""

    labels: Array
    sources: Array
    targets: Array

    @classmethod
    def read(cls, sample_domain: Any, target_domains: Any, n_rows: int, exclude: Any = ()) -> Roles:
        """Return the role of every domain; without `sample_domain` all rows are one source.

        Targets are those named; without names, the domains with negative whole numbers, as in
        skada.
        """
        unwanted = _texts(exclude)
        if sample_domain is None:
            _check_unused(target_domains=target_domains is not None, exclude=bool(unwanted))
            return cls(np.full(n_rows, ALL), np.array([ALL]), np.array([], dtype=str))
        labels = domain_labels(sample_domain, n_rows)
        present = {str(label): label for label in np.unique(labels)}
        left_out = excluded(list(present), unwanted)
        negative = _negative(labels, present, left_out)
        if target_domains is None and negative is None:
            raise OptionError(
                "sample_domain holds names: say with target_domains=[...] which of them are targets"
            )
        named = negative or [] if target_domains is None else _texts(target_domains)
        _check_targets(named, present, left_out, negative or [])
        sources = [label for name, label in present.items() if name not in {*named, *left_out}]
        if not sources:
            raise DomainError(
                "every domain is a target, so that no source is left to learn from: name fewer "
                "targets"
            )
        return cls(
            labels, np.array(sources), np.array([present[name] for name in dict.fromkeys(named)])
        )


def _texts(names: Any) -> list[str]:
    """Return one name or many as texts."""
    return [str(name) for name in np.atleast_1d(names).tolist()]


def _check_unused(**given: bool) -> None:
    """Raise `OptionError` for the first option given here that needs sample_domain."""
    for option in (option for option, was_given in given.items() if was_given):
        raise OptionError(
            f"{option} needs sample_domain (or domain=, a column of X), which says whose row "
            "each is"
        )


def _negative(
    labels: Array, present: Mapping[str, Any], left_out: Collection[str]
) -> list[str] | None:
    """Return the domains whose labels are negative: targets; None where labels are names."""
    if labels.dtype.kind != "i":
        return None
    return [name for name, label in present.items() if label < 0 and name not in left_out]


def _check_targets(
    named: Sequence[str],
    present: Mapping[str, Any],
    left_out: Collection[str],
    negative: Sequence[str],
) -> None:
    """Raise an error where the targets do not fit the rows.

    There may be no target, or a name that is in no row, that is left out as well, or that is
    missing among those named.
    """
    if not named:
        raise OptionError(
            "there is no target: name it in target_domains, or make its sample_domain negative"
        )
    if absent := [name for name in named if name not in present]:
        near = nearest(absent[0], present)
        raise DomainError(f"target_domains: {absent[0]!r} is in no row of sample_domain; {near}")
    if both := [name for name in named if name in left_out]:
        raise OptionError(
            f"domain {both[0]!r} is in target_domains and in exclude: name it in one of them"
        )
    if left := [name for name in negative if name not in named]:
        raise OptionError(
            f"domain {left[0]} is a target by its sign: add it to target_domains, or drop its rows"
        )


def domain_labels(sample_domain: Any, n_rows: int) -> Array:
    """Return one label per row (rows,); a single label stands for all rows.

    Whole numbers stay numbers, all else becomes text.
    """
    # NaN in a list stays NaN
    labels = np.asarray(sample_domain, None if hasattr(sample_domain, "dtype") else object)
    labels = np.full(n_rows, labels[()]) if labels.ndim == 0 else labels
    if labels.shape != (n_rows,):
        raise DomainError(
            f"sample_domain has shape {labels.shape}, but X has {n_rows} rows: give one label per "
            "row"
        )
    if (absent := missing(labels)).any():
        raise DomainError(
            f"sample_domain is missing at row {int(np.argmax(absent))} ({int(absent.sum())} such "
            "rows)"
        )
    # numbers are numbers again
    labels = np.array(labels.tolist()) if labels.dtype == object else labels
    whole = labels.dtype.kind in "iu" or (
        labels.dtype.kind == "f" and bool((labels == np.round(labels)).all())
    )
    return labels.astype(np.int64 if whole else str)


def missing(values: Array) -> Array:
    """Return (rows,) where there is no value: NaN, None, and what pandas has for them."""
    if values.dtype == object:
        return np.array(
            [not isinstance(v, str) and str(v) in ("nan", "None", "<NA>", "NaT") for v in values],
            bool,
        )
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)


def masked(y: Array, classes: Array | None) -> Array:
    """Return (rows,) where y is no label: missing, or −1 where that is not a class.

    `classes` is None in a regression.
    """
    if classes is None or y.dtype.kind not in "ifO" or HIDDEN in classes.tolist():
        return missing(y)
    return missing(y) | np.asarray(y == HIDDEN)


def rows_by_domain(labels: Array) -> dict[str, Array]:
    """Return the rows of each domain by its name.

    They are sorted once, so that many domains cost what few do.
    """
    order = np.argsort(labels, kind="stable")
    present, first = np.unique(labels[order], return_index=True)
    return dict(zip(map(str, present), np.split(order, first[1:]), strict=True))


class Split(NamedTuple):
    """A table taken apart: the problem, the rows of each of its domains, and notes on others."""

    problem: Problem
    rows: dict[str, Array]
    sources: Array  # (N,) labels; that of small sources pooled is SMALL
    targets: Array  # (M,)
    pooled: Array  # labels of the domains in SMALL
    skipped: Array  # labels of targets that have too few labelled rows
    notes: list[str]


def split(
    X: Array,
    y: Array,
    roles: Roles,
    *,
    classify: bool,
    strict: bool = False,
    weight: Array | None = None,
    features: tuple[str, ...] = (),
) -> Split:
    """Return the problem in a table X (rows, features), y (rows,).

    Who learns from whom is decided as for `adapt`.
    """
    rows = _labelled(y, roles, classify, weight)
    task = Task.classification if classify else Task.regression
    small = pool(rows.sizes, strict=strict)
    groups, notes = assigned(rows.sizes, small, [str(t) for t in roles.targets], strict=strict)
    rows = rows.pooled(small.names)
    (group,), more_notes = taught(rows, groups, task, strict=strict)
    places = {name: rows.at[name] for name in group.sources} | group.targets
    numbers = {name: rows.number[at] for name, at in places.items()}

    def domain(name: str) -> Domain:
        at = numbers[name]
        return Domain(
            name, X[at], rows.y[places[name]], None if weight is None else weight[at], features
        )

    label_of = {str(label): label for label in (*roles.sources, *roles.targets)}

    def labels(names: Sequence[str]) -> Array:
        return np.array([label_of[name] for name in names], dtype=roles.labels.dtype)

    sources = labels([s for s in group.sources if s != SMALL or not small.names])
    return Split(
        Problem([domain(s) for s in group.sources], [domain(t) for t in group.targets]),
        numbers,
        np.array([*sources.tolist(), SMALL], dtype=object) if small.names else sources,
        labels(list(group.targets)),
        labels(small.names),
        roles.targets[~np.isin(roles.targets.astype(str), list(group.targets))],
        [*notes, *more_notes],
    )


def _labelled(y: Array, roles: Roles, classify: bool, weight: Array | None) -> Labelled:
    """Return the rows that have a label and some weight; only targets may lack labels."""
    of_source, of_target = (
        np.isin(roles.labels, names) for names in (roles.sources, roles.targets)
    )
    if (absent := of_source & missing(y)).any():
        row = int(np.argmax(absent))
        raise DomainError(
            f"source {str(roles.labels[row])!r} has no label at row {row}: only targets may lack "
            "some"
        )
    if classify:
        check_classification_targets(y[of_source])
    kept = of_source | (of_target & ~masked(y, np.unique(y[of_source]) if classify else None))
    number = np.flatnonzero(kept & (weight is None or weight > 0))  # weight 0 is as good as absent
    held = rows_by_domain(roles.labels[number])
    at = {str(d): held.get(str(d), np.zeros(0, np.int64)) for d in (*roles.sources, *roles.targets)}
    labels = y[number]
    # objects, where some rows had None
    labels = np.array(labels.tolist()) if y.dtype == object else labels
    return Labelled(labels, number, at)


def nearest(name: str, known: Mapping[str, Any]) -> str:
    """Return the end of a sentence about a name that is not there."""
    close = get_close_matches(name, known, 1)
    return f"did you mean {close[0]!r}?" if close else f"there is {some(known)}"


def some(names: Any) -> str:
    """Return the first few names."""
    return ", ".join(list(names)[:8]) + (", …" if len(names) > 8 else "")
