"""Match the target's inputs by a blend of the sources', without any label.

    min over α ∈ Δ of  ‖μ_T − Σ_j α_j μ_j‖² + C Σ_j α_j²/m_j

μ are kernel means: no pair of models (h, h′) from the kernel's ball can tell the blend from the
target, |E_T ℓ(h, h′) − Σ_j α_j E_j ℓ(h, h′)|, further than these means are apart. Lengths ‖μ_j‖²
are unbiased estimates: those of sampled means are larger, by about 1/m_j, which would favour large
sources twice. C is in units of that noise.

What no label shows stays unknown: a target whose labels follow another rule looks the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cuvee import simplex
from cuvee.components import InputMeans
from cuvee.mixture.method import AlphaMethod, Estimate, Request, closed_form
from cuvee.problem import Array
from cuvee.results import Floats

NOISE = 1.0  # C: what the penalty on a source weighs, in units of the noise of its mean
ROUNDS, EVERY, EXACT = 4_000, 25, 1e-9
CLOSED = -1e30  # what keeps a source out of a projection
MATCHED = "matched inputs"  # the name of the path's candidate
# The path's prior, chosen on seeds 500 to 503 of synthetic tables, MNIST groups and office.
MISFIT, MOST = 0.25, 5.0
FAVOUR, FEW = 2.0, 20.0
TELLS = 1.0  # units of noise


@dataclass(frozen=True)
class Fit:
    """Compute D²(α) = ‖μ_T − Σ_j α_j μ_j‖² for M targets, from inner products of kernel means.

    α is (M, …, J). Where J is N+1 its last column weighs the target's own sample, which has the
    target's law: it adds nothing to the distance.
    """

    G: Tensor  # (N, N) of sources with each other
    b: Tensor  # (M, N) of targets with sources
    r: Tensor  # (M,) of targets with themselves
    inverse: Tensor  # (M, N+1): 1/m_j, last of the own sample; infinite where there is none

    @classmethod
    def of(cls, means: InputMeans) -> Fit:
        G = means.sources @ means.sources.T
        G.diagonal().copy_(_unbiased(G.diagonal().clone(), means.source_rows))
        rows = means.source_rows.expand(len(means.targets), -1)
        return cls(
            G,
            means.targets @ means.sources.T,
            _unbiased(means.targets.square().sum(-1), means.target_rows),
            1.0 / torch.cat([rows, means.own_rows[:, None]], 1),
        )

    def distance(self, alpha: Floats) -> Floats:
        """Return D² (M, …) of weights (M, …, J); an unbiased estimate may be below 0."""
        a = torch.as_tensor(alpha)
        half = self._half_gradient(a)
        others = a[..., : self.G.shape[0]]
        rest = 1.0 - a[..., self.G.shape[0] :].sum(-1)
        lead = (len(a), *[1] * (a.ndim - 2))
        b, r = self.b.view(*lead, -1), self.r.view(lead)
        value = (half[..., : self.G.shape[0]] * others).sum(-1) + rest * (
            rest * r - (b * others).sum(-1)
        )
        return value.numpy()

    def _half_gradient(self, alpha: Tensor) -> Tensor:
        """Return half of ∇D² (M, …, J)."""
        N, lead = self.G.shape[0], (len(alpha), *[1] * (alpha.ndim - 2))
        others, own = alpha[..., :N], alpha[..., N:]
        rest = 1.0 - own.sum(-1, keepdim=True)
        b, r = self.b.view(*lead, N), self.r.view(*lead, 1)
        of_sources = others @ self.G - rest * b
        if own.shape[-1] == 0:
            return of_sources
        return torch.cat([of_sources, (b * others).sum(-1, keepdim=True) - rest * r], -1)

    def least(self, C: float, closed: Tensor) -> Floats:
        """Return the α (M, J) with the least D²(α) + C Σ_j α_j²/m_j, 0 where `closed` (M, J).

        Projected gradients with momentum end when no step moves any α by more than EXACT.
        """
        penalty = C * torch.where(closed, 0.0, self.inverse[:, : closed.shape[1]])
        largest = torch.linalg.eigvalsh(self.G)[-1] + self.r + penalty.amax(-1)
        step = 1.0 / largest.clamp(min=1e-12)[:, None]

        def projected(v: Tensor) -> Tensor:
            return simplex.project(v.masked_fill(closed, CLOSED))

        alpha = projected(torch.zeros_like(penalty))
        ahead, t = alpha, torch.ones_like(step)
        for i in range(ROUNDS):
            new = projected(ahead - step * (self._half_gradient(ahead) + penalty * ahead))
            # where the momentum points uphill it starts again, so that no progress is undone
            uphill = ((ahead - new) * (new - alpha)).sum(-1, keepdim=True) > 0
            following = torch.where(uphill, 1.0, 0.5 + (0.25 + t.square()).sqrt())
            ahead = new + torch.where(uphill, 0.0, (t - 1.0) / following) * (new - alpha)
            moved = (new - alpha).abs().amax()
            alpha, t = new, following
            if i % EVERY == EVERY - 1 and moved <= EXACT:
                break
        return alpha.numpy()


def _unbiased(length: Tensor, rows: Tensor) -> Tensor:
    """Return estimates of ‖μ‖² from ‖sampled μ‖², in which every row is paired with itself."""
    share = (1.0 / rows).clamp(max=1.0 - 1e-9)
    return (length - share) / (1.0 - share)


def closed_columns(excluded: Array | None, fit: Fit, own: bool) -> Tensor:
    """Return which columns (M, J) get no weight: excluded sources, own samples without rows."""
    closed = torch.zeros_like(fit.inverse, dtype=torch.bool)
    if excluded is not None:
        closed[:, :-1] = torch.as_tensor(excluded)
    closed[:, -1] = fit.inverse[:, -1].isinf()
    return closed if own else closed[:, :-1]


@dataclass(frozen=True)
class Seen:
    """Hold what the path learns from unlabelled rows: one more candidate, and a prior on all."""

    fit: Fit
    alpha: Floats  # (M, N+1) the matched blend, with the own sample in it
    target_rows: Floats  # (M,) labelled or not
    own_rows: Floats  # (M,)

    @classmethod
    def of(cls, request: Request) -> Seen:
        means = request.inputs()
        fit = Fit.of(means)
        alpha = fit.least(NOISE, closed_columns(request.excluded, fit, own=True))
        return cls(fit, alpha, means.target_rows.numpy(), means.own_rows.numpy())

    def log_prior(self, alpha: Floats, names: Sequence[str], cv_loss: Floats) -> Floats:
        """Return what inputs add to the weight of candidates (M, G, N+1), as logarithms: (M, G).

        The matched one is left out (−∞) where it matches no better than uniform weights do, within
        the noise: inputs then tell nothing. Where it predicts held-out labels better than uniform
        weights do, `cv_loss` (M, G), the target's rule seems to be that of the blend. Only then do
        inputs count: the matched candidate gains FAVOUR, less as labels become many, and each
        candidate loses MISFIT for each unit of noise by which it does not match, MOST units at
        most. Targets without unlabelled rows have 0, and no matched candidate.
        """
        N, matched = alpha.shape[-1] - 1, np.array([name == MATCHED for name in names])
        even = np.tile(np.append(np.full(N, 1.0 / N), 0.0), (len(alpha), 1, 1))
        tells = self._misfit(even)[:, 0] - self._misfit(self.alpha[:, None])[:, 0] > TELLS
        tells &= self.target_rows > self.own_rows
        agrees = cv_loss[:, names.index(MATCHED)] < cv_loss[:, names.index("uniform")]
        favour = FAVOUR * np.minimum(1.0, FEW / self.own_rows)[:, None] * matched  # (M, G)
        said = favour - MISFIT * np.minimum(self._misfit(alpha), MOST)
        said = np.where((tells & agrees)[:, None], said, 0.0)
        return np.where(matched & ~tells[:, None], -np.inf, said)

    def _misfit(self, alpha: Floats) -> Floats:
        """Return D² (M, G) of weights (M, G, N+1) in units of its noise, 1/m_T + Σ_j α_j²/m_j."""
        inverse = self.fit.inverse.nan_to_num(posinf=0.0).numpy()[:, None]
        noise = 1.0 / self.target_rows[:, None] + (inverse * alpha**2).sum(-1)
        return np.asarray(np.maximum(self.fit.distance(alpha), 0.0) / noise)


def estimate(request: Request) -> Estimate:
    """Return weights from inputs alone."""
    return closed_form(weights(request.inputs(), request.excluded, request.settings.own))


def weights(means: InputMeans, excluded: Array | None, own: bool) -> Floats:
    """Return α (M, J) from kernel means; a target without labels has no weight on its own."""
    fit = Fit.of(means)
    return fit.least(NOISE, closed_columns(excluded, fit, own))


METHOD = AlphaMethod(
    "matching",
    estimate,
    "Matches the kernel mean of the target's inputs, labelled or not; no label is used.",
    excludes=True,
    label_free=True,
    takes=(),
)
