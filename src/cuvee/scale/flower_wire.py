"""Put values into packets and take them out again: JSON for what is small, raw bytes for arrays.

Nothing is pickled, and nothing but the kinds of values named here can be sent: numbers, texts,
lists, arrays with their type and shape, and a few frozen descriptions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cuvee.components.bounds import RiskBounds, RowConstants
from cuvee.components.protocol import Batch, Folds, Grams, Half, Reference
from cuvee.data.label_summary import Summary
from cuvee.errors import InputError
from cuvee.facts import Classes, KnownFacts, Labels, Moments, Within
from cuvee.hypothesis.base import Space
from cuvee.hypothesis.logistic import LogisticSpace
from cuvee.hypothesis.poisson import PoissonSpace
from cuvee.hypothesis.ridge import RidgeSpace

TYPES = frozenset({"float64", "float32", "int64", "bool"})  # of arrays
DESCRIPTIONS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        Batch, Folds, Half, Grams, Reference, RowConstants, RiskBounds, Summary, KnownFacts,
        Labels, Classes, Moments, Within,
    )
}  # fmt: skip
SPACES: Mapping[str, type[Space]] = {
    "ridge": RidgeSpace, "logistic": LogisticSpace, "poisson": PoissonSpace,
}  # fmt: skip


@dataclass(frozen=True)
class RawArray:
    """Hold the numbers of an array as bytes, little end first and row after row."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


@dataclass(frozen=True)
class Packet:
    """Hold what one message carries: a text in JSON, and the arrays that it speaks of."""

    text: str
    arrays: tuple[RawArray, ...] = ()

    @property
    def n_bytes(self) -> int:
        """Return the size of its content."""
        return len(self.text.encode()) + sum(len(array.data) for array in self.arrays)


def packed(value: Any) -> Packet:
    """Return a packet that holds a value; an array that is there twice is sent once."""
    arrays, places = list[RawArray](), dict[int, int]()

    def number(array: np.ndarray[Any, Any], key: int) -> int:
        if key not in places:
            places[key] = len(arrays)
            arrays.append(_raw(array))
        return places[key]

    text = json.dumps(_written(value, number), separators=(",", ":"))
    return Packet(text, tuple(arrays))


def unpacked(packet: Packet) -> Any:
    """Return the value that a packet holds; raise `InputError` where it is not sound."""
    try:
        return _read(json.loads(packet.text), [_array(raw) for raw in packet.arrays])
    except (KeyError, IndexError, TypeError, ValueError, RecursionError, AttributeError) as error:
        raise InputError(f"a message is not one of cuvee's: {error}") from None


def fingerprint(value: Any) -> str:
    """Return a digest that is the same for the same value, at every site."""
    packet = packed(value)
    digest = hashlib.sha256(packet.text.encode())
    for array in packet.arrays:
        digest.update(repr((array.dtype, array.shape)).encode() + array.data)
    return digest.hexdigest()


def _written(value: Any, number: Any) -> Any:
    """Return a value as JSON has it; `number` takes an array and returns its place."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        return {"tensor": number(value.detach().cpu().numpy(), id(value))}
    if isinstance(value, np.generic):
        return _written(value.item(), number)
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "OUS":
            return {"texts": [str(one) for one in value.tolist()]}
        return {"array": number(value, id(value))}
    if isinstance(value, Space):
        kind = next((name for name, of in SPACES.items() if type(value) is of), None)
        if kind is None:
            raise InputError("sites only know ridge, logistic and Poisson regression")
        return {"space": kind, "of": _entries(vars(value), number)}
    if type(value) in DESCRIPTIONS.values():
        of = {field.name: getattr(value, field.name) for field in fields(value)}
        return {"is": type(value).__name__, "of": _entries(of, number)}
    if isinstance(value, Mapping):
        return {"map": _entries(value, number)}
    if isinstance(value, frozenset):
        return {"set": [_written(one, number) for one in sorted(value)]}
    if isinstance(value, tuple):
        return {"tuple": [_written(one, number) for one in value]}
    if isinstance(value, Sequence):
        return [_written(one, number) for one in value]
    raise InputError(f"a {type(value).__name__} cannot be sent")


def _entries(entries: Mapping[str, Any], number: Any) -> dict[str, Any]:
    return {str(name): _written(one, number) for name, one in entries.items()}


def _read(written: Any, arrays: Sequence[np.ndarray[Any, Any]]) -> Any:
    if isinstance(written, list):
        return [_read(one, arrays) for one in written]
    if not isinstance(written, dict):
        return written
    if "tensor" in written:
        return torch.from_numpy(arrays[written["tensor"]])
    if "array" in written:
        return arrays[written["array"]]
    if "texts" in written:
        return np.array([str(one) for one in written["texts"]], dtype=object)
    if "tuple" in written:
        return tuple(_read(one, arrays) for one in written["tuple"])
    if "set" in written:
        return frozenset(_read(one, arrays) for one in written["set"])
    if "map" in written:
        return {name: _read(one, arrays) for name, one in written["map"].items()}
    of = {name: _read(one, arrays) for name, one in written["of"].items()}
    if "space" in written:
        kind = SPACES[written["space"]]
        space = kind.__new__(kind)
        space.__dict__.update(of)
        return space
    return DESCRIPTIONS[written["is"]](**of)


def _raw(array: np.ndarray[Any, Any]) -> RawArray:
    if array.dtype.name not in TYPES:
        raise InputError(f"an array of {array.dtype} cannot be sent")
    data = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()
    return RawArray(array.dtype.name, tuple(array.shape), data)


def _array(raw: RawArray) -> np.ndarray[Any, Any]:
    if raw.dtype not in TYPES:
        raise ValueError(f"its array has the type {raw.dtype!r}")
    dtype = np.dtype(raw.dtype).newbyteorder("<")
    if prod(raw.shape) * dtype.itemsize != len(raw.data) or min(raw.shape, default=0) < 0:
        raise ValueError(f"{len(raw.data)} bytes are not an array of shape {raw.shape}")
    return np.frombuffer(raw.data, dtype).reshape(raw.shape).astype(raw.dtype)
