"""Give every row the same weight, as training on all rows together does."""

from __future__ import annotations

import numpy as np

from cuvee.components import Components
from cuvee.mixture.method import AlphaMethod, Estimate, Request, closed_form, with_own
from cuvee.results import Floats


def weights(components: Components, own: bool = False) -> Floats:
    """Return α_j ∝ m_j: (M, N), or (M, N+1) with α_T ∝ m_T last where `own`."""
    counts = components.counts.double().cpu().numpy()
    rows = np.tile(counts, (len(components.own_counts), 1))
    if own:
        rows = np.column_stack([rows, components.own_counts.double().cpu().numpy()])
    return np.asarray(rows / rows.sum(1, keepdims=True))


def of_sources(components: Components) -> Floats:
    """Return α_j ∝ m_j with 0 on the own sample: (M, N+1)."""
    return with_own(weights(components), 0.0)


def estimate(request: Request) -> Estimate:
    """Return weights proportional to numbers of rows."""
    return closed_form(request.allowed(weights(request.components, request.settings.own)))


METHOD = AlphaMethod(
    "proportional",
    estimate,
    "The same weight for every row, so that large sources count more.",
    excludes=True,
)
