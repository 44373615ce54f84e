"""Put all weight on the target's own labelled sample, as a baseline that sources must beat."""

from __future__ import annotations

import numpy as np

from cuvee.components import Components
from cuvee.mixture.method import AlphaMethod, Estimate, Request, closed_form, with_own
from cuvee.results import Floats


def weights(components: Components) -> Floats:
    """Return α with 1 on the own sample and 0 on every source: (M, N+1)."""
    return with_own(np.zeros((len(components.own_counts), len(components.counts))), 1.0)


def estimate(request: Request) -> Estimate:
    """Return an estimate with all weight on the own sample."""
    return closed_form(weights(request.components))


METHOD = AlphaMethod(
    "target_only",
    estimate,
    "All weight on the target's own labelled sample, none on sources.",
    own=True,
    takes=(),
)
