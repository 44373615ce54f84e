"""What the losses of all methods on all tables say, and how surely.

Everything counts in one unit: the log of a target's mean loss over that of the mean of its own k
rows. It is averaged over seeds, then over the targets of a table, then over tables. Raw losses are
never averaged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

Array = npt.NDArray[np.float64]
TIE = 0.01  # log ratios this near to each other are a tie; the rope of the signed-rank test
REFERENCE = "lightgbm_cv"
HINDSIGHT = "best rival in hindsight"
ROUNDS = 2000


@dataclass(frozen=True)
class Scores:
    """Log ratios of methods, by target, on the targets that all of them answered."""

    methods: list[str]
    tables: list[str]
    by_target: list[Array]  # for each table (targets, methods)

    @property
    def by_table(self) -> Array:
        """(tables, methods): mean log ratios."""
        return np.stack([values.mean(0) for values in self.by_target])

    @property
    def mean(self) -> Array:
        """(methods,): mean log ratios over tables."""
        return np.asarray(self.by_table.mean(0))


def log_ratios(targets: pd.DataFrame) -> pd.Series:
    """Return the log ratio of each row; a thousandth of the table's unit keeps it finite."""
    little = 1e-3 * targets.groupby("table")["unit"].transform("mean")
    return np.log((targets["loss"] + little) / (targets["unit"] + little))


def scores(targets: pd.DataFrame) -> Scores:
    """Return the scores of the methods on the units that all of them have."""
    methods = sorted(targets["method"].unique())
    wide = targets.assign(ratio=log_ratios(targets)).pivot_table(
        index=["table", "target", "seed", "fold"], columns="method", values="ratio"
    )
    wide = wide[methods].dropna().groupby(level=["table", "target"]).mean()
    tables = sorted(wide.index.get_level_values("table").unique())
    return Scores(methods, tables, [wide.loc[t].to_numpy() for t in tables])


def with_hindsight(told: Scores, ours: str = "cuvee") -> Scores:
    """Return the scores with one more method: on each table the best one that is not ours."""
    rivals = np.array([not m.startswith(ours) for m in told.methods])
    best = [np.flatnonzero(rivals)[v.mean(0)[rivals].argmin()] for v in told.by_target]
    values = [np.column_stack([v, v[:, b]]) for v, b in zip(told.by_target, best, strict=True)]
    return Scores([*told.methods, HINDSIGHT], told.tables, values)


def resampled(told: Scores, seed: int = 0, rounds: int = ROUNDS) -> Array:
    """(rounds, tables, methods): tables drawn anew, and within each its targets."""
    rng = np.random.default_rng(seed)
    means = []  # (rounds, methods) of each table
    for values in told.by_target:
        n = len(values)
        counts = rng.multinomial(n, np.full(n, 1 / n), rounds)
        means.append(counts @ values / n)
    stacked = np.stack(means)  # (tables, rounds, methods)
    T = len(told.tables)
    table, again = rng.integers(T, size=(rounds, T)), rng.integers(rounds, size=(rounds, T))
    return np.asarray(stacked[table, again])


def interval(draws: Array) -> tuple[Array, Array]:
    """Return the ends of 95 % intervals of draws (rounds, ...)."""
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    return low, high


