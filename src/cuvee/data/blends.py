"""Problems for weights that are there already: α names the sources, and perhaps the targets.

`cuvee solve` asks for models of the rows of an α, `cuvee learn`, `plan` and `online` for maps on
its columns. Rows and columns are prepared as for `adapt`: sources are those of a column, and
whoever else has labelled rows is a target, asked for or not, so that columns are encoded alike
whichever rows an α has.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from cuvee.data.groups import Names, usable_names
from cuvee.data.noticed import domains_alike
from cuvee.data.opened import OpenedTable
from cuvee.data.prepare import assembled
from cuvee.data.prepared import Group, Prepared
from cuvee.data.roles import LEAST_LABELLED
from cuvee.data.task import Task
from cuvee.errors import DomainError
from cuvee.problem import Problem
from cuvee.results import Floats


def of_sources(opened: OpenedTable, sources: Sequence[str]) -> Prepared:
    """Return one group of these sources without targets, for maps."""
    return _prepared(opened, [_names(opened, sources)])


@dataclass(frozen=True, eq=False)
class Blend:
    """Rows of an α with the same sources."""

    rows: tuple[int, ...]  # of α
    group: int
    columns: tuple[str, ...]  # the sources
    own: bool  # whether these rows weigh the targets' own rows


@dataclass(frozen=True, eq=False)
class Blends:
    """The problems that the rows of an α are solved on."""

    prepared: Prepared
    names: tuple[str, ...]  # (M,) of the rows of α
    parts: tuple[Blend, ...]

    def problem(self, part: Blend, group: Group) -> Problem:
        """Return the problem that a part is solved on.

        It has the part's sources, and its targets in the order of its rows if α weighs their own
        rows.
        """
        if not part.own:
            return group.whole.without_targets()
        place = {t.name: t for t in group.whole.targets}
        return group.whole.with_targets([place[self.names[i]] for i in part.rows])

    def offsets(self, part: Blend, group: Group, alpha: Floats) -> Floats:
        """Return the level of each model (rows,), which is added to its predictions.

        `alpha` (rows, columns) are the weights of the models.

        It is that of the target's labelled rows. A model without any has the level of its sources,
        weighed as they are: that of one source alone is the model of its labels as they are.
        """
        known = dict(zip(group.whole.source_names, group.levels, strict=True))
        known |= dict(zip(group.whole.target_names, group.whole_offset, strict=True))
        shared = alpha[:, : len(group.levels)] @ group.levels
        return np.array(
            [known.get(self.names[i], s) for i, s in zip(part.rows, shared.tolist(), strict=True)]
        )


def blends(
    opened: OpenedTable,
    columns: Sequence[str],
    names: Sequence[str],
    *,
    own: bool,
    apart: Collection[str],
    bare: Collection[str] = (),
) -> Blends:
    """Return the problems of an α with these columns and rows.

    Args:
        opened: the table.
        columns: the sources.
        names: (M,) of the rows. Those of a domain have its level; with `own` they must be domains.
        own: whether α weighs the targets' own rows.
        apart: the targets that have a column of their own and no weight in it: like every domain in
            turn, each has all other columns as sources.
        bare: rows without weight on their own sample. They need no labelled row, so that targets
            whose weights came from inputs alone have models too.
    """
    sizes = opened.sizes
    few = {name for name in names if name in bare and sizes.get(name, 0) < LEAST_LABELLED}
    weighed = [name for name in names if own and name not in few]
    if own:
        opened.named(weighed, LEAST_LABELLED)
    together = [i for i, name in enumerate(names) if name not in apart]
    alike = ([i for i in together if (names[i] in few) is bool(k)] for k in range(2))
    rows = [part for part in alike if part]
    rows += [[i] for i, name in enumerate(names) if name in apart]
    owned = [own and names[part[0]] not in few for part in rows]
    asked = [
        _asked(opened, columns, [names[i] for i in part], with_own, apart)
        for part, with_own in zip(rows, owned, strict=True)
    ]
    prepared = _prepared(opened, asked)
    if lost := set(weighed) - set(prepared.targets):
        left_out = next(
            note
            for note in prepared.notes
            if any(note.startswith(f"target {name!r}") for name in lost)
        )
        raise DomainError(f"alpha weighs own rows that cannot be used: {left_out}")
    parts = [
        Blend(tuple(r), g, tuple(a.sources), with_own)
        for g, (r, a, with_own) in enumerate(zip(rows, asked, owned, strict=True))
    ]
    return Blends(prepared, tuple(names), tuple(parts))


def _asked(
    opened: OpenedTable,
    columns: Sequence[str],
    names: Sequence[str],
    own: bool,
    apart: Collection[str],
) -> Names:
    """Return the group of sources and targets that these rows of an α need.

    Targets are those whose own rows, or whose level, is needed.
    """
    sources = [name for name in columns if name not in apart or name not in names]
    sizes = opened.sizes
    targets = list(names)
    if not own:
        levelled = opened.options.levels and opened.inferred.task is Task.regression
        enough = (
            name for name in names if sizes.get(name, 0) >= LEAST_LABELLED and name not in sources
        )
        targets = list(enough) if levelled else []
    return _names(opened, sources, targets)


def _names(opened: OpenedTable, sources: Sequence[str], targets: Sequence[str] = ()) -> Names:
    known = {*sources, *targets}
    return Names(
        targets, sources, [name for name in usable_names(opened.sizes) if name not in known]
    )


def _prepared(opened: OpenedTable, groups: Sequence[Names]) -> Prepared:
    return assembled(opened, groups, [*domains_alike(opened.domains), *opened.small.notes]).checked(
        lambda what, done, total: None
    )
