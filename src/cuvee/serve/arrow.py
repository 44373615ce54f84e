"""Rows as Arrow streams, in and out; what could grow beyond its bytes is refused."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

from cuvee.serve.limits import Limits
from cuvee.serve.problems import Problem
from cuvee.serve.wanted import Wanted

ARROW = "application/vnd.apache.arrow.stream"
RECORDS, DICTIONARY = 3, 2  # kinds of messages, as Arrow's Message.fbs numbers them


def from_arrow(content: bytes, wanted: Wanted, limits: Limits) -> Any:
    """Return those columns of an Arrow stream that are wanted as a frame; others are ignored.

    Compressed streams are refused, because their headers alone say how large they become.
    """
    import pyarrow as pa

    try:
        _check_uncompressed(content)
        with pa.ipc.open_stream(pa.BufferReader(content)) as stream:
            _check_schema(stream.schema, limits)
            batches, rows = [], 0
            for batch in stream:
                rows += batch.num_rows
                if rows > limits.rows:
                    raise Problem(413, f"there are more than {limits.rows:,} rows; send fewer")
                batch.validate(full=True)
                batches.append(batch)
            table = pa.Table.from_batches(batches, stream.schema)
        if not rows:
            raise Problem(422, "the Arrow stream holds no rows; send at least one")
        wanted.check(table.column_names, rows, limits)
        return table.select(list(wanted.names)).to_pandas(use_threads=False)
    except (pa.ArrowException, struct.error, ValueError, OverflowError, OSError) as error:
        line = str(error).partition("\n")[0]
        raise Problem(400, f"the body is not an Arrow stream ({line}); correct it") from None


def to_arrow(frame: Any, notes: Sequence[str] = ()) -> bytes:
    """Return a frame as an Arrow stream, with notes as JSON in the metadata of its schema."""
    import pyarrow as pa

    table = pa.Table.from_pandas(frame, preserve_index=False, nthreads=1)
    if notes:
        known = table.schema.metadata or {}
        table = table.replace_schema_metadata({**known, "notes": json.dumps([*notes])})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def _check_schema(schema: Any, limits: Limits) -> None:
    from pyarrow import types as t

    if len(schema) > limits.columns:
        raise Problem(413, f"there are {len(schema):,} columns; send at most {limits.columns:,}")
    if len(set(schema.names)) < len(schema):
        raise Problem(422, "two columns of the Arrow stream have the same name; rename one")
    for field in schema:
        kind = field.type.value_type if t.is_dictionary(field.type) else field.type
        plain = t.is_integer(kind) or t.is_floating(kind) or t.is_boolean(kind) or t.is_null(kind)
        if not (plain or t.is_string(kind) or t.is_large_string(kind)):
            raise Problem(
                422,
                f"column {field.name!r} of the Arrow stream is {kind}; send numbers, text or truth "
                "values",
            )


def _check_uncompressed(content: bytes) -> None:
    """Raise `Problem` where a message of the stream is compressed.

    pyarrow does not tell before it has expanded a message, so that the field is read here: messages
    are tables of FlatBuffers, whose field 2 is the header; a record batch has its compression in
    field 3, and a dictionary has its record batch in field 1.
    """
    place = 0
    while place + 8 <= len(content):
        mark, size = struct.unpack_from("<Ii", content, place)
        if mark != 0xFFFFFFFF:
            raise ValueError("its messages are of a format before Arrow 0.15")
        if size <= 0:
            return
        message = place + 8
        root = message + struct.unpack_from("<I", content, message)[0]
        kind_at, header_at, length_at = (_field(content, root, i) for i in (1, 2, 3))
        kind = content[kind_at] if kind_at else 0
        body = struct.unpack_from("<q", content, length_at)[0] if length_at else 0
        records = _table(content, header_at)
        if kind == DICTIONARY and records:
            records = _table(content, _field(content, records, 1))
        if kind in (RECORDS, DICTIONARY) and records and _field(content, records, 3):
            raise Problem(415, "the Arrow stream is compressed; write it without compression")
        if body < 0:
            raise ValueError("a message has a length below 0")
        place = message + size + body


def _field(content: bytes, table: int, number: int) -> int:
    """Return where a field of a FlatBuffers table stands, or 0 where it is not there."""
    vtable = table - struct.unpack_from("<i", content, table)[0]
    if vtable < 0:
        raise ValueError("a table has no place for its fields")
    if 4 + 2 * number >= struct.unpack_from("<H", content, vtable)[0]:
        return 0
    offset = struct.unpack_from("<H", content, vtable + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _table(content: bytes, field: int) -> int:
    return field + struct.unpack_from("<I", content, field)[0] if field else 0
