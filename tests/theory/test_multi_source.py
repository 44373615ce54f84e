"""Theorem 1: its terms by plain loops, and why it cannot be true as printed."""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
import pytest

import cuvee
from cuvee import theory
from cuvee.simplex import sample
from hypothesis import given, settings
from hypothesis import strategies as st

CHECKED = settings(derandomize=True, deadline=None, max_examples=60)


@CHECKED
@given(st.integers(1, 4), st.integers(1, 6), st.floats(0.0, 9.0), st.integers(0, 99))
def test_terms_are_the_theorems(M, J, nu, seed):
    rng = np.random.default_rng(seed)
    alpha, counts, R = sample(M, J, seed=seed), rng.integers(1, 500, size=(M, J)), rng.random(J)
    disc, b = rng.random(M), 1.0 + rng.random()
    bound = theory.multi_source_bound(alpha, counts, disc, R, largest_loss=b, nu=nu)
    for i in range(M):
        complexity = sum(alpha[i, j] * R[j] for j in range(J))
        sampling = b * sqrt(nu / 2 * sum(alpha[i, j] ** 2 / counts[i, j] for j in range(J)))
        assert bound.complexity[i] == pytest.approx(complexity)
        assert bound.sampling[i] == pytest.approx(sampling)
        assert bound.discrepancy[i] == disc[i]
        assert bound.excess[i] == pytest.approx(complexity + sampling + disc[i])
        assert bound.says_nothing[i] == (bound.excess[i] >= b)
    assert bound.probability == pytest.approx(1 - 4 * exp(-nu))


@CHECKED
@given(st.floats(0.0, 2.0), st.floats(0.0, 2.0), st.integers(1, 10**6), st.floats(0.0, 9.0))
def test_terms_between_samples(disc, R, rows, nu):
    bound = theory.sample_bound([disc], [R], [rows], largest_loss=2.0, nu=nu)
    assert bound.excess[0] == pytest.approx(2 * disc + 2 * R + 2 * 2.0 * sqrt(nu / (2 * rows)))
    assert bound.probability == pytest.approx(1 - 2 * exp(-nu))


def coins(rng, m_T):
    """Two constant models, a source that is always 1, a target that is 0 six times of ten.

    (L_T of the model learnt on the source, L_T of the best, discrepancy of the samples, R_T of the
    two losses.)
    """
    ones = (rng.random(m_T) >= 0.6).mean()  # share of the target's rows that are 1
    discrepancy = 1.0 - ones  # both models tell the samples apart by that much
    signs = rng.choice([-1, 1], size=(200, m_T)).mean(1)  # sup over ℓ and 1 − ℓ
    return 0.6, 0.4, discrepancy, np.abs(signs).mean()


def test_as_printed_it_fails_more_often_than_it_says_and_between_samples_it_does_not():
    rng, nu, m_T = np.random.default_rng(0), log(80), 1
    broken = mended = 0
    for _ in range(300):
        learnt, best, discrepancy, R = coins(rng, m_T)
        how = {"largest_loss": 1.0, "nu": nu}
        printed = theory.multi_source_bound([[1.0]], [10**9], [discrepancy], [0.0], **how)
        between = theory.sample_bound([discrepancy], [R], [m_T], **how)
        broken += learnt > best + printed.excess[0]
        mended += learnt > best + between.excess[0]
    assert broken / 300 > 0.3 > 1 - printed.probability  # four times of ten the one row is a 1
    assert mended / 300 <= 1 - between.probability


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": [[0.5, 0.6]]}, "does not sum to 1"),
        ({"counts": [10, 0]}, "counts must be positive"),
        ({"counts": [10]}, "counts must be 2 numbers"),
        ({"complexities": [0.1, float("nan")]}, "complexities must be 2 numbers"),
        ({"discrepancy": [-0.1]}, "discrepancy must be 1 numbers"),
        ({"discrepancy": [0.1, 0.2]}, "discrepancy must be 1 numbers"),
        ({"largest_loss": 0.0}, "largest_loss"),
        ({"nu": -1.0}, "nu"),
    ],
)
def test_what_cannot_be_is_refused(change, message):
    given = {
        "alpha": [[0.5, 0.5]],
        "counts": [10, 20],
        "discrepancy": [0.1],
        "complexities": [0.1, 0.2],
    }
    given |= {"largest_loss": 1.0, "nu": 3.0, **change}
    with pytest.raises(cuvee.errors.InputError, match=message):
        theory.multi_source_bound(**given)


def test_a_target_without_rows_is_refused():
    with pytest.raises(cuvee.InputError, match="needs at least one labelled row"):
        theory.sample_bound([0.1], [0.1], [0], largest_loss=1.0, nu=3.0)
