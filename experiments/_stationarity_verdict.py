"""What `stationarity` says, from its rows."""

from __future__ import annotations

from math import exp, log10
from typing import Any

import numpy as np
import pandas as pd
from experiments._fit import Exponent, exponent, mean_interval
from experiments._verdict import Verdict, of_parts

BETA = 0.1  # the theorem's
PLAIN = 1.0  # no correction
CLAIMED = -4.0
# of an exponent: a mean over all iterates falls as 1/T at best, and more slowly until the start is
# over
MARGIN = 0.25
Ratio = tuple[float, float, float]  # with its interval


def judge(found: pd.DataFrame) -> Verdict:
    """The rate holds where ε is reached and the whole interval of the exponent is at or above −4,
    less a margin for the mean over all iterates: with B = Θ(ε⁻²) that cannot do better than −4.
    What the correction does is told beside it, as the theorem says nothing about the method
    without.
    """
    rate, theory = found[found["part"] == "rate"], found[found["part"] == "theory"]
    kinds = list(rate["kind"].unique())
    of_mean = {kind: fitted(rate[rate["kind"] == kind], "evaluations") for kind in kinds}
    of_late = {kind: fitted(rate[rate["kind"] == kind], "late_evaluations") for kind in kinds}
    every = {kind: rate.loc[rate["kind"] == kind, "reached"].astype(bool) for kind in kinds}
    rates = [bool(every[kind].all() and of_mean[kind].low >= CLAIMED - MARGIN) for kind in kinds]
    rates += [bool(every[kind].all() and of_late[kind].low >= CLAIMED) for kind in kinds]
    in_B, equal, same = ends_in_B(found), at_equal_cost(found), at_equal_batch(found)
    numbers = {
        "reached": {kind: f"{e.sum()} of {len(e)}" for kind, e in every.items()},
        "exponents": {
            kind: {
                "mean": of_mean[kind].as_dict(),
                "late": of_late[kind].as_dict(),
                "claimed": CLAIMED,
            }
            for kind in kinds
        },
        "end_in_B": {f"{kind}, β={beta:g}": e.as_dict() for (kind, beta), e in in_B.items()},
        "corrected_over_uncorrected": {
            "equal evaluations, own steps": {
                f"{kind}, B={B}": _as_dict(r) for (kind, B), r in equal.items()
            },
            "equal batch and steps": {
                f"{kind}, B={B}": _as_dict(r) for (kind, B), r in same.items()
            },
        },
        "steps": {
            f"{part}, {kind}, β={beta:g}, B={B}": {"eta": eta, "gamma": gamma}
            for (part, kind, beta, B, eta, gamma), _ in found[
                found["part"].isin(["rate", "own"])
            ].groupby(["part", "kind", "beta", "B", "eta", "gamma"])
        },
        "theory": {
            kind: rows[["eta_theory", "gamma_theory", "T_theory", "B_theory", "L", "mu", "moved"]]
            .median()
            .to_dict()
            for kind, rows in theory.groupby("kind", sort=False)
        },
    }
    ended = ", ".join(f"B^{e} for {kind}" for (kind, beta), e in in_B.items() if beta == BETA)
    steps, eta, gamma = int(theory["t"].max()), theory["eta_theory"], theory["gamma_theory"]
    sentence = (
        "With B = Θ(ε⁻²) and constant steps that a rehearsal chose, "
        f"{sum(e.sum() for e in every.values())} of "
        f"{len(rate)} runs reached ε, and evaluations grew as {_said(of_mean)} by the mean over "
        "all iterates, which is "
        f"what the theorem bounds, and as {_said(of_late)} by their latter half, where "
        f"ε^{CLAIMED:.0f} is claimed; "
        f"with B fixed the gap after {steps:,} steps goes as {ended}, and the correction made it "
        f"{_times(same)} what "
        "it is without, at the same batch and steps, for twice the evaluations, and "
        f"{_times(equal)} at equal "
        f"evaluations, each with its own steps; the theorem's own steps are η = {_power(eta)} and "
        f"γ = {_power(gamma)}, "
        f"its proof asks for T = {_power(theory['T_theory'])} of them, and {steps:,} move the gap "
        "by "
        f"{_power(theory['moved'])} of itself."
    )
    return Verdict(of_parts(rates), sentence, numbers)


def fitted(rows: pd.DataFrame, column: str) -> Exponent:
    """Evaluations as a power of ε; a replicate is a seed."""
    table = rows.pivot_table(index="seed", columns="eps", values=column)
    return exponent(table.columns, table.to_numpy())


def ends_in_B(found: pd.DataFrame) -> dict[tuple[str, float], Exponent]:
    """Gaps at the end of runs with a fixed batch and the same steps, as a power of the batch."""
    ends = _ends(found[(found["part"] == "fixed") & found["beta"].isin([BETA, PLAIN])])
    tables = {
        key: rows.pivot_table(index="seed", columns="B", values="late")
        for key, rows in ends.groupby(["kind", "beta"], sort=False)
    }
    return {key: exponent(table.columns, table.to_numpy()) for key, table in tables.items()}


def at_equal_batch(found: pd.DataFrame) -> dict[tuple[str, int], Ratio]:
    """By kind and B: where Algorithm 1 ends over where it does without its correction."""
    ends = _ends(found[found["part"] == "fixed"])
    return _paired(ends[ends["beta"] == BETA], ends[ends["beta"] == PLAIN])


def at_equal_cost(found: pd.DataFrame) -> dict[tuple[str, int], Ratio]:
    """The same where the uncorrected one has batch 2B, and each its own steps."""
    ends = _ends(found[found["part"] == "own"])
    plain = ends[ends["beta"] == PLAIN]
    return _paired(ends[ends["beta"] == BETA], plain.assign(B=plain["B"] // 2))


def _paired(mine: pd.DataFrame, other: pd.DataFrame) -> dict[tuple[str, int], Ratio]:
    """Geometric means over seeds of one gap over the other."""
    both = mine.merge(
        other, on=["kind", "B", "seed"], suffixes=("", "_other"), validate="one_to_one"
    )
    ratios = {}
    for (kind, B), rows in both.groupby(["kind", "B"], sort=False):
        mean, low, high = mean_interval(np.log(rows["late"] / rows["late_other"]))
        ratios[kind, int(B)] = exp(mean), exp(low), exp(high)
    return ratios


def _ends(curves: pd.DataFrame) -> pd.DataFrame:
    return curves[curves["t"] == curves["t"].max()]


def _as_dict(ratio: Ratio) -> dict[str, Any]:
    return dict(zip(("ratio", "low", "high"), ratio, strict=True))


def _said(exponents: dict[str, Exponent]) -> str:
    return ", ".join(f"ε^{e} for {kind}" for kind, e in exponents.items())


def _times(ratios: dict[tuple[str, int], Ratio]) -> str:
    """From least to largest, and in how many cells more than chance."""
    means, lows, highs = np.array(list(ratios.values())).T
    surely = (
        f"surely lower in {(highs < 1.0).sum()}, surely higher in {(lows > 1.0).sum()} of "
        f"{len(ratios)} cells"
    )
    return f"{means.min():.2f} to {means.max():.2f} times ({surely})"


def _power(values: pd.Series) -> str:
    """From least to largest, as powers of ten."""
    low, high = (round(log10(max(v, 1e-99))) for v in (values.min(), values.max()))
    return f"10^{low}" if low == high else f"10^{low} to 10^{high}"
