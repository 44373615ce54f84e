"""Efficiency regimes: from which M on is learning the map cheaper than solving M problems?

    cuvee reproduce regimes

The paper counts: solving takes M·c gradient steps, c = κ log(1/ε), learning n·c + M with n =
(κ*²P/ε)^(1+N/2) labels, so that they cross at M = n·c/(c − 1). Measured are the labels that a map
needs for an excess risk E‖ŵ − w*‖² ≤ ε on mixtures it has not seen (put into the same count), and
the seconds that both ways take here. Maps: Algorithm 2 ("network"), the limit of infinite width
that its proof goes through ("kernel"), and what `cuvee.learn` takes ("auto").
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from math import isfinite, log, nan
from typing import Any

import numpy as np
import pandas as pd
from experiments._fit import Exponent, exponent
from experiments._lab import Lab, Row, Unit, seed_of
from experiments._style import CLAIMED, legend_below, look, panels
from experiments._verdict import Verdict, of_parts

import cuvee
from cuvee.data.synthetic import shifted_sources
from cuvee.learn.planner import Line, clocked, crossing, measured_line
from cuvee.simplex import sample
from cuvee.theory import labels_exponent, learning_pays_from, risk_constants

TITLE = "Efficiency regimes (solve or learn)"
CLAIM = "Learning is cheaper if and only if M ≥ Ω((κ*²P/ε)^(1+N/2) · c/(c − 1)), c = κ log(1/ε)."
VERSION = 1
CLOCKED = True
_DATA: dict[str, Any] = {"rows": 300, "features": 6, "l2": 0.01, "test": 500, "most": 1_024}
_DOUBLING = [4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096]
SETTINGS: dict[str, dict[str, Any]] = {
    "tiny": {
        **_DATA,
        "most": 64,
        "N": [2, 3],
        "eps": [1e-2, 3e-3, 1e-3],
        "labels": {"kernel": [4, 8, 16, 32], "auto": [8]},
        "seeds": 1,
    },
    "quick": {
        **_DATA,
        "N": [2, 3, 5, 8],
        "eps": [1e-2, 2e-3, 5e-4, 1e-4],
        "labels": {"network": [8, 32, 128], "kernel": _DOUBLING[:8], "auto": _DOUBLING[:5]},
        "seeds": 3,
    },
    "full": {
        **_DATA,
        "N": [2, 3, 5, 8, 12],
        "eps": [1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5],
        "labels": {"network": _DOUBLING[1:9], "kernel": _DOUBLING, "auto": _DOUBLING[:8]},
        "seeds": 5,
    },
}
PAPERS = ("network", "kernel")  # what the claim is about
AGAIN = 1_000  # predictions that are timed at once
SHORT = 1.0  # seconds: what took less is learnt once more


def run(lab: Lab) -> Verdict:
    setting = lab.setting
    seeds = range(setting["seeds"])
    units: list[dict[str, Any]] = [
        {"way": "solve", "N": N, "eps": eps, "seed": seed}
        for N, eps, seed in product(setting["N"], setting["eps"], seeds)
    ]
    for way, labels in setting["labels"].items():
        units += [
            {"way": way, "N": N, "n": n, "seed": seed}
            for N, n, seed in product(setting["N"], labels, seeds)
        ]
    found = lab.collect(units, partial(measure, setting=setting))
    cells = crossings(found)
    verdict = judge(cells)
    draw(cells, verdict, lab)
    return verdict


def measure(unit: Unit, setting: dict[str, Any]) -> Iterator[Row]:
    """Of solving to ε: its line over M, and the constants. Of a map: its error, and
    what it cost.
    """
    N, seed = unit["N"], unit["seed"]
    sources = shifted_sources(N, setting["rows"], setting["features"], seed=seed)
    hypothesis = cuvee.Logistic(setting["l2"], intercept=False)
    fresh = np.concatenate([sample(setting["test"], N, seed=seed_of("test", N, seed)), np.eye(N)])
    w = cuvee.solve(sources, hypothesis, fresh, tol=1e-9).w
    if unit["way"] == "solve":
        k, P = risk_constants(sources, hypothesis, w=w), w.shape[1]
        tol = k.mu_f * (unit["eps"] / P) ** 0.5  # ‖w − w*‖² ≤ P·tol²/μ²
        alpha = sample(setting["most"], N, seed=seed_of("solve", N, seed))
        line = measured_line(
            lambda M: cuvee.solve(sources, hypothesis, alpha[:M], tol=tol), setting["most"]
        )
        yield {
            "kappa_star": k.kappa_star,
            "kappa": k.kappa,
            "P": P,
            "fixed_s": line.fixed,
            "each_s": line.each,
        }
        return

    def learnt() -> cuvee.ModelMap:
        options = {
            "n_labels": unit["n"],
            "n_calibration": 0,
            "tol": 1e-6,
            "seed": seed_of("map", seed),
        }
        return cuvee.learn(sources, hypothesis, method=unit["way"], **options)

    atlas = learnt()
    fixed = sum(atlas.plan.seconds.values())
    if fixed < SHORT:  # the first of its kind may have loaded a library
        fixed = min(fixed, sum(learnt().plan.seconds.values()))
    test, exact = fresh[: setting["test"]], w[: setting["test"]]
    error = float(((atlas(test, trust="predicted").w - exact) ** 2).sum(1).mean())
    many = sample(AGAIN, N, seed=seed_of("again", N, seed))
    each = clocked(lambda: atlas(many, trust="predicted")) / AGAIN
    yield {"error": error, "map": atlas.plan.method, "fixed_s": fixed, "each_s": each}


def crossings(found: pd.DataFrame) -> pd.DataFrame:
    """A row per map, N, ε and seed: labels needed, the crossing counted and on the clock, and the
    paper's.
    """
    solved = {(r.N, r.eps, r.seed): r for r in found[found["way"] == "solve"].itertuples()}
    rows = []
    for (way, N, seed), curve in found[found["way"] != "solve"].groupby(
        ["way", "N", "seed"], sort=False
    ):
        curve = curve.sort_values("n")
        for eps in sorted({key[1] for key in solved}, reverse=True):
            s = solved[N, eps, seed]
            c = s.kappa * log(1.0 / eps)
            n = needed(curve["n"].to_numpy(), curve["error"].to_numpy(), eps)
            rows.append(
                {
                    "way": way,
                    "N": N,
                    "eps": eps,
                    "seed": seed,
                    "labels": n,
                    "counted": n * c / (c - 1.0),
                    "clocked": _clocked(curve, n, Line(s.fixed_s, s.each_s)),
                    "least": curve["n"].min(),
                    "paper": learning_pays_from(
                        eps, kappa_star=s.kappa_star, kappa=s.kappa, n_params=s.P, n_sources=N
                    ),
                }
            )
    return pd.DataFrame(rows)


def needed(n: Any, error: Any, eps: float) -> float:
    """Labels for an error of ε, on the line (log-log) between two counts; the least count if that
    does; NaN if none.

    >>> needed([8, 32], [0.1, 0.001], 0.01)
    16.0
    """
    for k in range(len(n)):
        if error[k] <= eps:
            if k == 0 or error[k - 1] <= error[k]:
                return float(n[k])
            share = log(error[k - 1] / eps) / log(error[k - 1] / error[k])
            return float(round(n[k - 1] * (n[k] / n[k - 1]) ** share, 9))
    return nan


def _clocked(curve: pd.DataFrame, n: float, solve: Line) -> float:
    """Where the seconds cross, with a map from the least count of labels tried that does."""
    if not isfinite(n):
        return nan
    enough = curve[curve["n"] >= n].iloc[0]
    return crossing(solve, Line(enough["fixed_s"], enough["each_s"]))


def judge(cells: pd.DataFrame) -> Verdict:
    """Part one: learning pays from the paper's M on. Part two: not before, for labels grow as
    ε^−(1+N/2).
    """
    papers = cells[cells["way"].isin(PAPERS) & cells["labels"].notna()]
    if papers.empty:
        return Verdict(
            False, "No map of the paper's reached any ε with the labels tried.", {"cells": 0}
        )
    missed = int((cells["way"].isin(PAPERS) & cells["labels"].isna()).sum())
    pays = papers["clocked"] <= papers["paper"]
    finite = papers[np.isfinite(papers["clocked"])]
    early = np.log10(finite["paper"] / finite["clocked"].clip(lower=1.0))
    times = (
        f"10^{early.min():.0f} to 10^{early.max():.0f} times as large as" if len(early) else "not"
    )
    laws = {
        key: law
        for key, rows in cells.groupby(["way", "N"], sort=False)
        if (law := growth(rows)) is not None
    }
    right = {key: follows(e, law_of(key[1])) for key, e in laws.items() if key[0] in PAPERS}
    said = "; ".join(
        f"N = {N}: {e}, not {law_of(N):+.1f}" for (way, N), e in laws.items() if way == "kernel"
    )
    medians = [f"{rows['clocked'].median():,.0f} ({way})" for way, rows in papers.groupby("way")]
    sentence = (
        f"On the clock, learning the paper's maps pays from {' and '.join(medians)} targets on in "
        "the median, at or "
        f"before the paper's M in {int(pays.sum())} of the {len(papers)} cells that reached ε "
        f"({missed} did not), from "
        f"no M on in {len(papers) - len(finite)}; but that M is {times} where learning begins to "
        "pay, and its law for "
        f"the labels holds in {sum(right.values())} of {len(right)} cases (kernel, labels as "
        "powers of ε: "
        f"{said or 'too few to tell'})."
    )
    numbers = {
        "cells": len(papers),
        "cells_not_reached": missed,
        "cells_never": len(papers) - len(finite),
        "pays_by_the_papers_M": int(pays.sum()),
        "orders_of_magnitude_early": {
            "least": early.min(),
            "median": early.median(),
            "largest": early.max(),
        },
        "laws": {
            f"{way}, N={N}": {**e.as_dict(), "claimed": law_of(N)} for (way, N), e in laws.items()
        },
        "table": table(cells),
    }
    return Verdict(
        of_parts([bool(pays.all()), bool(right) and all(right.values())]), sentence, numbers
    )


def law_of(N: int) -> float:
    """The power of ε that the paper has for the labels needed."""
    return labels_exponent(N)


def follows(found: Exponent, law: float) -> bool:
    """Whether an exponent is the law's: it must also tell the law from no growth at all."""
    return found.low <= law <= found.high < 0.0


