"""A file of cuvee's: safetensors for the numbers, JSON in its header for the rest. Nothing in it is executed."""

from __future__ import annotations

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
Value = TypeVar("Value")


def write(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Tensors by name, and a header that JSON can hold; whole or not at all."""
    from safetensors import SafetensorError  # here, so that `import cuvee` needs numpy and torch alone
    from safetensors.torch import save_file

    copies = _copies(tensors)
    try:
        path = path.resolve()  # what a link points to, not the link
        unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
        if not path.parent.is_dir() or (path.exists() and not path.is_file()):
            raise InputError(f"{path} cannot be written: give the name of a file in a folder that exists")
        try:
            save_file(copies, unfinished, metadata={KEY: json.dumps(header)})
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} cannot be written: {error}") from None


def packed(tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> bytes:
    """What `write` would write, for those who write it themselves."""
    from safetensors.torch import save

    return save(_copies(tensors), metadata={KEY: json.dumps(header)})


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each with memory of its own: safetensors refuses those that share some."""
    return {name: t.detach().cpu().clone(memory_format=torch.contiguous_format) for name, t in tensors.items()}


def header_of(path: Path) -> dict[str, Any]:
    """The header alone, of any file of cuvee's."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return dict(json.loads((file.metadata() or {})[KEY]))
    except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
        raise InputError(f"{path} cannot be read as a file of cuvee's: {error}") from None


def read(path: Path, device: str, what: str, version: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write` wrote: tensors and header; `what` it should be and in which format, for the error if it is not."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt", device=device) as file:
            header = json.loads((file.metadata() or {})[KEY])
            # Copies, whose memory is aligned as that of other tensors: sums round the same as before they were written.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - it is no dict
        found = header["format"], header.get("what", what)
    except (SafetensorError, AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        raise InputError(f"{path} cannot be read as {what}: {error}") from None
    if found[1] != what:
        raise InputError(f"{path} holds {found[1]}, not {what}")
    if found[0] != version:
        raise InputError(f"{path} has format {found[0]}; this version of cuvee reads {version}")
    return tensors, header


def unpacked(content: bytes, where: Path, what: str, version: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `packed` made, as `read` gives it; `where` it is from, for the error."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        tensors = {name: t.clone() for name, t in load(content).items()}
        length = int.from_bytes(content[:8], "little")
        header = json.loads(json.loads(content[8 : 8 + length])["__metadata__"][KEY])
        found = header["format"], header["what"]
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{where} cannot be read as {what}: {error}") from None
    if found != (version, what):
        raise InputError(f"{where} holds {found[1]} in format {found[0]}, and not {what} in format {version}")
    return tensors, header


def part(values: Mapping[str, Value], prefix: str) -> dict[str, Value]:
    """Those whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


@contextmanager
def understood(path: Path, what: str) -> Iterator[None]:
    """Whatever does not fit together in a file that was read is the file's fault, in one sentence."""
    try:
        yield
    except InputError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{path} cannot be read as {what}: {error!r}") from None
