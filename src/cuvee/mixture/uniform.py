"""Give every source the same weight, the simplest baseline."""

from __future__ import annotations

import numpy as np

from cuvee.components import Components
from cuvee.mixture.method import AlphaMethod, Estimate, Request, closed_form, with_own
from cuvee.results import Floats


def weights(components: Components, own: bool = False) -> Floats:
    """Return α with 1/N on every source: (M, N), or (M, N+1) with 0 on the own sample."""
    M, N = len(components.own_counts), len(components.counts)
    alpha = np.full((M, N), 1.0 / N)
    return with_own(alpha, 0.0) if own else alpha


def estimate(request: Request) -> Estimate:
    """Return an estimate with the same weight for every source."""
    return closed_form(request.allowed(weights(request.components, request.settings.own)))


METHOD = AlphaMethod(
    "uniform", estimate, "The same weight for every source.", excludes=True, takes=()
)
