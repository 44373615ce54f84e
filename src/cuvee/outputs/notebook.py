"""Show results in a notebook: a small table with a line below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from cuvee.outputs.visible import visible


def html_table(head: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> str:
    """Return the HTML of a table; everything is escaped, because names of domains are data."""

    def line(cells: Iterable[object], tag: str) -> str:
        html = "".join(
            f'<{tag} style="text-align:left">{escape(visible(str(cell)))}</{tag}>' for cell in cells
        )
        return f"<tr>{html}</tr>"

    below = "".join(f"<div>{escape(visible(sentence))}</div>" for sentence in note.splitlines())
    body = "".join(line(row, "td") for row in rows)
    table = f"<table><thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>" if head else ""
    return f"<div>{table}{below}</div>"
