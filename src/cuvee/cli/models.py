"""Models in a file: safetensors for the numbers, and in its header all that it takes to predict with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from cuvee import files
from cuvee.api import OWN
from cuvee.cli.alpha import Weights
from cuvee.cli.tables import Data
from cuvee.solution import Solution

WHAT, FORMAT = "cuvee models", 1


def write_models(path: Path, data: Data, given: Weights, sol: Solution) -> None:
    """w (M, P), α (M, columns) and the bounds, a row per model."""
    bounds = sol.certificate
    tensors = {"w": sol.w, "alpha": sol.alpha, "distance": bounds.distance, "excess_risk": bounds.excess_risk}
    header = {
        "what": WHAT,
        "format": FORMAT,
        "models": given.rows,
        "columns": _columns(given),
        "status": [str(s) for s in sol.status],
        "rests_on": bounds.rests_on,
        "task": str(data.inferred.task),
        "classes": classes(sol),
        "options": data.options.as_dict(),
        "encoder": data.encoder.as_dict(),
    }
    files.write(path, {name: torch.as_tensor(value) for name, value in tensors.items()}, header)


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


def classes(sol: Solution) -> list[Any] | None:
    found = getattr(sol.space, "classes", None)
    return None if found is None else found.tolist()


def _columns(given: Weights) -> list[str]:
    return [*given.columns, *([OWN] if given.own else [])]
