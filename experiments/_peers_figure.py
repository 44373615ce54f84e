"""The figure of peers: a panel per table with those that come nearest, or are ahead; and maps from
α to models.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
from experiments._lab import Lab
from experiments._peers_map import MAPS
from experiments._peers_verdict import Lead, leads, named
from experiments._style import CLAIMED, COLOURS, look, panels
from experiments._verdict import Verdict

SHOWN = 12  # peers, best first
EDGE = 40.0  # per cent or points behind: what is further away is an arrow there
LEAST = 1e-16  # of an excess risk on a log scale: less is rounding
AHEAD, EVEN, BEHIND = COLOURS[1], "0.45", COLOURS[0]


def draw(found: pd.DataFrame, verdict: Verdict, lab: Lab, title: str) -> None:
    rows, columns = named(found), 2
    tables = {str(name): leads(some) for name, some in rows.groupby("table", sort=False)}
    with panels(
        lab.figure,
        -(-(len(tables) + 1) // columns),
        columns,
        f"{title}: {verdict.word}; leads over cuvee",
    ) as axes:
        for at, (name, peers) in zip(axes.flat, tables.items(), strict=False):
            _peers(at, name, peers, verdict.numbers["tables"][name])
        _maps(axes.flat[len(tables)], found[found["table"] == MAPS])
        for at in axes.flat[len(tables) + 1 :]:
            at.set_axis_off()


def _maps(at: Any, rows: pd.DataFrame) -> None:
    """Mean excess risk against all seconds, for a map and all models; LibMOON's as it trains."""
    for k, (peer, some) in enumerate(rows.groupby("peer", sort=False)):
        by = (
            some.assign(seconds=some["fit_s"] + some["models_s"])
            .groupby("epochs")[["seconds", "excess"]]
            .mean()
        )
        at.plot(by["seconds"], by["excess"].clip(lower=LEAST), label=peer, **look(k))
    at.set(xscale="log", yscale="log")
    at.set_title("α → models, fresh mixtures", fontsize=9, loc="right")
    at.set_xlabel("seconds for all models", fontsize=8.5)
    at.set_ylabel("mean excess risk", fontsize=8.5)
    at.legend(fontsize=8)


def _peers(at: Any, name: str, peers: dict[str, Lead], said: dict[str, Any]) -> None:
    """Leads with intervals over seeds; right of the line a peer is better than this project."""
    shown = list(peers.items())[:SHOWN]
    for k, (_, lead) in enumerate(shown):
        colour = AHEAD if lead.ahead else BEHIND if lead.behind else EVEN
        if lead.mean < -EDGE:
            at.plot(-EDGE, k, marker="<", color=colour, clip_on=False)
            continue
        at.plot([max(lead.low, -EDGE), min(lead.high, EDGE)], [k, k], color=colour, linewidth=1.2)
        at.plot(lead.mean, k, marker="o", color=colour)
    at.axvline(0.0, **CLAIMED)
    at.set_yticks(range(len(shown)), [peer for peer, _ in shown], fontsize=7)
    at.set_ylim(len(shown) - 0.4, -0.6)
    right = max(
        [
            5.0,
            *(
                min(lead.high, EDGE)
                for _, lead in shown
                if lead.mean >= -EDGE and lead.high == lead.high
            ),
        ]
    )
    left = min([-5.0, *(max(lead.low, -EDGE) for _, lead in shown if lead.low == lead.low)])
    at.set_xlim(1.05 * left, 1.05 * right)
    quantity = said["score"] != "accuracy"
    ours = f"MSE {said['ours']:.3g}" if quantity else f"{100 * said['ours']:.1f} %"
    # to the right: names of peers leave little room
    at.set_title(f"{name}, cuvee: {ours}", fontsize=9, loc="right")
    at.set_xlabel("lead, % of MSE" if quantity else "lead, points", fontsize=8.5)
