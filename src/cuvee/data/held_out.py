"""Which labelled rows of a target are learnt from, and which are kept for scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from cuvee.data.columns import as_written, listed
from cuvee.data.fingerprint import drawn
from cuvee.data.labelled import Labelled, LabelledFrame
from cuvee.data.options import Options
from cuvee.data.roles import LEAST_LABELLED
from cuvee.data.task import Task
from cuvee.problem import Array

# of every target: numbers of its rows to learn from, and for scores
Divided = dict[str, tuple[Array, Array]]
# of every target: how many of its test rows each class has, by the class's name
ByClass = Mapping[str, Mapping[str, int]]


def divided(
    digests: Mapping[str, Array], options: Options, classes: Mapping[str, Array] | None = None
) -> Divided:
    """Return which labelled rows of every target are learnt from, and which are for scores.

    They are drawn by the `digests` of the target's rows (`row_digests`) and the seed alone, so that
    it does not matter who else is a target, what it is called, and in which order the rows come.
    `classes` holds the labels of these rows where they are classes: each class then gives its share
    of the test rows, unless `labelled` asks for a number of rows, which is drawn as if by somebody
    who does not know the labels yet.
    """
    labels = classes if classes is not None and options.labelled is None else {}
    return {name: _divided(rows, options, labels.get(name)) for name, rows in digests.items()}


def _divided(digests: Array, options: Options, labels: Array | None) -> tuple[Array, Array]:
    order, rows = drawn(digests, options.seed), len(digests)
    keep = rows - round(options.test * rows) if options.labelled is None else options.labelled
    keep = max(keep, LEAST_LABELLED)
    if labels is not None:
        order = order[_class_by_class(labels[order])]
    return np.sort(order[:keep]), np.sort(order[keep:])


def _class_by_class(labels: Array) -> Array:
    """Return an order of rows (rows,) of which the last are for scores, however many these are.

    Every class has about its share among them (Sainte-Laguë's rule). Classes of two rows or more
    give their first row before any gives a second, and their last when no other row is left; a
    class of one row keeps it as long.
    """
    _, code, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    place = np.empty(len(labels), dtype=np.int64)  # of a row among those of its class
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    place[np.argsort(code, kind="stable")] = np.arange(len(labels)) - starts
    size = sizes[code]
    turn = (place + 0.5) / size
    turn -= (place == 0) & (size > 1)
    turn += place == size - 1
    return np.argsort(-turn, kind="stable")


def class_labels(
    rows: Labelled, places: Mapping[str, Array], task: Task
) -> dict[str, Array] | None:
    """Return the labels of every target's rows where they are classes; None for a quantity."""
    if task is not Task.classification:
        return None
    return {name: rows.y[at] for name, at in places.items()}


def classes_tested(classes: Mapping[str, Array] | None, parts: Divided) -> ByClass:
    """Return how many test rows of each class every target has; nothing for a quantity."""
    counted = {}
    for name, labels in (classes or {}).items():
        there, rows = np.unique(labels[parts[name][1]], return_counts=True)
        counted[name] = dict(zip(map(as_written, there.tolist()), rows.tolist(), strict=True))
    return counted


def tested_rows(
    rows: LabelledFrame, names: Iterable[str], places: Mapping[str, Array], parts: Divided
) -> Any:
    """Return a frame of the rows of these targets that are for scores."""
    tests = [places[name][parts[name][1]] for name in names]
    return rows.frame.iloc[np.concatenate([np.zeros(0, np.int64), *tests])]


def scoring_notes(options: Options, sizes: Mapping[str, int], parts: Divided) -> list[str]:
    """Return notes on what is scored, and on the targets that have no row left to score on."""
    notes = _unscored(options, sizes, parts)
    if options.labelled is not None and options.test != Options.test:
        notes.append(
            f"test = {options.test:g} (--test) has no effect beside labelled = "
            f"{options.labelled:,} (--labelled), which leaves all other rows for scores"
        )
    if not any(len(test) for _, test in parts.values()):
        return notes
    if options.labelled is None:
        notes.append(
            "scores belong to models that did not see the test rows; the models you get learn from "
            "all labelled rows"
        )
    else:
        notes.append(
            f"models learn from {options.labelled:,} labelled rows of each target (--labelled); "
            "the others are for scores alone"
        )
    return notes


def _unscored(options: Options, sizes: Mapping[str, int], parts: Divided) -> list[str]:
    bare = [name for name, (learn, _) in parts.items() if 0 < len(learn) == sizes[name]]
    if not bare or (options.labelled is None and options.test == 0):
        return []
    one, own = len(bare) == 1, max(sizes[name] for name in bare)
    who = f"target {bare[0]!r}" if one else f"{len(bare):,} targets ({listed(bare)})"
    if options.labelled is not None:
        asked = f"{options.labelled:,} labelled rows were asked for (--labelled)"
        why = (
            f"{asked} and {f'{own:,} are there' if one else f'they have {own:,} or fewer'}; ask "
            "for fewer"
        )
    else:
        why = (
            f"of {f'its {own:,}' if one else f'their {own:,} or fewer'} labelled rows none can be "
            "spared; label more"
        )
    return [f"no row of {who} is left to score on: {why}"]
