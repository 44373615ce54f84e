"""Who is a source and who a target: one rule for small and unwanted domains, for every way in.

A source needs LEAST_ROWS labelled rows. Domains with fewer are pooled into one source, SMALL:
together they are rows to learn from like any others. Where that gives no source either, they are
left out. A target needs LEAST_LABELLED labelled rows. One with fewer that has LEAST_INPUTS rows in
all, labelled or not, is *label-free*: its weights come from its inputs alone. Any other gets no
model, and is a source like all that are no target. Labelled rows of a target whose class no source
has are left out. Each of these is a note, or an error for those who ask to be strict.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cuvee.data.columns import count, short
from cuvee.data.frame import Table
from cuvee.data.targets import matching, suggest
from cuvee.errors import DomainError
from cuvee.problem import LEAST_ROWS, Array

SMALL = "(small sources)"
"""The name of the source that small ones are pooled into."""
LEAST_LABELLED = 5  # rows of a target: with fewer nothing can be said about it
LEAST_INPUTS = 5  # rows of a target without labels: fewer show nothing of its inputs
AWAY = "label more, or leave it out with exclude (--exclude)"


@dataclass(frozen=True)
class Pool:
    """The domains whose rows make up the source SMALL, and those whose rows no source has."""

    names: tuple[str, ...]
    unused: tuple[str, ...]
    notes: tuple[str, ...]

    def resized(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return the labelled rows of every domain; SMALL, last, stands for those pooled in it."""
        pooled = set(self.names)
        rows = {name: n for name, n in sizes.items() if name not in pooled}
        return rows | ({SMALL: sum(sizes[name] for name in self.names)} if self.names else {})


def pool(sizes: Mapping[str, int], *, strict: bool = False, aside: Collection[str] = ()) -> Pool:
    """Return what becomes of domains with too few labelled rows to be sources.

    `sizes` has the labelled rows of every domain. Those `aside` are no sources whatever they have,
    and nothing is said of them.

    >>> pool({"north": 40, "hut": 1, "ferry": 1}).names
    ('hut', 'ferry')
    """
    left = _pool({n: rows for n, rows in sizes.items() if n not in aside}, strict)
    return replace(left, unused=(*left.unused, *(n for n in sizes if n in aside)))


def _pool(sizes: Mapping[str, int], strict: bool) -> Pool:
    bare = [name for name, rows in sizes.items() if rows == 0]
    few = [name for name, rows in sizes.items() if 0 < rows < LEAST_ROWS]
    if strict and (bare or few):
        name = next(n for n in sizes if n in {*bare, *few})
        raise DomainError(
            f"source {name!r} has {count(sizes[name], 'labelled row')}, and needs {LEAST_ROWS}: "
            f"{AWAY}"
        )
    notes = (
        [f"{_have(bare)} no labelled row: {_they(bare, 'is not a source', 'are not sources')}"]
        if bare
        else []
    )
    if not few:
        return Pool((), tuple(bare), tuple(notes))
    too_few, away = (
        f"{_have(few)} fewer than {LEAST_ROWS} labelled rows",
        _they(few, "is left out", "are left out"),
    )
    if SMALL in sizes:
        notes.append(
            f"{too_few}: {away}, as a domain is named {SMALL!r} already; rename it to have them "
            "pooled"
        )
    elif sum(sizes[name] for name in few) < LEAST_ROWS:
        notes.append(f"{too_few}: {away}")
    else:
        notes.append(f"{too_few}: they are pooled into one source, {SMALL!r}")
        return Pool(tuple(few), tuple(bare), tuple(notes))
    return Pool((), (*bare, *few), tuple(notes))


def label_free(
    sizes: Mapping[str, int], inputs: Mapping[str, int], targets: Sequence[str]
) -> tuple[str, ...]:
    """Return the targets whose weights have to come from their inputs alone.

    `sizes` has the labelled rows of every domain, and `inputs` all its rows.

    >>> label_free({"north": 40, "new": 0, "hut": 1}, {"new": 90, "hut": 1}, ["new", "hut"])
    ('new',)
    """
    few = (name for name in targets if sizes[name] < LEAST_LABELLED)
    return tuple(name for name in few if inputs.get(name, 0) >= LEAST_INPUTS)


