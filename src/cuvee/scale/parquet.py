"""Find the row groups of a Parquet table, and cut it into stretches of about equally many rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cuvee.data.files import File, files, understood
from cuvee.data.spool import Spec
from cuvee.errors import InputError


@dataclass(frozen=True)
class RowGroup:
    """Name one row group of a file, and say how large it is."""

    file: File
    domain: str | None  # where all rows of the file are of one domain
    number: int
    rows: int
    n_bytes: int  # uncompressed


def parquet_files(path: Path) -> list[tuple[File, str | None]]:
    """Return the Parquet files of a table, each with the domain that it holds.

    A table is a file, a folder with a file per domain, or a folder with a folder of files per
    domain.
    """
    path = path.resolve()
    folders = sorted(p for p in path.iterdir() if p.is_dir()) if path.is_dir() else []
    folders = [p for p in folders if p.name[0] not in "._"]
    if folders:
        if any(p.suffix == ".parquet" for p in path.iterdir() if p.is_file()):
            raise InputError(
                f"{path} holds folders and Parquet files side by side; keep a folder per domain, "
                "or a file per domain"
            )
        named = [(file, folder.name) for folder in folders for file, _ in files(folder)]
    else:
        named = [(file, name or "") for file, name in files(path)]
    for file, _ in named:
        if file.kind != "Parquet":
            raise InputError(f"{file.path} is not a Parquet file, and Ray workers read no others")
    return [(file, name or None) for file, name in named]


def row_groups(named_files: Sequence[tuple[File, str | None]]) -> list[RowGroup]:
    """Return the row groups of all files in order; only the files' footers are read."""
    from pyarrow import parquet

    groups = []
    for file, name in named_files:
        with understood(file.path):
            about = parquet.read_metadata(file.path)
            for i in range(about.num_row_groups):
                group = about.row_group(i)
                if group.num_rows:
                    groups.append(RowGroup(file, name, i, group.num_rows, group.total_byte_size))
    if not groups:
        raise InputError(f"{named_files[0][0].path}: there are no rows")
    return groups


def stretches(groups: Sequence[RowGroup], spec: Spec, count: int) -> list[Spec]:
    """Return the table in at most `count` runs of row groups with about equally many rows."""
    total = sum(group.rows for group in groups)
    runs: list[list[tuple[RowGroup, int]]] = [[] for _ in range(count)]
    first = 0
    for group in groups:
        middle = first + group.rows // 2
        runs[min(count - 1, middle * count // total)].append((group, first))
        first += group.rows
    return [_spec(run, spec) for run in runs if run]


def _spec(run: Sequence[tuple[RowGroup, int]], spec: Spec) -> Spec:
    """Return the spec of some row groups; those of one file are read together."""
    parts: list[tuple[File, str | None]] = []
    for group, first in run:
        last = parts[-1][0] if parts else None
        if last is not None and last.path == group.file.path and last.groups is not None:
            parts[-1] = replace(last, groups=(*last.groups, group.number)), group.domain
        else:
            parts.append((replace(group.file, groups=(group.number,), first=first), group.domain))
    return replace(spec, files=tuple(parts))
