"""New targets of a finished run: a few labelled rows in; α, a model, a certificate, scores out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from cuvee.api import estimate
from cuvee.data.columns import (
    as_written,
    count,
    is_number,
    listed,
    pick,
    plain_labels,
    short,
    tidy_labels,
)
from cuvee.data.encode import unseen_in
from cuvee.data.fingerprint import row_digests
from cuvee.data.frame import read_rows
from cuvee.data.held_out import classes_tested, divided
from cuvee.data.prepared import FAR, Prepared
from cuvee.data.roles import LEAST_LABELLED
from cuvee.errors import DomainError
from cuvee.numerics.parallel import workers
from cuvee.problem import Array
from cuvee.run.added import About, Added
from cuvee.run.base import Base
from cuvee.run.models import Delivered, deliver


class Rows(NamedTuple):
    """The labelled rows of a new target."""

    X: Array  # (rows, d) encoded
    y: Array  # (rows,) labels
    digests: Array  # (rows,) of what they held before


def encode(base: Base, name: str, frame: Any) -> Rows:
    """Return the labelled rows of a new target, encoded as the sources are.

    Rows without a label are left out. Whatever would keep them from being learnt is an error now.
    """
    encoder, where = base.members.encoder, f"target {name!r}"
    rows, labels = _labelled(base, frame, where)
    if len(rows) < LEAST_LABELLED:
        raise DomainError(
            f"{where} has {count(len(rows), 'labelled row')}; label at least {LEAST_LABELLED}"
        )
    encoder.unseen(rows, where=where, strict=base.prepared.options.strict)
    X, y = encoder(rows, where=where), _labels(base, labels, where)
    held = rows[[*encoder.features]].assign(**{base.prepared.options.label: y})
    given = Rows(X, y, row_digests(held))
    posed(base, {name: given}).checked(lambda what, done, total: None)
    return given


def notes_on(base: Base, name: str, frame: Any) -> list[str]:
    """Return what is worth saying of the rows of a new target that `encode` has taken."""
    rows, _ = _labelled(base, frame, f"target {name!r}")
    notes = unseen_in([(base.members.encoder, rows)], "row")
    bare = len(frame) - len(rows)
    return [*notes, f"{count(bare, 'row')} without a label left out"] if bare else notes


def _labelled(base: Base, frame: Any, where: str) -> tuple[Any, Any]:
    """Return the features of the rows that have a label, as they are read, and the labels."""
    encoder, options = base.members.encoder, base.prepared.options
    labels = tidy_labels(pick(frame, options.label, where), where, options.missing)
    known = labels.notna().to_numpy()
    kept = frame[known]
    if not len(kept):
        return kept, labels[known]
    rows = read_rows(kept, encoder.features, text=encoder.text, missing=options.missing)
    return rows.set_axis(kept.index, axis=0), plain_labels(labels[known])


def _labels(base: Base, labels: Any, where: str) -> Array:
    """Return labels (rows,) as the sources have them."""
    classes, label = base.members.classes, base.prepared.options.label
    if classes is None:
        if not is_number(labels):
            row = next(i for i, v in labels.items() if isinstance(v, str))
            value = short(labels[row])
            raise DomainError(f"{where}: label {label!r} is {value} at row {row}; give a number")
        y = labels.to_numpy(np.float64)
        if not np.isfinite(y).all() or np.abs(y).max() > FAR:
            raise DomainError(f"{where}: label {label!r} is too far for a float; rescale it")
        return y
    place = {as_written(value): k for k, value in enumerate(classes.tolist())}
    at = [place.get(as_written(value), -1) for value in labels.tolist()]
    if -1 in at:
        first = at.index(-1)
        raise DomainError(
            f"{where}: label {label!r} is {short(labels.iloc[first])} at row "
            f"{labels.index[first]}, a class that no source has (they have "
            f"{listed(list(place), 10)}); correct it, or leave the row out"
        )
    return classes[at]


def posed(base: Base, targets: Mapping[str, Rows]) -> Prepared:
    """Return the problem of these targets with the sources of the run."""
    options = base.prepared.options
    sizes = {name: len(rows.y) for name, rows in targets.items()}
    classify = base.members.classes is not None
    labels = {name: rows.y for name, rows in targets.items()} if classify else None
    parts = divided({name: rows.digests for name, rows in targets.items()}, options, labels)
    return replace(
        base.prepared,
        members=(replace(base.members, targets=tuple(targets)),),
        sizes={**base.prepared.sizes, **sizes},
        divided=parts,
        tested=classes_tested(labels, parts),
        rows=lambda who: {**base.rows, **{name: rows[:2] for name, rows in targets.items()}},
        notes=(),
        together=None,
    )


@workers()
def adapted(
    base: Base,
    targets: Mapping[str, Rows],
    keys: Mapping[str, str],
    progress: Callable[[str, int, int], None],
) -> list[Added]:
    """Return α, models, certificates and scores of new targets, all of them computed together.

    `keys` says which request each belongs to.
    """
    prepared, options = posed(base, targets), base.prepared.options
    members = prepared.members[0]
    group, hypothesis = prepared.group(members), prepared.hypothesis(members)
    mix = estimate(
        group.problem,
        hypothesis,
        method=options.method,  # type: ignore[arg-type]  # checked by Options
        C=options.C,
        own=True,
        seed=options.seed,
        progress=lambda what, done, total: progress("estimating α", done, total),
    )
    progress("solving models", 0, len(targets))
    delivered = deliver(
        group, hypothesis, mix.alpha, None, options, members.encoder, metric=prepared.metric
    )
    progress("solving models", len(targets), len(targets))
    classes = members.classes
    return [
        Added(
            About(
                name=name,
                key=keys[name],
                group=base.group,
                sources=list(members.sources),
                encoder=members.encoder.as_dict(),
                classes=None if classes is None else classes.tolist(),
                learn=len(prepared.divided[name][0]),
                test=len(prepared.divided[name][1]),
                tested=dict(prepared.tested.get(name, {})),
                columns=list(mix.columns),
                alpha=mix.alpha[i].tolist(),
                alpha_status=str(mix.status[i]),
                gap=None if np.isnan(mix.gap[i]) else float(mix.gap[i]),
                notes=[],
            ),
            _row(delivered, i),
        )
        for i, name in enumerate(targets)
    ]


def _row(delivered: Delivered, i: int) -> Delivered:
    names = [f.name for f in fields(Delivered) if f.name != "rests_on"]
    return replace(delivered, **{name: getattr(delivered, name)[i : i + 1] for name in names})
