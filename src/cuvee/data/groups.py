"""Who learns from whom, from which rows, and which classes: the same for every way in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cuvee.data.labelled import Labelled
from cuvee.data.noticed import domains_alike
from cuvee.data.roles import Pool, enough, teachable
from cuvee.data.task import Task
from cuvee.errors import DomainError
from cuvee.problem import LEAST_ROWS, Array
from cuvee.results import OWN

NOTHING: Array = np.zeros(0, dtype=np.int64)  # no place at all


class Names(NamedTuple):
    """The names of targets that learn from the same sources."""

    targets: Sequence[str]
    sources: Sequence[str]
    others: Sequence[str] = ()
    """Domains that are neither, and would be targets if somebody asked: columns are encoded by
    their rows too.
    """
    label_free: Collection[str] = ()
    """Targets whose labels, if they have any, are not used."""


def assigned(
    sizes: Mapping[str, int],
    small: Pool,
    targets: Sequence[str],
    *,
    in_turn: bool = False,
    strict: bool = False,
    label_free: Collection[str] = (),
) -> tuple[list[Names], list[str]]:
    """Return who learns from whom, and notes on domains that are too small.

    `in_turn` makes a group of every target; those that are `label_free` need no labels.

    >>> assigned({"north": 9, "south": 9, "new": 9}, Pool((), (), ()), ["new"])[0][0].sources
    ['north', 'south']
    """
    kept, notes = enough(sizes, targets, strict=strict, label_free=label_free)
    usable = usable_names(small.resized(sizes))
    grouped = [[t] for t in kept] if in_turn else [kept]
    groups = [
        Names(targets_of, [n for n in usable if n not in own], label_free=label_free)
        for targets_of, own in ((g, set(g)) for g in grouped)
    ]
    if not all(group.sources for group in groups):
        raise DomainError(
            f"no source is left: no other domain has {LEAST_ROWS} labelled rows; label some, or "
            "name fewer targets"
        )
    return groups, [*domains_alike(sizes), *notes, *small.notes]


def usable_names(sizes: Mapping[str, int]) -> list[str]:
    """Return the domains that may be sources; `sizes` are those after small domains were pooled."""
    usable = [name for name, rows in sizes.items() if rows >= LEAST_ROWS]
    if OWN in usable:
        raise DomainError(
            f"a domain is named {OWN!r}, as each target's own rows are called: rename it, or leave "
            "it out with exclude "
            "(--exclude)"
        )
    return usable


class Taught(NamedTuple):
    """A group, with the rows of its targets that its sources can teach."""

    targets: dict[str, Array]  # name -> places of its rows
    sources: Sequence[str]
    others: dict[str, Array]  # name -> places of the rows that the sources could teach
    classes: Array | None  # that the sources have, sorted; None: a quantity


def taught(
    rows: Labelled, groups: Sequence[Names], task: Task, *, strict: bool = False
) -> tuple[list[Taught], list[str]]:
    """Return the groups without rows whose class no source has, and notes on these.

    Targets with too few other rows are left out too, and groups that lose all their targets.
    """
    if task is not Task.classification:
        at = rows.at
        plain = [
            Taught(
                {t: NOTHING if t in g.label_free else at[t] for t in g.targets},
                g.sources,
                {o: at[o] for o in g.others},
                None,
            )
            for g in groups
        ]
        return plain, []
    classes, has = _classes(rows)
    place = {name: i for i, name in enumerate(rows.at)}
    kept, notes = [], list[str]()
    for group in groups:
        known = has[[place[s] for s in group.sources]].any(0)
        # one class; where all share it the hypothesis says so
        alone = known.sum() < 2 and len(groups) > 1
        bare = {t for t in group.targets if t in group.label_free}
        strange = {
            t
            for t in (*group.targets, *group.others)
            if alone or (t not in bare and (has[place[t]] & ~known).any())
        }
        targets, more_notes = _teachable(rows, group.targets, strange, classes[known], strict, bare)
        others, _ = _teachable(rows, group.others, strange, classes[known], False)
        notes += more_notes
        if targets or not group.targets:
            kept.append(Taught(targets, group.sources, others, classes[known]))
    if not kept:
        raise DomainError(f"no target is left: {notes[-1]}")
    return kept, notes


def _classes(rows: Labelled) -> tuple[Array, Array]:
    """Return all classes, sorted, and which domain has which of them (domains, classes)."""
    classes, code = np.unique(rows.y, return_inverse=True)
    has = np.zeros((len(rows.at), len(classes)), dtype=bool)
    for i, places in enumerate(rows.at.values()):
        has[i, code[places]] = True
    return classes, has


def _teachable(
    rows: Labelled,
    names: Sequence[str],
    strange: set[str],
    classes: Array,
    strict: bool,
    bare: Collection[str] = (),
) -> tuple[dict[str, Array], list[str]]:
    """Return name -> places of the rows that can be learnt, and notes on the other rows.

    A target is in it if sources with these classes can teach any of its rows, or, where it is
    `bare` of labels, anything at all.
    """
    kept, notes = {}, list[str]()
    for name in names:
        places = NOTHING if name in bare else rows.at[name]
        if name in strange:
            fits, more_notes = teachable(
                name, rows.y[places], classes, strict=strict, at=rows.number[places]
            )
            places, notes = places[fits], [*notes, *more_notes]
        if len(places) or (name in bare and name not in strange):
            kept[name] = places
    return kept, notes
