"""Files larger than memory, encoded batch by batch into memory maps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cuvee.data.arrow_frames import to_frame
from cuvee.data.column_fit import ColumnFit
from cuvee.data.columns import at, tidy, tidy_labels
from cuvee.data.dates import number, origin, spread
from cuvee.data.encode import (
    Encoder,
    add_up,
    hides_variation,
)
from cuvee.data.files import ROWS, File
from cuvee.data.fingerprint import row_digests
from cuvee.data.label_summary import label_kind
from cuvee.data.medians import medians
from cuvee.data.notation import Kind
from cuvee.data.notes import UNDONE, named_otherwise, notes, text_throughout
from cuvee.data.noticed import bare_note, filled, homeless_note, others
from cuvee.data.refused import say_missing
from cuvee.data.row_places import placed
from cuvee.data.targets import domain_names, suggest
from cuvee.errors import DomainError, InputError, check_number
from cuvee.problem import Array, Domain


@dataclass(frozen=True)
class Spec:
    """Which columns of which files play which role; a file with a name beside it is one domain."""

    files: tuple[tuple[File, str | None], ...]
    domain: str
    label: str
    features: tuple[str, ...]
    text: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # words for empty cells
    exclude: tuple[str, ...] = ()  # domains whose rows are passed over
    strict: bool = False  # a row without a domain is an error
    notes: tuple[str, ...] = ()  # on columns that play no role

    @property
    def where(self) -> str:
        return str(self.files[0][0].path if len(self.files) == 1 else self.files[0][0].path.parent)


@dataclass(frozen=True, eq=False)
class Spooled:
    """Domains over memory-mapped rows, and what encoded them."""

    domains: tuple[Domain, ...]
    encoder: Encoder
    notes: tuple[str, ...] = ()  # as `Table` has them
    digests: Mapping[str, Array] = field(default_factory=dict)  # of the rows of some domains


def spool(
    spec: Spec,
    folder: Path | str,
    *,
    encoder: Encoder | None = None,
    impute: bool = False,
    standardise: bool = True,
    fit_on: Collection[str] | None = None,
    digests_of: Sequence[str] = (),
    batch_rows: int = ROWS,
    strict: bool = False,
) -> Spooled:
    """Encode files a batch at a time into `folder`: X.npy (rows, d) and y.npy (rows,).

    The rows lie domain after domain.

    Rows without a label are left out. Where no encoder is given, one is fitted on the domains
    `fit_on` (None: all). The rows of the domains `digests_of` have their digests taken. Text is
    read three times (types, fit, write), other files twice; `impute` takes five more for exact
    medians. A category that is in no row the encoder was fitted on counts as another one, with a
    note, or is an error with `strict`.
    """
    check_number("batch_rows", batch_rows, least=1)
    scan = Scan(spec, batch_rows, spec.text if encoder is None else (*spec.text, *encoder.text))
    rows, labels = Counter[str](), _Labels()
    fit = {name: ColumnFit(name) for name in scan.features} if encoder is None else {}
    for frame, where in scan.frames(scan.features):
        rows.update(frame[spec.domain])
        labels.add(frame[spec.label], where)
        chosen = scan.of_domains(frame, fit_on)
        for column in fit.values():
            column.add(chosen[column.name], where)
    if not rows:
        raise DomainError(f"{spec.where}: no row has a label in column {spec.label!r}")
    for name in fit_on or ():
        if name not in rows:
            raise DomainError(
                f"no labelled row belongs to domain {name!r}{suggest(name, list(rows))}"
            )
    if encoder is None:
        encoder = _encoder(list(fit.values()), scan, impute, fit_on)
        encoder = encoder if standardise else encoder.unscaled()
    gaps = {one.name: one.gaps for one in fit.values()} if impute else {}
    digests: dict[str, list[Array]] = {name: [] for name in digests_of}
    X, y, unseen = _write(Path(folder), scan, rows, encoder, labels.dtype, digests, strict)
    ends = np.cumsum(list(rows.values())).tolist()
    pieces = zip(rows, [0, *ends[:-1]], ends, strict=True)
    return Spooled(
        tuple(Domain(name, X[a:b], y[a:b], features=encoder.names) for name, a, b in pieces),
        encoder,
        (*scan.notes, *filled(gaps), *unseen),
        {name: np.concatenate(parts) for name, parts in digests.items()},
    )


class Census(NamedTuple):
    """Count the rows of a table."""

    labelled: dict[str, int]  # of every domain (0 is possible), in order of first appearance
    rows: int  # that have a domain
    homeless: int  # that have none

    def notes(self, domain: str) -> list[str]:
        """Return what is to be said of rows that are not learnt from; `domain` is the column."""
        notes = [*homeless_note(self.homeless, self.rows + self.homeless, domain)]
        return [*notes, *bare_note(self.rows - sum(self.labelled.values()), self.rows, "")]


def census(spec: Spec) -> Census:
    """Return how many rows every domain has."""
    labelled, rows = Counter[str](), 0
    scan = Scan(spec, ROWS, spec.text)
    for frame, _ in scan.frames((), unlabelled=True):
        rows += len(frame)
        labelled.update(dict.fromkeys(frame[spec.domain], 0))
        labelled.update(frame[spec.domain][frame[spec.label].notna()])
    return Census(dict(labelled), rows, scan.homeless)


class Scan:
    """The labelled rows of a spec, as often as one likes; types of text files are found once."""

    def __init__(self, spec: Spec, rows: int, text: Collection[str]) -> None:
        self.spec, self._rows = spec, rows
        self.homeless = 0  # rows without a domain that were passed over
        names = [*spec.features, spec.label]
        self.lines = {str(file.path): file.line for file, _ in spec.files}
        surveys = []
        for file, _ in spec.files:
            with placed(file.line):
                texts = file.texts(names)
                batches = file.batches(texts, rows) if texts else ()
                surveys.append(file.survey(batches, text, missing=spec.missing))
        self.told = [
            [*each.told, *file.dates(spec.features, text)]
            for each, (file, _) in zip(surveys, spec.files, strict=True)
        ]
        again = text_throughout(self.told)
        self._kinds: list[dict[str, Kind]] = [dict(each.kinds) for each in surveys]
        self.as_text(again)
        domain = spec.domain
        of_files = [
            (file, name) for file, name in spec.files if name is not None and domain in file.columns
        ]
        named = [
            one
            for file, name in of_files
            for table in islice(file.batches([domain], rows), 1)
            for one in named_otherwise(
                domain_names(to_frame(table, {domain: "text"})[domain], ""), name
            )
        ]
        remarks = [
            one
            for each in self.told
            for one in each
            if one.name not in again or one.how not in UNDONE
        ]
        self.notes = (*spec.notes, *notes([*remarks, *named], spec.label))
        dates = spread(spec.features, remarks)
        self.features = tuple(made for name in spec.features for made in dates.get(name, (name,)))
        """The features of the spec, with what is made of dates instead of them."""

    def as_text(self, names: Collection[str]) -> None:
        """Take these columns as text, though they look like numbers here."""
        for kinds in self._kinds:
            kinds.update(dict.fromkeys(names, "text"))

    def frames(self, names: Sequence[str], unlabelled: bool = False) -> Iterator[tuple[Any, str]]:
        """Yield tidy frames with these features, domain and label, each with its file's name."""
        import pandas as pd

        domain, label = self.spec.domain, self.spec.label
        for (file, name), kinds in zip(self.spec.files, self._kinds, strict=True):
            own = name is not None and domain not in file.columns
            first, where, missing = file.first, str(file.path), self.spec.missing
            gaps: Any = {"missing": missing, "gaps": not self.spec.strict}
            made_of = {c: None if c in file.columns else origin(c) for c in names}
            read = dict.fromkeys(of[0] if of else c for c, of in made_of.items())
            for table in file.batches([*read, label, *([] if own else [domain])], self._rows):
                raw = to_frame(table, kinds, first, missing)
                with placed(file.line):
                    columns = {
                        c: number(raw[of[0]], c, where, missing)
                        if of
                        else tidy(raw[c], where, missing)
                        for c, of in made_of.items()
                    }
                    columns[label] = tidy_labels(raw[label], where, missing)
                    columns[domain] = name if own else domain_names(raw[domain], where, **gaps)
                first += len(raw)
                frame = pd.DataFrame(columns, raw.index)
                homeless = frame[domain].isna()
                self.homeless += int(homeless.sum())
                frame = frame[~homeless]
                if self.spec.exclude:
                    frame = frame[~frame[domain].isin(self.spec.exclude)]
                yield frame if unlabelled else frame[frame[label].notna()], where

    def of_domains(self, frame: Any, names: Collection[str] | None) -> Any:
        """Return a frame's rows of these domains; None: all of them."""
        return frame if names is None else frame[frame[self.spec.domain].isin(names)]


