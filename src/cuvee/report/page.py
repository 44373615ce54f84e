"""Write the report: one HTML file that loads nothing, made from `Findings` alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

from cuvee.report import scoring, sections
from cuvee.report.bars import Bar, bars
from cuvee.report.cautions import worries
from cuvee.report.findings import Findings
from cuvee.report.formatting import cleaned, count, seconds
from cuvee.report.layout import layout
from cuvee.report.summary import summary
from cuvee.report.svg import Drawing

REPORT = "cuvee.report"  # where its templates are
LONG = 600  # characters of an option's value
CONTENTS = (
    ("scores", "Scores"),
    ("worries", "What to worry about"),
    ("weights", "How much from whom"),
    ("targets", "Target by target"),
    ("columns", "Which columns count"),
    ("sensitivity", "Sensitivity"),
    ("certificates", "Certificates"),
    ("convergence", "Convergence"),
    ("again", "To do it again"),
)


def render(findings: Findings) -> str:
    """Return the whole page as HTML; names of domains are data and are always escaped."""
    f = cleaned(findings)
    drawn = layout(f)
    return filled(
        "page.html.j2",
        f=f,
        title=f.title,
        kicker="Who learns from whom",
        contents=CONTENTS,
        summary=summary(f),
        weights=sections.weights(f, drawn),
        targets=sections.targets(f, drawn),
        scores=scoring.scores(f),
        columns=sections.columns(f),
        sensitivity=sections.sensitivity(f, drawn),
        certificates=sections.certificates(f),
        convergence=sections.convergence(f),
        worries=worries(f),
        time=_time(f),
        about=_about(f.about),
        version=_version(f.about),
    )


def filled(template: str, packages: Sequence[str] = (REPORT,), /, **content: Any) -> str:
    """Return a template of the first of these packages that has it as a page.

    All its values are escaped.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    def load(name: str) -> str | None:
        has = (p for p in packages if resources.files(p).joinpath(name).is_file())
        return next((file_of(package, name) for package in has), None)

    environment = Environment(
        loader=FunctionLoader(load), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    style = Drawing(file_of(REPORT, "page.css"))
    return environment.get_template(template).render(style=style, **content)


def file_of(package: str, name: str) -> str:
    """Return the text of a file that belongs to a package."""
    return resources.files(package).joinpath(name).read_text("utf-8")


def _time(f: Findings) -> dict[str, Any] | None:
    if not f.seconds:
        return None
    total = sum(s for _, s in f.seconds)
    items = [Bar(name, s, seconds(s)) for name, s in f.seconds]
    label = "Where the time went: " + ", ".join(f"{b.name} {b.says}" for b in items)
    return {
        "name": "Where the time went.",
        "caption": f"{seconds(total)} in {count(len(items), 'step')}.",
        "drawing": bars(items, label, letters=24),
    }


def _about(about: dict[str, Any]) -> list[dict[str, Any]]:
    """Return run.json as small tables: one per group, and one for single values."""
    groups = [(str(k), v) for k, v in about.items() if isinstance(v, dict) and v]
    groups.sort(
        key=lambda g: (
            ("data", "options", "versions").index(g[0])
            if g[0] in ("data", "options", "versions")
            else 9
        )
    )
    loose = {k: v for k, v in about.items() if not isinstance(v, dict)}
    tables = [
        {"name": f"{name.capitalize()}.", "rows": [(k, _plain(v)) for k, v in values.items()]}
        for name, values in groups
    ]
    return [
        *tables,
        *(
            [{"name": "The run.", "rows": [(k, _plain(v)) for k, v in loose.items()]}]
            if loose
            else []
        ),
    ]


def _plain(value: Any) -> str:
    """Return a value of run.json in words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value == []:
        return "none"
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        value = ", ".join(value)
    text = (
        str(value)
        if isinstance(value, (str, int, float))
        else json.dumps(value, ensure_ascii=False, default=str)
    )
    return text if len(text) <= LONG else f"{text[:LONG]}… (all of it is in run.json)"


def _version(about: dict[str, Any]) -> str:
    versions = about.get("versions")
    version = versions.get("cuvee") if isinstance(versions, dict) else None
    return f" {version}" if version else ""
