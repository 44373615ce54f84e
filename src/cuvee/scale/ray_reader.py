"""Read a stretch of a Parquet table on a Ray worker: look at it, fit on it, encode it there."""

from __future__ import annotations

import hashlib
import platform
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from cuvee.components.shards import Plain
from cuvee.data.column_fit import ColumnFit
from cuvee.data.encode import Encoder
from cuvee.data.files import ROWS, understood
from cuvee.data.label_summary import LabelKind, Summary
from cuvee.data.medians import Digit, counted
from cuvee.data.notes import Told
from cuvee.data.spool import Census, Scan, Spec
from cuvee.errors import InputError
from cuvee.problem import Array

_LABELS: Mapping[LabelKind, Any] = {
    "text": object, "truth": np.bool_, "whole": np.int64, "quantity": np.float64,
}  # fmt: skip


@dataclass(frozen=True)
class Gaps:
    """Count missing cells: by column, and the rows that have any."""

    cells: Mapping[str, int]
    rows: int
    of: int


@dataclass(eq=False)
class TableReader:
    """Read some row groups of a table; what was decided of the whole table comes with it."""

    spec: Spec
    text: tuple[str, ...] = ()  # columns that look like text somewhere in the table
    features: tuple[str, ...] | None = None  # with what is made of dates, once that is known
    domains: Mapping[str, str] = field(default_factory=dict)  # of rows to keep -> their source
    kind: LabelKind = "quantity"  # of the labels
    encoder: Encoder | None = None
    _scan: Any = field(default=None, repr=False)
    _frame: Any = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_scan": None, "_frame": None}

    def settled(self, by: TableReader) -> TableReader:
        """Return the reader that knows what was decided, with what this one has read already."""
        by._scan, by._frame = self._scan, self._frame
        return by

    def told(self) -> list[list[Told]]:
        """Return how columns of text were taken, file by file."""
        told: list[list[Told]] = self._scanned.told
        return told

    def counted(self) -> Census:
        """Return how many rows every domain has here."""
        rows, frame = Counter[str](), self._rows
        labelled = frame[self.spec.label].notna()
        rows.update(dict.fromkeys(frame[self.spec.domain].unique().tolist(), 0))
        rows.update(frame[self.spec.domain][labelled].value_counts(sort=False).to_dict())
        return Census(dict(rows), len(frame), self._scanned.homeless)

    def summary(self) -> tuple[Summary | None, Gaps]:
        """Return what the labels of all rows to learn from are like, and their missing cells."""
        frame, chosen = self._rows, self._chosen(self.domains)
        cells, rows = dict[str, int](), np.zeros(int(chosen.sum()), bool)
        for name in self._features:  # column by column: the rows are not copied as a whole
            gaps = frame[name].isna().to_numpy()[chosen]
            if gaps.any():
                cells[name], rows = int(gaps.sum()), rows | gaps
        labels = frame[self.spec.label][chosen]
        about = Summary.of(labels, to_merge=True) if len(labels) else None
        return about, Gaps(cells, int(rows.sum()), len(rows))

    def classes(self, names: Sequence[str]) -> dict[str, tuple[Array, Array]]:
        """Return the different labels of some domains, each with the row that has it first."""
        roles = [self.spec.domain, self.spec.label]
        first = self._rows[roles][self._chosen(names)].drop_duplicates()
        return {
            str(name): (part[self.spec.label].to_numpy(), part.index.to_numpy())
            for name, part in first.groupby(self.spec.domain, sort=False, observed=True)
        }

    def rows_of(self, names: Sequence[str]) -> Any:
        """Return a frame of the labelled rows of some domains: of targets, which are few."""
        return self._rows[self._chosen(names)].astype({self.spec.domain: object})

    def fit(self, names: Sequence[str], origins: Mapping[str, float]) -> list[ColumnFit]:
        """Return what these domains' rows say of the columns, or of those with an origin again."""
        frame, chosen = self._rows, self._chosen(names)
        fits = [ColumnFit(name) for name in origins or self._features]
        for fit in fits:
            fit.origin = origins.get(fit.name, 0.0)
            column = frame[fit.name][chosen]
            for low in range(0, len(column), ROWS):
                fit.add(column.iloc[low : low + ROWS], self.spec.where)
        return fits

    def count(self, names: Sequence[str], columns: Sequence[str], digit: Digit) -> Array:
        """Return how many values of columns have each digit, for medians."""
        frame, chosen = self._rows, self._chosen(names)
        return np.concatenate(
            [
                counted(
                    [frame[[name]][chosen]], [name], replace(digit, middle=digit.middle[i : i + 1])
                )
                for i, name in enumerate(columns)
            ]
        )

    def digests(self, paths: Sequence[Path]) -> dict[Path, bytes]:
        """Return the SHA-256 of some files of the table, whoever reads their rows."""
        digests = {}
        for path in paths:
            with understood(path), path.open("rb") as file:
                digests[path] = hashlib.file_digest(file, "sha256").digest()
        return digests

    def read(self) -> Mapping[str, Plain]:
        """Return the encoded rows of every source; what was read raw is dropped."""
        assert self.encoder is not None  # it was settled
        frame, spec, names = self._rows, self.spec, self.encoder.names
        whose = frame[spec.domain].map(self.domains).astype(object)
        whose = whose.where(self._chosen(self.domains))
        rows = {}
        for name, places in frame.groupby(whose, sort=False).indices.items():
            part = frame.iloc[places]  # source after source: the rows are not copied as a whole
            X = self.encoder(part, where=str(name))
            rows[str(name)] = Plain(X, as_labels(part[spec.label], self.kind), features=names)
        self._frame = None
        return rows

    @property
    def _features(self) -> tuple[str, ...]:
        return self.spec.features if self.features is None else self.features

    @property
    def _scanned(self) -> Scan:
        if self._scan is None:
            check_visible(self.spec)
            self._scan = Scan(self.spec, ROWS, self.spec.text)
        scan: Scan = self._scan
        scan.as_text(self.text)
        return scan

    @property
    def _rows(self) -> Any:
        """Return a frame of all rows here, unlabelled ones too."""
        import pandas as pd

        if self._frame is None:
            scan = self._scanned
            frames = [f for f, _ in scan.frames(self._features, unlabelled=True)]
            # as codes: text would be compared anew for every question
            whose = pd.Categorical(np.concatenate([f.pop(self.spec.domain) for f in frames]))
            self._frame = pd.concat(frames)
            self._frame[self.spec.domain] = whose
        return self._frame

    def _chosen(self, names: Collection[str]) -> Array:
        """Return (rows,) which rows are labelled and of these domains."""
        frame, wanted = self._rows, set(names)
        of = frame[self.spec.domain].cat
        known = np.array([name in wanted for name in of.categories], bool)
        return known[of.codes.to_numpy()] & frame[self.spec.label].notna().to_numpy()


def as_labels(labels: Any, kind: LabelKind) -> Array:
    """Return tidy labels (rows,) without gaps as an array of the type that all labels have."""
    return np.asarray(labels.to_numpy(object).astype(_LABELS[kind]))


def check_visible(spec: Spec) -> None:
    """Raise `InputError` where a file is missing on this node."""
    for file, _ in spec.files:
        if not file.path.exists():
            raise InputError(
                f"{file.path} is not there on the node {platform.node()}: every node of the Ray "
                "cluster must see the table under the same path; put it onto a disk that all of "
                "them share"
            )
