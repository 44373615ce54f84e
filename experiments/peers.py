"""Peers: is the unattended default beaten by what one would use instead, and where?

    cuvee reproduce peers

Each target has 20 labelled rows; scores are on its others. Real tables are taken from the folder
that CUVEE_DATA names; without them there are MNIST groups and made-up visits. LibMOON takes part
where CUVEE_LIBMOON names its environment (`sh experiments/peers_libmoon/build FOLDER`). Everybody
has the same rows, features and standardisation; skada's methods see the features of the test rows
besides. Levels of quantities are taken out for this project, as `cuvee adapt` does it; peers get
the table as it is, and once more with levels taken out for them.

A replicate is a seed: targets of one seed share their sources, so that they are averaged before
anything is said about chance. A peer is ahead, or behind, where the whole 95 % interval of the
paired difference is on its side. The claim holds on a table where no peer is ahead, and none can be
by more than a point, or 2 % of the squared error.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Collection, Iterator
from itertools import product
from typing import Any

import torch
from experiments import _peers_moon
from experiments._lab import Lab, Row, Unit, name_of
from experiments._peers_figure import draw
from experiments._peers_map import MAPS, measure_map
from experiments._peers_methods import (
    FEW_FEATURES,
    OURS,
    SKLEARN,
    Found,
    adapters,
    boosted,
    default,
    own_rows,
    reweighted,
)
from experiments._peers_moon import MOON, at_our_mixtures
from experiments._peers_tables import FILES, MNIST, QUANTITIES, VISITS, Case, cases, there
from experiments._peers_verdict import judge
from experiments._verdict import Verdict
from threadpoolctl import threadpool_limits

TITLE = "Peers (skada, LibMOON, scikit-learn)"
CLAIM = "The unattended default is not beaten by any peer on any table."
VERSION = 1
CLOCKED = True
Answer = tuple[str, str, bool, int, Found]  # family, peer, levels taken out, target, what it found
EVERYBODY = "everybody"  # all that needs no environment of its own
_MAP: dict[str, Any] = {
    "sources": 5,
    "rows": 200,
    "features": 6,
    "mixtures": 500,
    "epochs": [10, 30, 100, 300, 1_000],
}
_ALL = {
    "l2": 1e-2,
    "first": 2_000,  # seeds that nothing was chosen on
    "pixels": 7,
    "targets": 10,
    "skip": [],
    "fewer_seeds": {},
    "moon_epochs": 300,
    "moon_tables": [VISITS],
    "map": _MAP,
}
_SLOW = ["boosted trees", "density", "Gaussian", "MMDTarS"]
_SMALL = {**_MAP, "mixtures": 50, "epochs": [10, 30]}
SETTINGS: dict[str, dict[str, Any]] = {
    "tiny": {
        **_ALL,
        "tables": [VISITS],
        "targets": 2,
        "skip": [*_SLOW, "KMM", "KLIEP"],
        "map": _SMALL,
        "seeds": 2,
    },
    "quick": {
        **_ALL,
        "tables": [VISITS, MNIST, *QUANTITIES],
        "targets": 3,
        "skip": [*_SLOW, "KMM"],
        "pixels": 4,
        "fewer_seeds": {MNIST: 2},
        "map": {**_MAP, "epochs": [10, 30, 100, 300]},
        "seeds": 3,
    },
    "full": {
        **_ALL,
        "tables": [VISITS, MNIST, *FILES],
        "fewer_seeds": {"office_caltech10": 3, MNIST: 6},
        "moon_tables": [VISITS, *QUANTITIES],  # its worker knows quantities and two classes
        "map": {**_MAP, "epochs": [*_MAP["epochs"], 3_000]},
        "seeds": 10,
    },
}


def run(lab: Lab) -> Verdict:
    setting = lab.setting
    found = lab.collect(units(setting, lab.done), functools.partial(measure, setting=setting))
    verdict = judge(found, setting["tables"])
    draw(found, verdict, lab, TITLE)
    return verdict


def units(setting: dict[str, Any], done: Collection[str] = ()) -> list[Unit]:
    """What can be measured here, or was: a table or LibMOON that turns up adds units, and none goes
    with it.
    """
    tables, moon = {*there(setting["tables"]), MAPS}, _peers_moon.there()
    every: list[Unit] = [
        {"seed": setting["first"] + k, "table": table, "by": by}
        for k, table in product(range(setting["seeds"]), [*setting["tables"], MAPS])
        for by in [EVERYBODY, *([MOON] if table in (MAPS, *setting["moon_tables"]) else [])]
        if k < setting["fewer_seeds"].get(table, setting["seeds"])
    ]
    return [
        u
        for u in every
        if name_of(u) in done or (u["table"] in tables and (moon or u["by"] != MOON))
    ]


def measure(unit: Unit, setting: dict[str, Any]) -> Iterator[Row]:
    """All methods on all targets of one table, one after the other on one thread; or maps."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of peers: rounds that ran out, folds without a class
            yield from (
                measure_map(unit, setting)
                if unit["table"] == MAPS
                else measure_table(unit, setting)
            )
    finally:
        torch.set_num_threads(threads)


def measure_table(unit: Unit, setting: dict[str, Any]) -> Iterator[Row]:
    for case in cases(unit["table"], unit["seed"], setting):
        levelled = case.levelled() if case.quantity else None
        asked = (
            moon(case, levelled, setting, unit)
            if unit["by"] == MOON
            else everybody(case, levelled, setting)
        )
        for family, peer, levels, i, (predicted, seconds) in asked:
            scored = levelled if levels and levelled is not None else case
            yield {
                "target": case.problem.targets[i].name,
                "family": family,
                "peer": peer,
                "levels": levels,
                "quantity": case.quantity,
                "score": scored.score(i, predicted),
                "fit_s": round(seconds, 6),
            }


def moon(
    case: Case, levelled: Case | None, setting: dict[str, Any], unit: Unit
) -> Iterator[Answer]:
    """LibMOON at this project's mixtures."""
    for i, found in enumerate(
        at_our_mixtures(levelled or case, setting["moon_epochs"], unit["seed"])
    ):
        yield MOON, f"{MOON} at cuvee's α", levelled is not None, i, found


def everybody(case: Case, levelled: Case | None, setting: dict[str, Any]) -> Iterator[Answer]:
    """This project and all that can be imported here."""
    ours = case if levelled is None else levelled
    for i, found in enumerate(default(ours)):
        yield OURS, OURS, levelled is not None, i, found
    features = case.test[0][0].shape[1]
    for (name, method), of in product(
        SKLEARN.items(), [case] if levelled is None else [case, levelled]
    ):
        if of is levelled and method is own_rows:
            continue  # its model is the same
        if name not in setting["skip"] and (method is not boosted or features <= FEW_FEATURES):
            for i, found in enumerate(method(of)):
                yield "scikit-learn", name, of is levelled, i, found
    for name in adapters(features, case.quantity):
        if name not in setting["skip"]:
            for peer, levels, i, found in reweighted(name, case, levelled):
                yield "skada", peer, levels, i, found
