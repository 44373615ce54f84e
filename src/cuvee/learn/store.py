"""Write maps to files and read them: dataclasses of tensors and plain numbers."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from torch import Tensor

from cuvee.errors import InputError
from cuvee.learn.base import Labels
from cuvee.learn.calibrate import Calibration
from cuvee.learn.registry import predictors
from cuvee.learn.subspace import Subspace
from cuvee.outputs import files

WHAT, FORMAT = "a cuvee map", 3


def write(path: Path, parts: dict[str, Any], notes: dict[str, Any]) -> None:
    """Write dataclasses of tensors and plain numbers, by name, and notes that JSON can hold."""
    tensors: dict[str, Tensor] = {}
    plain: dict[str, Any] = {}
    for name, part in parts.items():
        numbers: dict[str, Any] = {}
        for field in fields(part):
            value = getattr(part, field.name)
            if isinstance(value, Tensor):
                tensors[f"{name}.{field.name}"] = value
            else:
                numbers[field.name] = value
        plain[name] = {"kind": type(part).__name__, "numbers": numbers}
    files.write(path, tensors, {"what": WHAT, "format": FORMAT, "parts": plain, "notes": notes})


def read(path: Path, device: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parts and notes that `write` wrote."""
    kinds = {**predictors(), "Subspace": Subspace, "Calibration": Calibration, "Labels": Labels}
    tensors, header = files.read(path, device, WHAT, FORMAT)
    try:
        parts = {}
        for name, entry in header["parts"].items():
            if entry["kind"] not in kinds:
                raise ValueError(
                    f"it holds a {entry['kind']!r}, which no registered map makes: register that "
                    "map first"
                )
            parts[name] = kinds[entry["kind"]](
                **files.part(tensors, f"{name}."), **entry["numbers"]
            )
        return parts, dict(header["notes"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} cannot be read as {WHAT}: {error}") from None
