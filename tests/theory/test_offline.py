"""Lemma 1 and Theorem 3 as numbers, each against the paper's formula, written out once more."""

from __future__ import annotations

from math import inf, isfinite, isinf, log

import pytest

import cuvee
from cuvee import theory
from hypothesis import given, settings
from hypothesis import strategies as st

CHECKED = settings(derandomize=True, deadline=None, max_examples=60)
EPS = st.floats(1e-4, 1.0)
GEOMETRY = {"kappa_star": 10.0, "kappa": 20.0, "n_params": 5, "n_sources": 3, "D": 2.0}


def test_lipschitz_constant_is_the_lemmas():
    assert theory.lipschitz_constant(9, 2.0, 0.5) == pytest.approx(9**0.5 * 2.0 / 0.5)
    assert theory.lipschitz_constant(9, 2.0, 0.0) == inf
    with pytest.raises(cuvee.OptionError, match="mu_f"):
        theory.lipschitz_constant(9, 2.0, -1.0)


@CHECKED
@given(st.integers(1, 50))
def test_exponents_are_the_papers_and_inverse_to_each_other(N):
    assert theory.offline_exponent(N) == pytest.approx(-2 / (2 + N))
    assert theory.offline_exponent(N, 3.0) == pytest.approx(-6 / (6 + N))
    assert theory.labels_exponent(N) == pytest.approx(-(1 + N / 2))
    assert theory.labels_exponent(N) * theory.offline_exponent(N) == pytest.approx(1.0)


@CHECKED
@given(EPS, st.integers(2, 5), st.floats(1.0, 30.0), st.integers(1, 40))
def test_needs_are_theorem_3(eps, N, kappa_star, P):
    size = {"kappa_star": kappa_star, "n_params": P, "n_sources": N}
    needs = theory.offline_needs(eps, kappa=7.0, D=2.0, lambda_0=0.01, **size)
    n = max(2.0, (kappa_star**2 * P / eps) ** (1 + N / 2))
    T = n / (N * 0.01**2 * 0.5) * log(n)
    assert needs.n == pytest.approx(n, rel=1e-9)
    assert needs.width == pytest.approx(n ** (8 + 2 / (2 + N)), rel=1e-6)
    assert pytest.approx(T, rel=1e-9) == needs.T
    assert pytest.approx(7.0 * log(0.5 * T * n * 2.0 / 0.01), rel=1e-9) == needs.K
    if n > 2.0:
        risk = theory.offline_risk(needs.n, **size)
        assert risk == pytest.approx(eps, rel=1e-6)  # so many labels give just that


@CHECKED
@given(EPS, st.floats(1.01, 100.0))
def test_a_smaller_risk_takes_more_of_everything(eps, factor):
    few, many = (theory.offline_needs(e, **GEOMETRY) for e in (eps, eps / factor))
    assert many.n > few.n and many.width > few.width and many.T > few.T and many.K > few.K
    assert many.lambda_0 < few.lambda_0 <= 0.5  # more mixtures lie closer together


def test_without_a_measured_eigenvalue_that_of_random_mixtures_is_taken():
    needs = theory.offline_needs(0.1, **GEOMETRY)
    assert needs.lambda_0 == pytest.approx(0.5 * needs.n ** (-2 / 2))
    with pytest.raises(cuvee.OptionError, match="lambda_0"):
        theory.offline_needs(0.1, **GEOMETRY, lambda_0=3.0)  # the paper's N·polylog(N, n)


def test_what_no_float_holds_is_infinite_and_its_logarithm_is_not():
    needs = theory.offline_needs(1e-9, **{**GEOMETRY, "n_sources": 60})
    assert needs.n == needs.width == needs.T == inf and isfinite(needs.K)
    size = {"kappa_star": 1e6, "kappa": 9.0, "n_params": 9, "n_sources": 90}
    assert isinf(theory.learning_pays_from(1e-9, **size))


@CHECKED
@given(EPS, st.integers(1, 8), st.floats(1.0, 100.0))
def test_learning_pays_where_the_counts_cross(eps, N, kappa):
    M = theory.learning_pays_from(eps, kappa_star=5.0, kappa=kappa, n_params=3, n_sources=N)
    c, n = kappa * log(1 / eps), (25 * 3 / eps) ** (1 + N / 2)
    if c <= 1.0:
        assert isinf(M)
    else:
        assert M * c == pytest.approx(n * c + M)
