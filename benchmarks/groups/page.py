"""Writes the generated parts of docs/results.md and its pictures from the published results.

python -m benchmarks.groups.page            (part of `make docs`)
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from benchmarks.groups import statistics
from benchmarks.groups.command import METHODS, RESULTS, published
from benchmarks.groups.records import TABLES
from benchmarks.groups.statistics import HINDSIGHT, REFERENCE

matplotlib.use("Agg")
from matplotlib import pyplot as plt

DOCS = Path(__file__).resolve().parents[2] / "docs"
PICTURES = DOCS / "groups"
OURS, RIVAL = "#b3123f", "#4c6a92"


def main() -> None:
    """Write the page and its pictures."""
    targets = published()
    board = statistics.leaderboard(targets)
    told = statistics.scores(targets)
    PICTURES.mkdir(exist_ok=True)
    pareto(board).savefig(PICTURES / "pareto.svg")
    by_table(told).savefig(PICTURES / "tables.svg")
    parts = {
        "summary": summary(board, told),
        "methods": methods(board),
        "where": where(targets),
        "tracks": tracks(),
        "about": about(),
    }
    page = DOCS / "results.md"
    text = page.read_text(encoding="utf-8")
    for name, part in parts.items():
        block = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        text, found = re.subn(block, lambda m, p=part: f"{m[1]}{p}\n{m[2]}", text, flags=re.S)  # type: ignore[misc]
        if not found:
            raise SystemExit(f"docs/results.md has no place for {name!r}")
    page.write_text(text, encoding="utf-8")
    plt.close("all")


def summary(board: pd.DataFrame, told: statistics.Scores) -> str:
    """Return the sentences that the page begins with."""
    single = board.drop(index=HINDSIGHT)
    ours = single[single.index.str.startswith("cuvee")].iloc[0]
    rival = single[~single.index.str.startswith("cuvee")].iloc[0]
    n = len(told.tables)
    lines = [
        f"On {n} tables the best single rival is **{rival.name}**: its loss is "
        f"{_x(rival.ratio)} of what the mean of a target's own labelled rows loses. The best of "
        f"cuvee's settings, **{ours.name}**, has {_x(ours.ratio)}.",
        f"Against {REFERENCE}, {ours.name} has {_percent(ours.beside)} loss "
        f"(95 % interval {_percent(ours.beside_low)} to {_percent(ours.beside_high)}): ahead on "
        f"{ours.wins:.0f} tables, level on {ours.ties:.0f}, behind on {ours.losses:.0f}.",
        "The best rival of each table, picked with the test rows in view, has "
        f"{_x(board.loc[HINDSIGHT, 'ratio'])}. Between good methods the suite sees differences of "
        f"about {100 * statistics.resolution(told):.1f} % of the loss.",
    ]
    return "\n".join(lines)


def methods(board: pd.DataFrame) -> str:
    """Return the table of methods."""
    head = [
        "method",
        "loss, of the k-row mean's",
        f"beside {REFERENCE}",
        "wins / ties / losses",
        "Elo",
        "improvable by",
        "worst tenth of targets",
        "seconds of a processor",
        "failed",
    ]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name, row in board.iterrows():
        at_reference = name == REFERENCE
        cells = [
            _name(str(name)),
            f"{row.ratio:.3f} ({row.low:.3f}–{row.high:.3f})",
            "–"
            if at_reference
            else f"{_percent(row.beside)} ({_percent(row.beside_low)} to "
            f"{_percent(row.beside_high)})",
            "–" if at_reference else f"{row.wins:.0f} / {row.ties:.0f} / {row.losses:.0f}",
            _or_dash(row.get("elo"), "{:.0f}"),
            _or_dash(row.get("improvability"), "{:.1%}"),
            f"{row.worst_tenth:.2f}",
            _or_dash(row.processor, "{:.1f}"),
            _or_dash(row.failed, "{:.0f}"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def where(targets: pd.DataFrame) -> str:
    """Return the table of kinds of tables: what each method loses beside the reference."""
    facts = pd.DataFrame(
        {name: {"kind": t.kind, "k": t.k, "groups": _groups()[name]} for name, t in TABLES.items()}
    ).T
    wide = statistics.where(targets, facts)
    order = statistics.leaderboard(targets).index
    wide = wide.loc[[m for m in order if m in wide.index and m != REFERENCE]]
    best = wide.idxmin()
    lines = [f"| | {' | '.join(wide.columns)} |", "|---" * (len(wide.columns) + 1) + "|"]
    for name, row in wide.iterrows():
        cells = [f"**{_percent(v)}**" if best[c] == name else _percent(v) for c, v in row.items()]
        lines.append(f"| {_name(str(name))} | {' | '.join(cells)} |")
    return "\n".join(lines)


def tracks() -> str:
    """Return a table of the other tracks: the loss of each method, of the k-row mean's."""
    columns = {}
    for path in sorted(RESULTS.glob("*.parquet")):
        if path.stem != "main":
            board = statistics.leaderboard(pd.read_parquet(path))
            columns[path.stem] = board["ratio"]
    if not columns:
        return "No other track has been run yet."
    wide = pd.DataFrame(columns)
    lines = [f"| | {' | '.join(wide.columns)} |", "|---" * (len(wide.columns) + 1) + "|"]
    for name, row in wide.sort_values(wide.columns[0]).iterrows():
        cells = [_or_dash(v, "{:.3f}") for v in row]
        lines.append(f"| {_name(str(name))} | {' | '.join(cells)} |")
    return "\n".join(lines)


