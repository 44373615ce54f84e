"""Measure constants of mean losses: μ_f, L_f, G_f and κ* of Lemma 1 and Theorems 3 and 4.

The risk of a source is the mean loss that models are trained on plus λ/2‖w‖². All numbers are
proven for the rows that are there, from eigenvalues and from the lengths of rows, for `Ridge` and
`Logistic` (also softmax).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cuvee.components import ALL, LocalComponents, bind
from cuvee.errors import OptionError, check_number
from cuvee.hypothesis.base import Hypothesis, Space
from cuvee.problem import Domain, Problem, as_problem
from cuvee.theory.offline import lipschitz_constant
from cuvee.theory.row_constants import known_space


@dataclass(frozen=True)
class RiskConstants:
    """Hold the least μ_f and the largest L_f and G_f of the sources' risks."""

    n_sources: int
    mu_f: float
    L_f: float
    G_f: float
    """A bound on ‖∇f_j(w)‖ over the ball ‖w‖ ≤ D, as Assumption 1 asks for."""
    D: float
    G_f_met: float | None = None
    """The largest ‖∇f_j(w)‖ at the minimisers given, which is enough for the proof of Lemma 1."""

    @property
    def kappa(self) -> float:
        """Return the condition number L_f/μ_f; infinite where μ_f is 0."""
        return self.L_f / self.mu_f if self.mu_f > 0 else inf

    @property
    def kappa_star(self) -> float:
        """Return κ* = √N G_f/μ_f of Lemma 1."""
        return lipschitz_constant(self.n_sources, self.G_f, self.mu_f)

    @property
    def kappa_star_met(self) -> float:
        """Return κ* with the gradients at the minimisers, the least that the proof allows."""
        if self.G_f_met is None:
            raise OptionError("no minimisers were given: pass them as w= to risk_constants")
        return lipschitz_constant(self.n_sources, self.G_f_met, self.mu_f)


def risk_constants(
    sources: Problem | Sequence[Domain],
    hypothesis: Hypothesis,
    *,
    w: Any = None,
    radius: float | None = None,
) -> RiskConstants:
    """Return μ_f, L_f, G_f and κ* of the sources' risks, for Lemma 1 and Theorems 3 and 4.

    W is the ball ‖w‖ ≤ D: of the `radius` given, else the smallest that holds the minimisers `w`,
    else the hypothesis's own, else the one that must hold every w*(α): λ/2‖w*‖² ≤ f_α(w*) ≤ f_α(0).
    Larger balls only make κ* looser.

    Args:
        sources: N sources, or a problem, of which only the sources count.
        hypothesis: `Ridge` or `Logistic`. With an intercept, which is not penalised, μ_f rests on
            the data's own curvature; a softmax has none in some direction, and μ_f is then 0 and κ*
            infinite.
        w: (n, P) minimisers of mixtures that cover the simplex, its corners among them.
        radius: D.

    Example:
        >>> import numpy as np, cuvee
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(80, 2))
        >>> north = cuvee.Domain("north", X[:40], X[:40] @ [1.0, 0.0])
        >>> south = cuvee.Domain("south", X[40:], X[40:] @ [0.0, 1.0])
        >>> hypothesis = cuvee.Ridge(l2=0.1, intercept=False)
        >>> w = cuvee.solve([north, south], hypothesis, np.eye(2)).w
        >>> k = risk_constants([north, south], hypothesis, w=w)
        >>> bool(np.linalg.norm(w[0] - w[1]) <= k.kappa_star_met * 2**0.5)
        True
        >>> k.kappa_star_met < k.kappa_star
        True
    """
    problem = as_problem(sources).without_targets()
    space = known_space(hypothesis.bind(problem.facts))
    components = bind(problem, space)
    minimisers = None if w is None else _minimisers(w, space)
    D = _reach(components, minimisers, radius)
    bounds = components.risk_bounds(D)
    penalty = space.l2 * space.penalised
    by_output = torch.diag(penalty[: bounds.least.shape[-1]])
    least = torch.linalg.eigvalsh(bounds.least + by_output)[:, 0]  # (N,)
    most = torch.linalg.eigvalsh(bounds.most + by_output)[:, -1]
    if space.quadratic:  # the gradient at 0 plus curvature times distance, else row by row
        longest = _gradients(components, penalty.new_zeros(1, space.n_params))[:, 0] + most * D
    else:
        longest = bounds.gradient + space.l2 * D
    return RiskConstants(
        n_sources=problem.n_sources,
        mu_f=max(0.0, float(least.min())),
        L_f=float(most.max()),
        G_f=float(longest.max()),
        D=D,
        G_f_met=None if minimisers is None else float(_gradients(components, minimisers).max()),
    )


def _gradients(components: LocalComponents, w: Tensor) -> Tensor:
    """Return ‖∇f_j(w_k)‖ (N, n) of every source's risk for w (n, P), penalty included."""
    space, N = components.space, len(components.counts)
    models = w.expand(N, -1, -1).contiguous()
    _, pullback = components.losses(models, ALL)
    g = pullback(torch.eye(N, dtype=w.dtype)[:, None])
    return torch.linalg.vector_norm(g + space.l2 * space.penalised * models, dim=-1)


def _minimisers(w: Any, space: Space) -> Tensor:
    """Return w (n, P) as a tensor, or raise `OptionError`."""
    models = torch.as_tensor(np.asarray(w, dtype=np.float64))
    shaped = models.ndim == 2 and len(models) > 0 and models.shape[1] == space.n_params
    if not shaped or not bool(models.isfinite().all()):
        wanted = f"(n, {space.n_params})"
        raise OptionError(f"w must be finite numbers of shape {wanted}; got {tuple(models.shape)}")
    return models


def _reach(components: LocalComponents, w: Tensor | None, radius: float | None) -> float:
    """Return D from the first that is given: radius, minimisers, W, else a bound on all w*."""
    space = components.space
    if radius is not None:
        check_number("radius", radius, above=0.0)
        return radius
    if w is not None:
        return float(torch.linalg.vector_norm(w, dim=1).max())
    if space.radius is not None:
        return space.radius
    if space.l2 == 0 or not bool((space.penalised > 0).all()):
        raise OptionError(
            "w* has no known bound, because not all of w is penalised: give radius= or w="
        )
    at_zero = components.values(torch.zeros(1, 1, space.n_params, dtype=space.dtype), ALL)
    return sqrt(2.0 * float(at_zero.max()) / space.l2)
