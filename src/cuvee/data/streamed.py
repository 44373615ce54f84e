"""Tables too large to be read whole: ridge needs no row twice, so that its rows are encoded into a
file.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from cuvee.data.frame import spec
from cuvee.data.groups import assigned
from cuvee.data.held_out import divided
from cuvee.data.opened import COLUMNS, inferred_task
from cuvee.data.options import Options, kind_of
from cuvee.data.prepared import Members, Prepared
from cuvee.data.roles import SMALL, excluded, pool
from cuvee.data.spool import census, spool
from cuvee.data.targets import EACH, choose
from cuvee.data.task import Inferred, Task
from cuvee.errors import OptionError


def streamed(path: str | Path, options: Options, scratch: Path) -> Prepared:
    """Return the problem of files that are read batch by batch.

    The encoder is fitted on sources alone, their categories included.

    Encoded rows lie in a file in `scratch`, and Gram matrices are made from it batch by batch.
    """
    import pandas as pd

    _check_can_stream(options)
    what = spec(path, **{name: getattr(options, name) for name in COLUMNS})
    counted = census(what)
    sizes = counted.labelled
    left_out = excluded(list(sizes), options.exclude)
    for name in left_out:
        del sizes[name]
    small = pool(sizes, strict=options.strict)
    targets = choose(list(sizes), options.targets, left_out)
    (group,), notes = assigned(sizes, small, targets, strict=options.strict)
    what = replace(what, exclude=(*left_out, *small.unused))
    scratch.mkdir(parents=True, exist_ok=True)
    fit_on = [*(s for s in group.sources if s != SMALL or not small.names), *small.names]
    spooled = spool(
        what, scratch, impute=options.impute, standardise=options.standardise, fit_on=fit_on,
        digests_of=group.targets, strict=options.strict,
    )  # fmt: skip
    rows = {d.name: (d.X, d.y) for d in spooled.domains}
    if small.names:
        X, y = (
            np.concatenate(part)
            for part in zip(*(rows.pop(name) for name in small.names), strict=True)
        )
        rows[SMALL] = X, y
    options = replace(options, task="regression") if options.hypothesis == "ridge" else options
    labels = pd.Series(
        np.concatenate([rows[n][1] for n in (*group.sources, *group.targets)]), name=what.label
    )
    inferred = inferred_task(options, labels)
    if inferred.task is Task.counts:  # only Gram matrices are streamed
        inferred = Inferred(Task.regression, f"{inferred.why}, streamed as a quantity")
    if kind_of(options, inferred.task) != "ridge":
        raise OptionError(
            "stream is for ridge alone, and the labels are classes: this table has to fit into "
            "memory"
        )
    return Prepared.of(
        options, inferred, (Members(tuple(group.targets), tuple(group.sources), spooled.encoder),),
        labels, sizes=small.resized(sizes), pooled=small.names, divided=divided(spooled.digests,
        options), domain=what.domain,
        notes=[*counted.notes(what.domain), *spooled.notes, *notes],
        n_features=len(what.features), rows=lambda who: rows,
    )  # fmt: skip


def _check_can_stream(options: Options) -> None:
    if options.targets in (EACH, (EACH,)):
        raise OptionError(
            "a table that is streamed cannot have every domain in turn as target: name the targets"
        )
    if options.hypothesis not in ("auto", "ridge") or options.task == "classification":
        asked = (
            repr(options.hypothesis)
            if options.hypothesis not in ("auto", "ridge")
            else "classification"
        )
        raise OptionError(f"stream is for ridge alone; {asked} needs the table in memory")
