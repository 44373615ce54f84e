"""Give every row of the sources the same weight, as training on all of them together does."""

from __future__ import annotations

import numpy as np

from cuvee.components import Components
from cuvee.mixture.method import AlphaMethod, Estimate, Request, closed_form, with_own
from cuvee.results import Floats


def weights(components: Components, own: bool = False) -> Floats:
    """Return α_j ∝ m_j: (M, N), or (M, N+1) with 0 on the own sample."""
    counts = components.counts.double().cpu().numpy()
    alpha = np.tile(counts / counts.sum(), (len(components.own_counts), 1))
    return with_own(alpha, 0.0) if own else alpha


def estimate(request: Request) -> Estimate:
    """Return weights proportional to the sources' numbers of rows."""
    return closed_form(request.allowed(weights(request.components, request.settings.own)))


METHOD = AlphaMethod(
    "pooled",
    estimate,
    "The same weight for every row of the sources, so that large ones count more.",
    excludes=True,
    takes=(),
)
