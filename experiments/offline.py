"""Theorem 3: Algorithm 2 learns α → w*(α) from n labels with an excess risk of order n^(−2/(2+N)).

    cuvee reproduce offline

Logistic regression, mixtures uniform on the simplex. The excess risk E‖h(α) − w*(α)‖² is taken on
fresh mixtures, for the network of Algorithm 2, for what its proof goes through (the network
linearised where it starts, and the kernel of infinite width), and for maps that make use of more
smoothness than Lipschitz. T = c·n·log n steps, as the theorem has it; its width, n^(8+2/(2+N)), no
machine has. Labels are refined by K steps of descent after every step of the network, as in the
algorithm; K = 1 and K = 100 are tried beside the 10 of all others, whose labels end as minimisers
as well.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from itertools import product
from math import nan
from typing import Any

import numpy as np
import pandas as pd
from experiments._fit import Exponent, exponent, mean_interval
from experiments._lab import Lab, Row, Unit, seed_of
from experiments._maps import (
    FIRST,
    KERNEL,
    LABEL_TOL,
    LINEARISED,
    NEAREST,
    NETWORK,
    QUADRATIC,
    SECOND,
    SURFACE,
    claimed,
    learnt,
    least_eigenvalue,
    possible,
    predicted,
    smoothness,
    with_noise,
    with_steps,
)
from experiments._offline_figure import draw
from experiments._verdict import Verdict, of_parts

import cuvee
from cuvee.data.synthetic import shifted_sources
from cuvee.simplex import sample

TITLE = "Theorem 3 (offline excess risk)"
CLAIM = (
    "Algorithm 2, a wide shallow network trained on n labels, has an excess risk of order "
    "n^(−2/(2+N))."
)
VERSION = 1
_DATA: dict[str, Any] = {"rows": 100, "features": 4, "l2": 0.01, "steps_per_label": 2}
_DOUBLING = [16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096]


def _labels(paper: int, kernel: int, local: int, surface: int) -> dict[str, list[int]]:
    """How many doublings each kind of map is given."""
    of = {
        NETWORK: paper,
        LINEARISED: paper,
        KERNEL: kernel,
        NEAREST: local,
        FIRST: local,
        SECOND: local,
    }
    return {way: _DOUBLING[:k] for way, k in {**of, QUADRATIC: surface, SURFACE: surface}.items()}


SETTINGS: dict[str, dict[str, Any]] = {
    "tiny": {
        **_DATA,
        "N": [2, 3],
        "labels": _labels(3, 3, 3, 3),
        "K": {"N": [3], "tried": [1]},
        "width": 64,
        "steps_per_label": 0.5,
        "test": 200,
        "from": 16,
        "seeds": 1,
    },
    "quick": {
        **_DATA,
        "N": [2, 3, 5, 8],
        "labels": _labels(4, 7, 6, 4),
        "K": {"N": [3], "tried": [1]},
        "width": 512,
        "test": 2_000,
        "from": 16,
        "seeds": 3,
    },
    "full": {
        **_DATA,
        "N": [2, 3, 5, 8],
        "labels": _labels(5, 8, 9, 6),
        "K": {"N": [3], "tried": [1, 100]},
        "width": 1_024,
        "test": 10_000,
        "from": 32,
        "seeds": 10,
    },
}
PAPERS = (NETWORK, KERNEL)  # what the claim is about, and the limit that its proof takes
LEAST = 1e-13  # of the variance of w*: risks below are what solving and rounding leave
FEWEST = 3  # label counts for an exponent


def run(lab: Lab) -> Verdict:
    setting = lab.setting
    found = lab.collect(units(setting), partial(measure, setting=setting))
    verdict = judge(found, setting["from"])
    draw(found, verdict, lab, TITLE)
    return verdict


def units(setting: dict[str, Any]) -> list[dict[str, Any]]:
    refined = [(N, with_steps(K)) for N, K in product(setting["K"]["N"], setting["K"]["tried"])]
    pairs = [*product(setting["N"], setting["labels"]), *refined]
    return [
        {"N": N, "way": way, "seed": seed}
        for seed, (N, way) in product(range(setting["seeds"]), pairs)
    ]


def measure(unit: Unit, setting: dict[str, Any]) -> Iterator[Row]:
    """One map from growing numbers of labels; sources, labels and fresh mixtures are the same for
    all maps.
    """
    N, way, seed = unit["N"], unit["way"], unit["seed"]
    sources = shifted_sources(N, setting["rows"], setting["features"], seed=seed)
    hypothesis = cuvee.Logistic(setting["l2"], intercept=False)
    fresh = sample(setting["test"], N, seed=seed_of("test", N, seed))
    exact = cuvee.solve(sources, hypothesis, fresh, tol=LABEL_TOL).w
    for n in setting["labels"].get(way, setting["labels"][NETWORK]):
        if not possible(way, n, N):
            continue
        began = time.perf_counter()
        predict, alpha, w, name = learnt(
            way,
            sources,
            hypothesis,
            n,
            seed_of("map", N, seed),
            setting["width"],
            setting["steps_per_label"],
        )
        learning = time.perf_counter() - began
        yield {
            "n": n,
            "risk": _mean_square(predict(fresh) - exact),
            "training": _mean_square(predict(alpha) - w),
            "variance": _mean_square(exact - exact.mean(0)),
            "least_eigenvalue": least_eigenvalue(alpha) if way == KERNEL else nan,
            "map": name,
            "learn_s": learning,
        }


def _mean_square(away: Any) -> float:
    return float((away**2).sum(1).mean())


def judge(found: pd.DataFrame, start: int) -> Verdict:
    """A cell is a map and an N; it holds where the whole interval of its exponent is at or below
    −2/(2+N).
    """
    cells = {
        key: e
        for key, rows in found.groupby(["way", "N"], sort=False)
        if (e := fitted(rows, start)) is not None
    }
    fell = {key: e.high <= claimed(key[1]) for key, e in cells.items()}
    parts = [fell[key] for key in cells if key[0] in PAPERS]
    if not parts:
        return Verdict(
            False,
            "No map of the paper's has an exponent: too few label counts were tried.",
            {"cells": 0},
        )
    gaps = shortfall(found)
    sentence = (
        f"The excess risk fell at least as fast as n^(−2/(2+N)) in {_of(fell, NETWORK)} for the "
        "network of Algorithm 2 "
        f"({_listed(cells, NETWORK)}), in {_of(fell, LINEARISED)} for its linearisation and in "
        f"{_of(fell, KERNEL)} for "
        f"its infinite-width kernel (exponents {_times(cells, KERNEL)} times the claimed one)"
    )
    if gaps:
        sentence += (
            "; with the most labels that it was given, the network's risk is "
            f"{_range(gaps, 'over_kernel')} times the "
            "kernel's (its linearisation's, solved to the end, "
            f"{_range(gaps, 'linearised_over_kernel')} times), and "
            f"its error on its own labels {_range(gaps, 'training_share', '.0%')} of its risk"
        )
    sentence += (
        f"; the nearest label alone fell that fast in {_of(fell, NEAREST)} "
        f"({_times(cells, NEAREST)} times the claimed "
        f"exponent), first-order Taylor pieces in {_of(fell, FIRST)} ({_times(cells, FIRST)} "
        "times)."
    )
    numbers = {
        "fitted_from": start,
        "exponents": {
            f"{way}, N={N}": _cell(e, way, N, fell[way, N]) for (way, N), e in cells.items()
        },
        "network": {f"N={N}": gap for N, gap in gaps.items()},
        "refinement": by_refinement(found),
        "least_eigenvalue": eigenvalues(found, start),
        "risks": risks(found),
    }
    return Verdict(of_parts(parts), sentence, numbers)


def _cell(e: Exponent, way: str, N: int, fell: bool) -> dict[str, Any]:
    H = smoothness(way, N)
    noisy = None if H is None else with_noise(H, N)
    return {
        **e.as_dict(),
        "claimed": claimed(N),
        "fell": fell,
        "predicted": predicted(way, N),
        "with_noise": noisy,
    }


def fitted(rows: pd.DataFrame, start: int) -> Exponent | None:
    """Of one map and N, from `start` labels on; a replicate is a seed. None where rounding leaves
    too few counts.
    """
    clear = (rows["risk"] > LEAST * rows["variance"]).groupby(rows["n"]).all()
    counts = [n for n in clear.index[clear] if n >= start]
    if len(counts) < FEWEST:
        return None
    table = rows.pivot_table(index="seed", columns="n", values="risk")[counts]
    return exponent(counts, table.to_numpy())


def shortfall(found: pd.DataFrame) -> dict[int, dict[str, Any]]:
    """The network with the most labels it had, beside kernel and linearisation: means over seeds,
    ratios geometric.
    """
    gaps = {}
    for N, rows in found.groupby("N"):
        n = rows.loc[rows["way"] == NETWORK, "n"].max()
        last = rows[rows["n"] == n].pivot_table(
            index="seed", columns="way", values=["risk", "training"]
        )
        if not {NETWORK, LINEARISED, KERNEL} <= set(last.columns.get_level_values(1)):
            continue
        risk = last["risk"]
        gaps[N] = {
            "n": int(n),
            "training_share": (last["training"][NETWORK] / risk[NETWORK]).mean(),
            "over_kernel": _geometric(risk[NETWORK] / risk[KERNEL]),
            "linearised_over_kernel": _geometric(risk[LINEARISED] / risk[KERNEL]),
        }
    return gaps


def by_refinement(found: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Risks with other K over those with K = 10, at every n, with 95 % intervals."""
    ratios = {}
    usual = found[found["way"] == NETWORK].set_index(["N", "n", "seed"])["risk"]
    for way in [w for w in found["way"].unique() if w.startswith(with_steps(0)[:-1])]:
        other = found[found["way"] == way].set_index(["N", "n", "seed"])["risk"]
        for (N, n), logs in np.log(other / usual).dropna().groupby(level=["N", "n"]):
            mean, low, high = np.exp(mean_interval(logs))
            ratios[f"{way}, N={N}, n={n}"] = {"over_usual": mean, "low": low, "high": high}
    return ratios


