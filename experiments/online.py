"""Theorem 4: Algorithm 4 has an average regret of order T^(−1/(1+N)), and (1 − p)D besides.

    cuvee reproduce online

Ridge regression on streams that are uniform on the simplex; labels are exact (K → ∞), so that the
theorem's last term is 0. The regret against w*, whose own loss is 0, is the sum of ‖ŵ_t −
w*(α_t)‖². Two averages: the printed one, in which a round without a label counts as the zero vector
("paper"), and the one over labelled rounds ("paper_repaired").
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from experiments._fit import Exponent, exponent
from experiments._lab import Lab, Row, Unit, seed_of
from experiments._style import CLAIMED, count_ticks, legend_below, look, panels
from experiments._verdict import Verdict, of_parts

import cuvee
from cuvee.data.synthetic import shifted_sources
from cuvee.simplex import sample
from cuvee.theory import online_exponent

TITLE = "Theorem 4 (online regret)"
CLAIM = (
    "A label-efficient algorithm has an average regret of order T^(−1/(1+N)); Theorem 4 adds (1 − "
    "p)D to it."
)
VERSION = 1
PRINTED, REPAIRED = "paper", "paper_repaired"
_GRID = {
    "N": [2, 3, 5],
    "p": [0.1, 0.5, 1.0],
    "variants": [PRINTED, REPAIRED],
    "rows": 200,
    "features": 4,
    "l2": 0.01,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "tiny": {**_GRID, "N": [2, 3], "T": 300, "from": 50, "seeds": 1},
    "quick": {**_GRID, "T": 2_000, "from": 200, "seeds": 4},
    "full": {**_GRID, "T": 30_000, "from": 1_000, "seeds": 6},
}
POINTS = 12  # rounds at which the average is noted, evenly on a log scale


def run(lab: Lab) -> Verdict:
    setting = lab.setting
    grid = product(range(setting["seeds"]), setting["N"], setting["p"], setting["variants"])
    units = [{"N": N, "p": p, "variant": variant, "seed": seed} for seed, N, p, variant in grid]
    found = lab.collect(units, partial(measure, setting=setting))
    verdict = judge(found)
    draw(found, verdict, lab)
    return verdict


def measure(unit: Unit, setting: dict[str, Any]) -> Iterator[Row]:
    """The average regret of one stream at growing T; sources and stream are the same for all p and
    both variants.
    """
    N, T = unit["N"], setting["T"]
    sources = shifted_sources(
        N, setting["rows"], setting["features"], seed=unit["seed"], quantity=True
    )
    hypothesis = cuvee.Ridge(setting["l2"], intercept=False)
    stream = sample(T, N, seed=seed_of("stream", N, unit["seed"]))
    online = cuvee.OnlineMap(
        sources,
        hypothesis,
        variant=unit["variant"],
        label_budget=unit["p"],
        evaluate=True,
        seed=unit["seed"],
    )
    ledger = cuvee.run_online(stream, online, progress=False)
    size = np.linalg.norm(cuvee.solve(sources, hypothesis, stream).w, axis=1)  # (T,)
    for t in np.unique(np.geomspace(setting["from"], T, POINTS).round().astype(int)):
        yield {
            "T": t,
            "regret": ledger.average_at[t - 1],
            "labels": ledger.labels_at[t - 1],
            "centres": ledger.centres_at[t - 1],
            "mean_square": (size**2).mean(),
            "D": size.max(),
        }


def judge(found: pd.DataFrame) -> Verdict:
    """A cell holds where the whole interval of its exponent is at or below −1/(1+N)."""
    cells = {key: fitted(rows) for key, rows in found.groupby(["variant", "N", "p"])}
    fell = {key: e.high <= claimed(key[1]) for key, e in cells.items()}
    paid = [fell[key] for key in cells if key[2] == 1.0]
    some = {
        name: [fell[key] for key in cells if key[0] == name and key[2] < 1.0]
        for name in (PRINTED, REPAIRED)
    }
    floors = floor(found)
    sentence = (
        "With every label paid for, the average regret fell at least as fast as T^(−1/(1+N)) in "
        f"{sum(paid)} of "
        f"{len(paid)} cells ({_range(cells, 1.0)}); with p < 1 the printed average did so in "
        f"{sum(some[PRINTED])} of "
        f"{len(some[PRINTED])} ({_range(cells, None, PRINTED)}), the one over labelled rounds in "
        f"{sum(some[REPAIRED])} of {len(some[REPAIRED])} ({_range(cells, None, REPAIRED)})."
    )
    if floors:
        shares, printed = (
            [f[of] for f in floors.values()] for of in ("of_predicted", "of_printed")
        )
        sentence += (
            f" The printed one ends at {min(shares):.2f} to {max(shares):.2f} times (1 − p)²‖w*‖², "
            "which is what "
            f"counting unpaid rounds as zeros comes to, and {min(printed):.2f} to "
            f"{max(printed):.2f} times the "
            "(1 − p)D that the theorem allows for it."
        )
    numbers = {
        "exponents": {
            f"{name}, N={N}, p={p:g}": {
                **e.as_dict(),
                "claimed": claimed(N),
                "fell": fell[name, N, p],
            }
            for (name, N, p), e in cells.items()
        },
        "floors": {f"N={N}, p={p:g}": f for (N, p), f in floors.items()},
    }
    return Verdict(of_parts([*paid, *some[PRINTED]]) if any(paid) else False, sentence, numbers)


def claimed(N: int) -> float:
    return online_exponent(N)


def fitted(rows: pd.DataFrame) -> Exponent:
    """Of one cell; a replicate is a seed."""
    table = rows.pivot_table(index="seed", columns="T", values="regret")
    return exponent(table.columns, table.to_numpy())


def floor(found: pd.DataFrame) -> dict[tuple[int, float], dict[str, float]]:
    """Where the printed average ends for p < 1, beside (1 − p)²·mean‖w*‖² and the theorem's (1 −
    p)D.
    """
    last = found[
        (found["variant"] == PRINTED) & (found["p"] < 1.0) & (found["T"] == found["T"].max())
    ]
    floors = {}
    for (N, p), rows in last.groupby(["N", "p"]):
        predicted = (1.0 - p) ** 2 * rows["mean_square"]
        floors[N, p] = {
            "regret": rows["regret"].mean(),
            "of_predicted": (rows["regret"] / predicted).mean(),
            "of_printed": (rows["regret"] / ((1.0 - p) * rows["D"])).mean(),
        }
    return floors


def _range(cells: dict[Any, Exponent], p: float | None, variant: str | None = None) -> str:
    """The exponents of some cells over the claimed one, from slowest to fastest."""
    ratios = [
        e.value / claimed(N)
        for (name, N, q), e in cells.items()
        if (q == p if p is not None else q < 1.0) and variant in (None, name)
    ]
    # no −0.0
    return (
        f"exponents {round(min(ratios), 1) + 0.0} to {round(max(ratios), 1) + 0.0} times the "
        "claimed one"
    )


def draw(found: pd.DataFrame, verdict: Verdict, lab: Lab) -> None:
    """A panel per N and average, a curve per p, and the claimed slope."""
    counts, names = sorted(found["N"].unique()), {PRINTED: "as printed", REPAIRED: "repaired"}
    with panels(
        lab.figure, 2, len(counts), f"{TITLE}: {verdict.word}", sharex=True, sharey=True
    ) as axes:
        for (row, (variant, words)), (column, N) in product(
            enumerate(names.items()), enumerate(counts)
        ):
            at = axes[row, column]
            for k, p in enumerate(sorted(found["p"].unique())):
                cell = found[(found["variant"] == variant) & (found["N"] == N) & (found["p"] == p)]
                by_T = cell.groupby("T")["regret"]
                mean = by_T.mean()
                e = verdict.numbers["exponents"][f"{variant}, N={N}, p={p:g}"]["exponent"]
                _named(at, mean, e, label=f"p = {p:g}", **look(k))
                at.fill_between(
                    mean.index,
                    by_T.min(),
                    by_T.max(),
                    color=look(k)["color"],
                    alpha=0.15,
                    linewidth=0,
                )
            T = mean.index.to_numpy()
            at.plot(
                T, mean.iloc[0] * (T / T[0]) ** claimed(N), **CLAIMED, label="claimed, T^(−1/(1+N))"
            )
            title = f"N = {N} (claimed {claimed(N):.2f}), {words}"
            at.set(xscale="log", yscale="log", title=title, xlim=(0.8 * T[0], 2.2 * T[-1]))
            count_ticks(at, T[[0, -1]])
            if row:
                at.set_xlabel("rounds T; exponents at the curves")
        for row in axes:
            row[0].set_ylabel("average regret")
        legend_below(axes[0, 0])


def _named(axes: Any, curve: pd.Series, power: float, **how: Any) -> None:
    """A curve with its exponent where it ends."""
    axes.plot(curve.index, curve, **how)
    end = (curve.index[-1], curve.iloc[-1])
    axes.annotate(
        f"{power:+.2f}",
        end,
        (6, 0),
        textcoords="offset points",
        va="center",
        color=how["color"],
        fontsize=9,
    )
