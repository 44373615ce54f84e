"""Compute Theorem 4 and its corollary: Algorithm 4's regret, and the labels that ε costs.

The bound is that of the proof, with three constants that are missing in the theorem
(docs/paper.md#misprints).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, inf, isinf, log, sqrt

from cuvee.errors import OptionError, check_number
from cuvee.theory.offline import power

LARGEST_LOG = 700.0  # e^709 is the largest float


def online_exponent(n_sources: int) -> float:
    """Return the power of T in Theorem 4's average regret, −1/(1+N).

    >>> online_exponent(3)
    -0.25
    """
    check_number("n_sources", n_sources, least=1)
    return -1.0 / (1 + n_sources)


def packing_constant(n_sources: int) -> float:
    """Return a C_N of Theorem 4: no more than C_N ε^(−N) points of Δ lie more than ε ≤ 1 apart.

    Δ lies in a ball of radius R = √((N−1)/N) and of N − 1 dimensions, which holds (1 + 2R/ε)^(N−1)
    such points at most: C_N = (1 + 2R)^(N−1).

    >>> packing_constant(1), round(packing_constant(3), 2)
    (1.0, 6.93)
    """
    check_number("n_sources", n_sources, least=1)
    return (1.0 + 2.0 * sqrt((n_sources - 1) / n_sources)) ** (n_sources - 1)


@dataclass(frozen=True)
class RegretBound:
    """Bound the average loss (1/T) Σ_t E‖ŵ_t − w*(α_t)‖² by the four terms of Theorem 4."""

    estimation: float
    """4D² p C_N ln(eT) T^(−1/(1+N)): every ball has to learn its own prediction."""
    approximation: float
    """8Dκ* T^(−1/(1+N)): a ball has one prediction, and w* varies inside it."""
    missed: float
    """4(1−p)D²: rounds without a label count as zeros. It does not vanish with T."""
    inexact: float
    """4pD²(1 − 1/κ)^K: labels are K steps of descent."""

    @property
    def total(self) -> float:
        """Return what the average loss is at most, in expectation."""
        return self.estimation + self.approximation + self.missed + self.inexact


def regret_bound(
    T: float,
    p: float,
    *,
    n_sources: int,
    kappa_star: float,
    D: float,
    kappa: float = 1.0,
    K: float = inf,
    C_N: float | None = None,
) -> RegretBound:
    """Return Theorem 4's bound on the average regret of the printed Algorithm 4, term by term.

    The regret is against w* itself. Corrected as the proof has it: 4D² before p C_N ln(eT), 8Dκ*
    for 4Dκ*, and 4(1−p)D² for (1−p)D.

    Args:
        T: rounds.
        p: the chance that a round's label is paid for.
        n_sources: N.
        kappa_star: κ* of Lemma 1, see `risk_constants`.
        D: a bound on ‖w*(α)‖.
        kappa: the condition number L_f/μ_f; it matters where K is finite.
        K: gradient steps that make a label; infinitely many where labels are solved.
        C_N: of the packing of Δ; by default `packing_constant`.

    Example:
        >>> bound = regret_bound(T=10_000, p=1.0, n_sources=2, kappa_star=3.0, D=1.0)
        >>> bound.missed, bound.inexact, round(bound.total, 2)
        (0.0, 0.0, 5.69)
    """
    check_number("T", T, least=1.0)
    check_number("p", p, least=0.0, most=1.0)
    _check_geometry(kappa_star, D, kappa, K, C_N)
    C_N = packing_constant(n_sources) if C_N is None else C_N
    rate = T ** online_exponent(n_sources)
    return RegretBound(
        estimation=4 * D**2 * p * C_N * (1.0 + log(T)) * rate,
        approximation=8 * D * kappa_star * rate,
        missed=4 * (1 - p) * D**2,
        inexact=4 * p * D**2 * _left(kappa, K),
    )


@dataclass(frozen=True)
class LabelNeeds:
    """Hold what the corollary of Theorem 4 asks for; infinite where no float holds it."""

    p: float
    """The chance that a round's label is paid for: 1 − ε/(16D²), at least 0."""
    T: float
    """Rounds from which on the average regret is at most ε."""
    K: float
    """Gradient steps that make a label."""
    labels: float
    """p·T: labels paid for on average until then."""


