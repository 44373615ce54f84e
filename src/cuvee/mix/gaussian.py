"""Fit Gaussian processes: one on y itself, and one in the exponent of the law.

The second, the *bent law*, is y = c + exp(g(α)) with a Gaussian process g whose mean is the
exponent of the log-linear law, and whose kernel holds domains that saturate, pairs and bells: the
law where the runs do not speak against it. As for a generalised linear model, g is found by working
responses

    z = g + (y − c − e^g)/e^g,    with noise σ²/e^{2g},

and the variances of the kernel by the marginal likelihood of z. Noise is Student's t: a run counts
less the further it is from what the others say of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from cuvee.mix import kernels, laws
from cuvee.mix.candidate import DTYPE, Method, ShapedRuns
from cuvee.numerics.parallel import each

BLOCK = 4  # metrics that share a search: fixed, so that results do not depend on cores
MOST_RUNS = 192  # for the variances; the process itself takes all runs
STEPS = (40, 20, 15)  # of the search, per round of working responses
FEWER = (12, 6)  # when a fit to more runs shows where to begin
JITTER = 1e-8
BOUNDS = (-14.0, 6.0)  # of log variances
CHUNK = 512  # mixtures predicted at a time
LEAST_ABOVE, LARGEST_STEP, LARGEST_G = 0.15, 2.0, 3.0


@dataclass(frozen=True, eq=False)
class Process:
    """Predict by a Gaussian process with working responses z and precisions (K, n).

    With a `floor` it lives in the exponent: the prediction is c + exp(g).
    """

    alpha: Tensor  # (n, N)
    theta: Tensor  # (K, N + 10) log variances: of the kernels, and of the noise last
    z: Tensor  # (K, n)
    precision: Tensor  # (K, n)
    floor: Tensor | None = None  # (K,) c
    line: Tensor | None = None  # (K, 3N + 1) b, and t of the laws' three views of α: the mean

    @cached_property
    def views(self) -> kernels.Views:
        return kernels.views(self.alpha)

    @cached_property
    def root(self) -> Tensor:
        """Return the Cholesky factor (K, n, n) of the kernel with noise."""
        covariance = kernels.gram(self.theta[:, :-1], self.views, self.views)
        _add_noise(covariance, self.theta, self.precision)
        return torch.linalg.cholesky(covariance)

    @cached_property
    def dual(self) -> Tensor:
        """Return the coefficients (K, n, 1) of the posterior mean."""
        away = self.z - self.expected(self.alpha).T
        return torch.cholesky_solve(away[..., None], self.root)

    def expected(self, alpha: Tensor) -> Tensor:
        """Return the mean (m, K) of the process before it has seen runs."""
        if self.line is None:
            return torch.zeros(len(alpha), len(self.theta), dtype=DTYPE)
        return self.line[:, 0] + _all_shapes(alpha) @ self.line[:, 1:].T

    def outlying(self) -> Tensor:
        """Return weights (K, n) of the runs, less than 1 for those that others do not expect."""
        inverse = torch.cholesky_inverse(self.root).diagonal(dim1=1, dim2=2)
        squares = self.dual[..., 0].square() / inverse  # leave-one-out, in units of its variance
        return (laws.FREEDOM + 1.0) / (laws.FREEDOM + squares)

    @cached_property
    def whitening(self) -> Tensor:
        """Return the inverse (K, n, n) of the Cholesky factor: products are faster than solving."""
        eye = torch.eye(len(self.alpha), dtype=DTYPE).expand_as(self.root)
        return torch.linalg.solve_triangular(self.root, eye, upper=False)

    def __call__(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        parts = [self._few(rows) for rows in alpha.split(CHUNK)]
        g, sd = (torch.cat(part) for part in zip(*parts, strict=True))
        mean, slope = self._linked(g)
        return mean, slope * sd

    def mean(self, alpha: Tensor) -> Tensor:
        return self._linked(torch.cat([self.latent(rows) for rows in alpha.split(CHUNK)]))[0]

    def joint(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        seen = kernels.views(alpha)
        white = kernels.gram(self.theta[:, :-1], seen, self.views) @ self.whitening.mT
        prior = kernels.gram(self.theta[:, :-1], seen, seen)
        mean, slope = self._linked(self.latent(alpha))
        scaled = slope.T[:, :, None] * slope.T[:, None, :]
        return mean, (prior - white @ white.mT) * scaled

    def _linked(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """Return y and dy/dg (m, K) for g (m, K)."""
        if self.floor is None:
            return g, torch.ones_like(g)
        above = g.clamp(max=laws.LARGEST).exp()
        return self.floor + above, above

    def latent(self, alpha: Tensor) -> Tensor:
        """Return g (m, K) alone."""
        cross = kernels.gram(self.theta[:, :-1], kernels.views(alpha), self.views)
        return self.expected(alpha) + (cross @ self.dual)[..., 0].T

    def _few(self, alpha: Tensor) -> tuple[Tensor, Tensor]:
        seen = kernels.views(alpha)
        cross = kernels.gram(self.theta[:, :-1], seen, self.views)  # (K, m, n)
        explained = (cross @ self.whitening.mT).square().sum(2)
        variance = kernels.diagonal(self.theta[:, :-1], seen) - explained
        mean = self.expected(alpha) + (cross @ self.dual)[..., 0].T
        return mean, variance.clamp(min=1e-12).sqrt().T

    def tensors(self) -> Mapping[str, Tensor]:
        names = ("theta", "z", "precision", "floor", "line")
        held = {name: getattr(self, name) for name in names}
        return {name: tensor for name, tensor in held.items() if tensor is not None}


def fit_plain(shaped: ShapedRuns, start: Process | None = None) -> Process:
    """Return a Gaussian process on the metrics themselves."""
    z = shaped.y.T.contiguous()
    precision = shaped.precision.expand_as(z).contiguous()
    theta = _begin(shaped, start)
    for steps in FEWER if start is not None else STEPS[:2]:
        theta = _variances(shaped.alpha, z, precision, theta, steps)
        process = Process(shaped.alpha, theta, z, precision)
        precision = (shaped.precision * process.outlying()).contiguous()
    return Process(shaped.alpha, theta, z, precision)


def fit_bent(shaped: ShapedRuns, start: Process | None = None) -> Process:
    """Return the bent law: a Gaussian process in the exponent of the law."""
    floor, line = _best_law(shaped)
    theta = _begin(shaped, start)
    y = shaped.y.T - floor[:, None]  # (K, n)
    expected = line[:, :1] + line[:, 1:] @ _all_shapes(shaped.alpha).T
    g, trust = expected.clamp(-LARGEST_G, LARGEST_G), torch.ones_like(y)
    for steps in FEWER if start is not None else STEPS:
        above = g.exp()
        z = g + ((y - above) / above).clamp(-LARGEST_STEP, LARGEST_STEP)
        precision = above.square() * shaped.precision * trust
        theta = _variances(shaped.alpha, z - expected, precision, theta, steps)
        process = Process(shaped.alpha, theta, z.contiguous(), precision.contiguous(), floor, line)
        g = process.latent(shaped.alpha).T.clamp(-LARGEST_G, LARGEST_G)
        trust = process.outlying()
    return process


def _all_shapes(alpha: Tensor) -> Tensor:
    """Return the views (m, 3N) of mixtures that the three laws have."""
    return torch.cat([shape(alpha) for shape in laws.SHAPES.values()], 1)


def _best_law(shaped: ShapedRuns) -> tuple[Tensor, Tensor]:
    """Return c (K,) and the line (K, 3N + 1) of the law with least noise, for each metric."""
    fitted = [laws.fit(shaped, shape=shape) for shape in laws.SHAPES]
    chosen = torch.stack([law.noise for law in fitted]).argmin(0)  # (K,)
    floor = torch.stack([law.floor for law in fitted]).gather(0, chosen[None])[0]
    slopes = [law.coefficients[:, 1:] * (chosen == i)[:, None] for i, law in enumerate(fitted)]
    constant = torch.stack([law.coefficients[:, 0] for law in fitted]).gather(0, chosen[None]).T
    # c stays below every run of its metric
    floor = torch.minimum(floor, shaped.y.amin(0) - LEAST_ABOVE / 10)
    return floor, torch.cat([constant, *slopes], 1)


def _add_noise(covariance: Tensor, theta: Tensor, precision: Tensor) -> None:
    covariance.diagonal(dim1=1, dim2=2).add_(theta[:, -1:].exp() / precision + JITTER)


def _prior(shaped: ShapedRuns) -> tuple[Tensor, Tensor]:
    """Return mean and deviation of the log variances (N + 10,): most domains matter little."""
    N, shared = shaped.alpha.shape[1], len(kernels.SHARED)
    mean = torch.tensor([-6.0] * N + [-3.0] * shared + [-1.0, -2.0], dtype=DTYPE)
    deviation = torch.tensor([2.0] * N + [3.0] * shared + [2.0, 3.0], dtype=DTYPE)
    return mean, deviation


def _begin(shaped: ShapedRuns, start: Process | None) -> Tensor:
    """Return log variances (K, N + 10) to begin with.

    Those of a fit to more runs count half: they have seen the runs that are held out.
    """
    mean = _prior(shaped)[0].repeat(shaped.y.shape[1], 1)
    return mean if start is None else (mean + start.theta) / 2.0


def _variances(alpha: Tensor, z: Tensor, precision: Tensor, begin: Tensor, steps: int) -> Tensor:
    """Return log variances (K, N + 10) of large marginal likelihood, by blocks of metrics."""
    if len(alpha) > MOST_RUNS:
        chosen = torch.linspace(0, len(alpha) - 1, MOST_RUNS).round().long()
        alpha, z, precision = alpha[chosen], z[:, chosen], precision[:, chosen]
    search = _Search(alpha)
    blocks = range(0, len(z), BLOCK)

    def block(first: int) -> Tensor:
        rows = slice(first, first + BLOCK)
        return search.run(z[rows], precision[rows], begin[rows], steps)

    return torch.cat(each(block, blocks, "cpu"))


class _Search:
    """Search for the variances of the kernels by L-BFGS on the marginal likelihood of runs."""

    def __init__(self, alpha: Tensor) -> None:
        self.views = kernels.views(alpha)
        self.shared = kernels.shared_grams(self.views, self.views)
        self.mean, self.deviation = _prior(ShapedRuns(alpha, alpha[:, :0], alpha[:, 0]))

    def run(self, z: Tensor, precision: Tensor, begin: Tensor, steps: int) -> Tensor:
        from scipy.optimize import minimize

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            theta = torch.from_numpy(flat).view(begin.shape)
            value, slope = self.negative_log_likelihood(theta, z, precision)
            return float(value), slope.numpy().ravel()

        found = minimize(
            objective,
            begin.numpy().ravel(),
            jac=True,
            method="L-BFGS-B",
            bounds=[BOUNDS] * begin.numel(),
            options={"maxiter": steps, "maxfun": steps + 20},
        )
        return torch.from_numpy(found.x).view(begin.shape).clone()

    def negative_log_likelihood(
        self, theta: Tensor, z: Tensor, precision: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return −log p(z, θ) summed over metrics up to a constant, and its slope (K, N + 10)."""
        covariance = kernels.summed(theta[:, :-1], self.views, self.views, self.shared)
        _add_noise(covariance, theta, precision)
        factor = torch.linalg.cholesky(covariance)
        inverse = torch.cholesky_inverse(factor)
        dual = (inverse @ z[..., None])[..., 0]
        away = (theta - self.mean) / self.deviation
        value = 0.5 * (dual * z).sum() + factor.diagonal(dim1=1, dim2=2).log().sum()
        value = value + 0.5 * away.square().sum()
        change = inverse - dual[:, :, None] * dual[:, None, :]
        noise = (change.diagonal(dim1=1, dim2=2) / precision).sum(1, keepdim=True)
        inner = kernels.slopes(theta[:, :-1], self.views, self.shared, change)
        slopes = torch.cat([inner, noise * theta[:, -1:].exp()], 1)
        return value, 0.5 * slopes + away / self.deviation


PLAIN = Method(
    name="gaussian",
    summary="A Gaussian process on the metrics, of √α and of shares that saturate.",
    fit=fit_plain,
    restore=lambda shaped, tensors: Process(shaped.alpha, **tensors),
)
BENT = Method(
    name="bent_law",
    summary="The law with a Gaussian process in its exponent: saturation and interactions.",
    fit=fit_bent,
    restore=lambda shaped, tensors: Process(shaped.alpha, **tensors),
)