@dataclass
class _Labels:
    """The type that holds all labels."""

    kinds: set[str] = field(default_factory=set)
    longest: int = 1

    def add(self, labels: Any, where: str) -> None:
        if len(labels):
            self.kinds.add(kind := label_kind(labels))
            self.longest = (
                max(self.longest, int(labels.str.len().max())) if kind == "text" else self.longest
            )
        if "text" in self.kinds and len(self.kinds) > 1:
            raise DomainError(
                f"{at(where)}column {labels.name!r} mixes types: labels are text or numbers "
                "throughout"
            )

    @property
    def dtype(self) -> str:
        if "text" in self.kinds:
            return f"<U{self.longest}"
        return "<f8" if "quantity" in self.kinds else "|b1" if self.kinds == {"truth"} else "<i8"


def _encoder(
    columns: Sequence[ColumnFit], scan: Scan, impute: bool, fit_on: Collection[str] | None
) -> Encoder:
    """Return the encoder of columns that one pass has looked at.

    Some of them need further passes, which are made here.
    """
    empty = next((column.name for column in columns if column.gaps == column.rows), None)
    if empty is not None:
        raise DomainError(
            f"{scan.spec.where}: column {empty!r} is missing in every row; drop it (--drop)"
        )
    _fit_again(
        [c for c in columns if c.scaler is not None and hides_variation(c.scaler, c.low, c.high)],
        scan,
        fit_on,
    )
    fills = {}
    if impute:
        numbers = {
            column.name: column.rows - column.gaps
            for column in columns
            if column.scaler is not None
        }
        fills = medians(
            lambda: (scan.of_domains(f, fit_on) for f, _ in scan.frames(list(numbers))), numbers
        )
    else:
        _say_gaps(columns, scan, fit_on)
    return Encoder(
        tuple(column.rule(fills.get(column.name), impute, scan.spec.where) for column in columns)
    )


