"""What every request passes: who it is from, how many there are, how long it takes."""

from __future__ import annotations

import asyncio
import logging
import time
from math import ceil
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cuvee.serve.auth import Role, Tokens
from cuvee.serve.limits import Limits, Rate
from cuvee.serve.metrics import Metrics
from cuvee.serve.problems import ENDLESS, Problem
from cuvee.serve.streams import Streams

# what needs no token, because it holds nothing of the run
OPEN = ("/healthz", "/readyz", "/openapi.json", "/", "/page.css", "/page.js", "/mixture.js")
JOBS = "/v1/jobs/"
ONCE = (b"authorization", b"content-type", b"content-length", b"host")  # headers of one value
SAFE = {
    b"x-content-type-options": b"nosniff",
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"referrer-policy": b"no-referrer",
}
log = logging.getLogger("cuvee.serve")
_bearer = HTTPBearer(auto_error=False, description="The token that the server showed.")


class Guard:
    """Wrap an app: tokens, rates, requests at once, seconds, counts, and what is unexpected."""

    def __init__(self, app: ASGIApp, tokens: Tokens, limits: Limits, metrics: Metrics) -> None:
        self._app, self._tokens, self._limits, self._metrics = app, tokens, limits, metrics
        self._rate, self._streams, self._under_way = Rate(limits), Streams(limits), 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, method = time.perf_counter(), 0, _method(scope)
        if method == "HEAD" and not scope["path"].endswith(ENDLESS):
            scope = {**scope, "method": "GET"}  # the server sends the headers of the answer alone

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = {name for name, _ in message["headers"]}
                extra = [(name, value) for name, value in SAFE.items() if name not in given]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        endless = _endless(scope)
        self._under_way += not endless
        try:
            client = self._check(scope)
            if endless:
                with self._streams.place(client):
                    await self._app(scope, receive, sent)
            else:
                async with asyncio.timeout(self._limits.seconds):
                    await self._app(scope, receive, sent)
        except Problem as problem:
            await problem.response()(scope, receive, sent)
        except TimeoutError:
            if not status:
                late = f"no answer within {self._limits.seconds:g} seconds; ask for less at once"
                await Problem(504, late).response()(scope, receive, sent)
        except Exception as error:
            # neither the body nor a header is logged: they may hold secrets
            log.exception("unexpected %s", type(error).__name__)
            if not status:
                sentence = "the server failed at this request; its log says where"
                await Problem(500, sentence).response()(scope, receive, sent)
        finally:
            self._under_way -= not endless
            seconds = time.perf_counter() - began
            self._metrics.answered(_route(scope), method, status, seconds)

    def _check(self, scope: Scope) -> str:
        """Return whose request it is; raise `Problem` unless it may be answered."""
        path, ambiguous = scope["path"], _ambiguous(scope)
        if path in OPEN[:2] and not ambiguous:
            return ""
        given = b"" if ambiguous else dict(scope["headers"]).get(b"authorization", b"")
        header = given.decode("latin-1")
        role, digest = self._tokens.find(header)
        address = (scope.get("client") or ("",))[0]
        key = digest.hex() if role else f"address {address}"
        wait = self._rate.wait(key)
        if wait:
            again = {"Retry-After": str(max(1, ceil(wait)))}
            raise Problem(429, f"these are too many requests; wait {wait:.1f} seconds", again)
        if self._under_way > self._limits.at_once and not _endless(scope):
            sentence = "too many requests are under way; ask again in a second"
            raise Problem(503, sentence, {"Retry-After": "1"})
        if ambiguous:  # what follows on this connection cannot be trusted either
            raise Problem(400, ambiguous, {"Connection": "close"})
        if role is None and path not in OPEN:
            raise Problem(
                401,
                "this needs a token: send the header 'Authorization: Bearer TOKEN'"
                if not header
                else "this token is not known here; ask whoever started the server for one",
                {"WWW-Authenticate": "Bearer"},
            )
        scope.setdefault("state", {})["role"] = role
        return key


def _ambiguous(scope: Scope) -> str:
    """Return what is wrong where headers contradict each other, so that a proxy may read others."""
    names = [name for name, _ in scope["headers"]]
    twice = next((name for name in ONCE if names.count(name) > 1), None)
    if twice is not None:
        return f"the header {twice.decode().title()!r} is there more than once; send it once"
    if b"content-length" in names and b"transfer-encoding" in names:
        return "the headers 'Content-Length' and 'Transfer-Encoding' exclude each other; send one"
    return ""


def _endless(scope: Scope) -> bool:
    path = scope["path"]
    return scope["method"] == "GET" and path.startswith(JOBS) and path.endswith(ENDLESS)


def _route(scope: Scope) -> str:
    route: Any = scope.get("route")
    return getattr(route, "path", "(none)")


def _method(scope: Scope) -> str:
    known = ("GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH")
    return scope["method"] if scope["method"] in known else "other"


def needs(role: Role) -> Any:
    """Return the dependency of a route that only tokens of this role, or a higher one, may use."""

    async def check(request: Request, _: Annotated[Any, Security(_bearer)]) -> None:
        allow(request, role)

    return Depends(check)


def allow(request: Request, role: Role) -> None:
    """Raise `Problem` unless the token of a request has this role, or a higher one."""
    given = request.scope["state"].get("role")
    if given is None or given < role:
        raise Problem(403, f"this needs a token of the role {role.name!r}")
