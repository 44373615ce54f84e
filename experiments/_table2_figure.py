"""The figure of Table 2: accuracies by target, and what becomes of the mixed one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from experiments._fit import mean_interval
from experiments._style import CLAIMED, COLOURS, look, panels
from experiments._verdict import Verdict

WHY = {
    "printed, C = 10": "as printed, C = 10",
    "mixture, C = 10": "mixture form, C = 10",
    "default": "default",
}
EDGE = (-0.04, 1.04)


def draw(found: pd.DataFrame, verdict: Verdict, mix: str, path: Path, title: str) -> None:
    """Above a panel per target; below the luck of 20 images, and where the mixed target's weight
    went.
    """
    targets, methods = list(found["target"].unique()), list(found["method"].unique())
    with panels(path, 2, 4, f"{title}: {verdict.word}") as axes:
        for k, (at, target) in enumerate(zip(axes[0], targets, strict=True)):
            _accuracies(at, found[found["target"] == target], methods)
            at.set(title=target, xlabel="% right", ylim=(len(methods) - 0.5, -0.5))
            at.set_yticks(range(len(methods)), methods if k == 0 else [""] * len(methods))
        _luck(axes[1, 0], found, targets)
        for at, (method, words) in zip(axes[1, 1:], WHY.items(), strict=True):
            _why(at, found[(found["target"] == mix) & (found["method"] == method)])
            at.set_title(f"{mix}: {words}")
        axes[1, 1].set_ylabel("α's share, group 1 of both")


def _accuracies(axes: Any, rows: pd.DataFrame, methods: list[str]) -> None:
    """Means over seeds with their intervals."""
    for k, method in enumerate(methods):
        mean, low, high = mean_interval(100 * rows[rows["method"] == method]["accuracy"])
        colour = COLOURS[1] if method == "default" else COLOURS[0]
        axes.plot([low, high], [k, k], color=colour, linewidth=3, alpha=0.4, solid_capstyle="butt")
        axes.plot(mean, k, marker="o", color=colour)


def _luck(axes: Any, found: pd.DataFrame, targets: list[str]) -> None:
    """The default's lead over the target alone, seed by seed, on 20 images and on all."""
    for k, (column, words) in enumerate(
        {"letter": "20 images", "accuracy": "all unseen ones"}.items()
    ):
        table = found.pivot(index=["seed", "target"], columns="method", values=column)
        lead = 100 * (table["default"] - table["target only"])
        places = [targets.index(t) + (k - 0.5) / 3 for t in lead.index.get_level_values("target")]
        axes.plot(places, lead, linestyle="none", alpha=0.45, label=words, **look(k))
    axes.axhline(0.0, **CLAIMED)
    axes.set_xticks(range(len(targets)), [t.replace("mix of 1 and 2", "mix") for t in targets])
    axes.set(title="default − target only, by seed", ylabel="points")
    low, high = axes.get_ylim()
    axes.set_ylim(low - 0.15 * (high - low), high)  # room for the legend
    axes.legend(loc="lower center", ncols=2)


def _why(axes: Any, rows: pd.DataFrame) -> None:
    """Weight of group 1 against its share of the sample: the truth is the half, the printed optimum
    a step.
    """
    share = rows["group 1"] / (rows["group 1"] + rows["group 2"])
    axes.plot(rows["sample"], share, linestyle="none", alpha=0.7, **look(0))
    axes.axhline(0.5, **CLAIMED)
    axes.axvline(0.5, color="0.8", linewidth=1)
    axes.set(xlabel="share of group 1 in the sample", ylim=EDGE)
