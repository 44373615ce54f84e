"""Compute Lemma 1 and Theorem 3: how fast w*(α) changes, and what n labels teach.

Theorem 3 is stated with O(·) and Ω(·) alone. Its numbers here have the constant 1: they say how the
needs grow with ε, and how far they are from what is affordable. `cuvee.plan` measures the costs
instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import e, inf, log, sqrt

from cuvee.errors import check_number


def lipschitz_constant(n_sources: int, G_f: float, mu_f: float) -> float:
    """Return κ* = √N G_f/μ_f of Lemma 1: ‖w*(α) − w*(α')‖ ≤ κ*‖α − α'‖; infinite where μ_f is 0.

    Every f_j is μ_f-strongly convex and G_f-Lipschitz on W. The Lemma as printed asks for
    smoothness instead of Lipschitz losses, which its proof does not use.

    >>> lipschitz_constant(4, G_f=3.0, mu_f=0.5)
    12.0
    """
    check_number("n_sources", n_sources, least=1)
    check_number("G_f", G_f, least=0.0)
    check_number("mu_f", mu_f, least=0.0)
    return sqrt(n_sources) * G_f / mu_f if mu_f > 0 else inf


def offline_exponent(n_sources: int, smoothness: float = 1.0) -> float:
    """Return the power of n in Theorem 3's excess risk, −2/(2+N).

    The discussion has −2H/(2H+N) for a w* with H derivatives, the `smoothness`.

    >>> offline_exponent(3), offline_exponent(4, smoothness=2)
    (-0.4, -0.5)
    """
    check_number("n_sources", n_sources, least=1)
    check_number("smoothness", smoothness, above=0.0)
    return -2.0 * smoothness / (2.0 * smoothness + n_sources)


def labels_exponent(n_sources: int) -> float:
    """Return the power of ε in the labels that Theorem 3 needs, −(1 + N/2).

    It is the inverse of `offline_exponent`.

    >>> labels_exponent(3)
    -2.5
    """
    check_number("n_sources", n_sources, least=1)
    return -1.0 - n_sources / 2


def offline_risk(n: float, *, kappa_star: float, n_params: int, n_sources: int) -> float:
    """Return Theorem 3's excess risk E‖h(α) − w*(α)‖² after n labels, κ*² P n^(−2/(2+N)).

    >>> round(offline_risk(10_000, kappa_star=10.0, n_params=5, n_sources=2), 9)
    5.0
    """
    for name, value in (("n", n), ("kappa_star", kappa_star)):
        check_number(name, value, above=0.0)
    check_number("n_params", n_params, least=1)
    return kappa_star**2 * n_params * n ** offline_exponent(n_sources)


@dataclass(frozen=True)
class OfflineNeeds:
    """Hold what Theorem 3 asks for, as orders of magnitude; infinite where no float holds it."""

    n: float
    """Labels: (κ*²P/ε)^(1+N/2)."""
    width: float
    """Hidden units per output: n^(8 + 2/(2+N))."""
    T: float
    """Steps of the network: n ln n/(N λ₀² η)."""
    K: float
    """Gradient steps on every label between two of them: κ ln(ηTnD/λ₀)."""
    lambda_0: float
    """The least eigenvalue of the kernel matrix that T and K were computed with."""


def offline_needs(
    eps: float,
    *,
    kappa_star: float,
    kappa: float,
    n_params: int,
    n_sources: int,
    D: float,
    eta: float = 0.5,
    lambda_0: float | None = None,
) -> OfflineNeeds:
    """Return the labels, width, steps and refinements that Theorem 3 asks for a risk of ε.

    The theorem puts λ₀ at N·polylog(N, n). It is ½ at most, and for random mixtures of the order of
    their smallest distance (docs/paper.md#misprints): without a measured `lambda_0` it is taken as
    ½ n^(−2/(N−1)).

    Args:
        eps: E‖h(α) − w*(α)‖² that is wanted.
        kappa_star: κ* of Lemma 1, see `risk_constants`.
        kappa: the condition number L_f/μ_f.
        n_params: P, which the paper calls d.
        n_sources: N.
        D: a bound on ‖w*(α)‖.
        eta: the network's step, at most ½.
        lambda_0: the least eigenvalue of the kernel matrix of the n mixtures, where it is known.

    Example:
        >>> needs = offline_needs(1.0, kappa_star=10.0, kappa=20.0, n_params=5, n_sources=2, D=1.0)
        >>> needs.n, needs.width > 1e20
        (250000.0, True)
    """
    for name, value in (("eps", eps), ("kappa_star", kappa_star), ("D", D)):
        check_number(name, value, above=0.0)
    check_number("kappa", kappa, least=1.0)
    check_number("eta", eta, above=0.0, most=0.5)
    check_number("n_params", n_params, least=1)
    base = max(
        kappa_star**2 * n_params / eps, 2.0 ** -offline_exponent(n_sources)
    )  # n ≥ 2: ln 1 = 0 steps learn nothing
    log_n = -labels_exponent(n_sources) * log(base)
    if lambda_0 is None:
        log_lambda = log(0.5) - (2.0 / (n_sources - 1) * log_n if n_sources > 1 else 0.0)
    else:
        check_number("lambda_0", lambda_0, above=0.0, most=0.5)
        log_lambda = log(lambda_0)
    # Logarithms, because the numbers may be too large for floats.
    log_T = log_n + log(log_n) - log(n_sources) - 2.0 * log_lambda - log(eta)
    return OfflineNeeds(
        n=power(base, -labels_exponent(n_sources)),
        width=power(base, -labels_exponent(n_sources) * (8.0 - offline_exponent(n_sources))),
        T=power(e, log_T),
        K=max(1.0, kappa * (log(eta) + log_T + log_n + log(D) - log_lambda)),
        lambda_0=power(e, log_lambda),
    )


def learning_pays_from(
    eps: float,
    *,
    kappa_star: float,
    kappa: float,
    n_params: int,
    n_sources: int,
) -> float:
    """Return the number of targets M from which on learning takes fewer steps than solving.

    Solving M problems takes M·c steps, c = κ ln(1/ε), and learning n·c + M with the n labels of
    Theorem 3: they cross at n·c/(c − 1). Where c ≤ 1 a solve costs no more than a prediction, and M
    is infinite.

    >>> round(learning_pays_from(0.01, kappa_star=5.0, kappa=10.0, n_params=3, n_sources=2))
    57498565
    """
    check_number("eps", eps, above=0.0)
    for name, value in (("kappa_star", kappa_star), ("kappa", kappa)):
        check_number(name, value, above=0.0)
    check_number("n_params", n_params, least=1)
    c = kappa * log(1.0 / eps)
    if c <= 1.0:
        return inf
    return power(kappa_star**2 * n_params / eps, -labels_exponent(n_sources)) * c / (c - 1.0)


def power(base: float, exponent: float) -> float:
    """Return base ** exponent for base ≥ 0, infinite where no float holds it.

    >>> power(10.0, 400.0), power(10.0, 2.0)
    (inf, 100.0)
    """
    try:
        return float(base) ** exponent
    except OverflowError:
        return inf
