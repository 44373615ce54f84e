"""α of a run: estimated in chunks of targets, each of which a kill cannot take back."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cuvee.data.cells import guarded, unguarded
from cuvee.data.files import SEPARATORS, separator_of
from cuvee.errors import InputError, MixtureError
from cuvee.inputs.alpha import Labelled, ordered_alpha, read
from cuvee.outputs import files
from cuvee.results import OWN, PER_TARGET, Candidate, Floats, Mixtures, Status, Trace

WHAT, FORMAT = "a part of α", 1
STATUSES = {str(status): status for status in Status}


def pack(mix: Mixtures) -> bytes:
    """Return the mixtures as bytes, without the steps of α."""
    tensors = {"alpha": mix.alpha, "gap": mix.gap, "objective": mix.objective}
    if mix.candidates:
        tensors |= {
            f"candidates.{f}": np.stack([getattr(c, f) for c in mix.candidates]) for f in PER_TARGET
        }
    if mix.trace is not None:
        tensors |= {f"trace.{f}": getattr(mix.trace, f) for f in ("step", "objective", "gap")}
    header = {
        "format": FORMAT,
        "what": WHAT,
        "columns": mix.columns,
        "targets": mix.targets,
        "status": [str(s) for s in mix.status],
        "method": mix.method,
        "candidates": [c.name for c in mix.candidates],
    }
    return files.packed(
        {name: torch.as_tensor(np.ascontiguousarray(v)) for name, v in tensors.items()}, header
    )


def unpack(content: bytes, where: Path) -> Mixtures:
    tensors, header = files.unpacked(content, where, WHAT, FORMAT)
    with files.understood(where, WHAT):
        arrays = {name: t.numpy() for name, t in tensors.items()}
        tried, trace = files.part(arrays, "candidates."), files.part(arrays, "trace.")
        return Mixtures(
            alpha=arrays["alpha"],
            columns=tuple(header["columns"]),
            targets=tuple(header["targets"]),
            gap=arrays["gap"],
            status=tuple(STATUSES[s] for s in header["status"]),
            method=header["method"],
            objective=arrays["objective"],
            trace=Trace(trace["step"], trace["objective"], trace["gap"], np.zeros(0))
            if trace
            else None,
            candidates=tuple(
                Candidate(name, *(tried[f][g] for f in PER_TARGET))
                for g, name in enumerate(header["candidates"])
            ),
        )


def to_csv(targets: Sequence[str], columns: Sequence[str], alpha: Floats) -> bytes:
    """Return α as a CSV: a row per target, a column per source, the own sample last.

    Numbers have enough digits to be the same when they are read again.

    Names that a spreadsheet would take for formulas are guarded, as `cuvee.data.cells` has it.
    """
    text = io.StringIO(newline="")
    targets, columns = [guarded(name) for name in targets], [guarded(name) for name in columns]
    # which csv would not quote by itself
    returns = any("\r" in name for name in (*targets, *columns))
    out = csv.writer(
        text, lineterminator="\n", quoting=csv.QUOTE_ALL if returns else csv.QUOTE_MINIMAL
    )
    out.writerow(["target", *columns])
    for name, row in zip(targets, alpha.tolist(), strict=True):
        out.writerow([name, *("" if a != a else repr(a) for a in row)])
    return text.getvalue().encode()


def read_text(path: str | Path) -> str:
    """Return the text of a file of weights; newlines in names stay as they are."""
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8; save the weights as CSV in UTF-8") from None


def from_csv(text: str, where: str) -> tuple[tuple[str, ...], tuple[str, ...], Floats]:
    """Return what `to_csv` wrote: targets, columns, α.

    Without a first column "target", targets have no names.

    Other separators than the comma are read too, and decimal commas where the separator is another.
    """
    separator = _separator(text)
    try:
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        head, *rows = [row for row in lines if row]
    except (csv.Error, ValueError):
        raise InputError(
            f"{where} holds no table of weights: a line of names, then a line per target"
        ) from None
    named = head[0] == "target"
    columns = tuple(map(unguarded, head[1:] if named else head))
    alpha = np.full((len(rows), len(columns)), np.nan)
    for i, row in enumerate(rows):
        cells = row[1:] if named else row
        if len(cells) != len(columns):
            raise MixtureError(
                f"{where}: line {i + 2} has {len(row)} cells, the first line {len(head)}"
            )
        try:
            alpha[i] = [_number(c, separator) if c.strip() else np.nan for c in cells]
        except ValueError as error:
            raise MixtureError(f"{where}: line {i + 2} holds no weights ({error})") from None
    return tuple(unguarded(row[0]) for row in rows) if named else (), columns, alpha


def _separator(text: str) -> str:
    """Return the character behind a first cell "target", or else the separator of the table."""
    begins = (
        separator
        for separator in SEPARATORS
        if text.startswith((f"target{separator}", f'"target"{separator}'))
    )
    return next(begins, None) or separator_of(text)


def _number(cell: str, separator: str) -> float:
    return float(cell if separator == "," else cell.replace(",", "."))


def given(
    alpha: Any, targets: Sequence[str], sources: Sequence[str]
) -> tuple[tuple[str, ...], Floats]:
    """Return the user's α with its columns, in the order of the targets and the sources.

    The own sample's column comes last.

    It may be a CSV, `Mixtures`, a frame or an array; empty cells of what has names are weights of
    0.
    """
    if isinstance(alpha, str | Path):
        names, columns, values = from_csv(read_text(alpha), str(alpha))
        alpha = Labelled(values, columns, names or None, named=True)
    if (table := read(alpha, sources)) is not None:
        # columns first: an error names one that does not belong
        values = _numbers(ordered_alpha(table, sources))
        alpha = replace(table, values=np.where(np.isnan(values), 0.0, values), columns=None)
    array = _numbers(ordered_alpha(alpha, sources, targets))
    own = (OWN,) if array.ndim == 2 and array.shape[1] == len(sources) + 1 else ()
    if array.shape != (len(targets), len(sources) + len(own)):
        raise MixtureError(
            f"alpha must have {len(targets)} rows, one per target, and {len(sources)} columns, one "
            "per source (and one "
            f"more for the own sample); got shape {array.shape}"
        )
    return (*sources, *own), array


def _numbers(values: Any) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise MixtureError(
            "alpha must be a table of numbers, a row per target, or a CSV of it"
        ) from None
