"""Files of cuvee's: safetensors for the numbers, JSON in the header for the rest; none is executed.

A file that `write` made holds its own checksum: one changed byte, and it is refused when read.
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
CHECKSUM, BLANK = "checksum", "0" * 64  # the header's entry, and what it is while the sum is taken
Value = TypeVar("Value")


def sealed(content: bytes) -> bytes:
    """Return the bytes with the SHA-256 of all of them in the place of the first BLANK."""
    return content.replace(BLANK.encode(), hashlib.sha256(content).hexdigest().encode(), 1)


def check_intact(
    content: bytes, checksum: object, where: Path, again: str = "make it again"
) -> None:
    """Raise `InputError` unless `sealed` made these bytes, in which `checksum` was read."""
    written = str(checksum).encode("ascii", "replace")
    before = content.replace(written, BLANK.encode(), 1)
    if len(written) != len(BLANK) or hashlib.sha256(before).hexdigest().encode() != written:
        raise InputError(
            f"{where} is damaged: its checksum does not fit what it holds; restore it from a copy, "
            f"or {again}"
        )


def write(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write tensors by name, a header that JSON can hold, and a checksum; whole or not at all."""
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
    from safetensors.torch import save  # here, so that `import cuvee` needs numpy and torch alone

    return save(_copies(tensors), metadata={KEY: json.dumps(header)})


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each with memory of its own: safetensors refuses those that share some."""
    return {
        name: t.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, t in tensors.items()
    }


def header_of(path: Path, what: str = "a file of cuvee's") -> dict[str, Any]:
    """Return the header alone, of any file of cuvee's; what was damaged is an error."""
    return _header(_content(path, what), path, what)[0]


def read(
    path: Path, device: str, what: str, version: int, older: tuple[int, ...] = ()
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the header that `write` wrote, which must be `what`, in this version.

    Formats in `older` were written before there were checksums, and are read as they are. One
    changed byte makes no such file of a newer one: that would need another format, and no checksum.
    """
    content = _content(path, what)
    header, checked = _header(content, path, what)
    kind, form = header.get("what", what), header["format"]
    if kind != what:
        raise InputError(f"{path} holds {kind}, not {what}")
    if form not in (version, *older):
        raise InputError(f"{path} has format {form}; this version of cuvee reads {version}")
    if not checked and form not in older:
        check_intact(content, None, path)
    return {name: t.to(device) for name, t in _tensors(content, path, what).items()}, header


def unpacked(
    content: bytes, where: Path, what: str, version: int
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return what `packed` was given, as `read` does; `where` it is from, for the error."""
    header, _ = _header(content, where, what)
    found = header["format"], header.get("what")
    if found != (version, what):
        raise InputError(
            f"{where} holds {found[1]} in format {found[0]}, and not {what} in format {version}"
        )
    return _tensors(content, where, what), header


def _content(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read as {what}: {reason}") from None


def _header(content: bytes, where: Path, what: str) -> tuple[dict[str, Any], bool]:
    """Return the header as `write` got it, and whether the file holds a checksum, which was
    checked.
    """
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
        # Copies, whose memory is aligned as that of other tensors: sums round the same as before
        # they were written.
        return {name: t.clone() for name, t in load(content).items()}


@contextmanager
def _readable(where: Path, what: str) -> Iterator[None]:
    """Make one sentence of whatever a parser has against a file."""
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
    """Those whose names begin so, by the rest of their names."""
    return {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix)
    }


@contextmanager
def understood(path: Path, what: str) -> Iterator[None]:
    """Whatever does not fit together in a file that was read is the file's fault, in
    one sentence.
    """
    try:
        yield
    except InputError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{path} cannot be read as {what}: {error!r}") from None
