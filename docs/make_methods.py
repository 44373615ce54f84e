"""Fill the table of α methods in choosing.md from their registry: `python docs/make_methods.py`,
after adding one.
"""

from __future__ import annotations

import re
from pathlib import Path

from cuvee.mixture import registry

PAGE = Path(__file__).with_name("choosing.md")
BLOCK = re.compile(r"<!-- α methods -->\n.*?<!-- end -->", re.DOTALL)


def table() -> str:
    """Return the methods as a table in Markdown, in the order of error messages and of the command
    line.
    """
    lines = ["| `method=` | what it does | steps | own sample |", "|---|---|---|---|"]
    for name in registry.names():
        method = registry.find(name)
        steps = f"{method.steps:,}" if method.steps else "–"
        if method.network_steps:
            steps += f", network {method.network_steps:,}"
        lines.append(
            f"| `{name}` | {method.summary} | {steps} | "
            f"{'always joins' if method.own else 'on request'} |"
        )
    return "\n".join(lines)


def filled(page: str) -> str:
    """Return the page with the table as the registry has it now."""
    return BLOCK.sub(lambda _: f"<!-- α methods -->\n{table()}\n<!-- end -->", page)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
