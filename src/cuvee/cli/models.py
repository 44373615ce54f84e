"""What `cuvee solve` writes and prints of its models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cuvee.api import OWN
from cuvee.cli.alpha import Weights
from cuvee.cli.tables import Data
from cuvee.run import SavedModels
from cuvee.solution import Solution


def write_models(path: Path, data: Data, given: Weights, sol: Solution) -> None:
    """Write a file that `cuvee predict` reads, with a model for each row of α."""
    named: Any = {"targets": given.rows, "columns": _columns(given)}
    SavedModels.of(sol, **named, encoder=data.encoder, options=data.options).save(path)


def as_dict(data: Data, given: Weights, sol: Solution) -> dict[str, Any]:
    """What became of every model, for JSON."""
    bounds = sol.certificate
    return {
        "task": str(data.inferred.task),
        "columns": _columns(given),
        "parameters": sol.w.shape[1],
        "models": [
            {"name": name, "status": str(status), "distance": distance, "excess_risk": excess}
            for name, status, distance, excess in zip(
                given.rows, sol.status, bounds.distance, bounds.excess_risk, strict=True
            )
        ],
        "rests_on": bounds.rests_on,
        "notes": data.notes,
    }


def _columns(given: Weights) -> list[str]:
    return [*given.columns, *([OWN] if given.own else [])]
