"""What `cuvee solve` makes, writes and prints of its models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cuvee.api import OWN, load_map, solve
from cuvee.cli.alpha import Weights
from cuvee.cli.console import show
from cuvee.cli.output import print_table
from cuvee.data.blends import Blends
from cuvee.run import SavedModels


def solved(blends: Blends, given: Weights, map_file: Path | None, progress: Any) -> SavedModels:
    """Return a model for each row of α, solved or asked of a map.

    Rows with the same sources are done together.
    """
    prepared = blends.prepared
    options, columns = prepared.options, [*given.columns, *([OWN] if given.own else [])]
    # every domain in turn: one bar over all of them
    inner = progress if len(blends.parts) == 1 else None
    parts = []
    for part in blends.parts:
        members = prepared.members[part.group]
        group, kind = prepared.group(members), prepared.hypothesis(members)
        problem = blends.problem(part, group)
        own_columns = [*part.columns, *([OWN] if part.own else [])]
        alpha = given.alpha[np.ix_(part.rows, [columns.index(c) for c in own_columns])]
        if map_file is None:
            sol = solve(problem, kind, alpha, tol=options.tol, seed=options.seed, progress=inner)
        else:
            sol = load_map(map_file, problem, kind)(alpha, tol=options.tol, progress=inner)
        named: Any = {"targets": [blends.names[i] for i in part.rows], "columns": own_columns}
        offset = blends.offsets(part, group, alpha)
        parts.append(
            SavedModels.of(sol, **named, encoder=members.encoder, options=options, offset=offset)
        )
        if inner is None:
            progress("solving", len(parts), len(blends.parts))
    return SavedModels.joined(parts, given.rows, columns)


def as_dict(models: SavedModels) -> dict[str, Any]:
    """Return what became of every model, for JSON."""
    bounds = models.certificate
    return {
        "task": models.task,
        "columns": models.columns,
        "parameters": models.w.shape[1],
        "models": [
            {"name": name, "status": str(status), "distance": distance, "excess_risk": excess}
            for name, status, distance, excess in zip(
                models.targets, models.status, bounds.distance, bounds.excess_risk, strict=True
            )
        ],
        "rests_on": bounds.rests_on,
    }


def print_models(models: SavedModels, out: Path) -> None:
    """Print how each model ended and what is proven of it, and where they are."""
    bounds = zip(models.certificate.distance, models.certificate.excess_risk, strict=True)
    rows = [
        (name, str(status), f"{distance:.2g}", f"{excess:.2g}")
        for name, status, (distance, excess) in zip(
            models.targets, models.status, bounds, strict=True
        )
    ]
    many = "1 model" if len(rows) == 1 else f"{len(rows)} models"
    ended = ", ".join(f"{models.status.count(s)} {s}" for s in dict.fromkeys(models.status))
    title = f"Solution of {many}, {models.w.shape[1]} parameters each: {ended}"
    print_table(("model", "status", "‖w − w*‖ ≤", "excess risk ≤"), rows, title, str(out))
    show(f"bounds rest on: {models.certificate.rests_on}\nmodels: {out}")
