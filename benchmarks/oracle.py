"""How often the minimax methods find the global minimum, by the exact oracles; a matter of quality,
not of time.

    cuvee bench oracle --json

100 random squared-loss problems (N 3 to 6, d 5, W a ball of radius 3, C = 5): the share on which
the worst case max_w F(α, w) of the α found is within 5 % of min_α max_w F, for both forms of the
discrepancy, by the full-batch method and by Algorithm 1, with one adversary (the paper) and with
the default panel, and by cuts.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch

import cuvee
from cuvee.components import QuadraticComponents
from cuvee.data.synthetic import squared_loss_instance
from cuvee.mixture.exact import Quadratics
from cuvee.mixture.objective import DISCREPANCIES, Discrepancy

RADIUS, C, WITHIN, WANTED = 3.0, 5.0, 1.05, 0.90
# methods with the sizes of panel; None: the default one
METHODS: dict[Any, tuple[int | None, ...]] = {"agp": (1, None), "scgda": (1, None), "cuts": (None,)}


def run(quick: bool = False) -> dict[str, Any]:
    """Shares for every method, form and panel size."""
    instances = range(8 if quick else 100)
    result: dict[str, Any] = {
        "benchmark": "oracle",
        "instances": len(instances),
        "within": WITHIN,
        "wanted": WANTED,
    }
    # Other processes, since a problem this small leaves a second thread idle.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn"), initializer=_setup) as pool:
        for form in DISCREPANCIES:
            best = list(pool.map(partial(optimum, form), instances))
            for method, panels in METHODS.items():
                for panel in panels:
                    found = list(pool.map(partial(worst_case, form, method, panel), instances))
                    ratio = np.array(found) / np.array(best)
                    name = (
                        f"{method}, {form}, {'default panel' if panel is None else 'one adversary'}"
                    )
                    result[name] = {
                        "share": round(float((ratio <= WITHIN).mean()), 3),
                        "median_ratio": round(float(np.median(ratio)), 4),
                        "largest_ratio": round(float(ratio.max()), 3),
                    }
                    print(name, result[name], file=sys.stderr)
    return result


def _setup() -> None:
    torch.set_num_threads(1)


def hypothesis() -> cuvee.Ridge:
    return cuvee.Ridge(l2=0.0, intercept=False, radius=RADIUS)


def oracle(form: Discrepancy, seed: int) -> Quadratics:
    problem = squared_loss_instance(seed)
    return Quadratics.of(QuadraticComponents(problem, hypothesis().bind(problem.facts)), C, form)


def optimum(form: Discrepancy, seed: int) -> float:
    """min_α max_w F, with a proven gap of 0.1 %."""
    return oracle(form, seed).minimum()[0]


def worst_case(form: Discrepancy, method: Any, panel: int | None, seed: int) -> float:
    """max_w F at the α that the method finds."""
    mix = cuvee.estimate(
        squared_loss_instance(seed),
        hypothesis(),
        method=method,
        discrepancy=form,
        C=C,
        c=1e-4,
        adversaries=panel,
    )
    return oracle(form, seed).worst(mix.alpha[0])[0]
