"""Estimate α from one discrepancy per source, after Konstantinov & Lampert (2019).

The paper is "Robust learning from untrusted sources".

Their weights minimise Σ_j α_j disc_j + C αᵀ diag(1/m) α with disc_j = max_w |f_T(w) − f_j(w)|, a
*separate* maximum per source, so there is no game: the discrepancies are found once and the
quadratic in α is minimised exactly. They state it for binary labels and 0–1 loss (where disc_j is
one ERM with labels flipped) and √ of the penalty; here the loss is the one `cuvee.estimate`
compares and the penalty the paper's relaxed square.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from cuvee.components import ALL, Components
from cuvee.mixture import players as play
from cuvee.mixture.method import AlphaMethod, Estimate, Request, closed_form
from cuvee.mixture.objective import differences, inverse_counts
from cuvee.mixture.players import Settings
from cuvee.results import Floats


def discrepancies(components: Components, settings: Settings) -> Tensor:
    """Return max_w |f_T − f_j| by projected ascent on full data: (M, N).

    Both signs of every source climb at once.

    The panel axis holds 2·N·S adversaries: for each source, S starts that climb f_T − f_j and S
    that descend it.
    """
    M, N = len(components.own_counts), len(components.counts)
    starts = _starts(settings.adversaries)
    first = components.space.start(starts, settings.seed).to(components.counts.device)
    w = first.repeat(2 * N, 1).expand(M, -1, -1).contiguous()  # (M, 2·N·S, P)
    source = torch.arange(N, device=w.device).repeat_interleave(2 * starts)
    side = (
        torch.tensor([1.0, -1.0], device=w.device, dtype=w.dtype)
        .repeat_interleave(starts)
        .repeat(N)
    )
    coefficients = w.new_zeros(len(source), N + 1)
    coefficients[torch.arange(len(source)), source] = -side
    coefficients[:, N] = side
    pace = play.Pace.fresh(settings.gamma, play.W_REACH * play.w_reach(components.space, first), w)
    best = w.new_zeros(M, N)
    for t in range(settings.steps + 1):
        losses, pullback = components.losses(w, ALL)
        z = differences(losses)[:, torch.arange(len(source)), source] * side  # (M, 2NS)
        best = torch.maximum(
            best, z.nan_to_num(nan=0.0, posinf=0.0).view(M, N, 2 * starts).amax(-1)
        )
        if t < settings.steps:
            gradient = pullback(coefficients.expand(M, -1, -1))
            pace = pace.after(gradient)
            w = components.space.project(w + pace.step * gradient)
    return best


def weigh(disc: Floats, inverse_counts: Floats, C: float) -> Floats:
    """Return argmin over Δ of Σ_j α_j disc_j + C Σ_j α_j²/m_j, exactly: (M, N).

    With d_j = (disc_j − min disc)/(2C), α_j = max(0, ν − d_j) m_j for the one ν that makes them sum
    to 1, found by sorting. The source of least discrepancy always has a weight, however small C is.
    """
    with np.errstate(over="ignore"):  # a d_j that overflows has no weight
        far = (disc - disc.min(1, keepdims=True)) / C / 2.0
        order = np.argsort(far, 1)
        d = np.take_along_axis(far, order, 1)
        m = np.take_along_axis(np.broadcast_to(1.0 / inverse_counts, disc.shape), order, 1)
        # With the s smallest d in the support, ν = (1 + Σ m_j d_j)/Σ m_j; the support is where
        # ν > d_s.
        nu = (1.0 + np.cumsum(m * d, 1)) / np.cumsum(m, 1)
    size = np.maximum((nu > d).sum(1), 1)
    level = np.take_along_axis(nu, size[:, None] - 1, 1)
    alpha = np.maximum(0.0, level - far) / inverse_counts
    return np.asarray(alpha / alpha.sum(1, keepdims=True))


def estimate(request: Request) -> Estimate:
    """Return the weights that the discrepancies give at the caller's C.

    The own sample, where it joins, has discrepancy 0.
    """
    disc = discrepancies(request.components, request.settings.run).double().cpu().numpy()
    inverse = 1.0 / request.components.counts.double().cpu().numpy()
    if request.settings.own:
        disc = np.column_stack([disc, np.zeros(len(disc))])
        inverse = np.asarray(inverse_counts(request.components).double().cpu())
    return closed_form(weigh(disc, inverse, request.settings.C))


def _starts(adversaries: int) -> int:
    """Return how many adversaries climb on either side of every source."""
    return max(1, adversaries // 8)


METHOD = AlphaMethod(
    "konstantinov_lampert",
    estimate,
    "One discrepancy per source, then a quadratic in α (Konstantinov and Lampert 2019).",
    steps=200,
    models=lambda adversaries, sources: 2 * sources * _starts(adversaries),
    takes=("C", "loss", "adversaries", "steps", "gamma"),
)
