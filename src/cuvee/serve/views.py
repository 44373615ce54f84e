"""What the server says of a target, of a prediction and of a mixture, as JSON."""

from __future__ import annotations

from typing import Any

from cuvee.data.encode import Encoder
from cuvee.data.metrics import METRICS
from cuvee.results import OWN, Status
from cuvee.run import Run
from cuvee.run.base import Base, Mixed


def summary(run: Run, i: int) -> dict[str, Any]:
    """Return a target in a few lines: its name, its weights, how its model ended, its score."""
    metrics = run.metrics
    weights = zip(run.columns, run.alpha[i].tolist(), strict=True)
    return {
        "name": run.targets[i],
        "alpha": {column: a for column, a in weights if a == a and a > 0.0},
        "status": metrics["status"][i],
        "metric": metrics["metric"],
        "score": metrics["scores"][i][0][0],
        "added": run.targets[i] in run.added,
    }


def detail(run: Run, i: int, base: Base | None) -> dict[str, Any]:
    """Return all that is known of a target, with its model, and whether α may weigh its rows."""
    metrics, about = run.metrics, run.described(i)
    bounds = metrics["certificate"]
    status = Status(metrics["status"][i])
    return {
        **summary(run, i),
        "sentence": status.sentence,
        "rows": {"learn": about["learn"], "test": about["test"]},
        "own_sample": base is not None and base.has_rows(run.targets[i]),
        "certificate": {
            "rests_on": bounds["rests_on"],
            **{name: bounds[name][i] for name in ("distance", "excess_risk", "gradient")},
        },
        "scores": {
            method: dict(zip(("value", "low", "high"), values, strict=True))
            for method, values in zip(metrics["methods"], metrics["scores"][i], strict=True)
        },
        "higher_is_better": metrics["higher_is_better"],
        "model": {
            "columns": Encoder.from_dict(about["encoder"]).names,
            "parameters": run.w[i],
            "offset": run.offset[i],
            "classes": about["classes"],
        },
    }


def mixture(base: Base, mixed: Mixed, with_moves: bool, target: str | None) -> dict[str, Any]:
    """Return the model of one mixture, how far it can be trusted, and dw*/dα by source.

    It has a score where it was asked for a target whose rows the run has.
    """
    bounds, status = mixed.certificate, mixed.status[0]
    columns = (*base.sources, OWN)[: mixed.alpha.shape[1]]
    answers: dict[str, Any] = {
        "alpha": dict(zip(columns, mixed.alpha[0].tolist(), strict=True)),
        "trust": str(status),
        "sentence": f"{status.sentence} The tolerance is {mixed.tol:g}.",
        "certificate": {
            "rests_on": bounds.rests_on,
            "proven": bool(bounds.certified[0]),
            "distance": bounds.distance[0],
            "excess_risk": bounds.excess_risk[0],
            "gradient": bounds.gradient_norm[0],
            "tolerance": mixed.tol,
        },
        "model": {
            "columns": base.names,
            "parameters": mixed.w[0],
            "offset": mixed.offset[0],
            "classes": base.members.classes,
        },
    }
    if with_moves:
        moves = mixed.moves
        answers["sensitivity"] = (
            None if moves is None else dict(zip(columns, moves[0], strict=True))
        )
    if target is not None:
        answers["score"] = _score(base, mixed, target)
    return answers


def _score(base: Base, mixed: Mixed, target: str) -> dict[str, Any] | None:
    """Return the score on rows of a target that no model here has seen; None without such."""
    rows = base.test_rows(target)
    if not rows:
        return None
    of = METRICS[base.prepared.metric]
    metric = {"metric": of.name, "higher_is_better": of.higher_is_better}
    values = dict(zip(("value", "low", "high"), mixed.score[0], strict=True))
    return {**metric, **values, "rows": rows}