def label_needs(
    eps: float,
    *,
    n_sources: int,
    kappa_star: float,
    D: float,
    kappa: float = 1.0,
    C_N: float | None = None,
) -> LabelNeeds:
    """Return p, T, K and the labels with which Theorem 4's bound is at most ε (its corollary).

    Half of ε is for the two terms that fall with T, a quarter for rounds without a label and a
    quarter for labels that are not solved: the corollary leaves the shares, logarithms and
    constants open. From T on the bound stays below ε.

    >>> geometry = {"n_sources": 2, "kappa_star": 3.0, "D": 1.0, "kappa": 10.0}
    >>> needs = label_needs(0.5, **geometry)
    >>> regret_bound(needs.T, needs.p, K=needs.K, **geometry).total <= 0.5
    True
    >>> needs.labels < needs.T
    True
    """
    check_number("eps", eps, above=0.0)
    _check_geometry(kappa_star, D, kappa, inf, C_N)
    C_N = packing_constant(n_sources) if C_N is None else C_N
    p = max(0.0, 1.0 - eps / (16 * D**2))
    wanted = 16 * p * D**2 / eps
    K = 1.0 if kappa == 1.0 or wanted <= 1.0 else float(ceil(log(wanted) / -log(1.0 - 1.0 / kappa)))
    log_T = _last_root(4 * D**2 * p * C_N, 8 * D * kappa_star, -online_exponent(n_sources), eps / 2)
    T = float(ceil(exp(log_T) * (1 + 1e-12))) if log_T < LARGEST_LOG else inf
    return LabelNeeds(p, T, K, p * T if p > 0 else 0.0)


def printed_label_complexity(eps: float, *, n_sources: int, kappa_star: float, D: float) -> float:
    """Return the corollary of Theorem 4 as printed, without its logarithms and constants.

        max{(Dκ*/ε)^(1+N), ((1 − ε/D)/ε)^(1+N)} · (1 − ε/D)

    It rests on the printed (1−p)D, so that p = 1 − ε/D; `label_needs` has what the proof gives.

    >>> printed_label_complexity(0.5, n_sources=1, kappa_star=2.0, D=1.0)
    8.0
    """
    check_number("eps", eps, above=0.0)
    _check_geometry(kappa_star, D, 1.0, inf, None)
    p = max(0.0, 1.0 - eps / D)
    labels = max(power(D * kappa_star / eps, 1 + n_sources), power(p / eps, 1 + n_sources))
    return labels * p if p > 0 else 0.0


def _check_geometry(kappa_star: float, D: float, kappa: float, K: float, C_N: float | None) -> None:
    """Raise `OptionError` for the first number out of its range."""
    check_number("kappa_star", kappa_star, least=0.0)
    check_number("D", D, above=0.0)
    check_number("kappa", kappa, least=1.0)
    if not isinf(K):
        check_number("K", K, least=0.0)
    elif K < 0:
        raise OptionError(f"K must be a number of steps, or inf for solved labels; got {K!r}")
    if C_N is not None:
        check_number("C_N", C_N, above=0.0)


def _left(kappa: float, K: float) -> float:
    """Return (1 − 1/κ)^K, the share of ‖0 − w*‖ that K steps of descent leave."""
    return 0.0 if isinf(K) else (1.0 - 1.0 / kappa) ** K


def _last_root(a: float, b: float, rate: float, wanted: float) -> float:
    """Return the least x ≥ 0 from which on (a(1 + x) + b)e^(−rate·x) ≤ wanted stays true.

    Its logarithm is concave in x, so that it rises to one peak and falls from there.
    """
    from scipy.optimize import brentq

    def above(x: float) -> float:
        total = a * (1.0 + x) + b
        return log(total) - rate * x - log(wanted) if total > 0 else -inf

    peak = max(0.0, 1.0 / rate - 1.0 - b / a) if a > 0 else 0.0
    if above(peak) <= 0:
        return 0.0
    far = peak + 1.0
    while above(far) > 0:
        far *= 2.0
    return float(brentq(above, peak, far, xtol=1e-12))
