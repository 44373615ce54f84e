"""Say what a site may say of itself: at the meeting names and kinds alone, then sums over its rows.

A site meets the others before it is known which columns are text everywhere and whether labels are
classes. Which rows take part depends on both, so nothing that is said then counts or adds up rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from cuvee.data.column_fit import ColumnFit
from cuvee.data.columns import is_number
from cuvee.data.label_summary import Summary
from cuvee.data.task import MOST_CLASSES, are_counts, infer_of
from cuvee.errors import InputError
from cuvee.facts import Classes, KnownFacts, Labels

Role = Literal["source", "target", "both"]
Kind = Literal["text", "number", "empty"]
Look = Literal["text", "classification", "counts", "regression", "unclear"]


@dataclass(frozen=True, eq=False)
class Greeting:
    """Hold what a site says at the meeting: names and kinds, and nothing that counts rows."""

    name: str
    role: Role
    version: str
    min_rows: int
    label: str
    digest: str  # of the file: a site that comes back must have the same
    columns: Mapping[str, Kind]
    looks: Look  # what the labels look like at this site alone


@dataclass(frozen=True, eq=False)
class Introduction:
    """Hold what a site says of its rows once it is settled which take part."""

    name: str
    role: Role
    version: str
    min_rows: int
    label: str
    digest: str
    rows: int  # that take part
    left_out: int  # rows with a value that too few others share
    labels: Summary
    columns: Mapping[str, Mapping[str, Any]]

    def fits(self) -> dict[str, ColumnFit]:
        """Return what is known of each column."""
        return {name: _fit(name, told) for name, told in self.columns.items()}


def kind_of(column: Any) -> Kind:
    """Return what a tidy column (rows,) holds."""
    if not column.notna().any():
        return "empty"
    return "number" if is_number(column) else "text"


def look_of(labels: Any) -> Look:
    """Return what labels (rows,) look like; few rows with few whole numbers say little."""
    if not len(labels):
        return "unclear"
    about = Summary.of(labels)
    if about.kind == "text":
        return "text"
    few = about.rows < 2 * about.different
    if about.kind == "whole" and 2 < about.different <= MOST_CLASSES and few:
        return "unclear"
    return infer_of(about, "").task.value


def discreet_facts(facts: KnownFacts, are_classes: bool) -> KnownFacts:
    """Return facts that name no single label and no row, but classes.

    Whether there is a label that is no number, or not whole, or below 0 is all that is told of it.
    """
    labels, classes = facts.labels, facts.classes
    values = classes.values
    typical = "text" if labels.text else float(facts.quantity.mean)
    told = Labels(
        labels.text,
        typical,
        None if labels.not_number is None else (0, "text"),
        None if labels.not_whole is None else (0, typical),
        np.inf if labels.text else 0.0 if labels.least >= 0 else -1.0,
        0,
    )
    if not are_classes or values is None:
        return replace(facts, labels=told, classes=Classes(None, None))
    return replace(facts, labels=told, classes=Classes(values, np.zeros(len(values), np.int64)))


def discreet_summary(labels: Any, are_classes: bool) -> Summary:
    """Return a summary of labels (rows,) that names classes, and no single quantity."""
    summary = Summary.of(labels, to_merge=True)
    if summary.kind in ("text", "truth"):
        example = min(summary.values or {summary.first})  # not that of the first row
        return replace(summary, first=example, lowest=(0, example))
    mean = summary.mean
    if summary.kind == "whole" and are_classes:
        return replace(summary, lowest=(0, summary.low), first=mean)
    low = 0.0 if summary.low >= 0 else -abs(mean) - 1.0
    high = 3 * mean if are_counts(summary) else max(abs(mean), 1.0)  # what counts look like
    return replace(
        summary, first=mean, low=low, high=high, share_of_highest=0.0,
        lowest=(0, low), broken=None if summary.broken is None else (0, mean + 0.5),
        values=frozenset(),
    )  # fmt: skip


def told(fit: ColumnFit) -> dict[str, Any]:
    """Return what is told of a column: no extreme value, and no rare category."""
    if fit.scaler is None:
        return {"rows": fit.rows, "gaps": fit.gaps, "seen": dict(fit.seen)}
    mean, variance = float(fit.scaler.mean_[0]), float(fit.scaler.var_[0])
    return {
        "rows": fit.rows, "gaps": fit.gaps, "mean": mean, "variance": variance,
        "scale": float(fit.scaler.scale_[0]),
    }  # fmt: skip


def _fit(name: str, told: Mapping[str, Any]) -> ColumnFit:
    """Return a column's fit from what was told; its range is a deviation around its mean."""
    from sklearn.preprocessing import StandardScaler

    fit = ColumnFit(name, int(told["rows"]), int(told["gaps"]))
    if "seen" in told:
        fit.seen = Counter({str(value): int(n) for value, n in told["seen"].items()})
        return fit
    scaler, mean, variance = StandardScaler(), float(told["mean"]), float(told["variance"])
    if not np.isfinite([mean, variance]).all() or variance < 0.0:
        raise InputError(f"column {name!r} has mean {mean} and variance {variance}")
    scaler.n_features_in_, scaler.n_samples_seen_ = 1, np.int64(fit.rows - fit.gaps)
    scaler.mean_, scaler.var_ = np.array([mean]), np.array([variance])
    scaler.scale_ = np.array([float(told["scale"])])
    fit.scaler, fit.low, fit.high = scaler, mean - variance**0.5, mean + variance**0.5
    return fit
