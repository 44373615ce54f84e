"""The run folder: files, and one manifest that says which of them count.

A step writes its files under other names, has the disk confirm them, renames them, and then
replaces the manifest, which commits it. A file that counts is never written over, so that at every
moment the folder is as before the step or as after it; what a kill left behind is not in the
manifest, and the step that comes again writes over it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from cuvee.errors import InputError
from cuvee.outputs.files import understood
from cuvee.run.manifest import MANIFEST as MANIFEST
from cuvee.run.manifest import as_json as as_json  # others ask this module for both
from cuvee.run.manifest import inside, new_manifest, read_manifest, to_bytes

PATIENCE = 5.0  # seconds of work that a kill may cost, beside what is under way
LOCK, PARTS, SCRATCH, ADDED = ".lock", "parts", ".scratch", "added"
ABOUT, PREPARED, GIVEN = BEGUN = "run.json", "prepared.json", "given_alpha.csv"
"""What a run begins with, before there is a manifest."""
ALPHA, WEIGHTS, CANDIDATES, TRACE = (
    "alpha.csv",
    "weights.parquet",
    "candidates.parquet",
    "trace.parquet",
)
MODELS, METRICS, SENSITIVITY, REPORT = (
    "models.safetensors",
    "metrics.json",
    "sensitivity.parquet",
    "report.html",
)
CHOSEN = "model.json"  # which model `auto` chose, and why
JUDGED = "judged.json"  # what was noticed while folds of a model judged mixtures
FITTED = "fitted"  # the folder of models that are not linear: a file for each target
FILES = (
    *(MANIFEST, *BEGUN, ALPHA, WEIGHTS, CANDIDATES, TRACE),
    *(CHOSEN, JUDGED, MODELS, METRICS, SENSITIVITY, REPORT),
)


class RunFolder:
    """A folder with a manifest; reading checks sums, and whoever writes holds the lock."""

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path, self._manifest = path, manifest

    @classmethod
    def create(cls, path: Path, files: Mapping[str, bytes]) -> RunFolder:
        """Return a new run in a folder for which `vacant` is true.

        All that it was asked for is in run.json.
        """
        folder = cls(path, new_manifest([], {}))
        folder.commit("begun", files)
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Return the folder of a run, as its manifest has it."""
        if not path.is_dir():
            raise InputError(f"there is no folder {path}; is the name right?")
        return cls(path, read_manifest(path))

    @property
    def about(self) -> dict[str, Any]:
        """Return what run.json holds."""
        return self.json(ABOUT)

    @property
    def seconds(self) -> dict[str, float]:
        """Return the seconds that every step took."""
        return {step["name"]: float(step["seconds"]) for step in self._manifest["steps"]}

    def done(self, step: str) -> bool:
        return any(step == s["name"] for s in self._manifest["steps"])

    def has(self, name: str) -> bool:
        return name in self._manifest["files"]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the files that count."""
        return tuple(self._manifest["files"])

    def json(self, name: str) -> dict[str, Any]:
        with understood(self.path / name, "what this version of cuvee writes"):
            return dict(json.loads(self.read(name)))

    def read(self, name: str) -> bytes:
        """Return the bytes of a committed file; raise `InputError` if they changed since."""
        entry = self._manifest["files"].get(name)
        if entry is None:
            raise InputError(f"{self.path} has no {name} yet: cuvee resume {self.path}")
        try:
            content = inside(self.path, name).read_bytes()
        except OSError as error:
            raise InputError(
                f"{self.path / name} cannot be read: {error.strerror or error}"
            ) from None
        if len(content) != entry["bytes"] or hashlib.sha256(content).hexdigest() != entry["sha256"]:
            raise InputError(
                f"{self.path / name} was changed or cut after it was written: its checksum is "
                "another; restore it, or "
                "make the run again"
            )
        return content

    def file(self, name: str) -> Path:
        """Return the path of a committed file after a check of its checksum."""
        self.read(name)
        return self.path / name

    def commit(
        self,
        step: str | Mapping[str, float],
        files: Mapping[str, bytes],
        *,
        seconds: float = 0.0,
        parts_done: bool = False,
        drop: Collection[str] = (),
    ) -> None:
        """Commit all files of a step (or of several, with the seconds of each), or none of them.

        With `parts_done` the parts that led to it no longer count, nor do the files to `drop`.
        """
        new = {step: seconds} if isinstance(step, str) else step
        entries = {
            n: e
            for n, e in self._manifest["files"].items()
            if n not in drop and not (parts_done and n.startswith(f"{PARTS}/"))
        }
        steps = self._manifest["steps"] + [
            {"name": name, "seconds": round(s, 3)} for name, s in new.items()
        ]
        with _said(self.path):
            for name, content in files.items():
                target = inside(self.path, name)
                target.parent.mkdir(exist_ok=True)
                _put(target, content)
                entries[name] = {
                    "bytes": len(content),
                    "sha256": hashlib.sha256(content).hexdigest(),
                }
            manifest = new_manifest(steps, entries)
            for folder in {(self.path / name).parent for name in files} - {self.path}:
                _synced(folder)
            _put(self.path / MANIFEST, to_bytes(manifest))
            _synced(self.path)
        self._manifest = manifest
        if parts_done:  # no longer needed by anybody, so that it may be half done
            shutil.rmtree(self.path / PARTS, ignore_errors=True)
        for name in drop:
            with suppress(OSError):
                (self.path / name).unlink(missing_ok=True)

    def tidy(self) -> None:
        """Remove what a kill may have left behind; whoever calls holds the lock."""
        if not any(name.startswith(f"{PARTS}/") for name in self._manifest["files"]):
            shutil.rmtree(self.path / PARTS, ignore_errors=True)
        shutil.rmtree(self.path / SCRATCH, ignore_errors=True)
        with suppress(OSError):  # there may be none
            for path in (self.path / ADDED).iterdir():
                if f"{ADDED}/{path.name}" not in self._manifest["files"]:
                    path.unlink(missing_ok=True)
        for name in (*self._manifest["files"], *FILES):
            with suppress(OSError):
                (self.path / f"{name}.part").unlink(missing_ok=True)

    def derive(self, name: str, content: bytes) -> Path:
        """Write a file that is made from the others, and return its path.

        It can be made again, so nothing depends on it.
        """
        with _said(self.path):
            _put(self.path / name, content)
        return self.path / name


class Parts:
    """Parts of a long step.

    Those of PATIENCE seconds are committed together, and the last with the step itself.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._steps: dict[str, float] = {}
        self._files: dict[str, bytes] = {}
        self._last = time.monotonic()

    def add(self, step: str, content: bytes, seconds: float) -> None:
        self._steps[step] = seconds
        self._files[part_name(step)] = content
        if time.monotonic() - self._last >= PATIENCE:
            self.flush()

    def flush(self) -> None:
        """Commit what was added since the last time."""
        if self._steps:
            self._folder.commit(self._steps, self._files)
        self._steps, self._files, self._last = {}, {}, time.monotonic()

    def read(self, step: str) -> bytes:
        name = part_name(step)
        return self._files[name] if name in self._files else self._folder.read(name)

    def finish(self, step: str, files: Mapping[str, bytes]) -> None:
        """Commit the step that all parts led to, after which they no longer count."""
        self._folder.commit({**self._steps, step: 0.0}, files, parts_done=True)


