"""The step sizes of Theorem 2, from its proof. They guarantee convergence and are far too small to wait for."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from cuvee.errors import check_number


@dataclass(frozen=True)
class Constants:
    """The constants of Assumption 1: g is G_g-Lipschitz and L_g-smooth, every f_j is G_f-Lipschitz and L_f-smooth.

    For g(x) = √(x² + c): G_g = 1 and L_g = 1/√c.
    """

    n_sources: int
    m_min: int
    m_max: int
    C: float
    G_f: float
    L_f: float
    G_g: float = 1.0
    L_g: float = 100.0

    def __post_init__(self) -> None:
        for name in ("n_sources", "m_min", "m_max", "C", "G_f", "L_f", "G_g", "L_g"):
            check_number(name, getattr(self, name), above=0.0)

    @property
    def L(self) -> float:
        """Smoothness of F (Proposition 1)."""
        return max(4 * self.G_f**2 * self.L_g + 2 * self.G_g * self.L_f, 2 * self.C / self.m_min)

    @property
    def mu(self) -> float:
        """Strong convexity of F in α (Proposition 1)."""
        return 2 * self.C / self.m_max


@dataclass(frozen=True)
class TheorySteps:
    """What to pass to `cuvee.estimate(..., method="scgda")` to run the theorem as it is stated."""

    eta: float
    gamma: float
    beta: float


def theory_steps(constants: Constants) -> TheorySteps:
    """η, γ and β as the proof of Theorem 2 chooses them.

    >>> steps = theory_steps(Constants(n_sources=15, m_min=100, m_max=100, C=10.0, G_f=1.0, L_f=1.0))
    >>> steps.gamma < steps.eta < 1e-5
    True
    """
    k, beta = constants, 0.1
    L, mu, N = k.L, k.mu, k.n_sources
    eta = min(sqrt(2) / (3 * L), mu / (36 * L**2), 1 / (100 * k.G_g**2))
    product = k.G_g**2 * k.G_f**2
    gamma = min(
        1 / (20 * L),
        1 / (60 * eta * L**2),
        1 / (8 * sqrt(10) * k.L_g * k.G_f**2),
        mu**2 * eta * beta / (7680 * N * product),
        sqrt(1 / (128 * k.L_g**2 * N)),  # condition 1 of the potential-function lemma …
        1 / (52 * k.G_f**2 * (2 * eta * k.G_g**2 * N**2 + N)),
        mu**2 * eta / (307200 * product),
        1 / (50 * k.L_g**2),  # … condition 2 …
        1 / (200 * k.L_g**2 * k.G_f**2),
        mu**2 * eta / (1080 * product),  # … condition 3
    )
    return TheorySteps(eta=eta, gamma=gamma, beta=beta)
