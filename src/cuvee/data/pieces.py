"""The pieces of a source, each of which may be one domain: files, frames, arrays and datasets, all
alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from cuvee.data.arrow_frames import to_frame
from cuvee.data.columns import as_written, at, count
from cuvee.data.dates import ORDERS
from cuvee.data.files import File, files
from cuvee.data.notation import as_numbers, parse_dates, survey
from cuvee.data.notes import Told
from cuvee.data.targets import suggest
from cuvee.errors import DomainError, InputError
from cuvee.inputs.arrays import as_array, as_labels, check_apart


@dataclass(frozen=True)
class Part:
    """A piece of a source: its columns, and how to load some of them.

    `load` takes the columns, those to take as text, and those that are not checked.

    What is loaded comes with what is worth saying of it.
    """

    where: str
    columns: tuple[str, ...]
    load: Callable[[Sequence[str], Collection[str], Collection[str]], tuple[Any, list[Told]]]
    size: Callable[[], int]  # rows
    line: Callable[[int], str]  # where a row of it stands, in words
    domain: str | None = None  # when all of it is one domain
    missing: Collection[str] = ()  # words for empty cells

    def check(self, names: Sequence[str]) -> None:
        """Raise `DomainError` unless each of these columns is there, once."""
        for name in names:
            if name not in self.columns:
                raise DomainError(
                    f"{at(self.where)}there is no column {name!r}{suggest(name, self.columns)}"
                )
            if self.columns.count(name) > 1:
                raise DomainError(
                    f"{at(self.where)}{self.columns.count(name)} columns are named {name!r}; "
                    "rename them"
                )


def parts_of(
    source: Any, domain: str, label: str, encoding: str, missing: Collection[str] = ()
) -> list[Part]:
    """Return the pieces of a path, a file, a frame, a mapping or a triple of arrays, in order.

    A mapping is name -> (X, y) or Dataset; a triple is (X, y, domain). `missing` are words for
    empty cells.
    """
    import pandas as pd

    if isinstance(source, File):
        return [of_file(source, None, missing)]
    if isinstance(source, str | PathLike):
        return [of_file(file, name, missing) for file, name in files(Path(source), encoding)]
    if isinstance(source, pd.DataFrame) or hasattr(source, "__arrow_c_stream__"):
        return [_of_frame(_as_frame(source, ""), "", missing=missing)]
    if isinstance(source, tuple) and len(source) == 3:
        frame = _labelled(source[0], source[1], label, "")
        frame[domain] = _as_list(source[2], len(frame), "domain", "")
        return [_of_frame(frame, "", missing=missing)]
    if not isinstance(source, Mapping):
        raise InputError(
            f"a {type(source).__name__} is not a table; give a path, a frame, a mapping "
            "name -> (X, y), or (X, y, domain)"
        )
    if not source:
        raise DomainError("the mapping is empty; give at least one domain")
    parts = []
    for name, value in source.items():
        where = f"domain {str(name)!r}"
        if isinstance(value, pd.DataFrame) or hasattr(value, "__arrow_c_stream__"):
            frame = _as_frame(value, where)
        else:
            X, y = (
                value
                if isinstance(value, tuple | list) and len(value) == 2
                else _items(value, where)
            )
            frame = _labelled(X, y, label, where)
        parts.append(_of_frame(frame, where, str(name), missing))
    return parts


def _items(data: Any, where: str) -> tuple[Any, Any]:
    """Return X and y of a torch `Dataset` of (x, y) items."""
    try:
        items = [data[i] for i in range(len(data))] if hasattr(data, "__len__") else list(data)
        return np.stack([as_array(x) for x, _ in items]), [
            y.item() if hasattr(y, "item") else y for _, y in items
        ]
    except (TypeError, ValueError, KeyError, IndexError, RuntimeError) as error:
        raise DomainError(
            f"{where}: a {type(data).__name__} is neither (X, y) nor a Dataset of (x, y) items of "
            f"one shape ({error})"
        ) from None


def _labelled(X: Any, y: Any, label: str, where: str) -> Any:
    """Return a frame of X (rows, …) and its labels y (rows,); None: all missing."""
    frame = _as_frame(X, where)
    if label in frame.columns:
        raise DomainError(
            f"{at(where)}X has a column {label!r} beside the labels; name the label otherwise"
        )
    frame[label] = np.full(len(frame), np.nan) if y is None else _as_list(y, len(frame), "y", where)
    return frame


def _as_list(values: Any, rows: int, what: str, where: str) -> list[Any]:
    values = as_labels(values, f"{at(where)}{what}", "label" if what == "y" else what)
    if values.shape not in ((rows,), (rows, 1)):
        raise DomainError(
            f"{at(where)}X has {count(rows, 'row')}, but {what} has shape {values.shape}"
        )
    return list(values.reshape(rows).tolist())


def _as_frame(data: Any, where: str) -> Any:
    """Return a frame of a frame, of anything that Arrow can take, or of an array (rows, …).

    The columns of an array are x0, x1, ….
    """
    import pandas as pd
    import pyarrow as pa

    if isinstance(data, pd.DataFrame):
        return data.set_axis(list(map(str, data.columns)), axis=1).reset_index(drop=True)
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return to_frame(pa.table(data), {})
        array = as_array(data)
        if array.ndim < 2:
            raise ValueError(f"shape {array.shape}")
        flat = array.reshape(len(array), int(np.prod(array.shape[1:])))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DomainError(
            f"{at(where)}a {type(data).__name__} is not a table, rows × columns ({error})"
        ) from None
    return pd.DataFrame(flat, columns=[f"x{i}" for i in range(flat.shape[1])])


def _of_frame(
    frame: Any, where: str, domain: str | None = None, missing: Collection[str] = ()
) -> Part:
    def load(
        names: Sequence[str], text: Collection[str], unchecked: Collection[str]
    ) -> tuple[Any, list[Told]]:
        chosen = frame[list(names)].copy()
        for name in {*names} & {*text} - {*unchecked}:
            chosen[name] = chosen[name].map(as_written, na_action="ignore")
        for name in {*names} - {*text, *unchecked}:
            if _mixes(chosen[name]):
                cells = chosen[name].dropna()
                written = cells.map(as_written)
                check_apart(cells, written, f"{at(where)}column {name!r}", "value")
                chosen[name] = written.reindex(chosen.index)
        texts = _texts(chosen, [name for name in names if name not in {*text, *unchecked}])
        kinds, remarks = survey(
            [texts], (), (), where=at(where), comma=False, typed=True, missing=missing
        )
        for name, kind in kinds.items():
            if kind != "text" and kind not in ORDERS:
                chosen[name] = as_numbers(texts[name], kind, missing).to_pandas().to_numpy()
        parse_dates(chosen, kinds, where, missing)
        return chosen, remarks

    rows = len(frame)
    return Part(
        where, tuple(frame.columns), load, lambda: rows, lambda row: "", domain, tuple(missing)
    )


def _mixes(column: Any) -> bool:
    """Return whether a column holds text and numbers, and nothing else."""
    import pandas as pd

    if column.dtype != object:
        return False
    gaps = (type(None), type(pd.NA))
    plain = [value for value in column if not isinstance(value, gaps)]
    if any(isinstance(value, bool) or not isinstance(value, str | Real) for value in plain):
        return False
    return len({isinstance(value, str) for value in column.dropna()}) == 2


def _texts(frame: Any, names: Sequence[str]) -> Any:
    """Return a pyarrow Table of the columns that are text and whose type is not categorical."""
    import pandas as pd
    import pyarrow as pa
    from pandas.api import types

    texts = {}
    for name in names:
        column = frame[name]
        if isinstance(column.dtype, pd.StringDtype) or (
            column.dtype == object and types.infer_dtype(column, skipna=True) == "string"
        ):
            # halves of characters; told where they are written
            with suppress(pa.ArrowException, UnicodeEncodeError):
                texts[name] = pa.chunked_array(
                    [pa.array(column.astype(object), pa.string(), from_pandas=True)]
                )
    return pa.table(texts)


def of_file(file: File, domain: str | None, missing: Collection[str] = ()) -> Part:
    def load(
        names: Sequence[str], text: Collection[str], unchecked: Collection[str]
    ) -> tuple[Any, list[Told]]:
        return file.load(names, text, unchecked, missing)

    return Part(str(file.path), file.columns, load, file.size, file.line, domain, tuple(missing))
