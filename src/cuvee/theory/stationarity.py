"""Compute Proposition 1 and Theorem 2: how smooth F is, and what a gap of ε needs.

The step sizes guarantee that Algorithm 1 converges, but they are far too small in practice, and the
numbers of steps and rows are far too large.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt

from cuvee.errors import check_number

BETA = 0.1  # of the theorem


@dataclass(frozen=True)
class Constants:
    """Hold the constants of Assumption 1.

    g is G_g-Lipschitz and L_g-smooth, every f_j is G_f-Lipschitz and L_f-smooth. For g(x) = √(x² +
    c): G_g = 1 and L_g = 1/√c. `cuvee.theory.minimax_constants` measures them.
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
    def L_w(self) -> float:
        """Return the Lipschitz constant of ∇_w F in w: 4G_f²L_g + 2G_gL_f (Proposition 1)."""
        return 4 * self.G_f**2 * self.L_g + 2 * self.G_g * self.L_f

    @property
    def L_alpha(self) -> float:
        """Return the Lipschitz constant of ∇_α F in α: 2C/m_min (Proposition 1)."""
        return 2 * self.C / self.m_min

    @property
    def L_across(self) -> float:
        """Return the Lipschitz constant of ∇_w F in α, and of ∇_α F in w: 2√N G_g G_f.

        Proposition 1 leaves it out, and the descent lemmas use L for it. Column j of the mixed
        derivative is g'(f_T − f_j)(∇f_T − ∇f_j), of length 2G_gG_f at most, and there are N of
        them.
        """
        return 2 * sqrt(self.n_sources) * self.G_g * self.G_f

    @property
    def L(self) -> float:
        """Return F's smoothness in each block: the largest of `L_w`, `L_alpha`, `L_across`."""
        return max(self.L_w, self.L_alpha, self.L_across)

    @property
    def mu(self) -> float:
        """Return how strongly convex F is in α: 2C/m_max (Proposition 1)."""
        return 2 * self.C / self.m_max

    @property
    def kappa(self) -> float:
        """Return L/μ, the condition number of Theorem 2."""
        return self.L / self.mu

    def largest_values(self, largest_loss: float) -> tuple[float, float]:
        """Return (B_g, F_max) of Assumption 1.3 for losses in [0, largest_loss].

        g is √(x² + 1/L_g²).
        """
        check_number("largest_loss", largest_loss, above=0.0)
        B_g = hypot(largest_loss, 1 / self.L_g)
        return B_g, B_g + self.C / self.m_min


@dataclass(frozen=True)
class TheorySteps:
    """Hold the settings with which `cuvee.estimate(..., method="scgda")` follows the theorem."""

    eta: float
    gamma: float
    beta: float


def theory_steps(constants: Constants) -> TheorySteps:
    """Return η, γ and β as the proof of Theorem 2 chooses them.

    L is that of `Constants.L`, across (α, w) as well.

    >>> k = Constants(n_sources=15, m_min=100, m_max=100, C=10.0, G_f=1.0, L_f=1.0)
    >>> steps = theory_steps(k)
    >>> steps.gamma < steps.eta < 1e-5
    True
    """
    k, beta = constants, BETA
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


@dataclass(frozen=True)
class StationarityBound:
    """Bound the mean of ‖∇G(α^t, w^t)‖² over T steps by the two terms of Theorem 2."""

    start: float
    """The part that depends on the start: falls as 1/T."""
    noise: float
    """The part from minibatches: falls as 1/B, and does not depend on T."""

    @property
    def total(self) -> float:
        """Return the bound on the mean of the squared gaps."""
        return self.start + self.noise


