"""Lemma 1: w*(α) is Lipschitz with κ* = √N G_f/μ_f.

    cuvee reproduce lipschitz

Ratios ‖w*(α) − w*(α')‖/‖α − α'‖ over random pairs, far apart, close together (such a pair measures
a derivative) and sparse, and over pairs of corners. Beside them stands the largest ‖dw*/dα‖ along
the simplex, at random mixtures and at the corners, where it tends to be largest and where random
pairs of many sources never come: its supremum is what the Lemma bounds. Both are compared with κ*,
read as in the paper (G_f over the ball W) and as small as the proof allows (G_f over the minimisers
met).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from experiments._fit import Exponent, exponent
from experiments._lab import Lab, Row, Unit, seed_of
from experiments._style import CLAIMED, count_ticks, legend_below, look, panels, plain_ticks
from experiments._verdict import Verdict

import cuvee
from cuvee.data.synthetic import shifted_sources
from cuvee.results import Floats
from cuvee.simplex import sample
from cuvee.theory import risk_constants

TITLE = "Lemma 1 (w* is Lipschitz)"
CLAIM = "‖w*(α) − w*(α')‖ ≤ κ* ‖α − α'‖ with κ* = √N G_f/μ_f."
VERSION = 1
_ROWS = {"rows": 60, "features": 12, "kinds": ["ridge", "logistic"]}
SETTINGS: dict[str, dict[str, Any]] = {
    "tiny": {**_ROWS, "N": [2, 3], "l2": [0.01, 0.1], "pairs": 60, "slopes": 10, "seeds": 2},
    "quick": {
        **_ROWS,
        "N": [2, 3, 5, 8, 15],
        "l2": [0.001, 0.01, 0.1, 1.0],
        "pairs": 1_500,
        "slopes": 150,
        "seeds": 5,
    },
    "full": {
        **_ROWS,
        "N": [2, 3, 5, 8, 15, 30],
        "l2": [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0],
        "pairs": 6_000,
        "slopes": 500,
        "seeds": 20,
    },
}
NEAR = 1e-3  # of the way to another mixture, for a pair that is close together
TOL = 1e-9  # on ‖∇‖∞: what a solution may be off by is not to be seen in a ratio of close pairs


def run(lab: Lab) -> Verdict:
    setting = lab.setting
    units = [
        {"kind": kind, "N": N, "l2": l2, "seed": seed}
        for kind, N, l2, seed in product(
            setting["kinds"], setting["N"], setting["l2"], range(setting["seeds"])
        )
    ]
    found = lab.collect(units, partial(measure, setting=setting))
    verdict = judge(found)
    draw(found, verdict, lab)
    return verdict


def measure(unit: Unit, setting: dict[str, Any]) -> Iterator[Row]:
    """The largest ratios of one problem, and its constants."""
    N, ridge = unit["N"], unit["kind"] == "ridge"
    hypothesis = (cuvee.Ridge if ridge else cuvee.Logistic)(l2=unit["l2"], intercept=False)
    sources = shifted_sources(
        N, setting["rows"], setting["features"], seed=unit["seed"], quantity=ridge
    )
    one, other = pairs(N, setting["pairs"], seed_of("pairs", N, unit["seed"]))
    alpha = np.concatenate([one, other, np.eye(N)])
    w = cuvee.solve(sources, hypothesis, alpha, tol=TOL).w
    apart = np.linalg.norm(w[: len(one)] - w[len(one) : 2 * len(one)], axis=1)
    ratio = apart / np.linalg.norm(one - other, axis=1)
    some = np.r_[
        0 : setting["pairs"] : max(1, setting["pairs"] // setting["slopes"]),
        2 * len(one) : len(alpha),
    ]
    slopes = cuvee.sensitivity(sources, hypothesis, alpha[some], w[some])
    k = risk_constants(sources, hypothesis, w=w)  # on the smallest W around 0 that holds all w*
    yield {
        "ratio": ratio.max(),
        "median_ratio": np.median(ratio),
        "slope": along_the_simplex(slopes).max(),
        "kappa_star": k.kappa_star,
        "kappa_star_met": k.kappa_star_met,
        "mu": k.mu_f,
        "G": k.G_f,
        "G_met": k.G_f_met,
        "D": k.D,
    }


def pairs(N: int, n: int, seed: int) -> tuple[Floats, Floats]:
    """Two times (n + N(N−1)/2, N): a third far apart, a third close together, a third sparse, and
    all corners.
    """
    third = n // 3
    one = np.concatenate(
        [
            sample(2 * third, N, seed=[seed, 0]),
            sample(n - 2 * third, N, [seed, 1], concentration=0.2),
        ]
    )
    other = np.concatenate(
        [sample(2 * third, N, seed=[seed, 2]), sample(n - 2 * third, N, [seed, 3], 0.2)]
    )
    near = slice(third, 2 * third)
    other[near] = one[near] + NEAR * (other[near] - one[near])
    i, j = np.triu_indices(N, 1)
    return np.concatenate([one, np.eye(N)[i]]), np.concatenate([other, np.eye(N)[j]])


def along_the_simplex(slopes: Floats) -> Floats:
    """(M,) the largest ‖Σ_j v_j dw*/dα_j‖ over unit v that sum to 0, of dw*/dα (M, N, P)."""
    tangent = slopes - slopes.mean(1, keepdims=True)  # what a step along 1 would do plays no role
    return np.asarray(np.linalg.svd(tangent, compute_uv=False)[:, 0])


def judge(found: pd.DataFrame) -> Verdict:
    """No pair may be above κ*, not even with the smallest constants that the proof allows."""
    found = found.assign(largest=found[["ratio", "slope"]].max(axis=1))
    largest = found["largest"]
    above = int((largest > found["kappa_star_met"]).sum())
    loose, least = found["kappa_star"] / largest, found["kappa_star_met"] / largest
    growth = {
        kind: {of: growths(rows, of) for of in ("largest", "kappa_star")}
        for kind, rows in found.groupby("kind", sort=False)
    }
    said = ", ".join(
        f"N^{g['largest']['N']} and μ_f^{g['largest']['mu']} for {kind}, where κ* itself grows as "
        f"N^{g['kappa_star']['N'].value:+.2f} and μ_f^{g['kappa_star']['mu'].value:+.2f}"
        for kind, g in growth.items()
    )
    kept = (
        f"No pair of mixtures moved w* by more than κ* in {len(found)} problems"
        if above == 0
        else f"In {above} of {len(found)} problems w* moved faster than κ* allows"
    )
    sentence = (
        f"{kept}, and the constant is loose: κ* is {loose.min():,.1f} to {loose.max():,.0f} times "
        "the largest ratio "
        f"or derivative found, {least.min():,.1f} times or more with the smallest constants that "
        "the proof allows; "
        f"what was found grows as {said}."
    )
    numbers = {
        "problems": len(found),
        "above": above,
        "kappa_star_over_ratio": {
            "least": loose.min(),
            "median": loose.median(),
            "largest": loose.max(),
        },
        "smallest_kappa_star_over_ratio": {"least": least.min(), "median": least.median()},
        "growth": {
            kind: {of: {over: e.as_dict() for over, e in each.items()} for of, each in g.items()}
            for kind, g in growth.items()
        },
    }
    return Verdict(above == 0, sentence, numbers)


def growths(rows: pd.DataFrame, of: str) -> dict[str, Exponent]:
    """Of a column with N, and with μ_f; a replicate is a seed, and what is not asked for is
    averaged, geometrically.
    """
    logs = rows.assign(log=np.log(rows[of]))
    by_N = np.exp(logs.pivot_table(index="seed", columns="N", values="log"))
    by_l2 = np.exp(logs.pivot_table(index="seed", columns="l2", values="log"))
    mu = rows.groupby("l2")["mu"].mean()  # it differs a little from seed to seed
    return {"N": exponent(by_N.columns, by_N.to_numpy()), "mu": exponent(mu, by_l2.to_numpy())}


def draw(found: pd.DataFrame, verdict: Verdict, lab: Lab) -> None:
    """Against N at a middle λ, and against μ_f at the largest N, for both losses."""
    kinds, middle = (
        list(found["kind"].unique()),
        sorted(found["l2"].unique())[len(found["l2"].unique()) // 2 - 1],
    )
    with panels(lab.figure, len(kinds), 2, f"{TITLE}: {verdict.word}", sharey="row") as axes:
        for row, kind in zip(axes, kinds, strict=True):
            rows = found[found["kind"] == kind]
            _curves(row[0], rows[rows["l2"] == middle], "N")
            _curves(row[1], rows[rows["N"] == rows["N"].max()], "l2")
            row[0].set(
                title=f"{kind}, λ = {middle:g}", xlabel="sources N", ylabel="‖w* − w*'‖ / ‖α − α'‖"
            )
            row[1].set(title=f"{kind}, N = {rows['N'].max()}", xlabel="μ_f")
            plain_ticks(row[1].xaxis)
            count_ticks(row[0], sorted(rows["N"].unique()))
        legend_below(axes[0, 0])


def _curves(axes: Any, rows: pd.DataFrame, over: str) -> None:
    mean = rows.groupby(over).mean(numeric_only=True)
    x = mean["mu"] if over == "l2" else mean.index
    axes.plot(x, mean["kappa_star"], **CLAIMED, label="κ*, G_f over W")
    axes.plot(
        x,
        mean["kappa_star_met"],
        color="0.35",
        linestyle=":",
        label="κ*, smallest the proof allows",
    )
    series: Iterable[tuple[str, str]] = (("ratio", "largest ratio"), ("slope", "largest ‖dw*/dα‖"))
    for k, (column, label) in enumerate(series):
        axes.plot(x, mean[column], **look(k), label=label)
        spread = rows.groupby(over)[column]
        axes.fill_between(
            x, spread.min(), spread.max(), color=look(k)["color"], alpha=0.15, linewidth=0
        )
    axes.set(xscale="log", yscale="log")
