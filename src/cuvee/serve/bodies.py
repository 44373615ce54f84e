"""Bodies of requests: JSON or Arrow, within limits that are checked before anything is made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

from starlette.requests import Request

from cuvee.data.columns import short
from cuvee.results import Floats
from cuvee.serve.arrow import ARROW, from_arrow
from cuvee.serve.csv_rows import CSV, from_csv
from cuvee.serve.json_text import parse
from cuvee.serve.limits import Limits
from cuvee.serve.problems import JSON, Problem
from cuvee.serve.wanted import Wanted

# bytes, and rows, that are read on another thread, so that others are answered meanwhile
LARGE, MANY = 2**18, 200
STRICT = "strict"  # whether categories that no training row has are an error


async def read_rows(
    request: Request,
    limits: Limits,
    wanted: Wanted,
    encoded: Callable[[Sequence[Mapping[str, Any]]], Floats | None] = lambda rows: None,
) -> tuple[Any, bool]:
    """Return the rows of a body as a frame, and whether they ask to be read strictly.

    The body is Arrow, CSV, or JSON {"rows": [{column: value}]}. Rows of JSON that `encoded` can
    read are returned as it gives them, (rows, d).
    """
    kind = type_of(request)
    strict = _strict(request)
    if kind in (ARROW, CSV):
        read = from_arrow if kind == ARROW else from_csv
        content = await _bytes(request, limits)
        return await asyncio.to_thread(read, content, wanted, limits), strict
    parsed = await read_json(request, limits, required=("rows",), optional=(STRICT,))
    rows, said = parsed["rows"], parsed.get(STRICT, False)
    if not isinstance(said, bool):
        raise Problem(422, f"{STRICT} must be true or false")
    strict = strict or said
    if not _are_rows(rows, limits):
        return frame_of(rows, wanted, limits), strict  # which says what is wrong
    many = len(rows) > MANY
    X = await asyncio.to_thread(encoded, rows) if many else encoded(rows)
    return (await framed(rows, wanted, limits) if X is None else X), strict


def _strict(request: Request) -> bool:
    """Return whether the address asks for it, as bodies that are tables cannot."""
    said = request.query_params.get(STRICT, "false")
    if said not in ("true", "false"):
        raise Problem(422, f"{STRICT} must be true or false")
    return said == "true"


def _are_rows(rows: Any, limits: Limits) -> bool:
    """Return whether these are objects, not more than may be, of not too many columns."""
    if not isinstance(rows, list) or not 0 < len(rows) <= limits.rows:
        return False
    return all(type(row) is dict and len(row) <= limits.columns for row in rows)


async def read_json(
    request: Request, limits: Limits, *, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the JSON object of a body, which has these names and no others."""
    if type_of(request) not in (JSON, ""):
        raise Problem(
            415,
            f"the body is {short(type_of(request))}; send {JSON}"
            + (f", {CSV} or {ARROW}" if "rows" in required else ""),
        )
    content = await _bytes(request, limits)
    large = len(content) > LARGE
    depth = limits.depth
    parsed = await asyncio.to_thread(parse, content, depth) if large else parse(content, depth)
    if not isinstance(parsed, dict):
        raise Problem(422, "the body must be a JSON object, in braces")
    for name in required:
        if name not in parsed:
            raise Problem(422, f"the body has no {name!r}; add it")
    for name in parsed:
        if name not in (*required, *optional):
            known = ", ".join(map(repr, (*required, *optional)))
            raise Problem(
                422, f"the body holds {short(name)}, which means nothing here; use {known}"
            )
    return parsed


async def framed(rows: Any, wanted: Wanted, limits: Limits) -> Any:
    """Return rows as a frame, made on another thread where they are many."""
    if isinstance(rows, list) and len(rows) > MANY:
        return await asyncio.to_thread(frame_of, rows, wanted, limits)
    return frame_of(rows, wanted, limits)


