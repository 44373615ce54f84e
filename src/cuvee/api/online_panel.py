"""What the sources' models say of a target's sample: the statistics that `OnlineMixtures` predicts
from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
import torch
from torch import Tensor

from cuvee.api.bound import Bound
from cuvee.components import ALL, LocalComponents, bind
from cuvee.errors import DomainError, InputError
from cuvee.hypothesis.base import LossKind, Space
from cuvee.online.mixtures import Sources, Statistics, summarise
from cuvee.problem import Domain

TOL = 1e-4  # on ‖∇‖∞ of the sources' models: statistics of k rows are no finer
CHUNK = 2**24  # numbers held at a time
SOME = 256  # rows of a source that tell how much row losses vary


def solve_panel(bound: Bound) -> tuple[Tensor, Sources]:
    """Return models (Q, P) that know no target, with their losses.

    They are each source's own, the pooled and the uniform one.

    A model that could not be solved for is left out.
    """
    problem, space = bound.problem, bound.space
    m = np.array([s.n_rows for s in problem.sources], float)
    mixtures = np.concatenate([np.eye(len(m)), [m / m.sum()], [np.full(len(m), 1.0 / len(m))]])
    w = bound.oracle.solve(torch.as_tensor(mixtures, device=bound.device), tol=TOL).w.to(
        "cpu", space.dtype
    )
    components = bind(problem, space, _kind(space))
    size = max(1, int(CHUNK // (10 * m.sum())))
    parts = [components.values(w[None, i : i + size], ALL)[0] for i in range(0, len(w), size)]
    loss = torch.cat(parts).double()  # (Q, N)
    good = w.isfinite().all(1) & loss.isfinite().all(1)
    if not bool(good.any()):
        raise InputError(
            "no source has a model to be compared by: give more l2, or rescale the columns"
        )
    counts = components.counts.clamp(max=SOME)
    spread = _summarised(components.source_moments(w[good], SOME), counts, 0.0)
    variance = np.asarray((spread.noise * spread.rows).mean())
    return w[good], Sources(loss[good].T.contiguous().numpy(), variance, m)


def statistics(targets: Sequence[Domain], space: Space, w: Tensor, variance: float) -> Statistics:
    """Return statistics of every target's rows under the panel w (Q, P), chunk by chunk."""
    if not len(targets):
        return Statistics(np.zeros((0, len(w))), np.zeros(0), np.zeros(0))
    size = max(1, CHUNK // (10 * len(w) * max(t.n_rows for t in targets)))
    parts = []
    for low in range(0, len(targets), size):
        chunk = targets[low : low + size]
        samples = LocalComponents.of_samples(chunk, space, _kind(space))
        parts.append(_summarised(samples.own_moments(w), samples.own_counts, variance))
    result = Statistics(
        *(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Statistics))
    )
    good = np.isfinite(result.loss).all(1) & np.isfinite(result.noise)
    if not good.all():
        name = targets[int(np.argmin(good))].name
        raise DomainError(
            f"domain {name!r}: its losses under the sources' models overflow; rescale its columns"
        )
    return result


def _summarised(moments: tuple[Tensor, ...], counts: Tensor, variance: float) -> Statistics:
    mean, spread, squares = (np.asarray(m) for m in moments)
    return summarise(mean, spread, squares, np.asarray(counts.double()), variance)


def _kind(space: Space) -> LossKind:
    """Return which loss the discrepancy of `cuvee.estimate` compares by default."""
    return "trained" if space.quadratic else "bounded"
