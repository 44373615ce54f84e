"""Targets borrow from each other which candidates do well."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis.extra.numpy import arrays

import cuvee
from cuvee.mixture import borrowing
from cuvee.mixture.borrowing import EVEN, ROUNDS
from cuvee.results import Candidate, Mixtures, Status
from hypothesis import given
from hypothesis import strategies as st
from rounding import assert_rounded

shares = arrays(
    float, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.floats(0.001, 1.0)
).map(lambda x: x / x.sum(1, keepdims=True))


def slow(own):
    """`borrowed`, a target and a candidate at a time."""
    M, G = own.shape
    share = own.tolist()
    for _ in range(ROUNDS):
        before, share = share, []
        for i in range(M):
            row = [
                own[i, g] * (EVEN / G + sum(before[k][g] for k in range(M) if k != i))
                for g in range(G)
            ]
            share.append([s / sum(row) for s in row])
    return np.array(share)


@given(shares)
def test_shares_lie_on_the_simplex_and_agree_with_a_loop(own):
    share = borrowing.borrowed(own)
    assert np.all(share >= 0)
    assert_rounded(share.sum(1), np.ones(len(own)))
    assert_rounded(share, slow(own))


@given(shares, st.randoms())
def test_the_order_of_targets_changes_nothing(own, random):
    order = list(range(len(own)))
    random.shuffle(order)
    assert_rounded(borrowing.borrowed(own[order]), borrowing.borrowed(own)[order])


@given(shares)
def test_a_candidate_that_nobody_has_a_share_of_changes_nothing(own):
    more = np.column_stack([own, np.zeros(len(own))])
    assert_rounded(borrowing.borrowed(more)[:, :-1], borrowing.borrowed(own))


def test_what_most_targets_prefer_gains_where_a_target_is_undecided():
    own = np.array([[0.5, 0.5], [0.9, 0.1], [0.8, 0.2]])
    share = borrowing.borrowed(own)
    assert share[0, 0] > 0.7
    clear = borrowing.borrowed(np.array([[1e-6, 1 - 1e-6], [0.9, 0.1], [0.8, 0.2]]))
    assert clear[0, 1] > 0.999  # its own rows are clear


def mixtures(own, names=("a", "b"), targets=None):
    M, G = own.shape
    alpha = np.eye(3)[np.arange(G) % 3][None].repeat(M, 0)  # (M, G, 3)
    nothing = np.full(M, np.nan)
    return Mixtures(
        alpha=np.einsum("mg,mgj->mj", own, alpha),
        columns=("s", "t", "u"),
        targets=targets or tuple(f"{names[0]}{i}" for i in range(M)),
        gap=nothing,
        status=(Status.CONVERGED,) * M,
        method="path",
        objective=nothing,
        candidates=tuple(
            Candidate(name, alpha[:, g], nothing, own[:, g], own[:, g])
            for g, name in enumerate(names)
        ),
    )


def test_parts_borrow_as_their_targets_would_in_one_and_again_changes_nothing():
    own = np.array([[0.5, 0.5], [0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    whole = borrowing.across([mixtures(own)])[0]
    parts = borrowing.across([mixtures(own[:1]), mixtures(own[1:])])
    assert_rounded(np.concatenate([p.alpha for p in parts]), whole.alpha)
    again = borrowing.across(parts)
    assert_rounded(again[1].alpha, parts[1].alpha)
    assert_rounded(borrowing.alone(whole).alpha, mixtures(own).alpha)


def test_a_target_alone_keeps_its_bits():
    one = mixtures(np.array([[0.3, 0.7]]))
    assert borrowing.across([one])[0] is one
    other = mixtures(np.array([[0.6, 0.4]]), names=("a", "c"))
    assert borrowing.across([one, other])[0] is one  # other candidates were tried for it


def test_targets_without_shares_of_their_own_neither_give_nor_take():
    own = np.array([[0.5, 0.5], [0.9, 0.1], [0.8, 0.2]])
    mix = mixtures(own)
    bare = [
        replace(c, own_share=np.where([True, False, False], np.nan, c.own_share))
        for c in mix.candidates
    ]
    result = borrowing.across([replace(mix, candidates=tuple(bare))])[0]
    np.testing.assert_array_equal(result.alpha[0], mix.alpha[0])
    assert_rounded(result.alpha[1:], borrowing.across([mixtures(own[1:])])[0].alpha)


def regressions(seed, M):
    """Sources of the targets' own law: pooling is best for every target."""
    rng = np.random.default_rng(seed)
    rule = rng.normal(size=8)

    def rows(n):
        X = rng.normal(size=(n, 8))
        return X, X @ rule + 2.0 * rng.normal(size=n)

    sources = [cuvee.Domain(f"s{j}", *rows(100)) for j in range(4)]
    targets = [cuvee.Domain(f"t{i}", *rows(15)) for i in range(M)]
    return cuvee.Problem(sources, targets), rule


def test_estimate_borrows_and_the_shares_explain_its_weights():
    problem, _ = regressions(0, 5)
    mix = cuvee.estimate(problem, cuvee.Ridge())
    share = np.stack([c.share for c in mix.candidates], 1)
    own = borrowing.own_shares(mix)
    assert_rounded(share, borrowing.borrowed(own))
    alpha = np.stack([c.alpha for c in mix.candidates], 1)
    assert_rounded(mix.alpha, np.einsum("mg,mgj->mj", share, alpha))
    single = [cuvee.estimate(problem.with_targets([t]), cuvee.Ridge()) for t in problem.targets]
    np.testing.assert_allclose(
        np.concatenate([s.alpha for s in single]), borrowing.alone(mix).alpha, atol=0.02
    )


@pytest.mark.slow
def test_where_all_sources_are_alike_targets_together_do_better_than_alone():
    gains = []
    for seed in range(20):
        problem, rule = regressions(100 + seed, 8)
        mix = cuvee.estimate(problem, cuvee.Ridge())
        together, alone = (
            cuvee.solve(problem, cuvee.Ridge(), alpha)
            for alpha in (mix, borrowing.alone(mix).alpha)
        )
        error = [((s.w[:, :8] - rule) ** 2).sum(1).mean() for s in (together, alone)]
        gains.append(error[1] / error[0] - 1)
    assert np.mean(gains) > 2 * np.std(gains) / len(gains) ** 0.5
