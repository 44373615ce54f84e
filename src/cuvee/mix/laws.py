"""Fit the log-linear law: y_k = c_k + exp(b_k + t_k·α), all metrics at once.

c is what no mixture can go below, and t says which domain helps (below 0) and which hurts. Among
laws that fit equally well the one with the smallest t is taken: a ridge whose strength follows from
the size of t itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from cuvee.mix.candidate import DTYPE, Method, Swarm

STEPS, FEWER = 40, 12  # of the search; fewer when a fit to more runs shows where to begin
EVERY = 4  # steps between two estimates of the noise and of the size of t
NOISE, SIZE = 0.05, 3.0  # variances to begin with, of the noise and of t
LEAST_NOISE, LEAST_SIZE = 1e-4, 0.05
LOWEST, HIGHEST = -7.0, 5.0  # log of how far c is below the best run
LARGEST = 30.0  # exponent


@dataclass(frozen=True, eq=False)
class Law:
    """Predict c + exp(b + t·α)."""

    floor: Tensor  # (K,) c
    coefficients: Tensor  # (K, N + 1): b, t
    covariance: Tensor  # (K, N + 2, N + 2) of c, b, t

    def __call__(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        above, jacobian = self._slopes(alpha)
        variance = torch.einsum("mki,kij,mkj->mk", jacobian, self.covariance, jacobian)
        return self.floor + above, variance.clamp(min=1e-16).sqrt()

    def mean(self, alpha: Tensor) -> Tensor:
        exponent = self.coefficients[:, 0] + alpha @ self.coefficients[:, 1:].T
        return self.floor + exponent.clamp(max=LARGEST).exp()

    def joint(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        above, jacobian = self._slopes(alpha)
        covariance = torch.einsum("mki,kij,lkj->kml", jacobian, self.covariance, jacobian)
        return self.floor + above, covariance

    def _slopes(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Return exp(b + t·α), (m, K), and the slopes of y in c, b and t, (m, K, N + 2)."""
        above = self.mean(alpha) - self.floor
        inner = torch.cat([torch.ones_like(alpha[:, :1]), alpha], 1)
        outer = above[..., None] * inner[:, None]
        return above, torch.cat([torch.ones_like(above)[..., None], outer], -1)

    def tensors(self) -> Mapping[str, Tensor]:
        return {
            "floor": self.floor,
            "coefficients": self.coefficients,
            "covariance": self.covariance,
        }


def fit(swarm: Swarm, start: Law | None = None) -> Law:
    """Return the law that fits the runs best, its noise and the size of t estimated on the way."""
    search = _Search(swarm)
    state = search.begin(start)
    for step in range(FEWER if start is not None else STEPS):
        state = search.step(state)
        if step % EVERY == EVERY - 1:
            state = search.estimate(state)
    return search.law(state)


@dataclass(frozen=True, eq=False)
class _State:
    """Hold the search of all metrics: each has its own damping."""

    parameters: Tensor  # (K, N + 2): log of (least y − c), b, t
    noise: Tensor  # (K,) variance
    size: Tensor  # (K,) variance of t
    damping: Tensor  # (K,)


