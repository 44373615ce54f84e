"""Digests of what a table holds: of all of it, and of each of its rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cuvee.data.files import File, files
from cuvee.problem import Array

Named = Sequence[tuple[File, str | None]]  # files, and the domains that their names say


def fingerprint_of(source: Any, frame: Any, encoding: str) -> str:
    """Return the same text for the same files, or for the same values of a table in memory."""
    import pandas as pd

    if isinstance(source, str | Path):
        named = files(Path(source), encoding)
        return of_digests(named, {file.path: digest_of(file.path) for file, _ in named})
    digest = hashlib.sha256()
    digest.update(repr(list(frame.columns)).encode())
    digest.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
    return digest.hexdigest()


def row_digests(frame: Any) -> Array:
    """Return a number (rows,) for each row of tidy columns: the same for the same cells.

    Which numbers they are hangs neither on the order of rows and columns nor on how a file or a
    frame holds them.
    """
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    digests = np.zeros(len(frame), dtype=np.uint64)
    for name in frame.columns:
        column = frame[name]
        if is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype):
            cells = column.to_numpy(np.float64, na_value=np.nan) + 0.0  # -0.0 is 0.0
            cells[np.isnan(cells)] = np.nan  # one of its many bit patterns
        else:
            cells = column.to_numpy(object, na_value=None)
        digests += _scrambled(_hashed(cells) ^ _number_of(str(name)))
    return digests


def drawn(digests: Array, seed: int) -> Array:
    """Return an order (rows,) of rows with these digests, drawn by what they hold and the seed.

    Rows that are added or removed leave the others in the order that they had. Equal rows have
    places of their own, in the order of the table.
    """
    by_digest = np.argsort(digests, kind="stable")
    ordered = digests[by_digest]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    copy = np.empty(len(digests), dtype=np.uint64)  # how many equal rows stand before a row
    copy[by_digest] = np.arange(len(ordered)) - np.repeat(
        first, np.diff(np.append(first, len(ordered)))
    )
    return np.argsort(_scrambled(digests ^ _number_of(str(seed)), copy), kind="stable")


def _hashed(cells: Array) -> Array:
    from pandas.util import hash_array

    return np.asarray(hash_array(cells, categorize=False))


def _scrambled(digests: Array, more: Any = 0) -> Array:
    return _hashed(_hashed(digests) + np.uint64(0x9E3779B97F4A7C15) * np.asarray(more, np.uint64))


def _number_of(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little"))


def digest_of(path: Path) -> bytes:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def of_digests(named: Named, digests: Mapping[Path, bytes]) -> str:
    """Return the fingerprint of files with these SHA-256.

    The names of files in a folder are those of their domains; the name of a single file is no part
    of it.
    """
    if len(named) == 1 and named[0][1] is None:
        return digests[named[0][0].path].hex()
    return _with_names([(file.path.name, digests[file.path]) for file, _ in named])


def is_same(fingerprint: str, kept: str, name: Any) -> bool:
    """Return whether a fingerprint is that of the table whose fingerprint and name a run kept.

    Older runs kept one that contains the name of a single file.
    """
    return kept in (fingerprint, _with_names([(str(name), bytes.fromhex(fingerprint))]))


def _with_names(each: Sequence[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, content in each:
        digest.update(name.encode() + b"\0")
        digest.update(content)
    return digest.hexdigest()
