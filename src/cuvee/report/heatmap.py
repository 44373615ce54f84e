"""Draw heat maps with classes of colour and stated edges.

The rows' names are a separate drawing, so that they stay when the cells are scrolled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import floor, log10

import numpy as np

from cuvee.report import svg
from cuvee.report.formatting import ems, number, power, short
from cuvee.results import Floats

# Roughly geometric, so that weights of 2 % and 5 % differ in colour, and so do 40 % and 60 %.
EDGES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75)
TURN = -50.0  # degrees, of the columns' names
FONT, GAP = 12, 8
END = 18  # pixels at the right for the page's sign that there is more to see


@dataclass(frozen=True, eq=False)
class Heat:
    """Hold a heat map: names beside cells, and what the colours mean."""

    names: svg.Drawing
    cells: svg.Drawing
    legend: svg.Drawing


@dataclass(frozen=True)
class Look:
    """Define how values become colours and words."""

    unit: float = 1.0  # where the scale ends
    means: str = "α"  # what it measures
    hue: str = "q"  # one of the page's two scales
    says: Callable[[float], str] = number

    def level(self, value: float) -> int:
        """Return the class of colour of a value."""
        return int(np.searchsorted(EDGES, value / self.unit, side="right"))


@dataclass(frozen=True)
class _Grid:
    """Hold where cells are: left edges of columns, upper edges of rows, the size of a cell."""

    xs: Sequence[float]
    ys: Sequence[float]
    width: float
    height: float


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Floats,
    label: str,
    *,
    apart: tuple[int, int] = (0, 0),
    look: Look | None = None,
) -> Heat:
    """Draw values (rows, columns) ≥ 0 as cells.

    As many last rows and first columns as `apart` says are set apart.
    """
    look = look or Look()
    width = float(np.clip(880 / max(len(columns), 1), 17, 62))
    height = 26.0 if len(rows) <= 20 else 17.0
    names = [short(name, 24) for name in columns]
    rise = max([ems(name) for name in names], default=0.0) * FONT
    top = 12 + rise * 0.766 + 6
    grid = _Grid(
        xs=[j * width + GAP * (j >= apart[1] > 0) for j in range(len(columns))],
        ys=[top + i * height + GAP * (i >= len(rows) - apart[0] > 0) for i in range(len(rows))],
        width=width,
        height=height,
    )
    full_width = (grid.xs[-1] if columns else 0) + width + rise * 0.643 + END
    full_height = (grid.ys[-1] if rows else top) + height + 2
    parts = [
        svg.text(
            x + width / 2 + 3, top - 6, name, turn=TURN, hint=full[:200] if full != name else ""
        )
        for x, name, full in zip(grid.xs, names, columns, strict=True)
    ]
    hints = [[f"{short(row, 40)} ← {short(column, 40)}: " for column in columns] for row in rows]
    parts += _cells(values, hints, grid, look)
    cells = svg.drawing(full_width, full_height, label, parts, "as-is")
    return Heat(
        _names(rows, grid.ys, height, full_height), cells, _legend(look.unit, look.hue, look.means)
    )


def _cells(
    values: Floats, hints: Sequence[Sequence[str]], grid: _Grid, look: Look
) -> Iterator[str]:
    """Yield the cells, with their numbers where these fit; NaN is drawn as a stroke."""
    width, height = grid.width, grid.height
    longest = max([ems(look.says(v)) for v in values.flat if look.level(v)], default=0.0)
    printed = height >= 20 and width >= longest * 11 + 4
    for (i, j), value in np.ndenumerate(values):
        x, y, words = grid.xs[j], grid.ys[i], look.says(value)
        level = 0 if np.isnan(value) else look.level(value)
        yield svg.rect(
            x + 1, y + 1, width - 2, height - 2, f"{look.hue}{level}", hints[i][j] + words
        )
        if np.isnan(value):
            yield svg.line(x + 4, y + height - 4, x + width - 4, y + 4, "void")
        elif printed and level > 0:
            yield svg.text(x + width / 2, y + height / 2 + 4, words, f"on t{level}", "middle")


def _names(
    rows: Sequence[str], ys: Sequence[float], height: float, full_height: float
) -> svg.Drawing:
    names = [short(name, 22) for name in rows]
    width = max([ems(name) for name in names], default=0.0) * FONT + 14
    parts = [
        svg.text(
            width - 8, y + height / 2 + 4, name, "", "end", hint=full[:200] if full != name else ""
        )
        for y, name, full in zip(ys, names, rows, strict=True)
    ]
    return svg.drawing(width, full_height, "Names of the rows", parts, "as-is")


def _legend(unit: float, hue: str, means: str) -> svg.Drawing:
    """Draw the classes and their edges, all in one format.

    Where they are very small or large, one power of ten is written for all.
    """
    width = 36.0
    exponent = 0 if 0.1 <= unit <= 5000 else floor(log10(unit) + 1e-9) - 1
    if exponent:
        means = f"{means} ×{power(exponent)}".strip()
    edges = [f"{edge * unit / 10.0**exponent:.4g}" for edge in EDGES]
    parts = [svg.text(10 + (len(EDGES) + 1) * width, 12, means, "small")] if means else []
    for level in range(len(EDGES) + 1):
        parts.append(svg.rect(6 + level * width, 2, width - 1, 12, f"{hue}{level}"))
        if level:
            parts.append(svg.text(6 + level * width, 28, edges[level - 1], "small", "middle"))
    label = (
        f"Colour scale: lightest below {number(EDGES[0] * unit)}, strongest above "
        f"{number(EDGES[-1] * unit)}"
    )
    return svg.drawing(14 + (len(EDGES) + 1) * width + ems(means) * 11, 32, label, parts, "legend")
