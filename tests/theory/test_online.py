"""Theorem 4 and its corollary: terms as the proof has them, and a stream that keeps below them."""

from __future__ import annotations

from math import isinf, log

import numpy as np
import pytest

import cuvee
from cuvee import theory
from cuvee.data.synthetic import shifted_sources
from cuvee.simplex import sample
from hypothesis import given, settings
from hypothesis import strategies as st

CHECKED = settings(derandomize=True, deadline=None, max_examples=60)
N_SOURCES = st.integers(1, 5)
SIZES = st.floats(0.1, 10.0)


@CHECKED
@given(
    st.integers(1, 10**9),
    st.floats(0.0, 1.0),
    N_SOURCES,
    SIZES,
    SIZES,
    st.floats(1.0, 50.0),
    st.integers(0, 99),
)
def test_terms_are_those_of_the_proof(T, p, N, kappa_star, D, kappa, K):
    how = {"n_sources": N, "kappa_star": kappa_star, "D": D, "kappa": kappa}
    bound = theory.regret_bound(T, p, K=K, C_N=3.0, **how)
    balls = 3.0 * (T ** (-1 / (1 + N))) ** -N  # C_N ε_T^(−N)
    assert bound.estimation == pytest.approx(4 * D * D * p * balls * log(np.e * T) / T)
    radii = 2 * T ** (N / (1 + N))  # no less than Σ ε_t
    assert bound.approximation == pytest.approx(4 * D * kappa_star * radii / T)
    assert bound.missed == pytest.approx(4 * D * (1 - p) * D)
    assert bound.inexact == pytest.approx(4 * p * D * (1 - 1 / kappa) ** K * D)
    terms = (bound.estimation, bound.approximation, bound.missed, bound.inexact)
    assert bound.total == pytest.approx(sum(terms))


@CHECKED
@given(N_SOURCES, st.integers(1, 10**5))
def test_radii_sum_to_what_the_proof_says(N, T):
    T = min(T, 20_000)
    assert (np.arange(1, T + 1) ** (-1 / (1 + N))).sum() <= 2 * T ** (N / (1 + N))


@CHECKED
@given(st.integers(1, 5), st.floats(0.2, 1.0), st.integers(0, 99))
def test_no_packing_is_larger_than_its_constant_allows(N, eps, seed):
    centres: list[np.ndarray] = []
    for point in np.concatenate([np.eye(N), sample(300, N, seed=seed, concentration=0.5)]):
        if all(np.linalg.norm(point - c) > eps for c in centres):
            centres.append(point)
    assert len(centres) <= theory.packing_constant(N) * eps**-N


@CHECKED
@given(st.floats(1e-3, 50.0), N_SOURCES, SIZES, SIZES, st.floats(1.0, 40.0))
def test_what_is_needed_keeps_the_bound_below_eps_from_then_on(eps, N, kappa_star, D, kappa):
    how = {"n_sources": N, "kappa_star": kappa_star, "D": D, "kappa": kappa}
    needs = theory.label_needs(eps, **how)
    assert 0.0 <= needs.p < 1.0 and needs.labels == pytest.approx(needs.p * needs.T)
    if isinf(needs.T):
        return
    for T in needs.T * np.array([1.0, 1.5, 10.0, 1e3, 1e6]):
        assert theory.regret_bound(T, needs.p, K=needs.K, **how).total <= eps * (1 + 1e-9)
    falling = eps / 2
    if needs.T > 10:
        before = theory.regret_bound(0.9 * needs.T, needs.p, K=needs.K, **how)
        assert before.estimation + before.approximation > falling  # and not much less would do


@CHECKED
@given(st.floats(0.01, 1.0), st.floats(1.05, 20.0), N_SOURCES)
def test_a_smaller_regret_takes_more_labels(eps, factor, N):
    how = {"n_sources": N, "kappa_star": 2.0, "D": 1.0, "kappa": 10.0}
    few, many = (theory.label_needs(e, **how) for e in (eps, eps / factor))
    assert many.p > few.p and many.T > few.T and many.K >= few.K and many.labels > few.labels


def test_the_corollary_as_printed():
    eps, D, kappa_star, N = 0.1, 2.0, 3.0, 2
    p = 1 - eps / D
    wanted = max((D * kappa_star / eps) ** (1 + N), ((1 - eps / D) / eps) ** (1 + N)) * p
    how = {"n_sources": N, "kappa_star": kappa_star, "D": D}
    assert theory.printed_label_complexity(eps, **how) == pytest.approx(wanted)
    assert theory.printed_label_complexity(3.0, **how) == 0.0  # (1 − p)D allows p = 0


@pytest.mark.parametrize("p", [0.3, 1.0])
def test_a_stream_keeps_below_the_bound(p):
    sources = shifted_sources(2, 60, 3, seed=0, quantity=True)
    hypothesis = cuvee.Ridge(0.05, intercept=False)
    stream = sample(400, 2, seed=1)
    w = cuvee.solve(sources, hypothesis, np.concatenate([stream, np.eye(2)])).w
    k = theory.risk_constants(sources, hypothesis, w=w)
    how = {"variant": "paper", "label_budget": p, "evaluate": True, "seed": 0}
    online = cuvee.OnlineMap(sources, hypothesis, **how)
    ledger = cuvee.run_online(stream, online, progress=False)
    bound = theory.regret_bound(400, p, n_sources=2, kappa_star=k.kappa_star_met, D=k.D)
    assert ledger.average_at[-1] <= bound.total
    if p < 1:  # rounds without a label count as zeros: (1 − p)²‖w*‖² is left
        assert ledger.average_at[-1] >= 0.5 * (1 - p) ** 2 * (np.linalg.norm(w, axis=1) ** 2).mean()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"p": 1.5}, "p"),
        ({"T": 0.5}, "T"),
        ({"D": 0.0}, "D"),
        ({"kappa": 0.5}, "kappa"),
        ({"K": -1}, "K"),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(change, named):
    given = {"T": 10, "p": 0.5, "n_sources": 2, "kappa_star": 1.0, "D": 1.0, **change}
    with pytest.raises(cuvee.OptionError, match=named):
        theory.regret_bound(**given)
