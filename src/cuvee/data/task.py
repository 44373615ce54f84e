"""What the labels are, and so what there is to learn: a quantity or classes. Said aloud, with the
reason.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from cuvee.data.columns import as_written, count, short, tidy
from cuvee.data.label_summary import Summary, label_kind
from cuvee.errors import DomainError

MOST_CLASSES = 20  # whole numbers with more values than this are taken for a quantity
FEWEST_COUNTS = 5  # fewer whole numbers than this are always taken for classes
MOST_FORCED = 1000  # classes that a user may ask for; the same limit as `cuvee.hypothesis.labels`


class Task(StrEnum):
    """Name what is learnt: a quantity, classes or counts."""

    regression = "regression"
    classification = "classification"
    counts = "counts"


class Inferred(NamedTuple):
    """The task, and in one sentence why."""

    task: Task
    why: str


def infer(labels: Any, name: str = "label") -> Inferred:
    """Return the task of labels (rows,); missing ones are ignored.

    Text and truth values are classes. Whole numbers are classes when there are at most 20 of them
    and each is there twice on average; so digits 0…9 are classes and exam scores 1…70 a quantity.
    Two whole numbers are always classes. What would be a quantity by that rule is counts where it
    starts at 0 and most of it is small: visits, sales, claims. Five numbers or more that would be
    classes are counts where, besides, the largest is rare: counts thin out, and classes are seldom
    sorted by how frequent they are.

    >>> infer([0, 1, 1, 0], "readmitted").why
    "label 'readmitted' has 2 values: classification"
    """
    return infer_of(summary(labels, name), name)


def infer_of(labels: Summary, name: str) -> Inferred:
    """Return the task of labels of which there is a summary."""
    kind, values, rows = labels.kind, labels.different, labels.rows
    head = f"label {name!r} has"
    if kind in ("text", "truth") or (kind == "whole" and values == 2):
        what = (
            f"{values} values" if kind != "text" else f"{values} values, like {short(labels.first)}"
        )
        return Inferred(Task.classification, f"{head} {what}: classification")
    if kind == "quantity":
        largest = max(abs(labels.low), abs(labels.high))
        example = largest if labels.broken is None else labels.broken[1]
        what = as_written(float(f"{example:.6g}"))
        return Inferred(Task.regression, f"{head} numbers like {what}: regression")
    numbers = f"{head} {values} different whole numbers"
    if (values > MOST_CLASSES or rows < 2 * values) and are_counts(labels):
        return Inferred(Task.counts, f"{numbers} from 0 on, most of them small: counts")
    if values >= FEWEST_COUNTS and are_counts(labels) and _thin_out(labels):
        why = "from 0 on, most of them small and the largest rare: counts"
        return Inferred(
            Task.counts, f"{numbers} {why} (if they are classes, choose classification)"
        )
    if values > MOST_CLASSES:
        return Inferred(Task.regression, f"{numbers}, more than {MOST_CLASSES}: regression")
    if rows < 2 * values:
        why = f"{head} {values} different whole numbers in only {count(rows, 'row')}: regression"
        return Inferred(Task.regression, why)
    hint = " (if they count something, choose counts)" if are_counts(labels) else ""
    return Inferred(
        Task.classification, f"{numbers}, not more than {MOST_CLASSES}: classification{hint}"
    )


def check(labels: Any, task: Task | str, name: str = "label") -> Inferred:
    """Return the task that the user chose; raise `DomainError` where labels (rows,) rule it out."""
    return check_of(summary(labels, name), task, name)


def check_of(labels: Summary, task: Task | str, name: str) -> Inferred:
    """Return the same for labels of which there is a summary."""
    try:
        task = Task(task)
    except ValueError:
        known = ", ".join(repr(str(t)) for t in Task)
        raise DomainError(f"the task is one of {known}; got {task!r}") from None
    if task is not Task.classification and labels.kind == "text":
        raise DomainError(
            f"label {name!r} holds text, like {short(labels.first)}; "
            f"{'counts are' if task is Task.counts else 'a regression needs'} numbers"
        )
    if task is Task.counts and labels.low < 0:
        row, label = labels.lowest
        raise DomainError(
            f"label {name!r} is {as_written(label)} at row {row}; "
            "counts are not below 0: choose regression, or correct the label",
            row,
        )
    if task is Task.classification and labels.kind == "quantity":
        row, label = labels.broken or labels.lowest
        raise DomainError(
            f"label {name!r} is {short(float(label))} at row {row}; "
            "classes are text or whole "
            "numbers: choose regression, or round the labels",
            row,
        )
    if task is Task.classification and labels.different > MOST_FORCED:
        raise DomainError(
            f"label {name!r} has {labels.different} different values; more than {MOST_FORCED} "
            "classes are too many"
        )
    return Inferred(
        task, f"{task} was chosen; label {name!r} has {count(labels.different, 'value')}"
    )


def are_counts(labels: Summary) -> bool:
    """Return whether whole numbers start at 0 and lie mostly in the lower third of their range."""
    return labels.low == 0 and labels.mean <= labels.high / 3


def _thin_out(labels: Summary) -> bool:
    """Return whether the largest number has less than a tenth of the rows of an average one."""
    return labels.share_of_highest < 0.1 / labels.different


def whole_labels(labels: Any) -> Any:
    """Return tidy labels (rows,), whole numbers as int64, or Int64 where some are missing."""
    if label_kind(labels) != "whole":
        return labels
    return labels.astype("Int64" if labels.isna().any() else np.int64)


def summary(labels: Any, name: str) -> Summary:
    """Return what labels (rows,) are like; raise `DomainError` where nothing can be learnt."""
    import pandas as pd

    try:
        column = tidy(pd.Series(labels).rename(name).dropna())
    except (TypeError, ValueError) as error:
        if isinstance(error, DomainError):
            raise
        raise DomainError(
            f"label {name!r} is not a list of labels; give one number or text per row"
        ) from None
    if not len(column):
        raise DomainError(f"label {name!r} is missing in every row; there is nothing to learn from")
    about = Summary.of(column)
    check_varies(about, name)
    return about


def check_varies(labels: Summary, name: str) -> None:
    """Raise `DomainError` where all labels are the same."""
    if labels.different < 2:
        value = short(labels.first) if labels.kind == "text" else as_written(labels.first)
        raise DomainError(f"label {name!r} is {value} in every row; there is nothing to learn")
