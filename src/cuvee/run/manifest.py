"""The manifest of a run: which steps are done, which files count, their checksums and its own.

Its own stands in the same bytes, so that replacing the file commits both. Manifests of the first
format have none: they are read as they are, and the next step writes one that has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cuvee.errors import InputError
from cuvee.outputs.files import BLANK, CHECKSUM, check_intact, sealed

MANIFEST = "manifest.json"
FORMAT, UNCHECKED = 2, 1
AGAIN = "make the run again"


def new_manifest(steps: list[dict[str, Any]], files: Mapping[str, Any]) -> dict[str, Any]:
    """Return the steps that are done, in order, and what the files that count must be."""
    return {"format": FORMAT, "steps": steps, "files": dict(files)}


def to_bytes(manifest: Mapping[str, Any]) -> bytes:
    """Return the manifest as it is written, with its checksum, which sorts first."""
    return sealed(as_json({**manifest, CHECKSUM: BLANK}))


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder that holds a run; one changed byte of it is an error."""
    path = folder / MANIFEST
    try:
        content = path.read_bytes()
        manifest = json.loads(content)
        version, steps, files = manifest["format"], manifest["steps"], manifest["files"]
        if CHECKSUM in manifest or version == FORMAT:
            check_intact(content, manifest.get(CHECKSUM), path, AGAIN)
        if version not in (FORMAT, UNCHECKED):
            raise InputError(
                f"{folder} was written in format {version}, and this version of cuvee reads "
                f"{FORMAT}: adapt again"
            )
        for name, entry in files.items():
            inside(folder, name)
            int(entry["bytes"]), str(entry["sha256"])
        for step in steps:
            str(step["name"]), float(step["seconds"])
    except FileNotFoundError:
        raise InputError(
            f"{folder} holds no run: there is no {MANIFEST} in it; cuvee adapt makes one"
        ) from None
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} cannot be read ({error}): it is damaged; restore it from a copy, or {AGAIN}"
        ) from None
    return new_manifest(list(steps), files)


def inside(folder: Path, name: str) -> Path:
    """Return folder/name, which does not leave the folder, by links neither."""
    path = folder / name
    if Path(name).is_absolute() or not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{name!r} leads out of {folder}: this folder was tampered with")
    return path


def as_json(content: Mapping[str, Any]) -> bytes:
    """Return the same bytes for the same content; NaN, which is not JSON, must be null by now."""
    return json.dumps(
        content, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False
    ).encode()
