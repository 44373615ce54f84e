"""Give every row the same weight, the target's own included."""

from __future__ import annotations

import numpy as np

from cuvee.components import Components
from cuvee.mixture.method import AlphaMethod, Estimate, Request, closed_form
from cuvee.results import Floats


def weights(components: Components) -> Floats:
    """Return α_j ∝ m_j with α_T ∝ m_T last: (M, N+1)."""
    counts, own = (n.double().cpu().numpy() for n in (components.counts, components.own_counts))
    rows = np.column_stack([np.tile(counts, (len(own), 1)), own])
    return np.asarray(rows / rows.sum(1, keepdims=True))


def estimate(request: Request) -> Estimate:
    """Return weights proportional to numbers of rows."""
    return closed_form(request.allowed(weights(request.components)))


METHOD = AlphaMethod(
    "pooled_own",
    estimate,
    "The same weight for every row, those of the target's own labelled sample included.",
    own=True,
    excludes=True,
    takes=(),
)
