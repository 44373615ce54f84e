"""What /openapi.json says of bodies and answers."""

from __future__ import annotations

from typing import Any

from cuvee.serve.arrow import ARROW
from cuvee.serve.csv_rows import CSV
from cuvee.serve.problems import JSON, PROBLEM

CELL = {"type": ["number", "string", "boolean", "null"]}
ROWS = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "object", "additionalProperties": CELL},
}
WEIGHTS = {"type": "object", "additionalProperties": {"type": "number", "minimum": 0, "maximum": 1}}
TRUST = {
    "type": ["string", "null"],
    "enum": [None, "solved", "certified", "corrected"],
}
STRICT = {
    "name": "strict",
    "in": "query",
    "schema": {"type": "boolean", "default": False},
    "description": "Refuse rows with a category that no training row has.",
}
MEANINGS = {
    400: "The body cannot be read.",
    401: "No token, or one that is not known.",
    403: "The role of the token does not allow this, or the server is read-only.",
    404: "There is no such target or job.",
    405: "The address does not take this method.",
    408: "The body did not arrive in time.",
    409: "It contradicts what is there already.",
    413: "The body has too many bytes, rows or columns.",
    415: "The body is of a type that is not read here.",
    422: "The values cannot be used; the sentence says which, and what to do.",
    429: "Too many requests.",
    500: "The server failed.",
    503: "The server is busy, or not ready.",
    504: "The answer took too long.",
}
_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"description": meaning, "content": {PROBLEM: {"schema": _PROBLEM}}}
    for status, meaning in MEANINGS.items()
}


def body(
    properties: dict[str, Any], required: list[str], *, tables: bool = False
) -> dict[str, Any]:
    """Return the `openapi_extra` of a route that reads such a JSON object, or a table of rows."""
    schema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    content: dict[str, Any] = {JSON: {"schema": schema}}
    if tables:
        content[CSV] = {"schema": {"type": "string"}}
        content[ARROW] = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": content}}
