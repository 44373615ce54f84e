"""Simulated swarms of proxy runs whose truth is known, for `cuvee bench mix`.

    cuvee bench swarms --json

A swarm has N = 17 domains and K = 13 metrics, lower is better; metric k is above all the loss on
domain k. Designs follow RegMix (github.com/sail-sg/regmix): Dirichlet draws around a tempered prior
with strengths from a wide range, small weights set to zero. In its published swarm (512 runs, 17
domains, 13 losses) 45 % of the weights are zero, a run has 9 domains in the median and half of the
largest weight, a loss spreads by 0.3 to 1.5 nats, its rank correlation with the share of its own
domain is −0.80 to −0.95, and what a Gaussian process cannot explain is 7 to 16 % of a spread, with
tails heavier than normal; downstream scores of small models are several times as noisy. The
families:

- `log-linear`: c + exp(b + t·α), the mixing law that Olmix fits (github.com/allenai/olmix);
- `interactions`: the same law with pairs of domains that help or disturb each other;
- `saturation`: a power law in the effective tokens of related domains; repeated tokens count less
  and less (Muennighoff et al. 2023), and the first tokens of a domain help the most;
- `noisy`: interactions, with three times the noise and Student's t with 3 degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.stats import spearmanr
from torch import Tensor

from cuvee.results import Floats
from cuvee.simplex import project

FAMILIES = ("log-linear", "interactions", "saturation", "noisy")
N, K, FRESH = 17, 13, 1000
TEMPERATURE, STRENGTHS, SMALLEST = 0.5, (1.0, 12.0), 4e-3  # of the designs
NOISE, COMMON = (0.05, 0.25), 0.3  # noise in spreads; the share of its variance a run has in common
Law = Callable[[Tensor], Tensor]  # (n, N) -> (n, K)


@dataclass(frozen=True)
class Swarm:
    """A family's law with its prior and its noise; everything follows from the seed."""

    family: str
    seed: int
    prior: Floats  # (N,) tokens that there are, as shares
    law: Law
    noise: Floats  # (K,) in spreads
    freedom: float | None = None  # degrees of freedom of Student's t; None: normal

    def truth(self, alpha: Floats) -> Floats:
        """Return the metrics (n, K) of mixtures (n, N), free of noise."""
        return self.law(torch.as_tensor(alpha)).numpy()

    def design(self, n: int, *key: int) -> Floats:
        """Draw n mixtures (n, N) as RegMix does; many weights are exactly zero."""
        return design(self.prior, n, np.random.default_rng([self.seed, 1, *key]))

    def runs(self, alpha: Floats, *key: int) -> Floats:
        """Return the metrics (n, K) that proxies trained on these mixtures would show."""
        rng = np.random.default_rng([self.seed, 2, *key])
        shape = (len(alpha), len(self.noise) + 1)
        draws = rng.normal(size=shape)
        if self.freedom is not None:  # scaled to variance 1
            scale = rng.chisquare(self.freedom, size=shape) / (self.freedom - 2)
            draws /= np.sqrt(scale)
        errors = COMMON**0.5 * draws[:, :1] + (1 - COMMON) ** 0.5 * draws[:, 1:]
        return self.truth(alpha) + errors * self.noise * self.spread

    def observed(self, n: int) -> tuple[Floats, Floats]:
        """Return the mixtures and the metrics of n runs."""
        alpha = self.design(n, 0)
        return alpha, self.runs(alpha, 0)

    def judged(self) -> tuple[Floats, Floats, Floats]:
        """Return fresh mixtures, the truth about them and runs on them."""
        alpha = self.fresh[:FRESH]
        return alpha, self.truth(alpha), self.runs(alpha, 7)

    def objectives(self) -> dict[str, list[Floats]]:
        """Return the weights of what is minimised: the mean of the metrics, and some of them."""
        K = len(self.noise)
        return {"regret": [np.full(K, 1.0 / K)], "single regret": list(np.eye(K)[::4][:4])}

    @cached_property
    def fresh(self) -> Floats:
        """Mixtures of the design that no run has seen."""
        return self.design(2000, 99)

    @cached_property
    def spread(self) -> Floats:
        """(K,) standard deviations of the metrics over the design."""
        return self.truth(self.fresh).std(0)

    def optimum(self, weights: Floats) -> tuple[Floats, float]:
        """Return the truly best mixture (N,) for the weighted sum of metrics, and its value."""
        starts = self.fresh[np.argsort(self.truth(self.fresh) @ weights)[:32]]
        return lowest(lambda alpha: self.law(alpha) @ torch.as_tensor(weights), starts)

    def regret(self, alpha: Floats, weights: Floats) -> float:
        """Return how much worse a mixture (N,) truly is than the best, in spreads of the sum."""
        values = self.truth(np.stack([alpha, self.optimum(weights)[0]])) @ weights
        return float((values[0] - values[1]) / (self.truth(self.fresh) @ weights).std())


