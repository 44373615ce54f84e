"""Mixtures that need no minimax: uniform, proportional to rows, the target alone."""

from __future__ import annotations

import numpy as np

from cuvee.components import Components
from cuvee.results import Floats


def uniform(components: Components, own: bool = False) -> Floats:
    """Every source alike, 1/N: (M, N), or (M, N+1) with 0 on the own sample."""
    M, N = len(components.own_counts), len(components.counts)
    return _with_own(np.full((M, N), 1.0 / N), 0.0, own)


def proportional(components: Components, own: bool = False) -> Floats:
    """Every row alike, α_j ∝ m_j; with `own` the target's rows count as rows too, α_T ∝ m_T."""
    counts = components.counts.double().cpu().numpy()
    M = len(components.own_counts)
    rows = np.tile(counts, (M, 1))
    if own:
        rows = np.column_stack([rows, components.own_counts.double().cpu().numpy()])
    return np.asarray(rows / rows.sum(1, keepdims=True))


def pooled_sources(components: Components, own: bool = False) -> Floats:
    """Every source row alike, the own sample left out."""
    return _with_own(proportional(components), 0.0, own)


def target_only(components: Components) -> Floats:
    """Everything on the own sample: (M, N+1)."""
    M, N = len(components.own_counts), len(components.counts)
    return _with_own(np.zeros((M, N)), 1.0, True)


def _with_own(alpha: Floats, weight: float, own: bool) -> Floats:
    return np.column_stack([alpha, np.full(len(alpha), weight)]) if own else alpha
