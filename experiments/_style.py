"""One look for all figures: legible at the width of a page, and by those who do not see all
colours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

# Okabe and Ito's palette; a marker each, so that no figure rests on colour alone.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# what the paper says, in every figure
CLAIMED = {"color": "0.35", "linestyle": (0, (4, 2)), "linewidth": 1.3}
STYLE: Any = {
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.92",
    "axes.axisbelow": True,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}
FEW_DECADES = 200.0  # from one end of an axis to the other
WIDTH, HEIGHT, DPI = 3.4, 3.1, 150  # of one panel, in inches


@contextmanager
def panels(path: Path, rows: int, columns: int, title: str, **options: Any) -> Iterator[Any]:
    """Axes (rows, columns) to draw into; the figure is at `path` afterwards, whole or
    not at all.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH * columns, HEIGHT * rows + 0.4), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, **options)
        yield axes
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
        unfinished = path.with_suffix(".part")
        figure.savefig(unfinished, dpi=DPI, format="png", metadata={"Software": None})
        unfinished.replace(path)


def legend_below(axes: Any) -> None:
    """One legend for all panels that show the same series, where it hides nothing."""
    handles, labels = axes.get_legend_handles_labels()
    axes.figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 4))


def count_ticks(axes: Any, counts: Any) -> None:
    """An axis of few whole numbers, on a log scale, names these and no others."""
    axes.set_xticks(list(counts), [f"{n:,}" for n in counts])
    axes.set_xticks([], minor=True)


def plain_ticks(axis: Any) -> None:
    """0.2 instead of 2 × 10⁻¹ on a log scale, and 1, 2, 5 of every decade where it spans few of
    them.
    """
    low, high = sorted(axis.get_view_interval())
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    digits = (1, 2, 5) if high / low < FEW_DECADES else (1,)
    ticks = [t for k in decades for d in digits if low <= (t := float(f"{d}e{k}")) <= high]
    axis.set_ticks(ticks, labels=[f"{t:g}" for t in ticks])
    axis.set_ticks([], minor=True)


def look(k: int) -> dict[str, Any]:
    """Colour and marker of the k-th series."""
    return {"color": COLOURS[k % len(COLOURS)], "marker": MARKERS[k % len(MARKERS)]}