def eigenvalues(found: pd.DataFrame, start: int) -> dict[str, dict[str, Any]]:
    """λ₀ of the kernel matrix against n, where the theorem has N·polylog(N, n); what it is with the
    most labels.
    """
    laws = {}
    for N, rows in found[(found["way"] == KERNEL) & (found["n"] >= start)].groupby("N"):
        table = rows.pivot_table(index="seed", columns="n", values="least_eigenvalue")
        law, last = exponent(table.columns, table.to_numpy()), _geometric(table.iloc[:, -1])
        laws[f"N={N}"] = {
            **law.as_dict(),
            "predicted": -2.0 / (N - 1),
            "n": int(table.columns[-1]),
            "at_n": last,
        }
    return laws


def risks(found: pd.DataFrame) -> dict[str, float]:
    """Geometric means over seeds with the most labels that the network had, for a table."""
    most = found.loc[found["way"] == NETWORK, "n"].max()
    return {
        f"{way}, N={N}": _geometric(rows["risk"])
        for (way, N), rows in found[found["n"] == most].groupby(["way", "N"], sort=False)
    }


def _geometric(values: Any) -> float:
    return float(np.exp(np.log(values).mean()))


def _of(fell: dict[Any, bool], way: str) -> str:
    own = [held for (name, _), held in fell.items() if name == way]
    return f"{sum(own)} of {len(own)} cases"


def _listed(cells: dict[Any, Exponent], way: str) -> str:
    own = {N: e for (name, N), e in cells.items() if name == way}
    return (
        "; ".join(f"N = {N}: {e}, claimed {claimed(N):+.2f}" for N, e in own.items())
        or "too few label counts"
    )


def _times(cells: dict[Any, Exponent], way: str) -> str:
    ratios = [e.value / claimed(N) for (name, N), e in cells.items() if name == way]
    return f"{min(ratios):.1f} to {max(ratios):.1f}" if ratios else "an unknown number of"


def _range(gaps: dict[int, dict[str, Any]], of: str, digits: str = ".1f") -> str:
    values = [gap[of] for gap in gaps.values()]
    return f"{min(values):{digits}} to {max(values):{digits}}"
