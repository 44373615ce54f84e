"""Write what examples print below their code on the pages that hold it: `make docs`.

Only examples that print the same each time; those that print seconds are kept by hand.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import textwrap
from pathlib import Path

DOCS = Path(__file__).resolve().parent
EXAMPLES = DOCS.parent / "examples"
PAGE_OF = {"clinics": "idea", "grid_search": "sklearn", "sites": "examples", "theory": "theory"}
WIDTH = 118


def code_of(name: str) -> str:
    """Return an example without its docstring, as pages show it."""
    return (EXAMPLES / f"{name}.py").read_text(encoding="utf-8").split("\n\n", 1)[1].strip()


def block(name: str, page: str) -> tuple[int, int]:
    """Return where the output of an example starts and ends on its page."""
    after = page.index(code_of(name)) + len(code_of(name) + "\n```\n")  # behind the code's block
    found = re.compile(r"^```(?:text)?\n(.*?)^```$", re.DOTALL | re.MULTILINE).search(page, after)
    if found is None:
        raise SystemExit(f"there is no block for the output of {name}.py")
    return found.span(1)


def printed(name: str) -> str:
    """Return what an example prints, in lines that fit a page."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    lines = [
        textwrap.wrap(x, WIDTH) if len(x) > WIDTH else [x] for x in out.getvalue().splitlines()
    ]
    return "\n".join(part for line in lines for part in line) + "\n"


def main() -> None:
    """Fill the blocks of all pages."""
    for name, page in PAGE_OF.items():
        path = DOCS / f"{page}.md"
        text = path.read_text(encoding="utf-8")
        start, end = block(name, text)
        path.write_text(text[:start] + printed(name) + text[end:], encoding="utf-8")


if __name__ == "__main__":
    main()
