"""The figure of the trial of Theorem 3: risks against n for every N, exponents against N, and how
far training came.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import pandas as pd
from experiments._lab import Lab
from experiments._maps import (
    FIRST,
    KERNEL,
    LINEARISED,
    NEAREST,
    NETWORK,
    QUADRATIC,
    SECOND,
    SURFACE,
    claimed,
    predicted,
)
from experiments._style import CLAIMED, count_ticks, legend_below, look, panels
from experiments._verdict import Verdict

_WIDTHS: dict[str, Any] = {"linewidth": 1.2, "markersize": 3.5}
LOOKS: dict[str, dict[str, Any]] = {
    NETWORK: look(0),
    LINEARISED: {**look(5), **_WIDTHS, "linestyle": ":"},
    KERNEL: look(1),
    NEAREST: {**look(6), **_WIDTHS},
    FIRST: {**look(2), **_WIDTHS},
    SECOND: {**look(3), **_WIDTHS},
    QUADRATIC: {**look(4), **_WIDTHS},
    SURFACE: {"color": "0.6", "marker": "*", **_WIDTHS},
}
LOWEST = 1e-13  # drawn, of the largest risk: what lies below is rounding


def draw(found: pd.DataFrame, verdict: Verdict, lab: Lab, title: str) -> None:
    counts = sorted(found["N"].unique())
    columns = -(-len(counts) // 2)
    with panels(lab.figure, 2, columns + 1, f"{title}: {verdict.word}") as axes:
        for k, N in enumerate(counts):
            at = axes[divmod(k, columns)]
            rows = found[found["N"] == N]
            _risks(at, rows, N)
            top = rows["risk"].max()
            bounds = (max(rows["risk"].min() / 3, LOWEST * top), 3 * top)
            at.set(
                xscale="log",
                yscale="log",
                ylim=bounds,
                title=f"N = {N}, claimed n^{claimed(N):.2f}",
            )
            count_ticks(at, sorted(found["n"].unique())[::2])
            at.set_xlabel("labels n")
            if k % columns == 0:
                at.set_ylabel("excess risk E‖ŵ − w*‖²")
        _exponents(axes[0, -1], verdict.numbers.get("exponents", {}), counts)
        _training(axes[1, -1], found[found["way"] == NETWORK])
        legend_below(axes[0, 0])


def _risks(axes: Any, rows: pd.DataFrame, N: int) -> None:
    for way, how in LOOKS.items():
        by_n = rows[rows["way"] == way].groupby("n")["risk"]
        if by_n.ngroups == 0:
            continue
        middle = by_n.median()
        axes.plot(middle.index, middle, label=way, **how)
        axes.fill_between(
            middle.index, by_n.min(), by_n.max(), color=how["color"], alpha=0.12, linewidth=0
        )
        # the claim is about the slope: its line starts where the network's does, and reaches on
        if way == NETWORK:
            n = pd.Index(sorted(rows["n"].unique()), dtype=float)
            axes.plot(
                n,
                middle.iloc[0] * (n / n[0]) ** claimed(N),
                **CLAIMED,
                label="claimed, n^(−2/(2+N))",
                zorder=5,
            )


def _exponents(axes: Any, cells: dict[str, dict[str, Any]], counts: list[int]) -> None:
    """Exponents times −(N−1)/2: of n^(−2H/(N−1)) that is H. A dash where it is predicted; the
    claimed curve besides.
    """
    shown = [way for way in LOOKS if way != SURFACE]
    for k, way in enumerate(shown):
        for place, N in enumerate(counts):
            cell, wanted, unit = cells.get(f"{way}, N={N}"), predicted(way, N), -(N - 1) / 2
            x, color = place + 0.12 * (k - (len(shown) - 1) / 2), LOOKS[way]["color"]
            if wanted is not None:
                axes.plot([x - 0.06, x + 0.06], [unit * wanted] * 2, color=color, linewidth=1.0)
            if cell is None:
                continue
            if isfinite(cell["low"]):
                axes.plot(
                    [x, x], [unit * cell["low"], unit * cell["high"]], color=color, linewidth=1.2
                )
            axes.plot(
                [x], [unit * cell["exponent"]], LOOKS[way]["marker"], color=color, markersize=3.5
            )
    places = list(range(len(counts)))
    axes.plot(places, [-claimed(N) * (N - 1) / 2 for N in counts], **CLAIMED)
    axes.set_xticks(places, [f"{N}" for N in counts])
    title, most = "n^(−2H/(N−1)); dashes: predicted H", max((max(counts) + 1) / 2, 3.0)
    axes.set(
        title=title,
        xlabel="sources N",
        ylabel="H, derivatives made use of",
        ylim=(-0.4, most + 1.2),
    )


def _training(axes: Any, rows: pd.DataFrame) -> None:
    for k, (N, own) in enumerate(rows.groupby("N")):
        share = own.assign(share=own["training"] / own["risk"]).groupby("n")["share"].mean()
        axes.plot(share.index, share, **look(k))
        end, how = (
            (share.index[-1], share.iloc[-1]),
            {"textcoords": "offset points", "va": "center", "fontsize": 9},
        )
        axes.annotate(f"N = {N}", end, (7, 0), color=look(k)["color"], **how)
    n = sorted(rows["n"].unique())
    axes.set(
        xscale="log", yscale="log", title="network: error on its labels / risk", xlabel="labels n"
    )
    axes.set_xlim(0.85 * n[0], 1.9 * n[-1])
    count_ticks(axes, n)
