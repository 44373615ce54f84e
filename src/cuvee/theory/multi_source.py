"""Compute Theorem 1: a bound on a target's loss from discrepancy, complexity and rows.

    L_T(ĥ_α) ≤ L_T(h*_T) + Σ_j α_j R_j(H)
               + sup_h Σ_j α_j |L_T̂(h) − L_D̂j(h)| + C √(ν/2 · Σ_j α_j²/m_j)

with probability 1 − 4e^(−ν). `multi_source_bound` has its terms as printed, with C the largest
loss: McDiarmid's inequality gives that constant for losses in [0, C]. L_T(h*_T), the loss of the
best model for the target, is not known, so all terms are about the excess over it.

As printed it cannot be true. The discrepancy is that of samples, and nothing in it falls with the
rows m_T of the target's own: with one row of T, a wrong source may look perfect by chance.
`sample_bound` is the bound that does hold between samples. For all h at once L_T ≤ L_T̂ + 2R_T(H) +
b√(ν/(2m_T)), and L_T̂(h*_T) ≤ L_T(h*_T) + b√(ν/(2m_T)), so that

    L_T(ĥ_α) ≤ L_T(h*_T) + 2 sup_h |L_T̂(h) − Σ_j α_j L_D̂j(h)| + 2R_T(H) + 2b√(ν/(2m_T))

with probability 1 − 2e^(−ν), for every α at once and so for one that was found on the same rows.
The rows of the sources do not appear: how they were drawn is in the discrepancy already. Both need
no more than the "mixture" form of the discrepancy, which is never above the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np

from cuvee.errors import InputError, check_number
from cuvee.results import Floats
from cuvee.simplex import check_alpha


@dataclass(frozen=True, eq=False)
class LearningBound:
    """Bound the excess L_T(ĥ_α) − L_T(h*_T) over the best model's loss, for M targets.

    A term is infinite where nothing is known.
    """

    discrepancy: Floats  # (M,) how well any model tells the mixture from the target's rows
    complexity: Floats  # (M,) how well the hypothesis can fit random labels
    sampling: Floats  # (M,) falls with the number of rows
    largest_loss: float  # no loss is larger, so a larger bound says nothing
    probability: float  # with which it is meant to hold, for each target by itself

    @property
    def excess(self) -> Floats:
        """Return the sum of the three terms, (M,)."""
        return self.discrepancy + self.complexity + self.sampling

    @property
    def says_nothing(self) -> Any:
        """Return where the terms alone reach the largest loss there is, (M,)."""
        return self.excess >= self.largest_loss


def multi_source_bound(
    alpha: Any, counts: Any, discrepancy: Any, complexities: Any, *, largest_loss: float, nu: float
) -> LearningBound:
    """Return the terms of Theorem 1 as printed, for M targets at once.

    They are meant to hold with probability 1 − 4e^(−ν); the top of this module says why they do
    not.

    Args:
        alpha: (M, J) mixtures: of the N sources, or of N+1 with the own sample last.
        counts: (J,) or (M, J) rows m_j behind every column.
        discrepancy: (M,) sup over W of Σ_j α_j |f_T − f_j|, or of |f_T − Σ_j α_j f_j|.
        complexities: (J,) or (M, J) Rademacher complexities R_j of the losses, see `rademacher`.
        largest_loss: the largest loss of any row, for any model of W.
        nu: ν; ln 80 = 4.38 makes it 95 %.

    Example:
        >>> alpha, counts, R = [[0.5, 0.5]], [100, 400], [0.2, 0.1]
        >>> bound = multi_source_bound(alpha, counts, [0.1], R, largest_loss=1.0, nu=2.0)
        >>> bound.complexity.round(3), bound.sampling.round(3), bound.excess.round(3)
        (array([0.15]), array([0.056]), array([0.306]))
    """
    check_number("largest_loss", largest_loss, above=0.0)
    check_number("nu", nu, least=0.0)
    mixtures = np.asarray(alpha, dtype=np.float64)
    mixtures = check_alpha(mixtures, mixtures.shape[-1] if mixtures.ndim else 0)
    rows = _by_column("counts", counts, mixtures)
    R = _by_column("complexities", complexities, mixtures)
    if not (rows > 0).all():
        raise InputError("counts must be positive: every column of alpha needs at least one row")
    return LearningBound(
        discrepancy=_by_target("discrepancy", discrepancy, len(mixtures)),
        complexity=np.where(mixtures > 0, mixtures * R, 0.0).sum(1),  # R of unused columns may be ∞
        sampling=largest_loss * np.sqrt(0.5 * nu * (mixtures**2 / rows).sum(1)),
        largest_loss=float(largest_loss),
        probability=1.0 - 4.0 * exp(-nu),
    )


def sample_bound(
    discrepancy: Any, own_complexity: Any, own_counts: Any, *, largest_loss: float, nu: float
) -> LearningBound:
    """Return the terms of the bound that holds between samples, 2 disc + 2R_T + 2b√(ν/(2m_T)).

    The top of this module has its proof.

    Args:
        discrepancy: (M,) sup over W of |f_T − Σ_j α_j f_j|, or anything above it.
        own_complexity: (M,) Rademacher complexity R_T of the losses on the target's rows.
        own_counts: (M,) labelled rows m_T of each target.
        largest_loss: b, the largest loss of any row, for any model of W.
        nu: ν; it holds with probability 1 − 2e^(−ν).

    Example:
        >>> bound = sample_bound([0.1], [0.2], [50], largest_loss=1.0, nu=2.0)
        >>> bound.discrepancy, bound.complexity, bound.sampling.round(3)
        (array([0.2]), array([0.4]), array([0.283]))
    """
    check_number("largest_loss", largest_loss, above=0.0)
    check_number("nu", nu, least=0.0)
    M = len(discrepancy) if np.ndim(discrepancy) else 0
    rows = _by_target("own_counts", own_counts, M)
    if not (rows > 0).all():
        raise InputError(
            "own_counts must be positive: every target needs at least one labelled row"
        )
    return LearningBound(
        discrepancy=2.0 * _by_target("discrepancy", discrepancy, M),
        complexity=2.0 * _by_target("own_complexity", own_complexity, M),
        sampling=2.0 * largest_loss * np.sqrt(0.5 * nu / rows),
        largest_loss=float(largest_loss),
        probability=1.0 - 2.0 * exp(-nu),
    )


def _by_target(name: str, values: Any, M: int) -> Floats:
    """Return (M,) numbers, or raise `InputError` with their name."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (M,) or not (array >= 0).all():
        shown = f"{values!r:.60}"
        raise InputError(f"{name} must be {M} numbers of at least 0, one per target; got {shown}")
    return array


def _by_column(name: str, values: Any, mixtures: Floats) -> Floats:
    """Return (J,) or (M, J) numbers for mixtures (M, J), or raise `InputError` with their name."""
    array = np.asarray(values, dtype=np.float64)
    M, J = mixtures.shape
    if array.shape not in ((J,), (M, J)) or not (array >= 0).all():
        raise InputError(
            f"{name} must be {J} numbers of at least 0, one per column of alpha, or {M} rows of "
            f"them; got shape {array.shape}"
        )
    return array
