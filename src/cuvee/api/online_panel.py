"""What the sources' models say of a target's sample: the statistics that `OnlineMixtures` predicts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
import torch
from torch import Tensor

from cuvee.api.model_map import Bound
from cuvee.components import LocalComponents, own_blocks
from cuvee.errors import DomainError, InputError
from cuvee.hypothesis.base import LossKind, Space
from cuvee.online.mixtures import Sources, Statistics, summarise
from cuvee.problem import Domain

TOL = 1e-4  # on ‖∇‖∞ of the sources' models: statistics of k rows are no finer
CHUNK = 2**24  # numbers held at a time
SOME = 256  # rows of a source that tell how much row losses vary


def solve_panel(bound: Bound) -> tuple[Tensor, Sources]:
    """Models (Q, P) that know no target, each source's own, the pooled and the uniform one, with their losses.

    A model that could not be solved for is left out.
    """
    problem, space = bound.problem, bound.space
    m = np.array([s.n_rows for s in problem.sources], float)
    mixtures = np.concatenate([np.eye(len(m)), [m / m.sum()], [np.full(len(m), 1.0 / len(m))]])
    w = bound.oracle.solve(torch.as_tensor(mixtures, device=bound.device), tol=TOL).w.to("cpu", space.dtype)
    components = LocalComponents(problem, space, _kind(space))
    size = max(1, int(CHUNK // (10 * m.sum())))
    parts = [components.values(w[None, i : i + size], components.everything)[0] for i in range(0, len(w), size)]
    loss = torch.cat(parts).double()  # (Q, N)
    good = w.isfinite().all(1) & loss.isfinite().all(1)
    if not bool(good.any()):
        raise InputError("no source has a model to be compared by: give more l2, or rescale the columns")
    few = [Domain(s.name, s.X[:SOME], s.y[:SOME]) for s in problem.sources]
    spread = statistics(few, space, w[good], 0.0)
    variance = np.asarray((spread.noise * spread.rows).mean())
    return w[good], Sources(loss[good].T.contiguous().numpy(), variance, m)


def statistics(targets: Sequence[Domain], space: Space, w: Tensor, variance: float) -> Statistics:
    """Of every target's rows under the panel w (Q, P), chunks of targets at a time."""
    if not len(targets):
        return Statistics(np.zeros((0, len(w))), np.zeros(0), np.zeros(0))
    size = max(1, CHUNK // (10 * len(w) * max(t.n_rows for t in targets)))
    parts = []
    for low in range(0, len(targets), size):
        rows = own_blocks(targets[low : low + size], space)
        with torch.no_grad():
            scores = space.own_scores(w.expand(len(rows.own_X), -1, -1), rows.own_X)
            losses = space.loss(_kind(space), scores, rows.own_y).double()
        parts.append(summarise(losses.numpy(), rows.own_weight[:, 0].double().numpy(), variance))
    found = Statistics(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Statistics)))
    good = np.isfinite(found.loss).all(1) & np.isfinite(found.noise)
    if not good.all():
        name = targets[int(np.argmin(good))].name
        raise DomainError(f"domain {name!r}: its losses under the sources' models overflow; rescale its columns")
    return found


def _kind(space: Space) -> LossKind:
    """What the discrepancy of `cuvee.estimate` compares by default."""
    return "trained" if space.quadratic else "bounded"