def _fit_again(columns: Sequence[ColumnFit], scan: Scan, fit_on: Collection[str] | None) -> None:
    """Fit the scalers of columns once more whose variation is lost beside their size."""
    if not columns:
        return
    for column in columns:
        column.begin_again()
    for frame, where in scan.frames([column.name for column in columns]):
        chosen = scan.of_domains(frame, fit_on)
        for column in columns:
            column.add(chosen[column.name], where)


def _say_gaps(columns: Sequence[ColumnFit], scan: Scan, fit_on: Collection[str] | None) -> None:
    """Raise `DomainError` where cells are missing, which says in how many rows."""
    gaps = {column.name: column.gaps for column in columns if column.gaps}
    if not gaps:
        return
    chosen = (scan.of_domains(frame, fit_on) for frame, _ in scan.frames(list(gaps)))
    rows = sum(int(frame.isna().any(axis=1).sum()) for frame in chosen)
    say_missing(gaps, rows, columns[0].rows, scan.spec.where)


def _write(
    folder: Path,
    scan: Scan,
    rows: Mapping[str, int],
    encoder: Encoder,
    dtype: str,
    digests: Mapping[str, list[Array]],
    strict: bool,
) -> tuple[Array, Array, list[str]]:
    """Return X and y, mapped from the files that are written, and a note on unseen categories.

    Unfinished files are removed. The digests of the rows of some domains are put into `digests`.
    """
    spec, n = scan.spec, sum(rows.values())
    paths = folder / "X.npy", folder / "y.npy"
    shapes = {paths[0]: (n, len(encoder.names)), paths[1]: (n,)}
    start = dict(zip(rows, np.cumsum([0, *rows.values()]).tolist(), strict=False))
    end = {name: start[name] + size for name, size in rows.items()}
    unseen: dict[str, tuple[int, Any]] = {}
    try:
        # Written as files, not through the maps: a full disk is then an error, and not the end of
        # the process.
        with paths[0].open("wb") as X, paths[1].open("wb") as y:
            heads = [_head(X, "<f8", shapes[paths[0]]), _head(y, dtype, shapes[paths[1]])]
            for frame, where in scan.frames(scan.features):
                with placed(scan.lines[where]):
                    add_up(unseen, encoder.unseen(frame, where=where, strict=strict))
                    parts = [
                        encoder(frame, where=where),
                        frame[spec.label].to_numpy(object).astype(dtype),
                    ]
                for name, places in frame.groupby(spec.domain, sort=False).indices.items():
                    for file, head, part in zip((X, y), heads, parts, strict=True):
                        file.seek(head + start[name] * part[:1].nbytes)
                        file.write(part[places].tobytes())
                    start[name] += len(places)
                    if name in digests:
                        held = frame[[*scan.features, spec.label]].iloc[places]
                        digests[name].append(row_digests(held))
        if start != end:
            raise InputError(f"{spec.where} changed while it was read; try again")
        X_map, y_map = (np.load(path, mmap_mode="r") for path in paths)
        return X_map, y_map, others(unseen)
    except BaseException as error:
        for path in paths:
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InputError(
                f"{folder} cannot be written ({error.strerror or error}); make room, or name "
                "another"
            ) from None
        raise


def _head(file: Any, dtype: str, shape: tuple[int, ...]) -> int:
    """Write the head of a .npy file, and say where its numbers begin."""
    np.lib.format.write_array_header_1_0(
        file, {"descr": dtype, "fortran_order": False, "shape": shape}
    )
    return int(file.tell())
