"""Write and read cuvee's files: safetensors for numbers, JSON for the rest, no code.

A file that `write` made holds its own checksum: if one byte has changed, reading it raises an
error.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from cuvee.errors import InputError

KEY = "cuvee"
CHECKSUM, BLANK = "checksum", "0" * 64  # the header's entry, and its value while hashing
Value = TypeVar("Value")


def sealed(content: bytes) -> bytes:
    """Return the bytes with the SHA-256 of all of them in the place of the first BLANK."""
    return content.replace(BLANK.encode(), hashlib.sha256(content).hexdigest().encode(), 1)


def check_intact(
    content: bytes, checksum: object, where: Path, again: str = "make it again"
) -> None:
    """Raise `InputError` unless `sealed` made these bytes with this `checksum` in them."""
    written = str(checksum).encode("ascii", "replace")
    before = content.replace(written, BLANK.encode(), 1)
    if len(written) != len(BLANK) or hashlib.sha256(before).hexdigest().encode() != written:
        raise InputError(
            f"{where} is damaged: its checksum does not match its content; restore it from a copy, "
            f"or {again}"
        )


def write(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write tensors by name, a header that JSON can hold, and a checksum.

    The file is written as a whole or not at all.
    """
    content = sealed(packed(tensors, {CHECKSUM: BLANK, **header}))  # the first BLANK there is
    try:
        path = path.resolve()  # what a link points to, not the link
        unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
        if not path.parent.is_dir() or (path.exists() and not path.is_file()):
            raise InputError(
                f"{path} cannot be written: give the name of a file in a folder that exists"
            )
        try:
            unfinished.write_bytes(content)
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error}") from None


def packed(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> bytes:
    """Return the bytes of a file without a checksum, for run folders, whose manifest holds it."""
    from safetensors.torch import (
        save,
    )  # imported late, so that `import cuvee` needs only numpy and torch

    return save(_copies(tensors), metadata={KEY: json.dumps(header)})


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors that each have their own memory: safetensors refuses shared memory."""
    return {
        name: t.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, t in tensors.items()
    }


def header_of(path: Path, what: str = "a file of cuvee's") -> dict[str, Any]:
    """Return the header alone, of any file of cuvee's; raise `InputError` if it is damaged."""
    return _header(_content(path, what), path, what)[0]


def read(
    path: Path, device: str, what: str, version: int, older: tuple[int, ...] = ()
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the header of a file, which must be `what`, in this version.

    Formats in `older` were written before there were checksums, and are read without one. Changing
    one byte cannot turn a newer file into such a file: that would need another format, and no
    checksum.
    """
    content = _content(path, what)
    header, checked = _header(content, path, what)
    kind, form = header.get("what", what), header["format"]
    if kind != what:
        raise InputError(f"{path} holds {kind}, not {what}: choose another file")
    if form not in (version, *older):
        raise InputError(
            f"{path} has format {form}; this version of cuvee reads {version}: read it with the "
            "version that wrote it, or make it again"
        )
    if not checked and form not in older:
        check_intact(content, None, path)
    return {name: t.to(device) for name, t in _tensors(content, path, what).items()}, header


def unpacked(
    content: bytes, where: Path, what: str, version: int
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return what `packed` was given, as `read` does; errors name `where` it is from."""
    header, _ = _header(content, where, what)
    form = header["format"], header.get("what")
    if form != (version, what):
        raise InputError(
            f"{where} holds {form[1]} in format {form[0]}, not {what} in format {version}: "
            "make it again"
        )
    return _tensors(content, where, what), header


def _content(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read as {what}: {reason}") from None


def _header(content: bytes, where: Path, what: str) -> tuple[dict[str, Any], bool]:
    """Return the header as `write` got it, and whether a checksum was there and is right."""
    with _readable(where, what):
        length = int.from_bytes(content[:8], "little")
        header = dict(json.loads(json.loads(content[8 : 8 + length])["__metadata__"][KEY]))
        if "format" not in header:
            raise KeyError("format")
    if CHECKSUM not in header:
        return header, False
    check_intact(content, header.pop(CHECKSUM), where)
    return header, True


def _tensors(content: bytes, where: Path, what: str) -> dict[str, Tensor]:
    from safetensors.torch import load

    with _readable(where, what):
        # Copies are aligned in memory like other tensors, so that sums round the same as before
        # writing.
        return {name: t.clone() for name, t in load(content).items()}


@contextmanager
def _readable(where: Path, what: str) -> Iterator[None]:
    """Raise one plain `InputError` for whatever a parser raises on a file."""
    from safetensors import SafetensorError

    try:
        yield
    except (
        SafetensorError,
        AttributeError,
        KeyError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise InputError(
            f"{where} cannot be read as {what}: it is another kind of file, or damaged; "
            "restore it from a copy, or make it again"
        ) from error


def part(values: Mapping[str, Value], prefix: str) -> dict[str, Value]:
    """Return the values whose names begin with `prefix`, by the rest of their names."""
    return {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix)
    }


@contextmanager
def understood(path: Path, what: str) -> Iterator[None]:
    """Raise one `InputError` that names the file for parts of it that do not fit together."""
    try:
        yield
    except InputError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{path} cannot be read as {what}: it is damaged, or its parts do not fit together "
            f"({error!r}); restore it from a copy, or make it again"
        ) from None
