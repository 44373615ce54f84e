"""The figure of `stationarity`: gaps against evaluations, ends against B and β, and evaluations
against ε.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from experiments._lab import Lab
from experiments._stationarity_verdict import BETA as CORRECTED
from experiments._stationarity_verdict import PLAIN
from experiments._style import CLAIMED, COLOURS, MARKERS, count_ticks, panels, plain_ticks
from experiments._verdict import Verdict

LINES = {CORRECTED: "-", PLAIN: ":"}


def draw(found: pd.DataFrame, verdict: Verdict, lab: Lab, title: str) -> None:
    """Gaps are in units of the gap at the start, so that both kinds fit into one panel."""
    unit = _rms(
        found[(found["part"] == "own") & (found["t"] == 0)].groupby("kind", sort=False)["now"]
    )
    scaled = found.assign(
        late=found["late"] / found["kind"].map(unit), eps=found["eps"] / found["kind"].map(unit)
    )
    kinds, own, fixed = (
        list(unit.index),
        scaled[scaled["part"] == "own"],
        scaled[scaled["part"] == "fixed"],
    )
    with panels(lab.figure, 2, 3, title) as axes:
        for at, kind in zip(axes[0, :2], kinds, strict=True):
            _curves(at, own[own["kind"] == kind], kind)
        _rates(axes[0, 2], scaled[scaled["part"] == "rate"], kinds, verdict)
        _ends(axes[1, 0], fixed, kinds, verdict)
        _ratios(axes[1, 1], kinds, verdict)
        _betas(axes[1, 2], fixed[fixed["B"] == lab.setting["reference"]], kinds)


def _curves(axes: Any, rows: pd.DataFrame, kind: str) -> None:
    for k, B in enumerate(sorted(rows.loc[rows["beta"] == CORRECTED, "B"].unique())):
        for beta, batch in ((CORRECTED, B), (PLAIN, 2 * B)):
            mine = rows[(rows["beta"] == beta) & (rows["B"] == batch) & (rows["t"] > 0)]
            mean = _rms(mine.groupby("evaluations")["late"])
            axes.plot(
                mean.index,
                mean,
                LINES[beta],
                color=COLOURS[k],
                label=f"B = {B}" if beta == CORRECTED else None,
            )
    axes.plot([], [], LINES[PLAIN], color="0.3", label="uncorrected, batch 2B")
    axes.set(
        xscale="log",
        yscale="log",
        title=f"{kind}, own steps: gap along the run",
        xlabel="evaluations",
    )
    axes.set_ylabel("gap of late iterates / at the start")
    plain_ticks(axes.yaxis)
    axes.legend(loc="lower left")


def _ends(axes: Any, rows: pd.DataFrame, kinds: list[str], verdict: Verdict) -> None:
    ends = rows[(rows["t"] == rows["t"].max()) & rows["beta"].isin(list(LINES))]
    for k, kind in enumerate(kinds):
        for beta, words in ((CORRECTED, "β = 0.1"), (PLAIN, "uncorrected")):
            mean = _rms(ends[(ends["kind"] == kind) & (ends["beta"] == beta)].groupby("B")["late"])
            e = verdict.numbers["end_in_B"][f"{kind}, β={beta:g}"]["exponent"]
            how = {"color": COLOURS[k], "marker": MARKERS[k], "linestyle": LINES[beta]}
            axes.plot(mean.index, mean, **how, label=f"{kind}, {words}: {e:+.2f}")
    B = np.array(sorted(ends["B"].unique()), dtype=float)
    axes.plot(
        B, 1.3 * ends["late"].max() * (B / B[0]) ** -0.5, **CLAIMED, label="the bound's B^−1/2"
    )
    axes.set(xscale="log", yscale="log", title="gap at the end against B, same steps", xlabel="B")
    axes.set_ylabel("gap at the end / at the start")
    axes.set_ylim(bottom=ends["late"].min() / 6)  # room for the legend
    count_ticks(axes, B.astype(int))
    plain_ticks(axes.yaxis)
    axes.legend(loc="lower left", fontsize=7.5)


def _ratios(axes: Any, kinds: list[str], verdict: Verdict) -> None:
    ratios, batches = verdict.numbers["corrected_over_uncorrected"], set()
    for (words, each), line, shift in zip(ratios.items(), (":", "-"), (0.88, 1.04), strict=True):
        for k, kind in enumerate(kinds):
            cells = {
                int(name.split("=")[1]): r for name, r in each.items() if name.startswith(kind)
            }
            batches |= set(cells)
            x = np.array(list(cells)) * shift * 1.08**k  # beside each other
            y, low, high = (
                np.array([r[of] for r in cells.values()]) for of in ("ratio", "low", "high")
            )
            bars = axes.errorbar(
                x, y, (y - low, high - y), color=COLOURS[k], marker=MARKERS[k], capsize=2
            )
            bars[0].set_linestyle(line)
            bars.set_label(f"{kind}, {words.split(',')[0]}")
    axes.axhline(1.0, color="0.35", linewidth=0.8)
    axes.set(
        xscale="log",
        yscale="log",
        title="corrected / uncorrected, 95 %",
        xlabel="B",
        ylabel="ratio of gaps at the end",
    )
    axes.set_ylim(top=4.0)
    count_ticks(axes, sorted(batches))
    plain_ticks(axes.yaxis)
    axes.legend(loc="upper left", fontsize=7.5)


def _betas(axes: Any, rows: pd.DataFrame, kinds: list[str]) -> None:
    ends = rows[rows["t"] == rows["t"].max()]
    for k, kind in enumerate(kinds):
        by_beta = ends[ends["kind"] == kind].groupby("beta")["late"]
        mean = _rms(by_beta)
        axes.plot(mean.index, mean, color=COLOURS[k], marker=MARKERS[k], label=kind)
        axes.fill_between(
            mean.index, by_beta.min(), by_beta.max(), color=COLOURS[k], alpha=0.15, linewidth=0
        )
    axes.axvline(CORRECTED, ymax=0.68, **CLAIMED, label="the theorem's β")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="β (1: uncorrected)",
        ylabel="gap at the end / at the start",
    )
    axes.set(title=f"gap at the end against β, B = {int(ends['B'].iloc[0])}")
    axes.set_ylim(top=4 * ends["late"].max())
    plain_ticks(axes.yaxis)
    axes.legend(loc="upper left")


def _rates(axes: Any, rows: pd.DataFrame, kinds: list[str], verdict: Verdict) -> None:
    measures = (
        ("evaluations", "mean", "-", "all iterates"),
        ("late_evaluations", "late", "--", "latter half"),
    )
    for k, kind in enumerate(kinds):
        for column, name, line, words in measures:
            by_eps = rows[rows["kind"] == kind].groupby("eps")[column]
            mean = np.exp(by_eps.apply(lambda v: np.log(v).mean()))
            e = verdict.numbers["exponents"][kind][name]["exponent"]
            how = {"color": COLOURS[k], "marker": MARKERS[k], "linestyle": line}
            axes.plot(mean.index, mean, **how, label=f"{kind}, {words}: {e:+.2f}")
            axes.fill_between(
                mean.index, by_eps.min(), by_eps.max(), color=COLOURS[k], alpha=0.12, linewidth=0
            )
    eps = np.array(sorted(rows["eps"].unique()))
    axes.plot(
        eps,
        1.5 * rows["evaluations"].max() * (eps / eps[0]) ** -4.0,
        **CLAIMED,
        label="claimed, ε^−4",
    )
    axes.set(
        xscale="log", yscale="log", title="evaluations to reach ε", xlabel="ε / gap at the start"
    )
    axes.set_ylabel("evaluations")
    shares = eps[:: max(1, len(eps) // 3)]
    axes.set_xticks(shares, [f"{s:.2g}" for s in shares])
    axes.set_xticks([], minor=True)
    axes.set_ylim(bottom=rows["late_evaluations"].min() / 100)  # room for the legend
    axes.legend(loc="lower left", fontsize=7.5)


def _rms(groups: Any) -> pd.Series:
    return groups.apply(lambda v: float(np.sqrt((v**2).mean())))
