"""Read the table of one site, and say what may be known of it: counts, moments, categories.

A value that fewer than `min_rows` rows share would give these rows away in any sum that counts it
alone, such as a Gram matrix. So rows with such a value take no part, and the value is not told.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

import cuvee
from cuvee.data.column_fit import ColumnFit
from cuvee.data.columns import is_number, tidy
from cuvee.data.encode import Encoder
from cuvee.data.frame import columns_of, read_rows
from cuvee.data.label_summary import LabelKind, Summary, label_kind
from cuvee.data.task import Task, are_counts, infer_of, whole_labels
from cuvee.errors import DomainError, InputError, OptionError
from cuvee.facts import Classes, KnownFacts, Labels
from cuvee.problem import Array, Domain

Role = Literal["source", "target", "both"]
ROLES = ("source", "target", "both")
MIN_ROWS = 5
LABEL_TYPES: Mapping[LabelKind, Any] = {
    "text": object, "truth": np.bool_, "whole": np.int64, "quantity": np.float64,
}  # fmt: skip


@dataclass(frozen=True)
class SiteConfig:
    """Hold what a hospital writes into its node config."""

    file: str
    domain: str  # the name of the hospital
    label: str  # the column to predict
    role: Role = "source"
    min_rows: int = MIN_ROWS  # no sum over fewer rows leaves the site
    drop: str = ""  # columns to leave out, with commas between them
    log: str = ""  # file that says what was sent; by default beside the table
    model: str = ""  # file that a target's model is written to; by default beside the table

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> SiteConfig:
        """Return the checked settings of a node config, whose names may have dashes."""
        known = {field.name for field in fields(cls)}
        named = {str(key).replace("-", "_"): value for key, value in given.items()}
        wrong = next((key for key in named if key not in known), None)
        if wrong is not None:
            raise OptionError(f"the node config has {wrong!r}; it may have {', '.join(known)}")
        missing = next((key for key in ("file", "domain", "label") if not named.get(key)), None)
        if missing is not None:
            raise OptionError(f"the node config lacks {missing!r}: give file, domain and label")
        config = cls(**named)
        if config.role not in ROLES:
            raise OptionError(f"role is source, target or both; got {config.role!r}")
        if not isinstance(config.min_rows, int) or config.min_rows < 2:
            raise OptionError(f"min-rows is a whole number of at least 2; got {config.min_rows!r}")
        return config

    def beside(self, given: str, suffix: str) -> Path:
        """Return a file's path: as it was given, or beside the table."""
        return Path(given) if given else Path(f"{self.file}.{suffix}")


@dataclass(frozen=True, eq=False)
class Introduction:
    """Hold what a site says of itself at first: counts, moments and categories."""

    name: str
    role: Role
    version: str
    min_rows: int
    label: str
    digest: str  # of the file: a site that comes back must have the same
    rows: int  # that take part
    left_out: int  # rows with a value that too few others share
    labels: Summary
    columns: Mapping[str, Mapping[str, Any]]

    def fits(self) -> dict[str, ColumnFit]:
        """Return what is known of each column."""
        return {name: _fit(name, told) for name, told in self.columns.items()}


class SiteTable:
    """Hold the rows of one site; only counts and sums of them are ever returned."""

    def __init__(
        self, config: SiteConfig, text: Sequence[str] = (), task: str | None = None
    ) -> None:
        self.config, self.task = config, task
        self._text = tuple(text)

    @cached_property
    def _rows(self) -> tuple[Any, int]:
        """Return a frame of the rows that take part, and how many do not."""
        config = self.config
        columns, path = columns_of(config.file), Path(config.file)
        dropped = {name.strip() for name in config.drop.split(",") if name.strip()}
        for name in (config.label, *sorted(dropped)):
            if name not in columns:
                raise DomainError(f"{path.name} has no column {name!r}")
        features = [name for name in columns if name != config.label and name not in dropped]
        text = [name for name in self._text if name in features]
        frame = read_rows(config.file, [*features, config.label], text=text)
        frame = frame[frame[config.label].notna()]
        frame = frame.apply(lambda column: tidy(column, path.name))
        classes = are_classes(frame[config.label], self.task)
        label = config.label if classes else None
        kept = frame[common(frame, config.min_rows, label)].reset_index(drop=True)
        if len(kept) < config.min_rows:
            raise DomainError(
                f"{path.name} has {len(kept)} labelled rows without rare values; this site takes "
                f"part with {config.min_rows} or more (min-rows)"
            )
        return kept, len(frame) - len(kept)

    @property
    def classes(self) -> bool:
        """Return whether the labels are classes, whose names are told."""
        frame, _ = self._rows
        return are_classes(frame[self.config.label], self.task)

    def introduce(self) -> Introduction:
        """Return what may be known of the columns and the labels."""
        frame, left_out = self._rows
        config = self.config
        fits = [ColumnFit(str(name)) for name in frame.columns if name != config.label]
        for fit in fits:
            fit.add(frame[fit.name], config.domain)
        return Introduction(
            config.domain, config.role, cuvee.__version__, config.min_rows, config.label,
            hashlib.sha256(Path(config.file).read_bytes()).hexdigest(), len(frame), left_out,
            discreet_summary(frame[config.label], self.classes),
            {fit.name: _told(fit) for fit in fits},
        )  # fmt: skip

    def domain(self, encoder: Encoder, kind: LabelKind) -> Domain:
        """Return the encoded rows, for use at this site alone."""
        frame, _ = self._rows
        X = encoder(frame, where=self.config.domain)
        y = whole_labels(frame[self.config.label]).to_numpy(object).astype(LABEL_TYPES[kind])
        return Domain(self.config.domain, X, y, features=encoder.names)


def are_classes(labels: Any, task: str | None) -> bool:
    """Return whether labels are classes: as the coordinator says, or else as they look here."""
    if not len(labels) or label_kind(labels) in ("text", "truth"):
        return True
    chosen = infer_of(Summary.of(labels), "").task if task is None else task
    return str(chosen) == Task.classification


def common(frame: Any, min_rows: int, label: str | None) -> Array:
    """Return (rows,) which rows have no rare value: one that fewer than `min_rows` rows share.

    Rare values are those of categories, of the classes of a `label`, and of columns with two
    values. Leaving rows out may make other values rare, so it is repeated.
    """
    keep = np.ones(len(frame), bool)
    while True:
        rare = np.zeros(len(frame), bool)
        for name in frame.columns:
            column = frame[name]
            counts = column[keep].value_counts(dropna=False)
            if name == label or not is_number(column) or len(counts.index.dropna()) == 2:
                few = counts.index[counts < min_rows]
                rare |= column.isin(few.dropna()).to_numpy()
                if few.hasnans:
                    rare |= column.isna().to_numpy()
        if not (rare & keep).any():
            return keep
        keep &= ~rare


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


def _told(fit: ColumnFit) -> dict[str, Any]:
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
