"""Run the scripts of examples/gallery and write a page with output and pictures for each:
`python docs/make_gallery.py`, or with names of scripts, those alone.

A script is cut into cells at its lines `# %% Heading`. The comment below such a line is the text of
the cell; code, what it printed, and the PNG files that it wrote follow. Pages and pictures go to
build/gallery, from where `make site` takes them. Every script runs in a process of its own.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "examples" / "gallery"
PAGES = ROOT / "build" / "gallery"
ORDER = (
    "hospitals",
    "schools",
    "mnist",
    "personal",
    "stream",
    "sensors",
    "mixture",
    "federated",
)
WHOLE_WIDTH = "---\nhide:\n  - toc\n---\n\n"  # lines of code then fit
MOST_SECONDS = 60  # of CPU, for one script
WIDTH = 88  # columns of what a script prints


@dataclass(frozen=True)
class Cell:
    """A heading, the text below it and the code below that; the first cell is the docstring's."""

    heading: str
    text: str
    code: str


def cells(script: str) -> list[Cell]:
    """Return the cells of a script: first its title, introduction and imports, then the others.

    >>> [cell.heading for cell in cells("'Title.'\\nimport os\\n# %% One\\n# Text.\\nx = 1\\n")]
    ['Title', 'One']
    """
    head, *rest = re.split(r"^# %% (?=.)", script, flags=re.MULTILINE)
    tree = ast.parse(head)
    title, _, introduction = (ast.get_docstring(tree) or "").partition("\n")
    imports = "\n".join(head.splitlines()[tree.body[0].end_lineno :])
    found = [Cell(title.rstrip("."), introduction.strip(), imports.strip())]
    for part in rest:
        heading, _, body = part.partition("\n")
        lines = body.splitlines()
        n = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
        text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines[:n])
        found.append(Cell(heading.strip(), text, "\n".join(lines[n:]).strip()))
    return found


def run(path: Path, out: Path) -> str:
    """Run a script cell by cell in a new folder, and return its page; pictures go to `out`."""
    import matplotlib

    matplotlib.use("Agg")
    os.environ["COLUMNS"] = str(WIDTH)
    out, page = out.resolve(), []
    names: dict[str, object] = {"__name__": "__main__", "__file__": str(path)}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, cell in enumerate(cells(path.read_text(encoding="utf-8"))):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(cell.code, str(path), "exec"), names)  # noqa: S102  (our own scripts)
            page += [f"{'##' if number else '#'} {cell.heading}", linked(cell.text)]
            page += [f"```python\n{cell.code}\n```"] if cell.code else []
            page += [f"```text\n{wrapped(printed.getvalue())}\n```"] if printed.getvalue() else []
            for picture in sorted(Path(folder).glob("*.png")):
                picture.replace(out / picture.name)
                page.append(f"![{cell.heading}]({picture.name})")
    return "\n\n".join(page) + "\n"


def linked(text: str) -> str:
    """Return the text with links that lead from the page of the site, not from the script."""
    return text.replace("](../../docs/", "](../")


def wrapped(printed: str) -> str:
    """Return what was printed with lines that fit a page; tables, which have gaps, stay whole."""
    lines = []
    for line in printed.rstrip().splitlines():
        while len(line) > WIDTH and "   " not in line:
            cut = line.rfind(" ", 0, WIDTH)
            if cut <= 0:
                break
            lines.append(line[:cut])
            line = line[cut + 1 :]
        lines.append(line)
    return "\n".join(lines)


def index(made: dict[str, Cell]) -> str:
    """Return the page that shows all scripts with their pictures."""
    cards = "\n\n".join(
        f"-   [![{cell.heading}]({name}.png)]({name}.md)\n\n    **[{cell.heading}]({name}.md)**"
        for name, cell in made.items()
    )
    return (
        WHOLE_WIDTH + "# Gallery\n\n"
        "On these pages you see cuvee at work, from the data to a picture. Each page is a script "
        "of `examples/gallery` that runs in under a minute; what it printed and drew was "
        "made when this site was built.\n\n"
        f'<div class="grid cards" markdown>\n\n{cards}\n\n</div>\n'
    )


def made_by(name: str, seconds: float) -> str:
    """Return the line at the end of a page."""
    command = f"python examples/gallery/{name}.py"
    return (
        f"\n---\n\nTo run it yourself, from a clone: `{command}`. It took {seconds:.0f} s of CPU "
        "here, and leaves its pictures in the current folder.\n"
    )


def make(name: str, out: Path) -> Cell:
    """Run one script in a process of its own, and write its page."""
    command = [sys.executable, __file__, "--run", str(SCRIPTS / f"{name}.py"), str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # pages do not depend on the cores
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)  # noqa: S603
    if ended.returncode:
        raise SystemExit(f"examples/gallery/{name}.py failed:\n{ended.stderr}")
    page, seconds = json.loads(ended.stdout.splitlines()[-1])
    if seconds > MOST_SECONDS:
        raise SystemExit(f"examples/gallery/{name}.py took {seconds:.0f} s of CPU: make it shorter")
    (out / f"{name}.md").write_text(WHOLE_WIDTH + page + made_by(name, seconds), encoding="utf-8")
    print(f"{name}: {seconds:.1f} s of CPU", flush=True)
    return cells((SCRIPTS / f"{name}.py").read_text(encoding="utf-8"))[0]


def used() -> float:
    """Return the seconds of CPU that this process and its children have used."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def main() -> None:
    """Make all pages, or those that are named."""
    if "--run" in sys.argv:
        path, out = map(Path, sys.argv[2:])
        print(json.dumps([run(path, out), used()]))
        return
    PAGES.mkdir(parents=True, exist_ok=True)
    names = sys.argv[1:] or ORDER
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each waits for a process
        made = dict(zip(names, pool.map(partial(make, out=PAGES), names), strict=True))
    if list(made) == list(ORDER):
        (PAGES / "index.md").write_text(index(made), encoding="utf-8")


if __name__ == "__main__":
    main()
