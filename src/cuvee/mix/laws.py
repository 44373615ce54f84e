"""Fit the log-linear law: y_k = c_k + exp(b_k + t_k·φ(α)), all metrics at once.

There are three: φ(α) is α itself, √α, or log(1 + 10α), for domains whose first tokens help most.

c is what no mixture can go below, and t says which domain helps (below 0) and which hurts. Among
laws that fit equally well the one with the smallest effects e = t·H is taken, where H is the mean
of y − c. The strength of this ridge follows from the effects, for each domain apart, so that a few
large effects are not shrunk for the sake of many small ones. The search is for (log gap, b, e) in

    y = least − gap + H·exp(b + e·α/H),    H = mean − least + gap,

where least and mean are those of the runs. However far c goes down, e stays the same: the law then
becomes a straight line. Noise is Student's t: single failures count less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from cuvee.mix import kernels
from cuvee.mix.candidate import DTYPE, Method, ShapedRuns

STEPS, FEWER = 24, 9  # of the search; fewer when a fit to more runs shows where to begin
EVERY = 3  # steps between two estimates of the noise and of the size of t
NOISE, SIZE = 0.05, 1.0  # variances to begin with, of the noise and of effects
LEAST_NOISE, LEAST_SIZE = 1e-4, 1e-3
COMMON = 2.0  # how many effects the usual size of a metric's effects counts for
FREEDOM = 5.0  # of Student's t
GAP, GAP_PRECISION = 0.3, 1.0  # log of how far c is below the best run: mean, and how sure that is
LOWEST, HIGHEST = -7.0, 5.0  # log of how far c is below the best run
LARGEST = 30.0  # exponent


SHAPES: dict[str, Callable[[Tensor], Tensor]] = {
    "law": lambda alpha: alpha,
    "root_law": kernels.root,
    "log_law": kernels.log,
}


@dataclass(frozen=True, eq=False)
class Law:
    """Predict c + exp(b + t·α)."""

    floor: Tensor  # (K,) c
    coefficients: Tensor  # (K, N + 1): b, t
    covariance: Tensor  # (K, N + 2, N + 2) of c, b, t
    noise: Tensor  # (K,) variance of runs around the law
    shape: str = "law"

    def __call__(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        above, jacobian = self._slopes(alpha)
        variance = torch.einsum("mki,kij,mkj->mk", jacobian, self.covariance, jacobian)
        return self.floor + above, variance.clamp(min=1e-16).sqrt()

    def mean(self, alpha: Tensor) -> Tensor:
        seen = SHAPES[self.shape](alpha)
        exponent = self.coefficients[:, 0] + seen @ self.coefficients[:, 1:].T
        return self.floor + exponent.clamp(max=LARGEST).exp()

    def joint(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        above, jacobian = self._slopes(alpha)
        covariance = torch.einsum("mki,kij,lkj->kml", jacobian, self.covariance, jacobian)
        return self.floor + above, covariance

    def _slopes(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Return exp(b + t·α), (m, K), and the slopes of y in c, b and t, (m, K, N + 2)."""
        above = self.mean(alpha) - self.floor
        inner = torch.cat([torch.ones_like(alpha[:, :1]), SHAPES[self.shape](alpha)], 1)
        outer = above[..., None] * inner[:, None]
        return above, torch.cat([torch.ones_like(above)[..., None], outer], -1)

    def tensors(self) -> Mapping[str, Tensor]:
        names = ("floor", "coefficients", "covariance", "noise")
        return {name: getattr(self, name) for name in names}


def fit(shaped: ShapedRuns, start: Law | None = None, shape: str = "law") -> Law:
    """Return the law that fits the runs best, its noise and the effects' sizes estimated too."""
    search = _Search(replace(shaped, alpha=SHAPES[shape](shaped.alpha)))
    state = search.begin(start)
    for step in range(FEWER if start is not None else STEPS):
        state = search.step(state)
        if step % EVERY == EVERY - 1:
            state = search.estimate(state)
    return replace(search.law(state), shape=shape)


@dataclass(frozen=True, eq=False)
class _State:
    """Hold the search of all metrics: each has its own damping."""

    parameters: Tensor  # (K, N + 2): log of the gap, b, e
    noise: Tensor  # (K,) variance
    size: Tensor  # (K, N) variance of effects
    weight: Tensor  # (n, K) of runs: less than 1 for outliers
    damping: Tensor  # (K,)