def swarm(family: str, seed: int, N: int = N, K: int = K) -> Swarm:
    """Draw a swarm of the family."""
    rng = np.random.default_rng([FAMILIES.index(family), seed, 21])
    prior = np.exp(1.3 * rng.normal(size=N))
    prior /= prior.sum()
    law = saturating(rng, prior, K) if family == "saturation" else exponential(family, rng, N, K)
    noise = log_uniform(rng, NOISE, (K,))
    if family == "noisy":
        return Swarm(family, seed, prior, law, 3 * noise, freedom=3.0)
    return Swarm(family, seed, prior, law, noise)


def design(prior: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Draw mixtures (n, N) from Dirichlet distributions around the tempered prior."""
    centre = prior**TEMPERATURE / (prior**TEMPERATURE).sum()
    gamma = rng.standard_gamma(log_uniform(rng, STRENGTHS, (n, 1)) * centre)
    gamma[np.arange(n), rng.choice(len(prior), n, p=centre)] += 1e-12  # no row is all zero
    alpha = gamma / gamma.sum(1, keepdims=True)
    alpha[alpha < SMALLEST] = 0.0
    return np.asarray(alpha / alpha.sum(1, keepdims=True))


def log_uniform(
    rng: np.random.Generator, ends: tuple[float, float], shape: tuple[int, ...]
) -> Floats:
    """Draw numbers whose logarithms are uniform between those of the ends."""
    low, high = np.log(ends).tolist()
    return np.exp(rng.uniform(low, high, size=shape))


def exponential(family: str, rng: np.random.Generator, N: int, K: int) -> Law:
    """Return c + exp(b + t·α + αᵀqα), q zero for the log-linear law."""
    t = 0.3 * rng.normal(size=(K, N))  # other domains help or hurt a little
    t[np.arange(K), np.arange(K) % N] -= rng.uniform(1.0, 3.5, size=K)  # the own one helps
    c, b = rng.uniform(0.5, 2.5, size=K), rng.uniform(0.3, 1.2, size=K)
    pairs = np.zeros((K, N, N))
    if family != "log-linear":
        i, j = np.triu_indices(N, 1)
        for k in range(K):
            # twice as often a pair with the own domain: its complements and its substitutes
            own = (i == k % N) | (j == k % N)
            chosen = rng.choice(
                len(i), min(12, len(i)), replace=False, p=(1 + 7 * own) / (1 + 7 * own).sum()
            )
            pairs[k, i[chosen], j[chosen]] = 2.5 * rng.normal(size=len(chosen))
    return partial(_exponential, *(torch.as_tensor(x) for x in (c, b, t, pairs)))


def _exponential(c: Tensor, b: Tensor, t: Tensor, pairs: Tensor, alpha: Tensor) -> Tensor:
    exponent = b + alpha @ t.T + torch.einsum("ni,kij,nj->nk", alpha, pairs, alpha)
    return c + torch.exp(exponent)


def saturating(rng: np.random.Generator, prior: Floats, K: int) -> Law:
    """Return E + A·(n₀ + Σ_j s_j·effective tokens of j)^−γ with s the kinship of the domains."""
    N = len(prior)
    kinship = rng.uniform(0.0, 0.08, size=(K, N)) * (rng.random((K, N)) < 0.6)
    related = rng.integers(N, size=(K, 2))
    kinship[np.arange(K)[:, None], related] = rng.uniform(0.1, 0.5, size=(K, 2))
    kinship[np.arange(K), np.arange(K) % N] = 1.0
    floor, height = rng.uniform(1.0, 3.0, size=K), rng.uniform(2.0, 5.0, size=K)
    power, first = rng.uniform(0.15, 0.5, size=K), rng.uniform(0.005, 0.05, size=K)
    # a run has as many tokens as 0.5 to 8 copies of a domain of the mean size
    unique = prior * N / rng.uniform(0.5, 8.0) / N**0.5
    parts = (floor, height, power, first, kinship, unique)
    return partial(_saturating, [torch.as_tensor(x) for x in parts])


def _saturating(parts: list[Tensor], alpha: Tensor, worth: float = 5.0) -> Tensor:
    """`worth`: epochs after which a repetition has lost 63 % of its value."""
    floor, height, power, first, kinship, unique = parts
    again = (alpha / unique - 1).clamp(min=0.0)
    effective = torch.minimum(alpha, unique) + unique * worth * (1 - torch.exp(-again / worth))
    return floor + height * ((first + effective @ kinship.T) / first) ** -power


def lowest(objective: Callable[[Tensor], Tensor], starts: Floats) -> tuple[Floats, float]:
    """Return the lowest mixture (N,) of a differentiable objective (n, N) -> (n,) and its value.

    Projected gradient steps from all starts, all corners and the centre, then SLSQP from the best.
    """
    N = starts.shape[1]
    alpha = torch.as_tensor(np.concatenate([starts, np.eye(N), np.full((1, N), 1.0 / N)]))
    step = torch.full((len(alpha), 1), 0.1, dtype=alpha.dtype)
    value, slope = _with_gradient(objective, alpha)
    for _ in range(150):
        moved = project(alpha - step * slope)
        new, new_slope = _with_gradient(objective, moved)
        better = (new < value)[:, None]
        alpha, slope = torch.where(better, moved, alpha), torch.where(better, new_slope, slope)
        value = torch.where(better[:, 0], new, value)
        step = torch.where(better, 1.5 * step, 0.4 * step).clamp(1e-9, 1e3)
    order = torch.argsort(value)[:4].tolist()
    ends = [(alpha[i].numpy(), float(value[i])) for i in order]
    ends += [_polished(objective, a) for a, _ in ends]
    return min(ends, key=lambda end: end[1])


def _with_gradient(objective: Callable[[Tensor], Tensor], alpha: Tensor) -> tuple[Tensor, Tensor]:
    alpha = alpha.detach().requires_grad_()
    value = objective(alpha)
    (slope,) = torch.autograd.grad(value.sum(), alpha)
    return value.detach(), slope


def _polished(objective: Callable[[Tensor], Tensor], start: Floats) -> tuple[Floats, float]:
    def both(x: Floats) -> tuple[float, Floats]:
        value, slope = _with_gradient(objective, torch.as_tensor(x)[None])
        return float(value[0]), slope[0].numpy()

    end = minimize(
        both,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(start),
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1.0, "jac": np.ones_like},
        options={"ftol": 1e-12, "maxiter": 200},
    )
    alpha = np.clip(np.nan_to_num(end.x), 0.0, None)
    alpha = alpha / alpha.sum() if alpha.sum() > 0 else start
    return alpha, both(alpha)[0]


def run(quick: bool = False) -> dict[str, Any]:
    """Return what the swarms of a few seeds are like: zeros, spreads, noise, the best mixture."""
    result: dict[str, Any] = {"benchmark": "swarms", "domains": N, "metrics": K}
    for family in FAMILIES:
        rows = [facts(swarm(family, seed)) for seed in range(1 if quick else 5)]
        result[family] = {
            name: round(float(np.mean([row[name] for row in rows])), 3) for name in rows[0]
        }
    return result


def facts(made: Swarm) -> dict[str, float]:
    """Return a swarm's figures beside which those of published swarms can be laid."""
    alpha, truth = made.fresh, made.truth(made.fresh)
    equal = np.full(truth.shape[1], 1.0 / truth.shape[1])
    best, value = made.optimum(equal)
    own = [spearmanr(alpha[:, k], truth[:, k]).statistic for k in range(truth.shape[1])]
    mean = truth @ equal
    return {
        "zero weights": float((alpha == 0).mean()),
        "domains of a run, median": float(np.median((alpha > 0).sum(1))),
        "largest weight, median": float(np.median(alpha.max(1))),
        "spread, lowest": float(made.spread.min()),
        "spread, highest": float(made.spread.max()),
        "rank correlation with the own domain": float(np.mean(own)),
        "domains of the best mixture": float((best > 1e-3).sum()),
        "best of 2000 draws, regret": float((mean.min() - value) / mean.std()),
        "prior, regret": made.regret(made.prior, equal),
        "uniform, regret": made.regret(np.full(alpha.shape[1], 1.0 / alpha.shape[1]), equal),
    }