def part_name(step: str) -> str:
    """Return the name of the file of a step that is a part."""
    return f"{PARTS}/{step.replace(' ', '-')}"


def vacant(path: Path, force: bool = False) -> None:
    """Raise `InputError` where a folder holds more than an unfinished start left behind.

    With `force` it may hold a run. The error says what to do.
    """
    with _said(path):
        if path.exists() and not path.is_dir():
            raise InputError(f"{path} is a file: give --out the name of a new folder")
        begun = (path / MANIFEST).exists()
        if begun and not force:
            raise InputError(
                f"{path} holds a run already: cuvee resume {path}, or give another --out, or "
                "--force (force=True) to replace it"
            )
        allowed = (LOCK, PARTS, SCRATCH, *BEGUN, *((ADDED, FITTED, *FILES) if force else ()))
        names = [p.name for p in path.iterdir()] if path.is_dir() else []
        left = [name for name in names if name not in allowed and not name.endswith(".part")]
        if left and not begun:
            raise InputError(
                f"{path} is not empty, {left[0]!r} lies in it: give --out the name of a new folder"
            )
        parent = next(p for p in (path, *path.absolute().parents) if p.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise InputError(f"{parent} cannot be written to: give --out another place")


@contextmanager
def reserved(path: Path, force: bool = False) -> Iterator[None]:
    """Make and lock a vacant folder; if no run is begun in it, nothing stays behind.

    With `force` a run may lie in it, which stays until `cleared` removes it.
    """
    vacant(path, force)
    made = [p for p in (path, *path.absolute().parents) if not p.exists()]
    try:
        with _said(path):
            path.mkdir(parents=True, exist_ok=True)
        with locked(path):
            vacant(path, force)  # once more: nobody else can begin a run in it now
            try:
                yield
            except BaseException:
                if not os.path.exists(path / MANIFEST):
                    cleared(path)
                    with suppress(OSError):
                        (path / LOCK).unlink(missing_ok=True)  # the caller holds it, and loses it
                raise
    except BaseException:
        for folder in made:
            with suppress(OSError):  # as far as nobody else put something there
                folder.rmdir()
        raise


def cleared(path: Path) -> None:
    """Remove a run, or what a start that failed left behind; the caller holds the lock.

    The manifest goes first: from then on there is no run. Files of others stay.
    """
    for name in FILES:
        with suppress(OSError):
            (path / name).unlink(missing_ok=True)
    for name in (PARTS, ADDED, FITTED):
        shutil.rmtree(path / name, ignore_errors=True)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a folder against a second process.

    The system releases it when this process ends, however it ends.
    """
    with ExitStack() as stack:
        with _said(path):
            lock = stack.enter_context(open(path / LOCK, "a", opener=_here))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock.fileno()).st_ino != os.stat(path / LOCK).st_ino:
                raise BlockingIOError  # a start that failed removed it just now
        except (BlockingIOError, FileNotFoundError):
            raise InputError(f"another process works on {path}: wait for it, or stop it") from None
        yield


def _put(target: Path, content: bytes) -> None:
    """Write the whole file, confirmed by the disk, or leave what was there before."""
    unfinished = target.with_name(f"{target.name}.part")
    try:
        with open(unfinished, "wb", opener=_here) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _here(path: str, flags: int) -> int:
    """Open a file of the folder itself: a link that somebody put in its place is not followed."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def _synced(folder: Path) -> None:
    with suppress(OSError):  # not every system lets a folder be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _said(folder: Path) -> Iterator[None]:
    """Raise an `OSError` about this folder as an `InputError` of one sentence."""
    try:
        yield
    except OSError as error:
        again = (
            f"then cuvee resume {folder}" if os.path.exists(folder / MANIFEST) else "then try again"
        )
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InputError(
                f"the disk is full, and {folder} is as it was: make room, {again}"
            ) from None
        if isinstance(error, PermissionError):
            raise InputError(
                f"{folder} cannot be written to ({error.strerror}): give --out another place"
            ) from None
        raise InputError(
            f"{folder} cannot be used ({error.strerror or error}): correct that, {again}"
        ) from None