def label_free_notes(sizes: Mapping[str, int], names: Sequence[str]) -> list[str]:
    """Return what is to be known of label-free targets, before anything is learnt."""
    bare = [name for name in names if sizes[name] == 0]
    few = [name for name in names if sizes[name] > 0]
    notes = []
    if few:
        notes.append(
            f"{_have(few, 'target')} fewer than {LEAST_LABELLED} labelled rows: the labels of "
            f"{'that target' if len(few) == 1 else 'those targets'} are not used"
        )
    if bare or few:
        who = _have([*bare, *few], "target")
        notes.append(
            f"{who} no labels to learn from, so that weights come from inputs alone and there is "
            "no score; a target whose labels follow another rule than those of the sources looks "
            "the same (docs/unlabelled.md)"
        )
    return notes


def enough(
    sizes: Mapping[str, int],
    targets: Sequence[str],
    *,
    strict: bool = False,
    label_free: Collection[str] = (),
) -> tuple[list[str], list[str]]:
    """Return the targets that have enough labelled rows or need none, and a note on the others.

    Where none is left, that is an error.
    """
    few = [n for n in targets if sizes[n] < LEAST_LABELLED and n not in label_free]
    if few and (strict or len(few) == len(targets)):
        none = (
            ""
            if strict or len(few) == 1
            else f"none of the {len(few)} targets has labelled rows enough: "
        )
        raise DomainError(
            f"{none}target {few[0]!r} has {count(sizes[few[0]], 'labelled row')}, and needs "
            f"{LEAST_LABELLED}: {AWAY}"
        )
    kept = [name for name in targets if name not in few]
    without_model = _they(few, "gets no model", "get no model")
    return kept, [
        f"{_have(few)} fewer than {LEAST_LABELLED} labelled rows: {without_model}"
    ] if few else []


def excluded(names: Sequence[str], exclude: Sequence[str]) -> list[str]:
    """Return the domains to leave out, which are named as targets are.

    An unknown name is an error.
    """
    left_out = matching(names, exclude, "exclude") if exclude else []
    if exclude and not left_out:
        raise DomainError(f"exclude names no domain{suggest('', names)}")
    if left_out and len(left_out) == len(set(names)):
        raise DomainError(
            f"exclude names all {count(len(left_out), 'domain')}, so that none is left: name fewer"
        )
    return left_out


def without(table: Table, names: Sequence[str]) -> Table:
    """Return the table without the rows of some domains; the others keep their row numbers."""
    return (
        replace(table, frame=table.frame[~table.frame[table.domain].isin(names)])
        if names
        else table
    )


def teachable(
    name: str, labels: Array, classes: Array, *, strict: bool = False, at: Array | None = None
) -> tuple[Array, list[str]]:
    """Return which of a target's labelled rows (rows,) can be learnt, and notes on the others.

    A row can be learnt if its class is among the classes of the sources.

    None of them can, where too few rows are left or the sources have one class alone: then it is no
    target. `at` (rows,) are the rows' numbers in the table.

    >>> teachable("north", np.array([*"aabbbbc"]), np.array(["a", "b"]))[0].tolist()
    [True, True, True, True, True, True, False]
    """
    known = np.isin(labels, classes)
    if len(classes) < 2:
        only = f"every row of its sources is of class {short(classes[0])}"
        if strict:
            raise DomainError(
                f"target {name!r} cannot be learnt: {only}; add a source that has another"
            )
        return np.zeros_like(known), [f"target {name!r} gets no model: {only}"]
    if known.all():
        return known, []
    strange = [short(label) for label in np.unique(labels[~known])]
    row = None if at is None else int(at[int(np.argmin(known))])
    first = "" if row is None else f" (first at row {row})"
    many, rows = f"class{'' if len(strange) == 1 else 'es'}", count(int((~known).sum()), "row")
    which = f"{rows} of {many} {_named(strange)}{first}, which no source has"
    if strict:
        raise DomainError(
            f"target {name!r} has {which}: add a source that has it, or drop such rows", row
        )
    if known.sum() >= LEAST_LABELLED:
        return known, [f"target {name!r} has {which}: left out"]
    few = f"fewer than {LEAST_LABELLED} other labelled rows"
    return np.zeros_like(known), [f"target {name!r} has {which}, and {few}: it gets no model"]


def _have(names: Sequence[str], what: str = "domain") -> str:
    """Return "domain 'a' has", or "3 domains ('a', 'b', 'c') have"."""
    shown = list(map(short, names))
    return (
        f"{what} {shown[0]} has"
        if len(names) == 1
        else f"{len(names):,} {what}s ({_named(shown)}) have"
    )


def _they(names: Sequence[str], one: str, many: str) -> str:
    return f"it {one}" if len(names) == 1 else f"they {many}"


def _named(shown: Sequence[str], most: int = 5) -> str:
    return ", ".join(shown[:most]) + (
        f" and {len(shown) - most:,} more" if len(shown) > most else ""
    )
