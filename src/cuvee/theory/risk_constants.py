"""Constants of mean losses, for data in hand: μ_f, L_f, G_f and κ* of Lemma 1 and Theorems 3 and 4.

The risk of a source is the mean loss that models are trained on plus λ/2‖w‖². All numbers are
proven for the rows that are there, from eigenvalues and from the lengths of rows, for `Ridge` and
`Logistic` (also softmax).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cuvee.components import LocalComponents
from cuvee.errors import OptionError, check_number
from cuvee.hypothesis.base import Hypothesis, Space
from cuvee.hypothesis.logistic import LogisticSpace
from cuvee.hypothesis.ridge import RidgeSpace
from cuvee.problem import Domain, Problem, as_problem
from cuvee.theory.offline import lipschitz_constant
from cuvee.theory.row_constants import known_space, largest_chance_of_error


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
    """The largest ‖∇f_j(w)‖ at the minimisers that were given: the proof of Lemma 1 needs no more.
    """

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
        """Return κ* with the gradients that were met, the least that the Lemma's proof allows."""
        if self.G_f_met is None:
            raise OptionError("no gradients were met: pass minimisers as w= to risk_constants")
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
    space = known_space(hypothesis.bind(problem))
    rows = LocalComponents(problem, space, "trained").everything
    met = None if w is None else _minimisers(w, space)
    lengths = rows.lengths.tolist()
    parts = list(zip(*(t.split(lengths) for t in (rows.X, rows.y, rows.weight)), strict=True))
    D = _reach(space, parts, met, radius)
    measure: Any = _ridge if isinstance(space, RidgeSpace) else _logistic
    mu, L, G, at_met = np.array([measure(space, *part, met, D) for part in parts]).T  # (N,) each
    return RiskConstants(
        n_sources=problem.n_sources,
        mu_f=max(0.0, float(mu.min())),
        L_f=float(L.max()),
        G_f=float(G.max()),
        D=D,
        G_f_met=None if met is None else float(at_met.max()),
    )


def _minimisers(w: Any, space: Space) -> Tensor:
    """Return w (n, P) as a tensor, or raise `OptionError`."""
    models = torch.as_tensor(np.asarray(w, dtype=np.float64))
    shaped = models.ndim == 2 and len(models) > 0 and models.shape[1] == space.n_params
    if not shaped or not bool(models.isfinite().all()):
        wanted = f"(n, {space.n_params})"
        raise OptionError(f"w must be finite numbers of shape {wanted}; got {tuple(models.shape)}")
    return models


def _reach(space: Space, parts: list[Any], w: Tensor | None, radius: float | None) -> float:
    """Return D by the first that is known: radius, minimisers, W, where all w* must lie."""
    if radius is not None:
        check_number("radius", radius, above=0.0)
        return radius
    if w is not None:
        return float(torch.linalg.vector_norm(w, dim=1).max())
    if space.radius is not None:
        return space.radius
    if space.l2 == 0 or not bool((space.penalised > 0).all()):
        raise OptionError("w* may lie anywhere, as not all of w is penalised: give radius= or w=")
    if isinstance(space, LogisticSpace):
        at_zero = log(len(space.classes))
    else:
        at_zero = max(0.5 * float((p * y.square()).sum()) for _, y, p in parts)
    return sqrt(2.0 * at_zero / space.l2)


def _ridge(
    space: Space,
    X: Tensor,
    y: Tensor,
    p: Tensor,
    w: Tensor | None,
    D: float,
) -> tuple[float, ...]:
    """Return (μ, L, G over W, G met) of one source: ∇f = Aw − b, A = Σ p xxᵀ + λ, b = Σ p y x."""
    A = (X * p[:, None]).T @ X + torch.diag(space.l2 * space.penalised)
    b = X.T @ (p * y)
    eigen = torch.linalg.eigvalsh(A)
    met = torch.zeros(1) if w is None else torch.linalg.vector_norm(w @ A - b, dim=1)
    return (
        float(eigen[0]),
        float(eigen[-1]),
        float(eigen[-1]) * D + float(torch.linalg.vector_norm(b)),
        float(met.max()),
    )


def _logistic(
    space: LogisticSpace,
    X: Tensor,
    y: Tensor,
    p: Tensor,
    w: Tensor | None,
    D: float,
) -> tuple[float, ...]:
    """Return (μ, L, G over W, G met) of one source.

    The curvature of two classes is between that of the score ‖x‖D and ¼.
    """
    penalty, length, K = (
        space.l2 * space.penalised,
        torch.linalg.vector_norm(X, dim=1),
        space.n_outputs,
    )
    wrong, steepest = largest_chance_of_error(length, D, K), 1.0 if K == 1 else sqrt(2.0)
    if K == 1:
        bent = (X * (p * wrong * (1 - wrong))[:, None]).T @ X
        least = torch.linalg.eigvalsh(bent + torch.diag(penalty))[0]
    else:  # softmax does not feel what all classes share
        least = penalty.min()
    most = (0.25 if K == 1 else 0.5) * torch.linalg.eigvalsh((X * p[:, None]).T @ X)[-1] + space.l2
    G = steepest * (p * length * wrong).sum() + space.l2 * D
    met = torch.zeros(1)
    if w is not None:
        residual = space.mean_(space.scores(w, X)) - space.statistic(y)  # (n, K, rows)
        met = torch.linalg.vector_norm(((residual * p) @ X).flatten(1) + penalty * w, dim=1)
    return float(least), float(most), float(G), float(met.max())
