"""Read the YAML that `written` writes, and other maps and lists of its kind, a value per line.

A whole reader of YAML would be one more dependency. Of YAML this knows maps and lists in blocks,
quoted and plain text, numbers and comments on lines of their own; all else is a `ValueError`.
"""

from __future__ import annotations

import json
from typing import Any

OTHER = "{}[]&*!|>?%@`,"  # what begins that which is not read here
Lines = list[tuple[int, str]]  # the indent of each line, and what it holds


def read_yaml(text: str) -> Any:
    """Return the maps, lists, texts and numbers of a document.

    >>> read_yaml('# shares\\n"web": 0.7\\ncode: 0.3\\n')
    {'web': 0.7, 'code': 0.3}
    """
    lines = [
        (len(line) - len(line.lstrip(" ")), line.strip())
        for line in text.removeprefix("\ufeff").splitlines()
        if line.strip() and not line.lstrip().startswith("#") and line.strip() != "---"
    ]
    if not lines:
        raise ValueError("the document is empty")
    value, end = _block(lines, 0)
    if end < len(lines):
        raise ValueError(f"a line is indented unlike those before it: {lines[end][1]}")
    return value


def _block(lines: Lines, i: int) -> tuple[Any, int]:
    """Return the map or list that begins at line i, and the line after it."""
    indent = lines[i][0]
    if _is_item(lines[i][1]):
        return _list(lines, i, indent)
    made: dict[str, Any] = {}
    while i < len(lines) and lines[i][0] == indent and not _is_item(lines[i][1]):
        key, rest = _entry(lines[i][1])
        if key in made:
            raise ValueError(f"two entries are named {key}")
        # a list may stand below its key without an indent
        inside = i + 1 < len(lines) and (
            lines[i + 1][0] > indent or (lines[i + 1][0] == indent and _is_item(lines[i + 1][1]))
        )
        if not rest and not inside:
            raise ValueError(f"{key} has no value")
        made[key], i = _block(lines, i + 1) if not rest else (_scalar(rest), i + 1)
    return made, i


def _list(lines: Lines, i: int, indent: int) -> tuple[list[Any], int]:
    made = []
    while i < len(lines) and lines[i][0] == indent and _is_item(lines[i][1]):
        rest = lines[i][1][1:].lstrip()
        if not rest:
            raise ValueError("an entry of a list has no value")
        try:
            _entry(rest)
        except ValueError:
            made.append(_scalar(rest))
            i += 1
        else:  # a map begins on the line of its dash
            lines[i] = (indent + len(lines[i][1]) - len(rest), rest)
            value, i = _block(lines, i)
            made.append(value)
    return made, i


def _is_item(content: str) -> bool:
    return content == "-" or content.startswith("- ")


def _entry(content: str) -> tuple[str, str]:
    """Return the key of a line, and what stands behind its colon."""
    if content[0] == '"':
        key, end = json.JSONDecoder().raw_decode(content)
    elif content[0] == "'":
        end = content.index("'", 1) + 1
        key = content[1 : end - 1]
    else:
        if content[0] in OTHER:
            raise ValueError(f"no plain key: {content}")
        end = content.index(":") if content.endswith(":") else content.index(": ")
        key = content[:end].rstrip()
    rest = content[end:].lstrip()
    if rest[:1] != ":" or rest[1:2].strip():
        raise ValueError(f"no key and value: {content}")
    return str(key), rest[1:].strip()


def _scalar(text: str) -> str | float:
    if text[0] == '"':
        return str(json.loads(text))
    if text[0] == "'" and text[-1] == "'" and len(text) > 1:
        return text[1:-1]
    if text[0] in OTHER:
        raise ValueError(f"no text and no number: {text}")
    try:
        return float(text.split(" #")[0])
    except ValueError:
        return text
