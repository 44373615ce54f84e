"""The few mixtures that an estimator's own folds judge: each costs a fit in every fold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuvee.results import OWN, Floats, Mixtures

BEST = 2  # points of the surrogate's path that are judged, those of least loss
SAME = 0.02  # Σ|α − α′| below which two mixtures are the same to a tree
Named = tuple[str, Floats]
AVERAGED = "averaged"


def simple(counts: Floats) -> list[Named]:
    """Return what users do by hand, for counts (N+1,) of the sources' rows and the own: α (N+1,).

    Half own gives half the weight to the target's rows and half to all others.
    """
    N = len(counts) - 1
    pooled = counts / counts.sum()
    own = np.eye(N + 1)[N]
    others = np.append(counts[:N] / counts[:N].sum(), 0.0)
    return [
        ("half own", 0.5 * own + 0.5 * others),
        ("pooled_own", pooled),
        ("target_only", own),
    ]


def few(
    counts: Floats, averaged: Floats, tried: Sequence[tuple[str, Floats, float]]
) -> list[Named]:
    """Return the mixtures worth judging, the most promising first; a budget may end with any.

    Args:
        counts: (N+1,) rows of the sources and of the target itself.
        averaged: (N+1,) the surrogate's α.
        tried: name, α (N+1,) and cross-validated loss of the surrogate's candidates.
    """
    by_hand = simple(counts)
    names = {name for name, _ in by_hand}
    path = sorted(
        (one for one in tried if one[0] not in names and np.isfinite(one[2])), key=lambda c: c[2]
    )
    kept: list[Named] = []
    for name, alpha in ((AVERAGED, averaged), *by_hand, *((c[0], c[1]) for c in path[:BEST])):
        if all(np.abs(alpha - other).sum() > SAME for _, other in kept):
            kept.append((name, alpha))
    return kept


def of_target(mixtures: Mixtures, i: int) -> tuple[Floats, list[tuple[str, Floats, float]]]:
    """Return α (N+1,) of target i, and what was tried for it with its loss.

    The own sample's column is added where the mixtures have none. There is nothing to judge where a
    method other than the default found α: whoever names one wants its α.
    """
    joined = mixtures.columns[-1] == OWN

    def with_own(alpha: Floats) -> Floats:
        return np.nan_to_num(alpha if joined else np.append(alpha, 0.0), nan=0.0)

    tried = [(c.name, with_own(c.alpha[i]), float(c.cv_loss[i])) for c in mixtures.candidates]
    return with_own(mixtures.alpha[i]), tried
