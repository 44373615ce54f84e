"""Fill the table of maps in maps.md from their registry: `python docs/make_maps.py`, after adding
one.
"""

from __future__ import annotations

import re
from pathlib import Path

from cuvee.learn import registry

PAGE = Path(__file__).with_name("maps.md")
BLOCK = re.compile(r"<!-- maps -->\n.*?<!-- end -->", re.DOTALL)


def table() -> str:
    """Return the maps as a table in Markdown, in the order of error messages and of the command
    line.
    """
    lines = ["| `method=` | what it is | options | file |", "|---|---|---|---|"]
    for each in registry.maps():
        options = ", ".join(f"`{option}`" for option in each.options) or "–"
        file = f"{'/'.join(each.fit.__module__.split('.')[1:])}.py"
        lines.append(f'| `"{each.name}"` | {each.summary} | {options} | `{file}` |')
    return "\n".join(lines)


def filled(page: str) -> str:
    """Return the page with the table as the registry has it now."""
    return BLOCK.sub(lambda _: f"<!-- maps -->\n{table()}\n<!-- end -->", page)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