def about() -> str:
    """Return with which versions the results were made."""
    facts: dict[str, Any] = json.loads((RESULTS / "about.json").read_text())
    versions = ", ".join(f"{n} {v}" for n, v in facts["versions"].items())
    return (
        f"Commit {facts['commit']}, {facts['threads']} threads a method on {facts['cores']} cores; "
        f"{versions}."
    )


def pareto(board: pd.DataFrame) -> Any:
    """Draw seconds of a processor against loss, and a line through the methods that none beats."""
    board = board.drop(index=HINDSIGHT).sort_values("processor")
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    front, best = [], np.inf
    for name, row in board.iterrows():
        ours = str(name).startswith("cuvee")
        axes.errorbar(
            row.processor,
            row.ratio,
            yerr=[[row.ratio - row.low], [row.high - row.ratio]],
            fmt="o",
            color=OURS if ours else RIVAL,
            alpha=0.9,
            elinewidth=0.6,
        )
        axes.annotate(
            str(name), (row.processor, row.ratio), (4, 3), textcoords="offset points", size=7
        )
        if row.ratio < best:
            front.append((row.processor, row.ratio))
            best = row.ratio
    axes.step(*zip(*front, strict=True), where="post", color="0.6", lw=1, zorder=0)
    axes.set(
        xscale="log",
        xlabel="seconds of a processor for all targets of a fold",
        ylabel="loss / k-row mean's",
    )
    return figure


def by_table(told: statistics.Scores) -> Any:
    """Draw the loss of every method on every table beside the reference's."""
    order = told.mean.argsort()
    at = told.methods.index(REFERENCE)
    beside = 100 * np.expm1(told.by_table - told.by_table[:, [at]])[:, order]
    figure, axes = plt.subplots(figsize=(9, 9), layout="constrained")
    image = axes.imshow(np.clip(beside, -30, 30), cmap="RdBu_r", vmin=-30, vmax=30, aspect="auto")
    axes.set_xticks(
        range(len(order)), [told.methods[i] for i in order], rotation=60, ha="right", size=8
    )
    axes.set_yticks(range(len(told.tables)), told.tables, size=8)
    for (i, j), value in np.ndenumerate(beside):
        axes.text(j, i, f"{value:.0f}", ha="center", va="center", size=6)
    figure.colorbar(image, label=f"% more loss than {REFERENCE} (colours end at 30)", shrink=0.6)
    return figure


def _groups() -> dict[str, int]:
    """Return the groups of each table, from tables.md."""
    lines = Path(__file__).with_name("tables.md").read_text().splitlines()
    cells = [[c.strip() for c in line.split("|")] for line in lines if line.startswith("| ")]
    return {c[1]: int(c[6]) for c in cells if c[1] in TABLES}


def _name(method: str) -> str:
    known = (METHODS / f"{method}.py").exists()
    return f"[{method}](../benchmarks/groups/methods/{method}.py)" if known else method


def _percent(log_ratio: float) -> str:
    return f"{100 * np.expm1(log_ratio):+.1f} %".replace("-", "−")


def _x(ratio: float) -> str:
    return f"{100 * ratio:.0f} %"


def _or_dash(value: Any, form: str) -> str:
    return "–" if value is None or pd.isna(value) else form.format(value)


if __name__ == "__main__":
    main()
