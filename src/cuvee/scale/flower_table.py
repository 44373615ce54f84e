"""Read the table of one site, and leave out the rows that a sum would give away.

A value that fewer than `min_rows` rows share would give these rows away in any sum that counts it
alone, such as a Gram matrix. So rows with such a value take no part, and the value is not told.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import cuvee
from cuvee.data.column_fit import ColumnFit
from cuvee.data.columns import comma_list, is_number, tidy
from cuvee.data.encode import Encoder
from cuvee.data.frame import columns_of, index_columns, read_rows
from cuvee.data.label_summary import LabelKind, Summary, label_kind
from cuvee.data.task import Task, infer_of, whole_labels
from cuvee.errors import OptionError
from cuvee.problem import Array, Domain
from cuvee.scale.flower_given import Part
from cuvee.scale.flower_guard import Sayable
from cuvee.scale.flower_introduction import (
    Greeting,
    Introduction,
    Role,
    discreet_summary,
    kind_of,
    look_of,
    told,
)

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
        config._check_files()
        return config

    def _check_files(self) -> None:
        """Raise `OptionError` where the table is not there, or what is to be written has no place.

        A site answers nothing that it cannot log.
        """
        if not Path(self.file).is_file():
            raise OptionError(
                f"the node config's file is {self.file!r}, and no such file is there; give the "
                "whole path of the table"
            )
        written = {"log": self.beside(self.log, "sent.jsonl")}
        if self.role != "source":
            written["model"] = self.beside(self.model, "model.json")
        for name, path in written.items():
            if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
                raise OptionError(
                    f"the site's {name} is to be {str(path)!r}, which cannot be written; give "
                    f"{name!r} in the node config, in a folder that is there and that the "
                    "SuperNode's user may write to"
                )

    def beside(self, given: str, suffix: str) -> Path:
        """Return a file's path: as it was given, or beside the table."""
        return Path(given) if given else Path(f"{self.file}.{suffix}")


class SiteTable:
    """Hold the rows of one site; only counts and sums of them are ever returned."""

    def __init__(
        self, config: SiteConfig, text: Sequence[str] = (), task: str | None = None
    ) -> None:
        self.config, self.task = config, task
        self._text = tuple(text)

    @cached_property
    def _labelled(self) -> tuple[Any, int]:
        """Return a frame of the rows with a label, and how many rows the file has."""
        config = self.config
        columns, path = columns_of(config.file), Path(config.file)
        dropped = {*comma_list(config.drop)}
        for name in (config.label, *sorted(dropped)):
            if name not in columns:
                raise Sayable(f"its table has no column {name!r}")
        dropped |= index_columns(config.file)
        features = [name for name in columns if name != config.label and name not in dropped]
        text = [name for name in self._text if name in features]
        frame = read_rows(config.file, [*features, config.label], text=text, label=config.label)
        labelled = frame[frame[config.label].notna()]
        return labelled.apply(lambda column: tidy(column, path.name)), len(frame)

    @cached_property
    def _rows(self) -> Any:
        """Return a frame of the rows that take part; its index says where they are in the file."""
        config, (frame, _) = self.config, self._labelled
        kept = frame[common(frame, config.min_rows, config.label if self.classes else None)]
        if len(kept) < config.min_rows:
            raise Sayable(
                "its table has fewer labelled rows without rare values than the "
                f"{config.min_rows} with which it takes part (min-rows)"
            )
        return kept

    @cached_property
    def digest(self) -> str:
        """Return what tells this file from others."""
        return hashlib.sha256(Path(self.config.file).read_bytes()).hexdigest()

    @cached_property
    def part(self) -> Part:
        """Return which rows of the file take part."""
        rows = np.zeros(self._labelled[1], bool)
        rows[self._rows.index] = True
        return Part.of(self.digest, rows)

    @cached_property
    def classes(self) -> bool:
        """Return whether the labels are classes, whose names are told."""
        return are_classes(self._labelled[0][self.config.label], self.task)

    def greet(self) -> Greeting:
        """Return names and kinds: what may be known before it is settled which rows take part."""
        config, (frame, _) = self.config, self._labelled
        columns = {str(name): kind_of(frame[name]) for name in frame if name != config.label}
        return Greeting(
            config.domain, config.role, cuvee.__version__, config.min_rows, config.label,
            self.digest, columns, look_of(frame[config.label]),
        )  # fmt: skip

    def introduce(self) -> Introduction:
        """Return what may be known of the columns and the labels."""
        frame, config = self._rows, self.config
        fits = [ColumnFit(str(name)) for name in frame.columns if name != config.label]
        for fit in fits:
            fit.add(frame[fit.name], config.domain)
        return Introduction(
            config.domain, config.role, cuvee.__version__, config.min_rows, config.label,
            self.digest, len(frame), len(self._labelled[0]) - len(frame),
            discreet_summary(frame[config.label], self.classes),
            {fit.name: told(fit) for fit in fits},
        )  # fmt: skip

    def domain(self, encoder: Encoder, kind: LabelKind) -> Domain:
        """Return the encoded rows, for use at this site alone."""
        frame = self._rows.reset_index(drop=True)
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
    values. In a column of numbers that is one value in all rows but fewer than `min_rows`, these
    few are rare too, whatever they hold. Leaving rows out may make other values rare, so it is
    repeated.
    """
    keep = np.ones(len(frame), bool)
    while True:
        rare = np.zeros(len(frame), bool)
        for name in frame.columns:
            column = frame[name]
            counts = column[keep].value_counts(dropna=False)
            different = counts.index.dropna()
            if name == label or not is_number(column) or len(different) == 2:
                few = counts.index[counts < min_rows]
                rare |= column.isin(few.dropna()).to_numpy()
                if few.hasnans:
                    rare |= column.isna().to_numpy()
            elif len(different):
                rare |= _off_the_usual(column, keep, counts, min_rows)
        if not (rare & keep).any():
            return keep
        keep &= ~rare


def _off_the_usual(column: Any, keep: Array, counts: Any, min_rows: int) -> Array:
    """Return (rows,) which rows of a column of numbers stand out from a value of all others.

    In sums of the column less that value, they are alone. `counts` has the rows of each value.
    """
    there = column.notna().to_numpy()
    usual = counts[counts.index.notna()].idxmax()
    off = there & (column != usual).to_numpy()
    gaps = ~there
    if counts[usual] < min_rows or (off & keep).sum() >= min_rows:
        return np.zeros(len(column), bool)
    return off | gaps if (gaps & keep).sum() < min_rows else off
