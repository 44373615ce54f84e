"""The page of the service: a shell without data, and what the report shows, for who has a token."""

from __future__ import annotations

import asyncio
from functools import cache

from fastapi import APIRouter, Request, Response

import cuvee
from cuvee.report import sections
from cuvee.report.cautions import worries
from cuvee.report.findings import Findings
from cuvee.report.formatting import cleaned
from cuvee.report.layout import layout
from cuvee.report.page import file_of, filled
from cuvee.report.summary import summary
from cuvee.serve.auth import Role
from cuvee.serve.guard import needs

FOLDER, REPORT = "cuvee.serve.page", "cuvee.report"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HTML, STYLE, SCRIPT = "text/html", "text/css", "text/javascript"
router = APIRouter(include_in_schema=False)


@router.get("/")
async def page() -> Response:
    """Return the page, which holds nothing of the run."""
    return _answer(_shell(), HTML)


@router.get("/page.css")
async def style() -> Response:
    """Return the style: that of the report, and what a form needs."""
    return _answer(_style(), STYLE)


@router.get("/page.js")
async def script() -> Response:
    """Return the script of the page."""
    return _answer(file_of(FOLDER, "page.js"), SCRIPT)


@router.get("/mixture.js")
async def mixture_script() -> Response:
    """Return the part of the script that draws mixtures and models."""
    return _answer(file_of(FOLDER, "mixture.js"), SCRIPT)


@router.get("/v1/overview", dependencies=[needs(Role.read)])
async def overview(request: Request) -> Response:
    """Return the summary, the heat map of α and what to worry about, as the report has them."""
    run = request.app.state.cuvee.run
    return _answer(await asyncio.to_thread(lambda: drawn(run.findings)), HTML)


def drawn(findings: Findings) -> str:
    """Return the parts of the page that hold something of the run; names are always escaped."""
    f = cleaned(findings)
    return filled(
        "overview.html.j2",
        (FOLDER, REPORT),
        title=f.title,
        summary=summary(f),
        weights=sections.weights(f, layout(f)),
        worries=worries(f),
    )


@cache
def _shell() -> str:
    return filled("page.html.j2", (FOLDER, REPORT), version=cuvee.__version__)


@cache
def _style() -> str:
    return file_of(REPORT, "page.css") + file_of(FOLDER, "page.css")


def _answer(text: str, kind: str) -> Response:
    return Response(text, media_type=kind, headers={"Content-Security-Policy": POLICY})
