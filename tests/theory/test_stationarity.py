"""Proposition 1 and Theorem 2: F really is that smooth, and the numbers are those of the proof."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import cuvee
from cuvee import theory
from hypothesis import given, settings
from hypothesis import strategies as st

CHECKED = settings(derandomize=True, deadline=None, max_examples=60)
POSITIVE = st.floats(0.05, 50.0)
CONSTANTS = st.builds(
    cuvee.Constants,
    n_sources=st.integers(1, 40),
    m_min=st.integers(1, 100),
    m_max=st.integers(100, 1_000),
    C=POSITIVE,
    G_f=POSITIVE,
    L_f=POSITIVE,
    L_g=st.floats(0.01, 1_000.0),
)
K = cuvee.Constants(n_sources=4, m_min=50, m_max=100, C=10.0, G_f=1.5, L_f=2.0, L_g=10.0)


def test_L_bounds_how_far_a_gradient_moves_with_the_other_block():
    """F with losses that pull apart: ∇_w F moves by 2√N g' G_f for each unit of α."""
    N, G, c, far = 16, 1.0, 1e4, 1e4
    sign = np.where(np.arange(N) < N // 2, 1.0, -1.0)

    def gradient_w(alpha):  # f_T(w) = Gw, f_j(w) = ∓far − Gw: z_j = ±far + 2Gw, at w = 0
        z = sign * far
        return (alpha * z / np.sqrt(z**2 + c) * 2 * G).sum()

    even = np.full(N, 1 / N)
    moved = even + 0.5 * sign / N
    ratio = abs(gradient_w(moved) - gradient_w(even)) / np.linalg.norm(moved - even)
    k = cuvee.Constants(n_sources=N, m_min=100, m_max=100, C=1.0, G_f=G, L_f=1e-6, L_g=c**-0.5)
    assert ratio == pytest.approx(2 * np.sqrt(N), rel=1e-4)
    assert ratio <= k.L == pytest.approx(8.0)
    assert max(k.L_w, k.L_alpha) < 0.05  # what stood here before


@CHECKED
@given(CONSTANTS)
def test_L_is_the_largest_of_its_blocks(k):
    blocks = (
        4 * k.G_f**2 * k.L_g + 2 * k.G_g * k.L_f,
        2 * k.C / k.m_min,
        2 * k.n_sources**0.5 * k.G_g * k.G_f,
    )
    assert (k.L_w, k.L_alpha, k.L_across) == pytest.approx(blocks)
    assert max(blocks) == pytest.approx(k.L) and k.mu == pytest.approx(2 * k.C / k.m_max)
    assert k.kappa == pytest.approx(k.L / k.mu)


def test_theory_steps_are_the_proofs_and_tiny():
    constants = cuvee.Constants(n_sources=15, m_min=80, m_max=100, C=10.0, G_f=2.0, L_f=3.0)
    assert pytest.approx(4 * 4 * 100 + 2 * 3) == constants.L
    assert constants.mu == pytest.approx(0.2)
    steps = cuvee.theory_steps(constants)
    assert steps.eta == pytest.approx(0.2 / (36 * 1606**2))
    assert steps.gamma == pytest.approx(0.04 * steps.eta * 0.1 / (7680 * 15 * 4))
    with pytest.raises(cuvee.OptionError, match="G_f"):
        cuvee.Constants(n_sources=1, m_min=1, m_max=1, C=1.0, G_f=0.0, L_f=1.0)


@CHECKED
@given(CONSTANTS)
def test_steps_meet_every_condition_of_the_proof(k):
    s, L, mu, N = theory.theory_steps(k), k.L, k.mu, k.n_sources
    near = 1 + 1e-9
    assert s.beta == 0.1
    C1 = 1 / (4 * s.gamma) - L / 2 - 1.5 * s.eta * L**2 - 16 * k.L_g**2 * k.G_f**4 * s.gamma
    product = N * k.G_g**2 * k.G_f**2 / (mu**2 * s.eta)
    C1 -= 192 * product / s.beta + 96 * product * s.beta
    C2 = 1 / s.eta + 1.5 * mu - s.eta * L**2 / 2 - 1 / (4 * s.eta * 0.81) - 2 * L**2 / mu
    assert 1 / (8 * s.gamma) <= C1 * near and near / (4 * s.gamma) >= C1
    assert 1 / (2 * s.eta) <= C2 * near and near * 2 / s.eta >= C2
    tracked = 4 * C1 * s.gamma**2 * k.L_g**2 + C2 * s.eta**2 * k.G_g**2
    tracked += 4 * k.L_g**2 * k.G_f**2 * s.gamma + s.eta * k.G_g**2 + 1
    assert 1 - tracked * 0.81 >= 0  # condition 2 of the lemma on the second potential
    ratio = 0.95**2 / (1 - 0.95**2) * 4 * k.G_g**2 / (mu**2 * s.eta)
    assert 1 / (8 * s.gamma) >= ratio * 24 / s.beta * k.G_f**2 * (1 - 1e-9)  # condition 3


def right_hand_side(k, s, T, B, B_g, F_max, sigma2):
    """The last inequality of the proof in exact arithmetic, as printed."""
    f = lambda x: Fraction(x)  # noqa: E731
    eta, gamma, beta, N = f(s.eta), f(s.gamma), f(s.beta), k.n_sources
    G_f, G_g, L_g, L = f(k.G_f), f(k.G_g), f(k.L_g), f(k.L)
    noise = f(sigma2) / f(B)
    tracking = 14 * gamma**2 * G_f**4 * G_g**2 + 2 * noise
    last = 4 * eta * (N * f(B_g) ** 2 + L**2) + 2 * eta * N * G_g**2 * tracking
    first = f(F_max) + Fraction(9, 2) * last
    second = gamma * L_g**2 * N * beta**2 / 2 + 4 * eta * G_g**2 * N**2 * beta**2
    second += 4 * gamma * G_g**2 + 2 * beta**2 * L_g**2 * G_f**2 * gamma + 2 * beta**2
    factor = max(16 / gamma, 4 / eta)
    return float(factor * first / f(T)), float(factor * second * noise)


@CHECKED
@given(CONSTANTS, st.floats(1.0, 1e20), st.floats(1.0, 1e20), st.floats(0.1, 9.0))
def test_the_bound_is_the_last_inequality_of_the_proof(k, T, B, F_max):
    bound = theory.stationarity_bound(k, T, B, B_g=2.0, F_max=F_max, variance=3.0)
    wanted = right_hand_side(k, theory.theory_steps(k), T, B, 2.0, F_max, 3.0)
    assert (bound.start, bound.noise) == pytest.approx(wanted)
    assert bound.total == pytest.approx(sum(wanted))


def test_what_is_needed_makes_the_inequality_true_and_no_less_does():
    needs = theory.stationarity_needs(K, 0.1, B_g=2.0, F_max=3.0)

    def total(T, B):
        return sum(right_hand_side(K, needs.steps, T, B, 2.0, 3.0, K.G_f**2))

    assert total(needs.T, needs.B) == pytest.approx(0.01)
    assert total(needs.T / 2, needs.B) > 0.01 and total(needs.T, needs.B / 2) > 0.01
    assert needs.gradients == pytest.approx(needs.T * needs.B * 5)
    half = theory.stationarity_needs(K, 0.05, B_g=2.0, F_max=3.0)
    np.testing.assert_allclose((half.T, half.B), (4 * needs.T, 4 * needs.B), rtol=1e-3)
    assert half.gradients == pytest.approx(16 * needs.gradients, rel=1e-3)  # ε⁻⁴


@CHECKED
@given(CONSTANTS, st.floats(1e-3, 1.0), st.floats(1.01, 10.0))
def test_a_smaller_gap_takes_more_of_everything(k, eps, factor):
    wide = theory.stationarity_needs(k, eps, B_g=1.0, F_max=2.0)
    narrow = theory.stationarity_needs(k, eps / factor, B_g=1.0, F_max=2.0)
    assert narrow.T > wide.T and narrow.B > wide.B and narrow.steps == wide.steps


def test_largest_values_bound_g_and_F():
    k = replace(K, L_g=10.0)
    B_g, F_max = k.largest_values(1.0)
    assert B_g == pytest.approx((1.0 + 0.01) ** 0.5) and pytest.approx(B_g + 10.0 / 50) == F_max


@pytest.mark.parametrize(
    "change",
    [
        {"eps": 0.0},
        {"B_g": -1.0},
        {"F_max": float("nan")},
        {"variance": 0.0},
        {"eps": float("inf")},
    ],
)
def test_numbers_that_are_none_are_refused_by_name(change):
    given = {"eps": 0.1, "B_g": 1.0, "F_max": 1.0, **change}
    with pytest.raises(cuvee.OptionError, match=next(iter(change))):
        theory.stationarity_needs(K, given.pop("eps"), **given)
