"""Targets that were added to a finished run: a file each, which the manifest names.

A file is called by the digest of its content, never by a name that somebody chose, and is never
written over. A run joins them to the targets it was made with.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from cuvee.errors import InputError
from cuvee.outputs import files
from cuvee.results import OWN, Floats, widen
from cuvee.run.folder import ADDED, PREPARED, RunFolder, locked
from cuvee.run.models import FORMAT, WHAT, Delivered

WAIT = 20.0  # seconds that a writer waits for another


@dataclass(frozen=True)
class About:
    """What is known of an added target beside its model."""

    name: str
    key: str  # of the request that added it, so that it is not added twice
    group: int  # its number in prepared.json, or one more than the last
    sources: list[str]
    encoder: dict[str, Any]
    classes: list[Any] | None
    learn: int  # labelled rows to learn from, and for scores
    test: int
    columns: list[str]  # of α
    alpha: list[float]
    alpha_status: str
    gap: float | None
    notes: list[str]
    order: int = 0  # targets come in the order in which they were added
    tested: dict[str, int] = field(default_factory=dict)  # test rows by class; {}: a quantity


@dataclass(frozen=True, eq=False)
class Added:
    """A target with its model."""

    about: About
    delivered: Delivered  # of one target
    file: str = ""  # its name in the run folder

    def pack(self) -> bytes:
        return self.delivered.pack(target=asdict(self.about))

    @classmethod
    def unpack(cls, content: bytes, where: Path, file: str) -> Added:
        _, header = files.unpacked(content, where, WHAT, FORMAT)
        with files.understood(where, WHAT):
            return cls(About(**header["target"]), Delivered.unpack(content, where), file)


def read(folder: RunFolder) -> list[Added]:
    """Return the targets that were added to a run, in their order."""
    names = [name for name in folder.names if name.startswith(f"{ADDED}/")]
    each = [Added.unpack(folder.read(name), folder.path / name, name) for name in names]
    return sorted(each, key=lambda one: (one.about.order, one.about.name))


def write(path: Path, new: Sequence[Added]) -> list[str]:
    """Add targets to the run in a folder, all of them together; return those that were refused.

    A name that is taken is refused; a target of the same request that is there already is not
    written again.
    """
    with _writing(path) as folder:
        there = read(folder)
        known = {one.about.key for one in there}
        taken = {one.about.name for one in there}
        taken |= {t["name"] for t in folder.json(PREPARED)["targets"]}
        order = max((one.about.order for one in there), default=0)
        contents: dict[str, bytes] = {}
        refused = []
        for one in new:
            if one.about.key in known:
                continue
            if one.about.name in taken:
                refused.append(one.about.key)
                continue
            order, taken = order + 1, taken | {one.about.name}
            content = replace(one, about=replace(one.about, order=order)).pack()
            digest = hashlib.sha256(content).hexdigest()[:32]
            contents[f"{ADDED}/{digest}.safetensors"] = content
        if contents:
            folder.commit({}, contents)
        return refused


def remove(path: Path, name: str) -> bool:
    """Take an added target out of the run in a folder; return whether there was one."""
    with _writing(path) as folder:
        gone = [one.file for one in read(folder) if one.about.name == name]
        if gone:
            folder.commit({}, {}, drop=gone)
        return bool(gone)


def tidy(path: Path) -> None:
    """Remove what a kill may have left behind among the added targets."""
    with _writing(path) as folder:
        folder.tidy()


class _writing:
    """Hold the lock of a folder, and give the folder as it is then; wait for other writers."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> RunFolder:
        until = time.monotonic() + WAIT
        while True:
            self._lock = locked(self._path)
            try:
                self._lock.__enter__()
                break
            except InputError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)
        try:
            return RunFolder.open(self._path)
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise

    def __exit__(self, *error: Any) -> None:
        self._lock.__exit__(None, None, None)


def join_prepared(prepared: dict[str, Any], added: Sequence[Added]) -> dict[str, Any]:
    """Return prepared.json with the added targets, and their group where the run has no such."""
    groups, targets = list(prepared["groups"]), list(prepared["targets"])
    for about in (one.about for one in added):
        if about.group == len(groups):
            part = {"sources": about.sources, "encoder": about.encoder, "classes": about.classes}
            groups.append(part)
        size = {"learn": about.learn, "test": about.test}
        by_class = {"tested": about.tested} if about.tested else {}
        targets.append({"name": about.name, "group": about.group, **size, **by_class})
    notes = [*prepared["notes"], *(note for one in added for note in one.about.notes)]
    return {**prepared, "groups": groups, "targets": targets, "notes": list(dict.fromkeys(notes))}


def join_alpha(
    columns: tuple[str, ...], alpha: Floats, added: Sequence[Added]
) -> tuple[tuple[str, ...], Floats]:
    """Return α (M, columns) with the rows of the added targets; the own sample's column is last."""
    if not added:
        return columns, alpha
    wide = columns if OWN in columns else (*columns, OWN)
    parts = [widen(alpha, columns, wide)]
    if wide != columns:
        parts[0][:, -1] = 0.0
    parts += [widen(np.array([o.about.alpha]), o.about.columns, wide) for o in added]
    return wide, np.concatenate(parts)


def join_models(base: Delivered, added: Sequence[Added]) -> Delivered:
    """Return the models of all targets; sensitivities are read from their own files."""
    if not added:
        return base
    parts = [replace(p, moved=np.zeros((len(p.w), 0))) for p in (base, *_delivered(added))]
    # a run of an older version has fewer scores, or none
    known = parts[0].also.shape[2] if len(base.also) else 0
    parts = [
        replace(p, also=p.also[..., :known] if known else np.zeros((*p.loss.shape, 0)))
        for p in parts
    ]
    return Delivered.joined(parts)


def _delivered(added: Sequence[Added]) -> list[Delivered]:
    return [one.delivered for one in added]
