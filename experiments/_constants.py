"""The constants that the paper's bounds are made of, for sources in hand: μ_f, L_f, G_f, D, κ and κ*.

The risk of a source is f_j(w) = mean loss on its rows + λ/2‖w‖², no intercept, so that all of w is penalised. W is the
ball around 0 of radius D = max ‖w*(α)‖, the smallest that the paper's assumptions allow. Larger balls only make
G_f larger and μ_f smaller, and so κ* looser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cuvee import Domain, Logistic, Ridge
from cuvee.results import Floats


@dataclass(frozen=True)
class Constants:
    """Of all sources together: the least μ_f, the largest L_f and G_f."""

    n_sources: int
    mu: float
    L: float
    G: float
    """Over W, as Assumption 1 asks for: an upper bound on sup ‖∇f_j(w)‖."""
    G_met: float
    """Over the minimisers met: the proof of the Lemma needs no more."""
    D: float

    @property
    def kappa_star(self) -> float:
        """κ* = √N G_f/μ_f of Lemma 1."""
        return float(np.sqrt(self.n_sources) * self.G / self.mu)

    @property
    def kappa_star_met(self) -> float:
        """The same with the gradients that were met: the least that the Lemma's proof allows."""
        return float(np.sqrt(self.n_sources) * self.G_met / self.mu)

    @property
    def kappa(self) -> float:
        """The condition number L_f/μ_f."""
        return self.L / self.mu


def constants(sources: Sequence[Domain], hypothesis: Ridge | Logistic, w: Floats) -> Constants:
    """For minimisers w (M, P) of mixtures that cover the simplex, its corners among them."""
    if hypothesis.intercept:
        raise ValueError("an intercept is not penalised, and the constants here are those of risks that are")
    D = float(np.linalg.norm(w, axis=1).max())
    of = _ridge if isinstance(hypothesis, Ridge) else _logistic
    mu, L, G, met = np.array([of(d.X.astype(float), d.y.astype(float), hypothesis.l2, w, D) for d in sources]).T
    return Constants(len(sources), float(mu.min()), float(L.max()), float(G.max()), float(met.max()), D)


def _ridge(X: Floats, y: Floats, l2: float, w: Floats, D: float) -> tuple[float, float, float, float]:
    """∇f = Aw − b with A = XᵀX/m + λ, b = Xᵀy/m: (μ, L, G over W, G met)."""
    A, b = X.T @ X / len(X) + l2 * np.eye(X.shape[1]), X.T @ y / len(X)
    eigen = np.linalg.eigvalsh(A)
    met = np.linalg.norm(w @ A - b, axis=1).max()
    return eigen[0], eigen[-1], eigen[-1] * D + np.linalg.norm(b), met


def _logistic(X: Floats, y: Floats, l2: float, w: Floats, D: float) -> tuple[float, float, float, float]:
    """On W a row's curvature p(1 − p) lies between that of the score ‖x‖D and ¼."""
    length = np.linalg.norm(X, axis=1)
    chance = 1.0 / (1.0 + np.exp(-length * D))
    least = np.linalg.eigvalsh((X * (chance * (1.0 - chance))[:, None]).T @ X / len(X))[0]
    most = 0.25 * np.linalg.eigvalsh(X.T @ X / len(X))[-1]
    residual = 1.0 / (1.0 + np.exp(-(w @ X.T))) - y  # (M, rows)
    met = np.linalg.norm(residual @ X / len(X) + l2 * w, axis=1).max()
    return max(least, 0.0) + l2, most + l2, (length * chance).mean() + l2 * D, met
