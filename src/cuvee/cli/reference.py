"""The tables of options in docs/cli.md, made from the commands: `python -m cuvee.cli.reference
docs/cli.md`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import typer

from cuvee.cli import app

BLOCK = re.compile(r"<!-- options of ([\w ]+) -->\n.*?<!-- end -->", re.DOTALL)


def commands() -> dict[str, Any]:
    """Return every command by its name, in the order of `cuvee --help`.

    Those of a group have its name before theirs: `mix fit`.
    """
    single: dict[str, Any] = {}
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)  # of a group
        single |= {name: command} if inner is None else {f"{name} {n}": c for n, c in inner.items()}
    return single


def options_of(name: str) -> str:
    """Return a command's arguments and options as a table in Markdown."""
    lines = ["| | |", "|---|---|"]
    for param in commands()[name].params:
        if param.name == "help":
            continue
        lines.append(f"| {_written(param)} | {_said(param)} |")
    return "\n".join(lines)


def _written(param: Any) -> str:
    if param.param_type_name == "argument":
        return f"`{param.metavar or param.name.upper()}`"
    value = "" if param.is_flag else f" {param.metavar}"
    names = ", ".join(f"`{opt}{value}`" for opt in sorted(param.opts, key=len, reverse=True))
    return names + "".join(f", `{opt}`" for opt in param.secondary_opts)


def _said(param: Any) -> str:
    help_text = str(param.help or "").replace("|", "\\|")
    if param.param_type_name == "argument":
        return help_text
    if param.required:
        return f"{help_text} **Required.**"
    plain = (
        param.default is None or param.is_flag or callable(param.default) or param.default == "auto"
    )
    return help_text if plain else f"{help_text} `{param.default}`"


def filled(page: str) -> str:
    """Return the page with every table of options as the commands have it now."""
    return BLOCK.sub(
        lambda m: f"<!-- options of {m[1]} -->\n{options_of(m[1])}\n<!-- end -->", page
    )


if __name__ == "__main__":
    where = Path(sys.argv[1])
    where.write_text(filled(where.read_text(encoding="utf-8")), encoding="utf-8")
