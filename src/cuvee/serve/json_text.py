"""JSON, read quickly; what is wrong with it is said by a slower reader."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pydantic_core import from_json

from cuvee.data.columns import short
from cuvee.serve.problems import Problem

NESTED = {dict, list}
STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')


def parse(content: bytes, depth: int) -> Any:
    """Return what JSON in UTF-8 stands for.

    NaN, names that an object gives twice, and what is nested too deeply, are errors.
    """
    with suppress(ValueError):  # then the slower reader says what is wrong
        parsed = from_json(content, allow_inf_nan=False, cache_strings="keys")
        # nothing is nested more deeply than there are brackets, and counting those is quick
        if content.count(b"{") + content.count(b"[") > depth:
            check_depth(parsed, depth)
        if isinstance(parsed, dict):
            check_names(content, parsed)
        return parsed
    try:
        text = content.decode("utf-8")
        parsed = json.loads(text, parse_constant=_refused, object_pairs_hook=_once(0))
    except RecursionError:
        raise Problem(
            422, "the JSON is nested too deeply; send rows, one below the other"
        ) from None
    except UnicodeDecodeError:
        raise Problem(400, "the body is not UTF-8; send JSON in UTF-8") from None
    except json.JSONDecodeError as error:
        if content.startswith(BOM_UTF8):
            raise Problem(
                400, "the body begins with a byte order mark, which is not JSON; send it without"
            ) from None
        raise Problem(400, f"the body is not JSON ({error}); correct it") from None
    except ValueError:  # of Python's int
        raise Problem(
            400, "the body is not JSON that can be read: a number has thousands of digits; round it"
        ) from None
    if isinstance(parsed, dict | list):
        check_depth(parsed, depth)
    return parsed


def check_depth(value: Any, most: int) -> None:
    """Raise `Problem` where JSON is nested more than `most` deep."""
    level: list[Any] = [value]
    for _ in range(most):
        inner = [v.values() if isinstance(v, dict) else v for v in level]
        level = [one for part in inner for one in part if type(one) in NESTED]
        if not level:
            return
    raise Problem(422, f"the JSON is nested more than {most} deep; send rows of plain values")


def check_names(content: bytes, parsed: dict[str, Any]) -> None:
    """Raise `Problem` where an object gives a name twice: readers of JSON keep the last alone.

    Each name has a colon after it, so that as many colons as names are proof that there is none;
    to count them takes far less than to look at each name.
    """
    rows, names = parsed.get("rows"), len(parsed)
    for value in parsed.values():
        if type(value) is dict:
            names += len(value)
        elif type(value) is list:
            names += sum([len(row) for row in value if type(row) is dict])
    if content.count(b":") > names < STRING.sub(b"", content).count(b":"):
        json.loads(content, object_pairs_hook=_once(len(rows) if type(rows) is list else 0))


def _once(rows: int) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """Return what makes an object of its pairs; the first `rows` that end are rows."""
    ended = 0

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal ended
        found = dict(pairs)
        if len(found) < len(pairs):
            name = short(Counter(name for name, _ in pairs).most_common(1)[0][0])
            where = f"row {ended} gives" if ended < rows else "an object of the body gives"
            raise Problem(422, f"{where} {name} more than once; give each name once")
        ended += 1
        return found

    return made


def _refused(constant: str) -> Any:
    raise Problem(
        400,
        f"the body is not JSON: {constant} is no number there; leave the value out, or send null",
    )
