"""Compute max_w F and min_α max_w F exactly and slowly, for squared loss with W a ball.

Each f is a quadratic ½wᵀAw − bᵀw + r. Then f_T − Σ_j α_j f_j is one indefinite quadratic, and its
maximum over the ball is a trust-region subproblem, solved globally by one eigendecomposition. The
"sum" form is the largest of 2^N of them, one per sign pattern, so N ≤ 8. The smoothing c is taken
as 0: |x| ≤ g(x) ≤ |x| + √c.

Φ(α) = max_w F(α, w) is convex; cutting planes at the exact maximisers bracket its minimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from torch import Tensor

from cuvee.components import QuadraticSums
from cuvee.components.protocol import Grams
from cuvee.errors import OptionError
from cuvee.mixture.objective import Discrepancy
from cuvee.problem import Array


@dataclass(frozen=True)
class Quadratics:
    """Hold N sources and one target as quadratics z_j(w) = f_T − f_j over a ball of `radius`."""

    A: Array  # (N, P, P), of z_j
    b: Array  # (N, P)
    r: Array  # (N,)
    radius: float
    C: float
    inverse_counts: Array  # (N,)
    discrepancy: Discrepancy

    def __post_init__(self) -> None:
        if self.discrepancy == "sum" and len(self.A) > 8:
            raise OptionError(
                "the exact 'sum' oracle tries 2^N sign patterns, so it takes at most 8 sources; "
                f"this problem has {len(self.A)}: use fewer sources or discrepancy='mixture'"
            )

    @classmethod
    def of(
        cls, components: QuadraticSums, C: float, discrepancy: Discrepancy, target: int = 0
    ) -> Quadratics:
        """Return the quadratics of one target of a problem whose space has a radius."""
        sources, own = components.grams
        radius = components.space.radius
        if radius is None:
            raise OptionError("the exact oracle needs W to be a ball: give the hypothesis a radius")
        A, b, r = (
            np.asarray(own_part[target] - part)
            for own_part, part in zip(_parts(own), _parts(sources), strict=True)
        )
        return cls(A, b, r, radius, C, np.asarray(1.0 / components.counts.double()), discrepancy)

    def z(self, w: Array) -> Array:
        """Return z (N,) at w (P,)."""
        return np.asarray(0.5 * np.einsum("p,npq,q->n", w, self.A, w) - self.b @ w + self.r)

    def worst(self, alpha: Array) -> tuple[float, Array]:
        """Return max_w F(α, w) over the ball, which is the global maximum, and a maximiser."""
        if self.discrepancy == "mixture":
            patterns = [np.ones(len(alpha)), -np.ones(len(alpha))]
        else:
            patterns = [np.array(s, float) for s in product((1, -1), repeat=len(alpha))]
        best, winner = -np.inf, np.zeros(self.A.shape[1])
        for signs in patterns:
            v = signs * alpha
            value, w = largest_on_ball(
                np.tensordot(v, self.A, 1), v @ self.b, float(v @ self.r), self.radius
            )
            if value > best:
                best, winner = value, w
        return best + self.C * float(self.inverse_counts @ alpha**2), winner

    def cut(self, alpha: Array, w: Array) -> Array:
        """Return the slope (N,) of the discrepancy at α for adversary w.

        The discrepancy at α is slope · α.
        """
        z = self.z(w)
        return np.abs(z) if self.discrepancy == "sum" else np.sign(alpha @ z) * z

    def minimum(self, tol: float = 1e-3, max_cuts: int = 400) -> tuple[float, Array, float]:
        """Return min_α max_w F by cutting planes: (value, α, lower bound).

        It stops when value − bound ≤ tol · value. The bound is as good as SLSQP's answer to the
        master problem.
        """
        alpha = np.full(len(self.A), 1.0 / len(self.A))
        best, best_alpha, bound, cuts = np.inf, alpha, -np.inf, []
        for _ in range(max_cuts):
            value, w = self.worst(alpha)
            if value < best:
                best, best_alpha = value, alpha
            if best - bound <= tol * abs(best):
                break
            cuts.append(self.cut(alpha, w))
            alpha, bound = self._master(np.array(cuts), alpha)
        return best, best_alpha, bound

    def _master(self, cuts: Array, start: Array) -> tuple[Array, float]:
        """Minimise t + C Σ α²/m over (α, t) with t ≥ slope_k · α for all cuts, α ∈ Δ.

        Returns α (N,) and the value there.
        """
        from scipy.optimize import minimize

        penalty, n = self.C * self.inverse_counts, len(start)
        solution = minimize(
            lambda x: x[-1] + penalty @ x[:n] ** 2,
            np.append(start, (cuts @ start).max()),
            jac=lambda x: np.append(2 * penalty * x[:n], 1.0),
            bounds=[(0, 1)] * n + [(None, None)],
            constraints=[
                {
                    "type": "eq",
                    "fun": lambda x: x[:n].sum() - 1,
                    "jac": lambda x: np.append(np.ones(n), 0.0),
                },
                {
                    "type": "ineq",
                    "fun": lambda x: x[-1] - cuts @ x[:n],
                    "jac": lambda x: np.column_stack([-cuts, np.ones(len(cuts))]),
                },
            ],
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-12},
        )
        alpha = np.clip(solution.x[:n], 0, None)
        alpha /= alpha.sum()
        return alpha, float((cuts @ alpha).max() + penalty @ alpha**2)


def _parts(grams: Grams) -> tuple[Tensor, Tensor, Tensor]:
    return grams.A, grams.b, grams.r


def largest_on_ball(A: Array, b: Array, r: float, radius: float) -> tuple[float, Array]:
    """Return max of ½wᵀAw − bᵀw + r over ‖w‖ ≤ radius, and a maximiser; A is symmetric.

    A may be indefinite.

    The maximiser solves (λI − A)w = −b with λ ≥ max(0, λ_max(A)), and ‖w‖ = radius unless λ = 0.
    """
    eigenvalues, V = np.linalg.eigh(A)
    beta = -(V.T @ b)
    top = eigenvalues[-1]

    def w_at(multiplier: float) -> Array:
        gap = multiplier - eigenvalues
        return np.divide(beta, gap, out=np.zeros_like(beta), where=gap > 1e-14 * (1 + abs(top)))

    if top < 0 and np.linalg.norm(w_at(0.0)) <= radius:
        w = w_at(0.0)
    else:
        low = max(float(top), 0.0)
        edge = w_at(low)
        near_top = np.isclose(eigenvalues, low, rtol=0, atol=1e-12 * (1 + abs(low)))
        if np.abs(beta[near_top]).max(initial=0.0) <= 1e-12 * (1 + np.linalg.norm(beta)) and (
            np.linalg.norm(edge) <= radius
        ):
            # The hard case: b has no part along the top eigenvector, so w is extended along it
            # until it reaches the sphere.
            w = edge
            if low == top:
                w = w + np.eye(len(b))[-1] * np.sqrt(max(radius**2 - float(edge @ edge), 0.0))
        else:
            high = float(low + np.linalg.norm(beta) / radius + 1e-300)
            for _ in range(200):
                middle = 0.5 * (low + high)
                low, high = (
                    (middle, high) if np.linalg.norm(w_at(middle)) > radius else (low, middle)
                )
            w = w_at(high)
    w = V @ w
    return float(0.5 * w @ A @ w - b @ w + r), w
