"""Predictors in a file: safetensors for the numbers, JSON in its header for the rest. Nothing in it is executed."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cuvee.errors import InputError
from cuvee.learn.base import Labels
from cuvee.learn.calibrate import Calibration
from cuvee.learn.kernel import KernelPredictor, NTFPredictor
from cuvee.learn.meta import Initialisation
from cuvee.learn.network import NetworkPredictor
from cuvee.learn.polynomial import Polynomial
from cuvee.learn.reduced import Reduced
from cuvee.learn.subspace import Subspace
from cuvee.learn.taylor import Taylor

KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (Polynomial, Taylor, Reduced, KernelPredictor, NTFPredictor, NetworkPredictor, Initialisation)
}
FORMAT = 1


def write(path: Path, parts: dict[str, Any], notes: dict[str, Any]) -> None:
    """Dataclasses of tensors and plain numbers, by name, and notes that JSON can hold; whole or not at all."""
    from safetensors.torch import save_file  # here, so that `import cuvee` needs numpy and torch alone

    tensors: dict[str, Tensor] = {}
    plain: dict[str, Any] = {}
    for name, part in parts.items():
        numbers: dict[str, Any] = {}
        for field in fields(part):
            value = getattr(part, field.name)
            if isinstance(value, Tensor):
                tensors[f"{name}.{field.name}"] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
            else:
                numbers[field.name] = value
        plain[name] = {"kind": type(part).__name__, "numbers": numbers}
    header = {"format": FORMAT, "parts": plain, "notes": notes}
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise InputError(f"{path} cannot be written: give the name of a file in a folder that exists")
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        save_file(tensors, unfinished, metadata={"cuvee": json.dumps(header)})
        os.replace(unfinished, path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error}") from None
    finally:
        unfinished.unlink(missing_ok=True)


def read(path: Path, device: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `write` wrote: parts and notes."""
    from safetensors import SafetensorError, safe_open

    kinds = {**KINDS, "Subspace": Subspace, "Calibration": Calibration, "Labels": Labels}
    try:
        with safe_open(path, framework="pt", device=device) as file:
            header = json.loads((file.metadata() or {})["cuvee"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no dict
        if header["format"] != FORMAT:
            raise InputError(f"{path} has format {header['format']}; this version of cuvee reads {FORMAT}")
        parts = {}
        for name, said in header["parts"].items():
            own = {key.removeprefix(f"{name}."): t for key, t in tensors.items() if key.startswith(f"{name}.")}
            parts[name] = kinds[said["kind"]](**own, **said["numbers"])
        return parts, dict(header["notes"])
    except InputError:
        raise
    except (SafetensorError, AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        raise InputError(f"{path} cannot be read as a cuvee map: {error}") from None
