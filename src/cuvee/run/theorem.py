"""Theorem 1 for the targets of a run: its terms, and the held-out loss that they stand beside."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import torch

from cuvee.api.risk import risk_bound
from cuvee.data.prepared import Group
from cuvee.hypothesis import Hypothesis
from cuvee.hypothesis.base import Space
from cuvee.hypothesis.registry import MODELS
from cuvee.problem import Domain
from cuvee.results import Floats
from cuvee.run.scores import exactly
from cuvee.solution import Solution

TERMS = ("discrepancy", "complexity", "sampling", "mended", "largest_loss", "held_out")
TABLE = 2**27  # numbers in the sources' rows: larger tables are streamed, not held in memory
MOST = 100  # targets of a group that it is worked out for, as many as a report shows


def unknown(n_targets: int) -> Floats:
    """Return terms of which nothing is known, (M, TERMS)."""
    return np.full((n_targets, len(TERMS)), np.nan)


def terms(
    group: Group,
    hypothesis: Hypothesis,
    alpha: Floats,
    scored: Solution,
    *,
    most: int,
    seed: int,
) -> Floats:
    """Return the terms of Theorem 1 of the first `most` targets, (M, TERMS); NaN for others.

    A network has none, nor a table too large to hold. They are those of the rows to learn from, and
    of the loss and the W in which α was found. The held-out loss is that of the scored models, in
    the same units.
    """
    values, space = unknown(len(alpha)), scored.space
    table = sum(s.n_rows * prod(s.input_shape) for s in group.problem.sources)
    if most <= 0 or table > TABLE or not space.bounds_known:
        return values
    # of a target without labels no discrepancy is known
    first = [i for i, t in enumerate(group.problem.targets[:most]) if t.n_rows]
    if not first:
        return values
    problem = group.problem.with_targets([group.problem.targets[i] for i in first])
    bound = risk_bound(problem, hypothesis, alpha[first], seed=seed)
    printed = bound.printed
    values[first, :3] = np.stack([printed.discrepancy, printed.complexity, printed.sampling], 1)
    values[first, 3] = bound.proven.excess
    values[first, 4] = printed.largest_loss
    for i, domain in enumerate(group.test[:most]):  # each has its own rows
        if domain is not None:
            values[i, 5] = held_out_loss(space, scored.w[i], domain, float(group.offset[i]))
    return values


def held_out_loss(space: Space, w: Floats, domain: Domain, offset: float) -> float:
    """Return a model's mean loss on test rows, as `LOSSES` describes it."""
    rows = space.prepare(torch.as_tensor(domain.X))
    y = domain.y if space.classes is not None else domain.y.astype(np.float64) - offset
    known = np.isin(y, space.classes) if space.classes is not None else np.ones(len(y), bool)
    if not known.any():
        return 1.0  # a class that no source has is never predicted
    with torch.no_grad():
        scores = space.scores(torch.as_tensor(w, dtype=space.dtype), rows[torch.as_tensor(known)])
        losses = space.compared(scores, torch.as_tensor(space.encode(y[known], domain.name)))
    return float((losses.sum() + (~known).sum()) / len(y))


def as_metrics(values: Floats, kind: str) -> dict[str, Any]:
    """Return the entry of metrics.json, or none where no target has terms."""
    if not np.isfinite(values).any():
        return {}
    model = MODELS[kind]
    exact = model.task == "regression"  # squared losses, whose discrepancy has an exact maximum
    about = {"loss": model.losses["trained" if exact else "bounded"], "exact": exact}
    return {"theorem_1": about | {name: exactly(values[:, k]) for k, name in enumerate(TERMS)}}
