"""The ways in which people turn a swarm into a mixture, beside which `cuvee bench mix` puts ours.

- `LightGBM`: RegMix. Its published settings (learning rate 0.01, at most 1,000 trees); the number
  of trees stops early by 5-fold cross-validation, which also chooses the smallest leaf, and the
  model is fitted again on all runs. The proposal is the mean of the best 100 of 10⁵ Dirichlet draws
  around the prior (those among the best tenth by the first 100 trees are judged by all trees).
- `LogLinear`: Olmix. exp(c) + exp(t·α) per metric, Huber loss with δ = 0.02, ten starts; the
  proposal is the exact argmin of a convex sum, with and without the pull towards the prior that
  Olmix uses (0.05 · KL).
- `GaussianProcess`: one kernel width per domain, BoTorch's priors, on α or √α, whichever has the
  higher evidence per metric; the proposal is the lowest mean found from many starts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
import torch
from benchmarks.swarms import STRENGTHS, TEMPERATURE, log_uniform, lowest
from torch import Tensor

from cuvee.results import Floats

DRAWS, TOP, SCREEN = 100_000, 100, 100
SETTINGS: dict[str, Any] = {
    "objective": "regression",
    "learning_rate": 1e-2,
    "seed": 42,
    "verbosity": -1,
    "num_threads": 1,
}
TREES, PATIENCE, FOLDS, LEAVES = 1000, 25, 5, (20, 5)  # 20 is what LightGBM takes by itself
HUBER, STARTS, LM_STEPS = 0.02, 10, 80
KL = 0.05
QUANTILE90 = 1.6448536269514722


class Rival(Protocol):
    """What each of them can do once it has seen the runs."""

    def predict(self, alpha: Floats) -> tuple[Floats, Floats | None, Floats | None]:
        """Return means (n, K) and the ends of 90 % intervals of a run, None where it has none."""

    def best(self, weights: Floats) -> Floats:
        """Return the mixture (N,) that it would train for the weighted sum of metrics."""


def dirichlet(prior: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Draw mixtures (n, N): half around the prior as RegMix does, half around the tempered one."""
    near = rng.dirichlet(prior + 1e-9, size=n // 2)
    centre = prior**TEMPERATURE / (prior**TEMPERATURE).sum()
    strength = log_uniform(rng, STRENGTHS, (n - n // 2, 1))
    gamma = rng.standard_gamma(strength * centre) + 1e-300
    return np.concatenate([near, gamma / gamma.sum(1, keepdims=True)])


class LightGBM:
    def __init__(
        self, alpha: Floats, metrics: Floats, prior: Floats, seed: int, draws: int = DRAWS
    ):
        self.alpha, self.metrics, self.seed = alpha, metrics, seed
        _, self.leaf = min(self._trees(metrics.mean(1), leaf) for leaf in LEAVES)[1:]
        self.models = [self._fitted(y) for y in metrics.T]
        self.draws = dirichlet(prior, draws, np.random.default_rng([seed, 5]))

    def _trees(self, y: Floats, leaf: int) -> tuple[float, int, int]:
        """Return the lowest error of cross-validation, the trees it took, and the leaf."""
        import lightgbm

        scores: Any = lightgbm.cv(
            {**SETTINGS, "min_data_in_leaf": leaf, "metric": "l2"},
            lightgbm.Dataset(self.alpha, y, params={"verbosity": -1}),
            num_boost_round=TREES,
            nfold=FOLDS,
            stratified=False,
            seed=self.seed,
            callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
        )["valid l2-mean"]
        return min(scores), int(np.argmin(scores)) + 1, leaf

    def _fitted(self, y: Floats) -> Any:
        import lightgbm

        trees = self._trees(y, self.leaf)[1]
        data = lightgbm.Dataset(self.alpha, y, params={"verbosity": -1})
        return lightgbm.train({**SETTINGS, "min_data_in_leaf": self.leaf}, data, trees)

    def predict(self, alpha: Floats) -> tuple[Floats, None, None]:
        return np.stack([np.asarray(model.predict(alpha)) for model in self.models], 1), None, None

    def best(self, weights: Floats) -> Floats:
        (used,) = np.nonzero(weights)

        def value(alpha: Floats, trees: int | None) -> Floats:
            each = [weights[k] * self.models[k].predict(alpha, num_iteration=trees) for k in used]
            return np.sum(each, axis=0)

        # The first trees of every model leave out the draws that cannot be among the best.
        likely = self.draws[np.argsort(value(self.draws, SCREEN))[: len(self.draws) // 10]]
        return likely[np.argsort(value(likely, None))[:TOP]].mean(0)


class LogLinear:
    def __init__(self, alpha: Floats, metrics: Floats, prior: Floats, kl: float = 0.0):
        x, y = torch.as_tensor(alpha), torch.as_tensor(metrics)
        self.prior, self.kl = torch.as_tensor(prior), kl
        self.parameters = _law(x, y)  # (K, 1 + N)

    def pulled(self, kl: float) -> LogLinear:
        """Return the same fit with another pull towards the prior."""
        other = object.__new__(LogLinear)
        other.prior, other.kl, other.parameters = self.prior, kl, self.parameters
        return other

    def predict(self, alpha: Floats) -> tuple[Floats, None, None]:
        c, t = self.parameters[:, 0], self.parameters[:, 1:]
        return (torch.exp(c) + torch.exp(torch.as_tensor(alpha) @ t.T)).numpy(), None, None

    def best(self, weights: Floats) -> Floats:
        w, t = torch.as_tensor(weights), self.parameters[:, 1:]

        def objective(alpha: Tensor) -> Tensor:
            value = torch.exp(alpha @ t.T) @ w
            if not self.kl:
                return value
            return value + self.kl * (alpha * torch.log((alpha + 1e-12) / self.prior)).sum(-1)

        return lowest(objective, self.prior.numpy()[None])[0]


def _law(x: Tensor, y: Tensor) -> Tensor:
    """Return (K, 1 + N): log c and t of the lowest Huber loss over the starts, by batched
    Levenberg-Marquardt steps on reweighted squares.
    """
    (n, N), K = x.shape, y.shape[1]
    share = torch.linspace(0.02, 0.95, STARTS, dtype=x.dtype)
    # An outlier may be the lowest run by far, or below zero, where no law of this form goes.
    lowest_run = torch.maximum(y.amin(0), 0.1 * y.quantile(0.5, 0).abs())
    below = share[:, None] * lowest_run  # (S, K) what c starts from
    design = x.T @ x + 1e-3 * torch.eye(N, dtype=x.dtype)
    gap = torch.log((y.T[None] - below[..., None]).clamp(min=1e-3))  # (S, K, n)
    t = torch.linalg.solve(design, x.T @ gap.movedim(-1, -2))
    theta = torch.cat([torch.log(below)[..., None], t.movedim(-1, -2)], -1)  # (S, K, 1 + N)
    damping = torch.full((STARTS, K, 1), 1e-2, dtype=x.dtype)

    def residual(theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        power = torch.exp((theta[..., 1:] @ x.T).clamp(max=20.0))  # (S, K, n)
        error = torch.exp(theta[..., :1].clamp(max=20.0)) + power - y.T
        size = error.abs()
        loss = torch.where(size < HUBER, 0.5 * size**2, HUBER * (size - 0.5 * HUBER)).sum(-1)
        return error, power, loss

    error, power, loss = residual(theta)
    for _ in range(LM_STEPS):
        weight = (HUBER / error.abs().clamp(min=HUBER))[..., None]
        jacobian = torch.cat(
            [torch.exp(theta[..., :1])[..., None].expand(-1, -1, n, 1), power[..., None] * x], -1
        )
        gram = jacobian.mT @ (weight * jacobian)
        diagonal = torch.diagonal(gram, dim1=-2, dim2=-1)
        lifted = gram + torch.diag_embed(damping * diagonal.clamp(min=1e-6))
        step = torch.linalg.solve(lifted, (jacobian * weight * error[..., None]).sum(-2))
        trial = theta - step
        new_error, new_power, new_loss = residual(trial)
        better = (new_loss < loss)[..., None]
        theta = torch.where(better, trial, theta)
        error = torch.where(better, new_error, error)
        power = torch.where(better, new_power, power)
        loss = torch.minimum(loss, torch.nan_to_num(new_loss, nan=math.inf))
        damping = torch.where(better, 0.3 * damping, 4.0 * damping).clamp(1e-8, 1e8)
    return theta[loss.argmin(0), torch.arange(K)]


@dataclass(frozen=True)
class _Kernels:
    """K kernels with one width per domain, and the runs seen through them."""

    inputs: Tensor  # (K, n, N) α or √α, by metric
    root: Tensor  # (K, 1) True where √α
    widths: Tensor  # (K, 1, N)
    height: Tensor  # (K,)
    noise: Tensor  # (K,)
    cholesky: Tensor  # (K, n, n)
    solved: Tensor  # (K, n) of the standardised metrics

    def of(self, metrics: Tensor) -> _Kernels:
        """Return the kernels of some metrics alone."""
        return _Kernels(*(getattr(self, f.name)[metrics] for f in fields(self)))


class GaussianProcess:
    def __init__(self, alpha: Floats, metrics: Floats, prior: Floats, steps: int = 100):
        self.alpha, self.prior = alpha, prior
        self.middle, self.scale = metrics.mean(0), metrics.std(0) + 1e-12
        y = torch.as_tensor((metrics - self.middle) / self.scale).T  # (K, n)
        x = torch.as_tensor(alpha)
        plain, root = (_evidence(f, y, steps) for f in (x, x.sqrt()))
        self.kernels = _chosen(x, y, plain, root)

    @staticmethod
    def cross(k: _Kernels, alpha: Tensor) -> Tensor:
        """Return the kernels (K, m, n) between mixtures (m, N) and the runs."""
        safe = torch.where(alpha > 0, alpha, 1e-12)  # √ has a slope at 0 that is not finite
        seen = torch.where(k.root[..., None], safe.sqrt(), alpha)  # (K, m, N)
        return k.height[:, None, None] * _rbf(seen / k.widths, k.inputs / k.widths)

    def predict(self, alpha: Floats) -> tuple[Floats, Floats, Floats]:
        k = self.kernels
        cross = self.cross(k, torch.as_tensor(alpha))
        mean = (cross @ k.solved[..., None])[..., 0]  # (K, m), standardised
        half = torch.linalg.solve_triangular(k.cholesky, cross.mT, upper=False)
        variance = k.height[:, None] - (half**2).sum(-2) + k.noise[:, None]
        half_width = QUANTILE90 * variance.clamp(min=1e-12).sqrt()
        low, middle, high = (
            end.T.numpy() * self.scale + self.middle
            for end in (mean - half_width, mean, mean + half_width)
        )
        return middle, low, high

    def best(self, weights: Floats) -> Floats:
        used = torch.as_tensor(np.nonzero(weights)[0])
        w, k = torch.as_tensor(weights * self.scale)[used], self.kernels.of(used)

        def objective(alpha: Tensor) -> Tensor:
            return w @ (self.cross(k, alpha) @ k.solved[..., None])[..., 0]

        drawn = dirichlet(self.prior, 4000, np.random.default_rng(5))
        order = torch.argsort(objective(torch.as_tensor(drawn)))
        return lowest(objective, drawn[order[:16].numpy()])[0]


def _rbf(a: Tensor, b: Tensor) -> Tensor:
    square = (a**2).sum(-1)[..., :, None] + (b**2).sum(-1)[..., None, :] - 2 * a @ b.mT
    return torch.exp(-0.5 * square.clamp(min=0.0))


def _evidence(x: Tensor, y: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Return (K, N + 2) log widths, height and noise by Adam on the posterior, and its value (K,).

    The priors are BoTorch's: widths around √2 + ½ log N in the logarithm, noise around −4.
    """
    (n, N), K = x.shape, len(y)
    centre = math.sqrt(2) + 0.5 * math.log(N)
    theta = torch.zeros(K, N + 2, dtype=x.dtype)
    theta[:, :N], theta[:, N + 1] = math.log(0.5 * N**0.5), -4.0
    theta.requires_grad_()
    best_value, best = torch.full((K,), math.inf, dtype=x.dtype), theta.detach().clone()
    optimizer = torch.optim.Adam([theta], lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        widths = torch.exp(theta[:, None, :N])
        kernel = torch.exp(theta[:, N])[:, None, None] * _rbf(x / widths, x / widths)
        noise = torch.exp(theta[:, N + 1]) + 1e-6
        cholesky = torch.linalg.cholesky(
            kernel + noise[:, None, None] * torch.eye(n, dtype=x.dtype)
        )
        half = torch.linalg.solve_triangular(cholesky, y[..., None], upper=False)[..., 0]
        logs = torch.diagonal(cholesky, dim1=-2, dim2=-1).log().sum(-1)
        prior = (theta[:, :N] - centre).square().sum(-1) / 6 + theta[:, N].square() / 2
        value = 0.5 * half.square().sum(-1) + logs + prior + (theta[:, N + 1] + 4).square() / 2
        lower = value.detach() < best_value
        best[lower], best_value[lower] = theta.detach()[lower], value.detach()[lower]
        value.sum().backward()
        optimizer.step()
    return best, best_value


def _chosen(
    x: Tensor, y: Tensor, plain: tuple[Tensor, Tensor], root: tuple[Tensor, Tensor]
) -> _Kernels:
    """Return per metric the kernel on α or √α that explains the runs better."""
    N = x.shape[1]
    takes_root = (root[1] < plain[1])[:, None]  # (K, 1)
    theta = torch.where(takes_root, root[0], plain[0])
    inputs = torch.where(takes_root[..., None], x.sqrt(), x)
    widths = torch.exp(theta[:, None, :N])
    height, noise = torch.exp(theta[:, N]), torch.exp(theta[:, N + 1]) + 1e-6
    kernel = height[:, None, None] * _rbf(inputs / widths, inputs / widths)
    cholesky = torch.linalg.cholesky(
        kernel + noise[:, None, None] * torch.eye(x.shape[0], dtype=x.dtype)
    )
    solved = torch.cholesky_solve(y[..., None], cholesky)[..., 0]
    return _Kernels(inputs, takes_root, widths, height, noise, cholesky, solved)