def frame_of(rows: Any, wanted: Wanted, limits: Limits) -> Any:
    """Return the wanted columns of rows [{column: value}] as a frame; others are ignored.

    Values are numbers, text, truth values or null.
    """
    import pandas as pd

    if not isinstance(rows, list) or not rows:
        raise Problem(422, "rows must be a list of at least one row, such as [{column: value}]")
    if len(rows) > limits.rows:
        raise Problem(413, f"there are {len(rows):,} rows; send at most {limits.rows:,} at once")
    columns: dict[str, None] = {}
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            raise Problem(422, f"row {i} is not an object: write it as {{column: value}}")
        wide = len(row) > limits.columns
        if not wide:
            columns.update(dict.fromkeys(row))
        if wide or len(columns) > limits.columns:
            raise Problem(
                413, f"the rows have more than {limits.columns:,} columns; send those of the models"
            )
        for name, value in row.items():
            row[name] = _cell(value, name, i)
    for name in columns:
        _check_text(name, "a column's name")
    wanted.check(columns, len(rows), limits)
    return pd.DataFrame({name: [row.get(name) for row in rows] for name in wanted.names})


def check_name(name: Any, limits: Limits) -> str:
    """Return the name of a new target; raise `Problem` unless it can be shown and written."""
    if not isinstance(name, str) or not name.strip():
        raise Problem(422, "name must be a text that is not empty")
    if len(name) > limits.name:
        raise Problem(422, f"name has {len(name):,} characters; use at most {limits.name}")
    if not name.isprintable():  # half of a character is not, either
        raise Problem(
            422, f"name {short(name)} holds control characters; use letters, digits and spaces"
        )
    if name != name.strip():
        raise Problem(422, f"name {short(name)} begins or ends with a space; send it without")
    if name in (".", ".."):
        raise Problem(422, f"name {name!r} cannot be part of an address; choose another one")
    return name


def check_weights(weights: Any, limits: Limits) -> Mapping[str, float]:
    """Return weights {source: weight}, which are numbers."""
    if not isinstance(weights, dict) or not weights:
        raise Problem(422, "alpha must be an object of weights, such as {source: weight}")
    if len(weights) > limits.columns:
        raise Problem(413, f"alpha has {len(weights):,} weights; send at most {limits.columns:,}")
    for name, value in weights.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Problem(422, f"alpha: the weight of {short(name)} is not a number")
        _cell(value, name, 0)
    return weights


def _cell(value: Any, name: str, row: int) -> Any:
    if isinstance(value, str):
        _check_text(value, f"row {row}: column {short(name)}")
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int | float):
        try:
            number = value if isinstance(value, int) and abs(value) < 2**63 else float(value)
        except OverflowError:
            number = float("inf")
        if isfinite(number):
            return number
        raise Problem(422, f"row {row}: column {short(name)} is a number that no float can hold")
    raise Problem(
        422, f"row {row}: column {short(name)} holds a list or an object; send plain values"
    )


def _check_text(text: str, where: str) -> None:
    """Raise `Problem` where half of a character stands alone: JSON can say it, UTF-8 cannot."""
    if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
        raise Problem(422, f"{where} holds half of a character; send whole ones")


def type_of(request: Request) -> str:
    """Return the type of a body, without its parameters."""
    return header(request, b"content-type").partition(";")[0].strip().lower()


def header(request: Request, name: bytes) -> str:
    """Return a header of a request, or nothing; looking one up in Starlette's takes longer."""
    return next((v.decode("latin-1") for key, v in request.scope["headers"] if key == name), "")


async def _bytes(request: Request, limits: Limits) -> bytes:
    """Return the body, read as far as the limits allow."""
    if header(request, b"content-encoding").lower() not in ("", "identity"):
        raise Problem(415, "the body is compressed; send it as it is")
    too_large = Problem(413, f"the body is larger than {limits.body:,} bytes; send fewer rows")
    length = header(request, b"content-length")
    if length.isdecimal() and len(length) < 20 and int(length) > limits.body:
        raise too_large
    content = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            more = True
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise Problem(400, "the connection was closed before the body was complete")
                content += message.get("body", b"")
                if len(content) > limits.body:
                    raise too_large
                more = message.get("more_body", False)
    except TimeoutError:
        raise Problem(
            408, f"the body did not arrive within {limits.body_seconds:g} seconds; send it again"
        ) from None
    return bytes(content)
