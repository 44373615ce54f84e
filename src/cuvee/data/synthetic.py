"""Random problems with a known truth, for tests, benchmarks and trying things out."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuvee.problem import Domain, Problem


def squared_loss_instance(seed: int, n_features: int = 5) -> Problem:
    """Return a problem with 3 to 6 sources and a target, each of 30 to 199 rows.

    Each domain has its own covariance and its own linear model.
    """
    rng = np.random.default_rng([77, seed])
    n_sources = int(rng.integers(3, 7))
    common = rng.normal(size=n_features)

    def domain(name: str) -> Domain:
        rows = int(rng.integers(30, 200))
        shape = 0.5 * rng.normal(size=(n_features, n_features)) + np.eye(n_features)
        X = rng.normal(size=(rows, n_features)) @ shape
        return Domain(
            name, X, X @ (common + rng.normal(size=n_features)) + 0.3 * rng.normal(size=rows)
        )

    return Problem([domain(f"source {j}") for j in range(n_sources)], [domain("target")])


def grouped_classes(
    seed: int,
    *,
    n_groups: int = 3,
    per_group: int = 3,
    n_targets: int = 3,
    n_features: int = 6,
    rows: int = 60,
    target_rows: int = 20,
) -> Problem:
    """Return a problem with binary labels, in which sources of one group share a direction.

    Target i belongs to group i mod n_groups.
    """
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(n_groups, n_features))

    def domain(name: str, group: int, n: int) -> Domain:
        X = rng.normal(size=(n, n_features))
        y = (X @ directions[group] + 0.3 * rng.normal(size=n) > 0).astype(int)
        y[:2] = 0, 1  # every domain has both classes
        return Domain(name, X, y)

    sources = [
        domain(f"group {g}, source {i}", g, rows) for g in range(n_groups) for i in range(per_group)
    ]
    return Problem(
        sources, [domain(f"target {i}", i % n_groups, target_rows) for i in range(n_targets)]
    )


def shifted_sources(
    n_sources: int, rows: int, features: int, *, seed: int = 0, quantity: bool = False
) -> list[Domain]:
    """Return sources with their own means, scales and rules around a common rule.

    Labels are two classes, or a quantity.
    """
    rng = np.random.default_rng(seed)
    common = 2.0 * rng.normal(size=features) / np.sqrt(features)
    domains = []
    for j in range(n_sources):
        X = rng.normal(size=(rows, features)) * np.exp(0.2 * rng.normal(size=features))
        X += 0.3 * rng.normal(size=features)
        score = X @ (common + rng.normal(size=features) / np.sqrt(features)) + 0.5 * rng.normal()
        if quantity:
            y = score + rng.normal(size=rows)
        else:
            y = (rng.random(rows) < 1.0 / (1.0 + np.exp(-score))).astype(np.int64)
        domains.append(Domain(f"source {j}", X, y))
    return domains


def visits(seed: int = 0) -> Any:
    """Return a table as hospitals keep it: a pandas frame of 2,560 visits to 8 of them.

    It has numbers, categories and an id.

    In half of the hospitals long stays mean trouble, in the others good care.
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    per_day = {"alder": 0.6, "birch": 0.5, "cedar": -0.4, "elm": -0.5}
    per_day |= {"fir": 0.6, "oak": -0.5, "pine": 0.5, "yew": -0.4}
    hospital = np.repeat(list(per_day), 320)
    frame = pd.DataFrame(
        rng.normal(size=(len(hospital), 8)).round(2), columns=[f"lab {i}" for i in range(8)]
    )
    frame["age"] = rng.integers(20, 90, len(frame))
    frame["days"] = rng.gamma(2.0, 2.0, len(frame)).round(1)
    frame["ward"] = rng.choice(["surgery", "heart", "other"], len(frame))
    frame["visit"] = [f"visit {i}" for i in range(len(frame))]
    frame["hospital"] = hospital
    risk = (
        frame.filter(like="lab") @ rng.normal(0.0, 0.5, 8)
        + 0.03 * (frame.age - 55)
        + 1.0 * (frame.ward == "heart")
    )
    risk += frame.hospital.map(per_day) * (frame.days - 4)
    frame["readmitted"] = np.where(rng.random(len(frame)) < 1 / (1 + np.exp(-risk)), "yes", "no")
    return frame
