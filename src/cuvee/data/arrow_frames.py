"""Frames for pandas, made of tables of Arrow without a loss."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from cuvee.data.columns import as_written
from cuvee.data.notation import Kind, as_numbers, without_words


def to_frame(
    table: Any, kinds: Mapping[str, Kind], first: int = 0, missing: Collection[str] = ()
) -> Any:
    """Return a frame of a pyarrow Table, its index from `first` on.

    `kinds` says what text cells are, and `missing` are words for empty ones.
    """
    import pandas as pd
    from pyarrow import compute

    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = kinds.get(name)
        if kind in ("number", "comma", "missing"):
            column = as_numbers(column, kind, missing)
        elif kind == "truth":
            column = compute.equal(compute.ascii_lower(without_words(column, missing)), "true")
        columns[name] = _written(column) if kind == "text" else _exact(column)
    return pd.DataFrame(columns).set_axis(pd.RangeIndex(first, first + len(table)))


def _written(column: Any) -> Any:
    """Return a column that was declared as text; its numbers are written out, 12.0 as "12"."""
    import pyarrow as pa
    from pyarrow import compute

    if pa.types.is_integer(column.type):
        column = compute.cast(column, pa.string())
    elif (
        pa.types.is_floating(column.type)
        or pa.types.is_boolean(column.type)
        or pa.types.is_decimal(column.type)
    ):
        return column.to_pandas().astype(object).map(as_written, na_action="ignore")
    return column.to_pandas()


def _exact(column: Any) -> Any:
    """Return a column for pandas in which whole numbers stay exact.

    Whole numbers beside gaps stay whole where floats would round them.
    """
    import pandas as pd
    import pyarrow as pa
    from pyarrow import compute

    if pa.types.is_boolean(column.type) and column.null_count:
        # pandas would make objects of them
        return column.to_pandas(types_mapper={pa.bool_(): pd.BooleanDtype()}.get)
    if pa.types.is_integer(column.type) and column.null_count:
        ends = compute.min_max(column).as_py()
        if ends["max"] is not None and max(ends["max"], -ends["min"]) >= 2**53:
            return column.to_pandas(
                types_mapper=lambda t: pd.UInt64Dtype() if t == pa.uint64() else pd.Int64Dtype()
            )
    return column.to_pandas()
