"""The groups of a run: who learns from whom, from which rows, and which classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cuvee.api import OWN
from cuvee.data.roles import enough, pool, teachable
from cuvee.data.task import Task
from cuvee.errors import DomainError
from cuvee.problem import LEAST_ROWS, Array
from cuvee.run.labelled import Labelled


class Roles(NamedTuple):
    """Groups of (targets, sources), and what became of small domains."""

    groups: list[tuple[list[str], list[str]]]
    sizes: dict[str, int]  # labelled rows of every domain; of the pool instead of its domains
    pooled: tuple[str, ...]
    unused: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def used(self) -> list[str]:
        """Everybody in a group, once."""
        return list(dict.fromkeys(name for group in self.groups for part in group for name in part))


def assigned(sizes: Mapping[str, int], targets: list[str], in_turn: bool, strict: bool) -> Roles:
    """Return who learns from whom; `in_turn` makes a group of every target."""
    targets, notes = enough(sizes, targets, strict=strict)
    small = pool(sizes, strict=strict)
    sizes = small.resized(sizes)
    usable = [name for name in sizes if sizes[name] >= LEAST_ROWS]
    grouped = [[t] for t in targets] if in_turn else [targets]
    groups = [(some, [n for n in usable if n not in others]) for some, others in ((g, set(g)) for g in grouped)]
    if not all(sources for _, sources in groups):
        raise DomainError(
            f"no source is left: no other domain has {LEAST_ROWS} labelled rows; label some, or name fewer targets"
        )
    roles = Roles(groups, sizes, small.names, small.unused, (*notes, *small.notes))
    if OWN in roles.used:
        raise DomainError(
            f"a domain is named {OWN!r}, as each target's own rows are called: rename it, or leave it out with exclude "
            "(--exclude)"
        )
    return roles


class Taught(NamedTuple):
    """A group, with the rows of its targets that its sources can teach."""

    targets: dict[str, Array]  # name -> places of its rows
    sources: list[str]
    classes: Array | None  # that the sources have, sorted; None: a quantity


def taught(
    found: Labelled, groups: Sequence[tuple[list[str], list[str]]], task: Task, strict: bool, notes: list[str]
) -> list[Taught]:
    """Return the groups without rows whose class no source has, and without targets that have too few others.

    What is left out is said in `notes`.
    """
    if task is Task.regression:
        return [Taught({t: found.at[t] for t in targets}, sources, None) for targets, sources in groups]
    labels = found.frame[found.label].to_numpy()
    classes, code = np.unique(labels, return_inverse=True)
    place = {name: i for i, name in enumerate(found.at)}
    has = np.zeros((len(place), len(classes)), dtype=bool)  # which domain has which class
    for name, at in found.at.items():
        has[place[name], code[at]] = True
    kept = []
    for targets, sources in groups:
        known = has[[place[s] for s in sources]].any(0)
        rows = {t: found.at[t] for t in targets}
        alone = known.sum() < 2 and len(groups) > 1  # one class; where all share it the hypothesis says so
        for name in (t for t in targets if alone or (has[place[t]] & ~known).any()):
            numbers = found.frame.index.to_numpy()[rows[name]]
            fits, said = teachable(name, labels[rows[name]], classes[known], strict=strict, at=numbers)
            notes += said
            rows[name] = rows[name][fits]
        rows = {name: at for name, at in rows.items() if len(at)}
        if rows:
            kept.append(Taught(rows, sources, classes[known]))
    if not kept:
        raise DomainError(f"no target is left: {notes[-1]}")
    return kept
