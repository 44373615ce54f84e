"""Rows to predict: as a table, and with a word on whose model answers each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from cuvee.data.columns import short
from cuvee.data.frame import columns_of
from cuvee.errors import DomainError, InputError


def as_table(source: Any, features: Sequence[str]) -> Any:
    """Return a frame of an array (rows, features), its columns in order, or the table as it is."""
    import pandas as pd

    if hasattr(source, "detach"):
        source = np.asarray(source.detach().cpu().double())
    if isinstance(source, list):
        source = np.array(source, dtype=object)
    if not isinstance(source, np.ndarray):
        return source
    if source.ndim < 2 or int(np.prod(source.shape[1:])) != len(features):
        raise DomainError(
            f"rows to predict have shape {source.shape}, and the models learnt from "
            f"{_listed(features)}: give (rows, {len(features)}) in this order, or a frame that "
            "names "
            "its columns"
        )
    return pd.DataFrame(source.reshape(len(source), -1), columns=list(features)).infer_objects()


def check_whose(source: Any, domain: str, targets: Sequence[str]) -> None:
    """Raise `DomainError`, which lists the targets, where no column says whose model a row gets."""
    import pandas as pd

    if len(targets) == 1 or isinstance(source, tuple | Mapping):
        return
    if isinstance(source, str | PathLike) and Path(source).is_dir():  # a file per domain
        return
    columns: tuple[str, ...] = (domain,)
    with suppress(InputError):  # what is wrong with the table itself is told by whoever reads it
        named = isinstance(source, pd.DataFrame)
        columns = tuple(map(str, source.columns)) if named else columns_of(source)
    if domain not in columns:
        raise DomainError(
            f"there is no column {domain!r} to say whose model each row gets: add it, or name one "
            f"target (--target) for all rows; there are {_listed(targets)}"
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(short, names[:8])) + (", …" if len(names) > 8 else "")