class _Search:
    """Search by damped Gauss–Newton steps (Levenberg–Marquardt), a batch over metrics."""

    def __init__(self, swarm: Swarm) -> None:
        self.swarm, self.least = swarm, swarm.y.amin(0)
        ones = torch.ones(len(swarm), 1, dtype=DTYPE)
        self.design = torch.cat([ones, swarm.alpha], 1)

    def begin(self, start: Law | None) -> _State:
        K, N = self.swarm.y.shape[1], self.swarm.alpha.shape[1]
        parameters = torch.zeros(K, N + 2, dtype=DTYPE)
        parameters[:, 1] = (self.swarm.y.mean(0) - self.least + 1.0).log()
        if start is not None:
            parameters[:, 0] = (self.least - start.floor).clamp(min=1e-2).log()
            parameters[:, 1:] = start.coefficients
        full = partial(torch.full, (K,), dtype=DTYPE)
        return _State(parameters, full(NOISE), full(SIZE), full(1.0))

    def above(self, parameters: Tensor) -> Tensor:
        """Return exp(b + t·α), (n, K)."""
        return (self.design @ parameters[:, 1:].T).clamp(max=LARGEST).exp()

    def residual(self, parameters: Tensor) -> Tensor:
        gap = parameters[:, 0].exp()
        return self.swarm.y - (self.least - gap) - self.above(parameters)

    def pull(self, state: _State) -> Tensor:
        """Return the precision (K, N + 2) of the prior: weak for c and b."""
        strength = torch.ones_like(state.parameters)
        strength[:, 0], strength[:, 1] = 0.1, 1e-3
        strength[:, 2:] = 1.0 / state.size[:, None]
        return strength

    def value(self, state: _State, parameters: Tensor) -> Tensor:
        """Return the penalised squares (K,)."""
        squares = (self.swarm.precision[:, None] * self.residual(parameters).square()).sum(0)
        return squares / state.noise + (self.pull(state) * parameters.square()).sum(1)

    def information(self, jacobian: Tensor, noise: Tensor) -> Tensor:
        """Return JᵀJ/σ² (K, p, p) for slopes (n, K, p)."""
        weighted = jacobian * self.swarm.precision[:, None, None]
        return torch.einsum("nki,nkj->kij", weighted, jacobian) / noise[:, None, None]

    def step(self, state: _State) -> _State:
        """Return the state after one step; a metric that gets no better stays, and damps more."""
        p = state.parameters
        above = self.above(p)[..., None]
        down = -p[:, 0].exp().expand(above.shape[:2])[..., None]
        jacobian = torch.cat([down, above * self.design[:, None]], -1)  # of the prediction
        weighted = self.residual(p) * self.swarm.precision[:, None] / state.noise
        pull = self.pull(state)
        slope = torch.einsum("nki,nk->ki", jacobian, weighted) - pull * p
        curvature = self.information(jacobian, state.noise) + torch.diag_embed(pull)
        damped = curvature + torch.diag_embed(
            state.damping[:, None] * curvature.diagonal(dim1=1, dim2=2)
        )
        tried = p + torch.linalg.solve(damped, slope[..., None])[..., 0]
        tried[:, 0].clamp_(LOWEST, HIGHEST)
        better = self.value(state, tried) < self.value(state, p)
        damping = torch.where(better, state.damping / 4.0, state.damping * 4.0)
        kept = torch.where(better[:, None], tried, p)
        return replace(state, parameters=kept, damping=damping.clamp(1e-6, 1e6))

    def estimate(self, state: _State) -> _State:
        """Return the state with noise and size as the runs have them (EM)."""
        n, N = self.swarm.alpha.shape
        squares = self.residual(state.parameters).square() * self.swarm.precision[:, None]
        noise = squares.sum(0) / max(n - min(N, n / 2), 1.0)
        open_ = self.law(state).covariance.diagonal(dim1=1, dim2=2)[:, 2:]
        size = (state.parameters[:, 2:].square() + open_).mean(1)
        return replace(state, noise=noise.clamp(min=LEAST_NOISE), size=size.clamp(min=LEAST_SIZE))

    def law(self, state: _State) -> Law:
        """Return the law, with the covariance that its parameters have near the best ones."""
        above = self.above(state.parameters)[..., None]
        slopes = torch.cat([torch.ones_like(above), above * self.design[:, None]], -1)
        prior = self.pull(state)
        prior[:, :2] = 1.0
        covariance = torch.linalg.inv(
            self.information(slopes, state.noise) + torch.diag_embed(prior)
        )
        floor = self.least - state.parameters[:, 0].exp()
        return Law(floor, state.parameters[:, 1:].contiguous(), covariance)


METHOD = Method(
    name="law",
    summary="The log-linear law c + exp(b + t·α).",
    fit=fit,
    restore=lambda swarm, tensors: Law(**tensors),
)