def stationarity_bound(
    constants: Constants,
    T: float,
    B: float,
    *,
    B_g: float,
    F_max: float,
    variance: float | None = None,
    steps: TheorySteps | None = None,
) -> StationarityBound:
    """Return Theorem 2's bound: the last inequality of its proof with constants, term by term.

    max{16/γ, 4/η} is kept as it is; the line after calls it O(1/η), but γ is the smaller one. The
    noise is as printed, with 2β²; the proof of the lemma before it arrives at 2β²N, which makes the
    noise, and so B, about N times as large.

    Args:
        constants: of Assumption 1.
        T: steps of Algorithm 1.
        B: rows of a minibatch.
        B_g: a bound on g(f_T − f_j) over W, see `Constants.largest_values`.
        F_max: a bound on F.
        variance: σ² of Assumption 1, of a row's gradient; by default G_f², which it cannot exceed.
            The proof uses it for the variance of a row's loss too: give the larger one.
        steps: η, γ and β; by default those of `theory_steps`.

    Example:
        >>> k = Constants(n_sources=4, m_min=50, m_max=100, C=10.0, G_f=1.5, L_f=2.0, L_g=10.0)
        >>> bound = stationarity_bound(k, T=1e12, B=100, B_g=1.0, F_max=1.2)
        >>> bound.total == bound.start + bound.noise, bound.noise > 1e6
        (True, True)
    """
    for name, value in (("T", T), ("B", B), ("B_g", B_g), ("F_max", F_max)):
        check_number(name, value, above=0.0)
    k, sigma2 = constants, _variance(constants, variance)
    s = steps or theory_steps(constants)
    factor = max(16 / s.gamma, 4 / s.eta)
    return StationarityBound(
        start=factor * _start(k, s, B_g, F_max, sigma2 / B) / T,
        noise=factor * _noise(k, s) * sigma2 / B,
    )


@dataclass(frozen=True)
class StationarityNeeds:
    """Hold what Theorem 2 asks for, so that the mean of ‖∇G‖² over T steps is at most ε²."""

    T: float
    B: float
    steps: TheorySteps
    n_sources: int

    @property
    def gradients(self) -> float:
        """Return T·B(N + 1), the rows whose gradient is asked for; it grows as ε⁻⁴."""
        return self.T * self.B * (self.n_sources + 1)


def stationarity_needs(
    constants: Constants, eps: float, *, B_g: float, F_max: float, variance: float | None = None
) -> StationarityNeeds:
    """Return the T and B with which Theorem 2 promises a gap of ε.

    Half of ε² is for each term of `stationarity_bound`, whose other arguments these are.

    >>> k = Constants(n_sources=4, m_min=50, m_max=100, C=10.0, G_f=1.5, L_f=2.0, L_g=10.0)
    >>> needs = stationarity_needs(k, eps=0.1, B_g=1.0, F_max=1.2)
    >>> bound = stationarity_bound(k, needs.T, needs.B, B_g=1.0, F_max=1.2)
    >>> round(bound.start, 6), round(bound.noise, 6)
    (0.005, 0.005)
    """
    for name, value in (("eps", eps), ("B_g", B_g), ("F_max", F_max)):
        check_number(name, value, above=0.0)
    k, steps, sigma2 = constants, theory_steps(constants), _variance(constants, variance)
    factor, half = max(16 / steps.gamma, 4 / steps.eta), eps**2 / 2
    B = factor * _noise(k, steps) * sigma2 / half
    T = factor * _start(k, steps, B_g, F_max, sigma2 / B) / half
    return StationarityNeeds(T, B, steps, k.n_sources)


def _start(k: Constants, s: TheorySteps, B_g: float, F_max: float, noise: float) -> float:
    """Return F_max + (9/2)(4η(NB_g² + L²) + 2ηNG_g²(14γ²G_f⁴G_g² + 2σ²/B)), for `noise` = σ²/B."""
    N, g2, f2 = k.n_sources, k.G_g**2, k.G_f**2
    tracking = 14 * s.gamma**2 * f2**2 * g2 + 2 * noise
    return F_max + 4.5 * (4 * s.eta * (N * B_g**2 + k.L**2) + 2 * s.eta * N * g2 * tracking)


def _noise(k: Constants, s: TheorySteps) -> float:
    """Return ½γL_g²Nβ² + 4ηG_g²N²β² + 4γG_g² + 2β²L_g²G_f²γ + 2β², the factor of σ²/B."""
    N, g2, L2, beta2 = k.n_sources, k.G_g**2, k.L_g**2, s.beta**2
    by_gamma = 0.5 * L2 * N * beta2 + 4 * g2 + 2 * beta2 * L2 * k.G_f**2
    return s.gamma * by_gamma + 4 * s.eta * g2 * N**2 * beta2 + 2 * beta2


def _variance(k: Constants, variance: float | None) -> float:
    """Return σ² as given, or G_f²."""
    if variance is None:
        return k.G_f**2
    check_number("variance", variance, above=0.0)
    return variance
