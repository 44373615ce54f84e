"""What the labels are, and so what there is to learn: a quantity or classes. Said aloud, with the
reason.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal, NamedTuple

import numpy as np

from cuvee.data.columns import as_written, count, is_number, short, tidy
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
    column = _tidy(labels, name)
    kind, values, rows = label_kind(column), column.nunique(), len(column)
    head = f"label {name!r} has"
    if kind in ("text", "truth") or (kind == "whole" and values == 2):
        what = (
            f"{values} values"
            if kind != "text"
            else f"{values} values, like {short(column.iloc[0])}"
        )
        return Inferred(Task.classification, f"{head} {what}: classification")
    if kind == "quantity":
        broken = column[column != np.round(column)]
        what = as_written(float(f"{broken.iloc[0] if len(broken) else column.abs().max():.6g}"))
        return Inferred(Task.regression, f"{head} numbers like {what}: regression")
    numbers = f"{head} {values} different whole numbers"
    if (values > MOST_CLASSES or rows < 2 * values) and _are_counts(column):
        return Inferred(Task.counts, f"{numbers} from 0 on, most of them small: counts")
    if values >= FEWEST_COUNTS and _are_counts(column) and _thin_out(column):
        why = "from 0 on, most of them small and the largest rare: counts"
        return Inferred(
            Task.counts, f"{numbers} {why} (if they are classes, choose classification)"
        )
    if values > MOST_CLASSES:
        return Inferred(Task.regression, f"{numbers}, more than {MOST_CLASSES}: regression")
    if rows < 2 * values:
        why = f"{head} {values} different whole numbers in only {count(rows, 'row')}: regression"
        return Inferred(Task.regression, why)
    hint = " (if they count something, choose counts)" if _are_counts(column) else ""
    return Inferred(
        Task.classification, f"{numbers}, not more than {MOST_CLASSES}: classification{hint}"
    )


def check(labels: Any, task: Task | str, name: str = "label") -> Inferred:
    """Return the task that the user chose; raise `DomainError` where labels (rows,) rule it out."""
    try:
        task = Task(task)
    except ValueError:
        known = ", ".join(repr(str(t)) for t in Task)
        raise DomainError(f"the task is one of {known}; got {task!r}") from None
    column = _tidy(labels, name)
    kind, values = label_kind(column), column.nunique()
    if task is not Task.classification and kind == "text":
        raise DomainError(
            f"label {name!r} holds text, like {short(column.iloc[0])}; "
            f"{'counts are' if task is Task.counts else 'a regression needs'} numbers"
        )
    if task is Task.counts and column.min() < 0:
        row = int(np.argmin(column.to_numpy()))
        raise DomainError(
            f"label {name!r} is {as_written(column.iloc[row])} at row {column.index[row]}; "
            "counts are not below 0: choose regression, or correct the label",
            column.index[row],
        )
    if task is Task.classification and kind == "quantity":
        row = int(np.argmax((column != np.round(column)).to_numpy()))
        raise DomainError(
            f"label {name!r} is {short(float(column.iloc[row]))} at row {column.index[row]}; "
            "classes are text or whole "
            "numbers: choose regression, or round the labels",
            column.index[row],
        )
    if task is Task.classification and values > MOST_FORCED:
        raise DomainError(
            f"label {name!r} has {values} different values; more than {MOST_FORCED} classes are "
            "too many"
        )
    return Inferred(task, f"{task} was chosen; label {name!r} has {count(values, 'value')}")


def _are_counts(column: Any) -> bool:
    """Return whether whole numbers start at 0 and lie mostly in the lower third of their range."""
    return bool(column.min() == 0 and column.mean() <= column.max() / 3)


def _thin_out(column: Any) -> bool:
    """Return whether the largest number has less than a tenth of the rows of an average one."""
    return bool((column == column.max()).mean() < 0.1 / column.nunique())


def label_kind(labels: Any) -> Literal["text", "truth", "whole", "quantity"]:
    """Return the kind of tidy labels (rows,); missing ones are ignored.

    Whole numbers are those that a float holds exactly.
    """
    if not is_number(labels):
        return "text"
    values = labels.dropna().to_numpy(np.float64)
    whole = bool(np.all((values == np.round(values)) & (np.abs(values) < 2**53)))
    return "truth" if labels.dtype == np.bool_ else "whole" if whole else "quantity"


def whole_labels(labels: Any) -> Any:
    """Return tidy labels (rows,), whole numbers as int64, or Int64 where some are missing."""
    if label_kind(labels) != "whole":
        return labels
    return labels.astype("Int64" if labels.isna().any() else np.int64)


def _tidy(labels: Any, name: str) -> Any:
    import pandas as pd

    try:
        column = tidy(pd.Series(labels).rename(name)).dropna()
    except (TypeError, ValueError) as error:
        if isinstance(error, DomainError):
            raise
        raise DomainError(
            f"label {name!r} is not a list of labels; give one number or text per row"
        ) from None
    if not len(column):
        raise DomainError(f"label {name!r} is missing in every row; there is nothing to learn from")
    if column.nunique() < 2:
        value = (
            short(column.iloc[0]) if label_kind(column) == "text" else as_written(column.iloc[0])
        )
        raise DomainError(f"label {name!r} is {value} in every row; there is nothing to learn")
    return column
