"""Match the names of sources and targets on weights α that users give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuvee.errors import MixtureError
from cuvee.results import OWN, Mixtures
from cuvee.simplex import check_alpha

TARGET = "target"  # the column of a table that names its rows
LISTED = 8  # names that an error lists
ADVICE = {
    "source": "Give every source a column of its name, with weight 0 where it is not wanted",
    "target": "Give every target a row of its name, and leave other rows out",
}


@dataclass(frozen=True, eq=False)
class Labelled:
    """Hold weights as given, (M, columns) or one row (columns,), with the labels on them."""

    values: Any
    columns: Sequence[Any] | None  # labels of the columns; None where there are none
    rows: Sequence[Any] | None = None  # labels of the rows
    # whether the rows' labels are names of targets; those of an index may not be
    named: bool = False

    @property
    def own(self) -> bool:
        """Return whether a column is named as the own sample's."""
        return self.columns is not None and OWN in self.columns


def read(alpha: Any, sources: Sequence[str] | None = None) -> Labelled | None:
    """Return `Mixtures`, a data frame or a row of one as weights with labels, or None.

    None is returned for anything else. Frames may be pandas', polars' or Arrow's. A column "target"
    holds the names of the rows, unless a source has that name.
    """
    if isinstance(alpha, Labelled):
        return alpha
    if isinstance(alpha, Mixtures):
        return Labelled(np.asarray(alpha.alpha), alpha.columns, alpha.targets, named=True)
    aside = TARGET if TARGET not in (sources or ()) else None
    if _is_row(alpha):
        positions = [i for i, label in enumerate(alpha.index) if aside is None or label != aside]
        return Labelled(np.asarray(alpha)[positions], [alpha.index[i] for i in positions])
    labels = _frame_labels(alpha)
    return None if labels is None else _of_frame(alpha, labels, aside)


def ordered_alpha(
    alpha: Any,
    sources: Sequence[str] | None,
    targets: Sequence[str] | None = None,
    *,
    own: bool = True,
    always: bool = True,
) -> Any:
    """Return α with its columns in the order of the sources and its rows in that of the targets.

    The own sample's column comes last. What has no names is returned as it is, and so goes by
    position: arrays, and columns or rows that have nothing but pandas' own numbers 0, 1, ….

    Args:
        alpha: `Mixtures`, a frame, a row of one, a list of such rows, or anything else.
        sources: names that columns must have; None where they are not known, so that all go by
            position.
        targets: names that rows must have, if they have names; None where rows belong to nobody.
        own: whether the own sample may have a column.
        always: match rows to targets also where no own sample has a column.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"south": [0.9, 0.2], "north": [0.1, 0.8]}, index=["t2", "t1"])
        >>> ordered_alpha(frame, ["north", "south"], ["t1", "t2"])
        array([[0.8, 0.2],
               [0.1, 0.9]])
    """
    if isinstance(alpha, list | tuple) and any(map(_is_row, alpha)):
        alpha = _stacked(alpha, sources, own)
    labelled = read(alpha, sources)
    if labelled is None:
        return alpha
    values = labelled.values
    if sources is not None and labelled.columns is not None:
        values = _by_source(values, labelled.columns, sources, own)
    weighs_own = sources is not None and values.shape[-1] > len(sources)
    if targets is None or labelled.rows is None or not (weighs_own or always):
        return values
    if not labelled.named and not _are_targets(labelled.rows, targets, weighs_own):
        return values
    places = _places(labelled.rows, targets, "row", "target")
    return check_alpha(values, values.shape[-1])[
        places
    ]  # checked before reordering, so that errors name rows as given


def _frame_labels(alpha: Any) -> Sequence[Any] | None:
    """Return the labels of a frame's columns, or None for what is not a frame."""
    # the `columns` of an Arrow table are not labels
    arrow = not hasattr(alpha, "iloc") and hasattr(alpha, "column_names")
    return (
        getattr(alpha, "column_names" if arrow else "columns", None)
        if hasattr(alpha, "__len__")
        else None
    )


