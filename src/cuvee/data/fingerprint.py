"""Whether a table is the one that a run was made from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cuvee.data.files import File, files

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