class _Search:
    """Search by damped Gauss–Newton steps (Levenberg–Marquardt), a batch over metrics."""

    def __init__(self, shaped: ShapedRuns) -> None:
        self.shaped, self.least = shaped, shaped.y.amin(0)

    def begin(self, start: Law | None) -> _State:
        K, N = self.shaped.y.shape[1], self.shaped.alpha.shape[1]
        parameters = torch.zeros(K, N + 2, dtype=DTYPE)
        if start is not None:
            parameters[:, 0] = (self.least - start.floor).clamp(min=1e-2).log()
            height = self.height(parameters)
            parameters[:, 1] = start.coefficients[:, 0] - height.log()
            parameters[:, 2:] = start.coefficients[:, 1:] * height[:, None]
        full = partial(torch.full, (K,), dtype=DTYPE)
        size = torch.full((K, N), SIZE, dtype=DTYPE)
        weight = self.shaped.precision[:, None].expand(-1, K)
        return _State(parameters, full(NOISE), size, weight, full(1.0))

    def height(self, parameters: Tensor) -> Tensor:
        """Return H (K,)."""
        return self.shaped.y.mean(0) - self.least + parameters[:, 0].exp() + 1e-9

    def growth(self, parameters: Tensor) -> Tensor:
        """Return exp(b + e·α/H), (n, K)."""
        effects = parameters[:, 2:] / self.height(parameters)[:, None]
        exponent = parameters[:, 1] + self.shaped.alpha @ effects.T
        return exponent.clamp(max=LARGEST).exp()

    def residual(self, parameters: Tensor) -> Tensor:
        gap, height = parameters[:, 0].exp(), self.height(parameters)
        return self.shaped.y - (self.least - gap) - height * self.growth(parameters)

    def slopes(self, parameters: Tensor) -> Tensor:
        """Return the slopes (n, K, N + 2) of the prediction in log gap, b and e."""
        gap, height = parameters[:, 0].exp(), self.height(parameters)
        growth = self.growth(parameters)
        along = self.shaped.alpha @ parameters[:, 2:].T / height  # e·α/H
        down = gap * (growth - 1.0 - growth * along)
        inner = growth[..., None] * self.shaped.alpha[:, None]
        return torch.cat([down[..., None], (height * growth)[..., None], inner], -1)

    def pull(self, state: _State) -> Tensor:
        """Return the precision (K, N + 2) of the prior: none to speak of for b."""
        strength = torch.empty_like(state.parameters)
        strength[:, 0], strength[:, 1] = GAP_PRECISION, 1e-3
        strength[:, 2:] = 1.0 / state.size
        return strength

    def away(self, parameters: Tensor) -> Tensor:
        """Return the parameters less the prior's means."""
        return torch.cat([parameters[:, :1] - GAP, parameters[:, 1:]], 1)

    def value(self, state: _State, parameters: Tensor, pull: Tensor) -> Tensor:
        """Return the penalised squares (K,)."""
        squares = (state.weight * self.residual(parameters).square()).sum(0)
        return squares / state.noise + (pull * self.away(parameters).square()).sum(1)

    def information(self, jacobian: Tensor, state: _State) -> Tensor:
        """Return JᵀJ/σ² (K, p, p) for slopes (n, K, p)."""
        weighted = jacobian * (state.weight / state.noise)[..., None]
        return torch.einsum("nki,nkj->kij", weighted, jacobian)

    def step(self, state: _State) -> _State:
        """Return the state after one step; a metric that gets no better stays, and damps more."""
        p, jacobian = state.parameters, self.slopes(state.parameters)
        weighted = self.residual(p) * state.weight / state.noise
        pull = self.pull(state)
        slope = torch.einsum("nki,nk->ki", jacobian, weighted) - pull * self.away(p)
        curvature = self.information(jacobian, state) + torch.diag_embed(pull)
        damped = curvature + torch.diag_embed(
            state.damping[:, None] * curvature.diagonal(dim1=1, dim2=2)
        )
        tried = p + torch.linalg.solve(damped, slope[..., None])[..., 0]
        tried[:, 0].clamp_(LOWEST, HIGHEST)
        better = self.value(state, tried, pull) < self.value(state, p, pull)
        damping = torch.where(better, state.damping / 4.0, state.damping * 4.0)
        kept = torch.where(better[:, None], tried, p)
        return replace(state, parameters=kept, damping=damping.clamp(1e-6, 1e6))

    def estimate(self, state: _State) -> _State:
        """Return the state with noise, sizes and weights as the runs have them (EM)."""
        n, N = self.shaped.alpha.shape
        squares = self.residual(state.parameters).square() * self.shaped.precision[:, None]
        noise = (squares * state.weight / self.shaped.precision[:, None]).sum(0)
        noise = (noise / max(n - min(N, n / 2), 1.0)).clamp(min=LEAST_NOISE)
        weight = self.shaped.precision[:, None] * (FREEDOM + 1.0) / (FREEDOM + squares / noise)
        curvature = self.information(self.slopes(state.parameters), state)
        left = torch.linalg.inv(curvature + torch.diag_embed(self.pull(state)))
        effect = state.parameters[:, 2:].square() + left.diagonal(dim1=1, dim2=2)[:, 2:]
        usual = effect.log().mean(1, keepdim=True).exp()
        size = ((effect + COMMON * usual) / (1.0 + COMMON)).clamp(min=LEAST_SIZE)
        return replace(state, noise=noise, size=size, weight=weight)

    def law(self, state: _State) -> Law:
        """Return the law, with the covariance that its parameters have near the best ones."""
        p, height = state.parameters, self.height(state.parameters)
        above = (height * self.growth(p))[..., None]
        inner = torch.cat([torch.ones(len(above), 1, dtype=DTYPE), self.shaped.alpha], 1)
        slopes = torch.cat([torch.ones_like(above), above * inner[:, None]], -1)
        prior = torch.ones_like(p)
        prior[:, 2:] = height[:, None].square() / state.size
        covariance = torch.linalg.inv(self.information(slopes, state) + torch.diag_embed(prior))
        b = p[:, 1] + height.log()
        coefficients = torch.cat([b[:, None], p[:, 2:] / height[:, None]], 1)
        return Law(self.least - p[:, 0].exp(), coefficients, covariance, state.noise)


def _method(shape: str, summary: str) -> Method:
    return Method(
        name=shape,
        summary=summary,
        fit=partial(fit, shape=shape),
        restore=lambda shaped, tensors: Law(**tensors, shape=shape),
    )


METHODS = (
    _method("law", "The log-linear law c + exp(b + t·α)."),
    _method("root_law", "The same law in √α."),
    _method("log_law", "The same law in log(1 + 10α)."),
)
