"""Who is ahead of this project on which table, by how much, and whether that is more
than chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

import numpy as np
import pandas as pd
from experiments._fit import mean_interval
from experiments._peers_map import MAPS, judge_map
from experiments._peers_methods import OURS
from experiments._verdict import Held, Verdict
from scipy import stats

LEVELLED = ", levelled"
HELD, BEATEN, OPEN = "not beaten", "beaten", "too close to call"
NAMED = 3  # peers by name in a sentence
# per cent of squared error, points of accuracy: leads that would not matter
MARGIN = {True: 2.0, False: 1.0}


@dataclass(frozen=True)
class Lead:
    """Of one peer over this project on one table, with its 95 % interval over seeds; above 0 the
    peer is better.

    In per cent of this project's squared error, or in points of accuracy.
    """

    mean: float
    low: float
    high: float
    seeds: int
    score: float
    seconds: float  # per target

    @property
    def ahead(self) -> bool:
        return self.low > 0

    @property
    def behind(self) -> bool:
        return self.high < 0

    def surely(self, comparisons: int) -> bool:
        """Ahead also when so many peers are looked at (Bonferroni)."""
        if self.seeds < 2 or not isfinite(self.low):
            return False
        t = stats.t(self.seeds - 1)
        error = (self.mean - self.low) / t.ppf(0.975)
        return bool(self.mean - t.ppf(1 - 0.025 / comparisons) * error > 0)

    def as_dict(self, comparisons: int) -> dict[str, Any]:
        found = {
            "lead": self.mean,
            "low": self.low,
            "high": self.high,
            "seeds": self.seeds,
            "score": self.score,
        }
        word = "ahead" if self.ahead else "behind" if self.behind else "even"
        return {
            **found,
            "s_per_target": self.seconds,
            "is": word,
            "surely_ahead": self.surely(comparisons),
        }


def named(found: pd.DataFrame) -> pd.DataFrame:
    """The rows of tables with `name`, by which peers are told apart: whether levels were taken out
    is part of it.
    """
    rows = found[found["table"] != MAPS].copy()
    levels = (rows["levels"].astype(str) == "True") & (rows["peer"] != OURS)
    return rows.assign(name=rows["peer"] + np.where(levels, LEVELLED, ""))


def leads(rows: pd.DataFrame) -> dict[str, Lead]:
    """Of every peer on one table, best first: targets of a seed are averaged, seeds are
    replicates.
    """
    quantity = rows["quantity"].astype(str).iloc[0] == "True"
    by_seed = rows.pivot_table(index="seed", columns="name", values="score", aggfunc="mean")
    seconds = rows.groupby("name")["fit_s"].mean()
    ours = by_seed[OURS]
    found = {}
    for name in by_seed.columns.drop(OURS):
        theirs = by_seed[name].dropna()
        difference = ours[theirs.index] - theirs if quantity else theirs - ours[theirs.index]
        unit = 100.0 / ours.mean() if quantity else 100.0
        mean, low, high = mean_interval(unit * difference)
        low, high = (low, high) if isfinite(low) else (nan, nan)
        found[name] = Lead(mean, low, high, len(theirs), float(theirs.mean()), float(seconds[name]))
    return dict(sorted(found.items(), key=lambda item: -item[1].mean))


def state(peers: dict[str, Lead], quantity: bool) -> str:
    """Noise is no excuse: a table is held where no peer is ahead, and none can be by more than the
    margin.
    """
    if any(lead.ahead for lead in peers.values()):
        return BEATEN
    return HELD if all(lead.high <= MARGIN[quantity] for lead in peers.values()) else OPEN


def judge(found: pd.DataFrame, wanted: list[str]) -> Verdict:
    rows = named(found)
    tables = {name: leads(some) for name, some in rows.groupby("table", sort=False)}
    quantity_of = rows.groupby("table")["quantity"].first().astype(str) == "True"
    states = {name: state(peers, bool(quantity_of[name])) for name, peers in tables.items()}
    numbers, said = {}, []
    for name, peers in tables.items():
        some = rows[rows["table"] == name]
        ours, quantity = some[some["name"] == OURS], bool(quantity_of[name])
        best = next(iter(peers))
        ahead = [peer for peer, lead in peers.items() if lead.ahead]
        numbers[name] = {
            "score": "mean squared error" if quantity else "accuracy",
            "ours": ours["score"].mean(),
            "ours_s_per_target": ours["fit_s"].mean(),
            "seeds": int(some["seed"].nunique()),
            "targets": int(ours.groupby("seed").size().max()),
            "state": states[name],
            "best_peer": best,
            "ahead": ahead,
            "surely_ahead": [peer for peer in ahead if peers[peer].surely(len(peers))],
            "peers": {peer: lead.as_dict(len(peers)) for peer, lead in peers.items()},
        }
        said.append(_said(name, peers, ahead, ours, quantity))
    count = {s: sum(found == s for found in states.values()) for s in (HELD, OPEN, BEATEN)}
    parts = [
        f"Of {len(states)} tables {', '.join(f'{n} {s}' for s, n in count.items())}: "
        f"{'; '.join(said)}"
    ]
    missing = [name for name in wanted if name not in tables]
    if missing:
        parts.append(f"not there and not measured: {', '.join(missing)} (set CUVEE_DATA)")
    map_said, map_numbers = judge_map(found)
    every: dict[str, Any] = {"tables": numbers, "missing_tables": missing, "map": map_numbers}
    seen = set(states.values())
    held: Held = True if seen == {HELD} else False if seen == {BEATEN} else "partly"
    return Verdict(held, "; ".join([*parts, map_said]) + ".", every)


def _said(
    name: str, peers: dict[str, Lead], ahead: list[str], ours: pd.DataFrame, quantity: bool
) -> str:
    """What there is to say of one table."""
    unit = " % of MSE" if quantity else " points"
    mine = f"{ours['score'].mean():.3g}" if quantity else f"{100 * ours['score'].mean():.1f} %"
    best, lead = next(iter(peers.items()))
    interval = f" ({lead.low:+.1f} to {lead.high:+.1f})" if isfinite(lead.low) else ""
    words = f"{name} {mine}, best peer {best} {lead.mean:+.1f}{interval}{unit}"
    others = [peer for peer in ahead if peer != best]
    more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
    if ahead:
        words += ", beaten" if best in ahead else ", not beaten by it"
    if others:
        words += f"{' also' if best in ahead else ' but'} by {', '.join(others[:NAMED])}{more}"
    return f"{words}, {ours['fit_s'].mean():.2g} s a target against {lead.seconds:.2g} s"