def _of_frame(frame: Any, labels: Sequence[Any], aside: str | None) -> Labelled:
    """Return a frame's columns as weights.

    The column called `aside` names the rows; without it pandas' index may.
    """
    _check_once(list(map(str, labels)), "column", "source")
    columns = [label for label in labels if aside is None or label != aside]
    parts = [np.asarray(frame[label]) for label in columns]
    values = np.column_stack(parts) if parts else np.empty((len(frame), 0))
    if len(columns) < len(labels):
        return Labelled(values, columns, list(map(str, np.asarray(frame[TARGET]))), named=True)
    return Labelled(values, columns, list(frame.index) if hasattr(frame, "iloc") else None)


def _is_row(alpha: Any) -> bool:
    """Return whether this is a row of a pandas frame."""
    return hasattr(alpha, "iloc") and alpha.ndim == 1


def _stacked(rows: Sequence[Any], sources: Sequence[str] | None, own: bool) -> Labelled:
    """Return a list of rows, each ordered by its own names, as one table.

    pandas keeps a row's label as its name.
    """
    ordered = [ordered_alpha(row, sources, own=own) for row in rows]
    if len({np.shape(row) for row in ordered}) > 1:
        raise MixtureError(
            "alpha is a list of rows with different columns: give all rows the same columns"
        )
    return Labelled(np.array(ordered), None, [getattr(row, "name", None) for row in rows])


def _by_source(values: Any, labels: Sequence[Any], sources: Sequence[str], own: bool) -> Any:
    if _numbered(labels, sources, "column", "source"):
        return values
    last = [OWN] if OWN in labels and OWN not in sources else []
    if last and not own:
        raise MixtureError(
            f"alpha has a column {OWN!r}, but no target's own sample can be used here: leave it "
            "out, and let the other weights of each row sum to 1"
        )
    return np.take(values, _places(labels, [*sources, *last], "column", "source"), -1)


def _are_targets(labels: Sequence[Any], targets: Sequence[str], weighs_own: bool) -> bool:
    """Return whether an index names targets.

    It does if one of the targets is in it, or if it holds text and own samples are used.
    """
    if _numbered(labels, targets, "row", "target"):
        return False
    text = all(isinstance(label, str) for label in labels)
    return (weighs_own and text) or not set(targets).isdisjoint(map(str, labels))


def _numbered(labels: Sequence[Any], wanted: Sequence[str], what: str, role: str) -> bool:
    """Return whether labels are pandas' own numbers 0, 1, …; raise if they may be names too."""
    if list(labels) != list(range(len(labels))):
        return False
    names = [str(label) for label in labels]
    if wanted and set(wanted) <= set(names) and names[: len(wanted)] != list(wanted):
        raise MixtureError(
            f"alpha's {what}s are numbered {_listed(labels)}, which may be their positions or the "
            f"names of the {role}s {_listed(wanted)}: label them with text if these are names, or "
            "give an array"
        )
    return True


def _places(labels: Sequence[Any], wanted: Sequence[str], what: str, role: str) -> list[int]:
    """Return the position of each wanted name among the labels.

    Raises `MixtureError` with both lists unless all match.
    """
    names = [str(label) for label in labels]
    _check_once(names, what, role)
    position, names_wanted = {name: i for i, name in enumerate(names)}, set(wanted)
    missing = [name for name in wanted if name not in position]
    unknown = [name for name in names if name not in names_wanted]
    if missing or unknown:
        wrong = [f"no {what} for {role} {_first(missing)}"] if missing else []
        wrong += [f"a {what} {_first(unknown)} that is not a {role}"] if unknown else []
        raise MixtureError(
            f"alpha has {' and '.join(wrong)}: its {what}s are {_listed(names)}; the {role}s are "
            f"{_listed([name for name in wanted if name != OWN])}. {ADVICE[role]}"
        )
    return [position[name] for name in wanted]


def _check_once(names: Sequence[str], what: str, role: str) -> None:
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise MixtureError(f"alpha has two {what}s for {role} {twice!r}: keep one")


def _listed(names: Sequence[Any]) -> str:
    more = f", … and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return (", ".join(repr(name) for name in names[:LISTED]) or "none") + more


def _first(names: Sequence[str]) -> str:
    return repr(names[0]) + (f" (and {len(names) - 1} more)" if len(names) > 1 else "")
