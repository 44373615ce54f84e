"""Online maps of small problems, the loop a user would write, and everything there is to know of a
map's state.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cuvee import Domain, OnlineMap, Status
from learn_builders import HYPOTHESES, make_sources

N = 3
VARIANTS = ("paper", "paper_repaired", "first_order", "curved")


@cache
def sources(name: str = "binary") -> list[Domain]:
    return make_sources(HYPOTHESES[name][0], N, rows=24 if name == "net" else 50)


def make(name: str = "binary", **options: Any) -> OnlineMap:
    return OnlineMap(sources(name), HYPOTHESES[name][1], **options)


def load(path: Path, name: str = "binary", **options: Any) -> OnlineMap:
    return OnlineMap.load(path, sources(name), HYPOTHESES[name][1], **options)


def run(online: OnlineMap, alphas: Any) -> tuple[Any, list[bool], list[Status | None]]:
    """Predictions (T, P), flips, and what became of labels."""
    predictions, flips, statuses = [], [], []
    for alpha in alphas:
        predictions.append(online.predict_one(alpha))
        flips.append(online.wants_label(alpha))
        statuses.append(online.learn_one(alpha).status if flips[-1] else None)
    return np.array(predictions), flips, statuses


def state(online: OnlineMap, folder: Path) -> bytes:
    """All that a map remembers."""
    online.save(folder / "state")
    found = (folder / "state").read_bytes()
    (folder / "state").unlink()
    return found


class Faulty:
    """An oracle that raises, while it is told to."""

    def __init__(self, oracle: Any) -> None:
        self.oracle, self.error = oracle, None

    def solve(self, *args: Any, **options: Any) -> Any:
        return self._ask("solve", *args, **options)

    def gradient(self, *args: Any, **options: Any) -> Any:
        return self._ask("gradient", *args, **options)

    def certify(self, *args: Any, **options: Any) -> Any:
        return self._ask("certify", *args, **options)

    def _ask(self, what: str, *args: Any, **options: Any) -> Any:
        if self.error is not None:
            raise self.error
        return getattr(self.oracle, what)(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.oracle, name)


def faulty(online: OnlineMap) -> Faulty:
    """The map's oracle from now on."""
    oracle = Faulty(online._bound.oracle)
    online._bound = replace(online._bound, oracle=oracle)
    return oracle