def growth(rows: pd.DataFrame) -> Exponent | None:
    """The power of ε that labels follow, over the ε that every seed reached with more than the
    least count.
    """
    by_eps = rows.pivot_table(index="seed", columns="eps", values="labels", dropna=False).dropna(
        axis=1
    )
    by_eps = by_eps.loc[:, (by_eps > rows["least"].min()).all()]
    if by_eps.shape[1] < 2:
        return None
    found = exponent(by_eps.columns, by_eps.to_numpy())
    return found if isfinite(found.low) else None


def table(cells: pd.DataFrame) -> list[dict[str, Any]]:
    """Medians over seeds; a cell that not all seeds reached says so by null."""
    columns = ["labels", "counted", "clocked", "paper"]
    return [
        {
            "way": way,
            "N": N,
            "eps": eps,
            **{c: float(rows[c].median(skipna=False)) for c in columns},
        }
        for (way, N, eps), rows in cells.groupby(["way", "N", "eps"], sort=False)
    ]


def draw(cells: pd.DataFrame, verdict: Verdict, lab: Lab) -> None:
    """A column per N: the crossing against ε, on the clock and by the paper's count; below without
    the paper's M.
    """
    counts = sorted(cells["N"].unique())
    with panels(
        lab.figure, 2, len(counts), f"{TITLE}: {verdict.word}", sharex=True, sharey="row"
    ) as axes:
        for (k, row), (at, N) in (
            (r, pair) for r in enumerate(axes) for pair in zip(r[1], counts, strict=True)
        ):
            rows = cells[cells["N"] == N]
            if k == 0:
                paper = rows.groupby("eps")["paper"].median()
                at.plot(paper.index, paper, **CLAIMED, label="the paper's M")
            _measured(at, rows)
            at.set(
                xscale="log",
                yscale="log",
                title=f"N = {N}" if k == 0 else "the same, measured alone",
            )
            row[0].set_ylabel("learning pays from M on")
            if k:
                at.set_xlabel("excess risk ε")
        axes[0, 0].invert_xaxis()
        axes[0, 0].plot([], [], ":", color="0.4", label="… by the paper's count")
        legend_below(axes[0, 0])


def _measured(axes: Any, rows: pd.DataFrame) -> None:
    for k, way in enumerate(rows["way"].unique()):
        middle = rows[rows["way"] == way].groupby("eps")[["counted", "clocked"]]
        # none, where a seed did not get there
        middle = middle.agg(lambda crossed: crossed.median(skipna=False))
        axes.plot(
            middle.index, middle["clocked"].clip(lower=1.0), **look(k), label=f"{way}, seconds"
        )
        axes.plot(middle.index, middle["counted"], **{**look(k), "linestyle": ":", "marker": None})
