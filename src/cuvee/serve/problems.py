"""Errors as problem+json (RFC 9457), with the sentences of the library."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from math import isfinite
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from cuvee.errors import CuveeError
from cuvee.outputs.visible import visible
from cuvee.serve.sentences import over_http

JSON, PROBLEM = "application/json", "application/problem+json"
ENDLESS = "/events"  # at the end of the address of a stream, which ends by itself
# as RFC 9110 has them; older Pythons know these by older names
TITLES = {
    413: "Content Too Large",
    414: "URI Too Long",
    416: "Range Not Satisfiable",
    422: "Unprocessable Content",
}
LONGEST = 1_000  # characters of a sentence: it may quote what was sent
_COMPACT = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


class Problem(Exception):
    """A request that cannot be answered: the status of HTTP, and a sentence that says why."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, dict(headers or {})

    def response(self) -> Response:
        """Return the problem as a response."""
        detail = visible(self.detail)
        if len(detail) > LONGEST:
            detail = f"{detail[:LONGEST]}…"
        content = {
            "type": "about:blank",
            "title": TITLES.get(self.status) or HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": detail,
        }
        return Response(to_json(content), self.status, self.headers, PROBLEM)


def to_json(content: Any) -> bytes:
    """Return JSON in ASCII; what is not finite becomes null, for JSON has neither.

    >>> to_json({"gap": float("nan"), "name": "Nürnberg"})
    b'{"gap":null,"name":"N\\\\u00fcrnberg"}'
    """
    return _COMPACT.encode(_plain(content)).encode()


def answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response."""
    return Response(to_json(content), status, headers, JSON)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and np.isfinite(value).all():
            return value.tolist()
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def install(app: FastAPI) -> None:
    """Make every error of the app's routes a problem."""

    @app.exception_handler(Problem)
    async def _problem(request: Request, error: Problem) -> Response:
        return error.response()

    @app.exception_handler(CuveeError)
    async def _refused(request: Request, error: CuveeError) -> Response:
        return Problem(422, over_http(str(error))).response()

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(map(str, first.get("loc", ())))
        return Problem(422, f"{place}: {first.get('msg', 'it is not valid')}").response()

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        sentences = {
            404: "there is nothing at this address; /openapi.json lists what there is",
            405: "this address does not take this method; /openapi.json lists which it takes",
        }
        detail = sentences.get(error.status_code, str(error.detail))
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers |= allowed(app, request.url.path)
        return Problem(error.status_code, detail, headers).response()


def allowed(app: FastAPI, path: str) -> dict[str, str]:
    """Return the header that lists all methods of an address; a router knows one route's alone.

    Names of targets may hold slashes, so that several templates fit: the longest is meant.
    """
    templates = app.openapi()["paths"]
    fits = [t for t in templates if re.fullmatch(re.sub(r"\\{.*?\\}", ".+", re.escape(t)), path)]
    if not fits:
        return {}
    methods = {method.upper() for method in templates[max(fits, key=len)]}
    if "GET" in methods and not path.endswith(ENDLESS):
        methods.add("HEAD")
    return {"Allow": ", ".join(sorted(methods))}