def leaderboard(targets: pd.DataFrame, reference: str = REFERENCE) -> pd.DataFrame:
    """Return a row for each method, the best first."""
    told = with_hindsight(scores(targets))
    reference = (
        reference if reference in told.methods else told.methods[int(told.mean[:-1].argmin())]
    )
    at = told.methods.index(reference)
    again = resampled(told)
    means = again.mean(1)  # (rounds, methods)
    low, high = interval(means)
    apart = interval(means - means[:, [at]])
    ranks = means[:, :-1].argsort(1).argsort(1) + 1
    rank_low, rank_high = np.quantile(ranks, [0.025, 0.975], axis=0)
    beside = told.by_table - told.by_table[:, [at]]
    everyone = np.concatenate(told.by_target)
    out = pd.DataFrame(
        {
            "ratio": np.exp(told.mean),
            "low": np.exp(low),
            "high": np.exp(high),
            "beside": told.mean - told.mean[at],
            "beside_low": apart[0],
            "beside_high": apart[1],
            "wins": (beside < -TIE).sum(0),
            "ties": (np.abs(beside) <= TIE).sum(0),
            "losses": (beside > TIE).sum(0),
            "rank_low": [*rank_low, np.nan],
            "rank_high": [*rank_high, np.nan],
            "worst_tenth": [np.exp(np.sort(v)[-max(1, len(v) // 10) :].mean()) for v in everyone.T],
        },
        index=pd.Index(told.methods, name="method"),
    )
    by_unit = targets.drop_duplicates(["table", "method", "seed", "fold"]).groupby("method")
    out = out.join(by_unit[["seconds", "processor"]].mean())
    out["mib"], out["failed"] = by_unit["mib"].max(), by_unit["failed"].sum()
    for name, column in (*_arena(told).items(), *_signed_rank(told, at).items()):
        out[name] = column
    return out.sort_values("ratio")


def _arena(told: Scores) -> dict[str, pd.Series]:
    """Return Elo and improvability as bencheval computes them, where it is installed."""
    if len(told.methods) < 3:  # two, and the best rival in hindsight
        return {}
    try:
        from bencheval.evaluator import BenchmarkEvaluator
    except ImportError:
        return {}
    long = pd.DataFrame(np.exp(told.by_table), index=told.tables, columns=told.methods)
    long = long.drop(columns=HINDSIGHT).rename_axis("task").reset_index()
    long = long.melt("task", var_name="method", value_name="metric_error")
    board = BenchmarkEvaluator(columns_to_agg_extra=None).leaderboard(long)
    return {name: board[name] for name in ("elo", "elo-", "elo+", "improvability")}


def _signed_rank(told: Scores, at: int) -> dict[str, pd.Series]:
    """Return, by baycomp's Bayesian signed-rank test, how likely each method is better, level,
    worse.
    """
    try:
        from baycomp import SignedRankTest
    except ImportError:
        return {}
    table = -told.by_table  # higher is better there
    with_reference = [
        SignedRankTest.probs(table[:, at], table[:, j], rope=TIE, nsamples=5000, random_state=0)
        if j != at and len(told.tables) > 1
        else (0.0, 1.0, 0.0)
        for j in range(len(told.methods))
    ]
    names = ("p_worse", "p_level", "p_better")
    columns = np.array(with_reference).T
    return {n: pd.Series(c, index=told.methods) for n, c in zip(names, columns, strict=True)}


def resolution(told: Scores, good: int = 6) -> float:
    """Return the difference in mean log ratio that the suite can just see between good methods."""
    best = np.argsort(told.mean)[:good]
    means = resampled(told).mean(1)[:, best]
    pairs = [means[:, i] - means[:, j] for i in range(len(best)) for j in range(i)]
    return float(1.96 * np.median([p.std() for p in pairs])) if pairs else float("nan")


def where(targets: pd.DataFrame, facts: pd.DataFrame, reference: str = REFERENCE) -> pd.DataFrame:
    """Return mean log ratios beside the reference on kinds of tables, a row for each method.

    `facts` has a row for each table with its kind, groups and k. The effect of the group is what
    the domain as a category changes in boosting's loss.
    """
    told = scores(targets)
    by_table = pd.DataFrame(told.by_table, index=told.tables, columns=told.methods)
    here = facts.loc[told.tables]
    kinds = {
        "quantities": here["kind"] == "quantity",
        "classes": here["kind"] == "classes",
        "counts": here["kind"] == "count",
        "under 30 groups": here["groups"] < 30,
        "30 to 80 groups": here["groups"].between(30, 80),
        "over 80 groups": here["groups"] > 80,
        "k up to 30": here["k"] <= 30,
        "k over 30": here["k"] > 30,
    }
    if {"lightgbm_default", "lightgbm_pooled"} <= set(told.methods):
        effect = by_table["lightgbm_default"] - by_table["lightgbm_pooled"]
        kinds |= {
            "strong group effect": effect < -0.1,
            "weak group effect": effect.between(-0.1, -0.01),
            "none": effect > -0.01,
        }
    beside = by_table.sub(by_table[reference], axis=0)
    parts = {
        f"{name} ({int(at.sum())})": beside[at.to_numpy()].mean()
        for name, at in kinds.items()
        if at.any()
    }
    return pd.DataFrame(parts)
