"""`Centres` says, to the bit, what the plain formula over all centres says.

Equal bits on every processor: whatever was screened before, an answer is that formula over a few
rows, and NumPy sums a row in the same order whatever stands beside it. A resumed run rests on it,
as its centres are laid out anew.
"""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from cuvee.online import centres as module
from cuvee.online.centres import Centres
from cuvee.results import Floats
from cuvee.simplex import sample
from hypothesis import given, settings
from hypothesis import strategies as st

# Every way to an answer, and every border between two of them, within a few dozen centres.
SIZES = {
    "plain": {"PLAIN": 1_000},
    "one pass": {"PLAIN": 5, "BLOCK": 4},
    "boxes only": {"PLAIN": 0, "PRUNE": 0, "BLOCK": 3, "LOOK": 0},
    "boxes of one": {"PLAIN": 1, "PRUNE": 1, "BLOCK": 1, "LOOK": 1},
    "all in turn": {"PLAIN": 4, "PRUNE": 10, "BLOCK": 4, "LOOK": 9, "PAUSE": 3},
}
KINDS = ("uniform", "drift", "creep", "again", "close", "closer", "vertex", "grid", "between")
properties = settings(derandomize=True, deadline=None, max_examples=60)
moves = st.lists(st.tuples(st.booleans(), st.sampled_from(KINDS)), min_size=1, max_size=60)


def oracle(points: Floats, alpha: Floats) -> tuple[int, float]:
    d2 = ((points - alpha) ** 2).sum(1)
    i = int(np.argmin(d2))
    return i, float(np.sqrt(d2[i]))


def onto(v: Floats) -> Floats:
    v = np.abs(v)
    return v / v.sum()


def drawn(kind: str, points: Floats, last: Floats, rng: np.random.Generator) -> Floats:
    """An α (N,) of one kind, given the centres so far and the last α."""
    n_sources = len(last)
    some = points[rng.integers(len(points), size=2)] if len(points) else np.stack([last, last])
    noise = rng.standard_normal(n_sources)
    match kind:
        case "drift":
            return onto(last + 0.01 * noise)
        case "creep":
            return onto(last + 1e-6 * noise)
        case "again":
            return some[0].copy()
        case "close":
            return some[0] + 1e-9 * noise
        case "closer":
            return some[0] + 1e-12 * noise
        case "vertex":
            return np.eye(n_sources)[rng.integers(n_sources)]
        case "grid":  # ties by symmetry, exact ones
            return np.bincount(rng.integers(n_sources, size=4), minlength=n_sources) / 4
        case "between":
            return some.mean(0)
        case _:
            return rng.dirichlet(np.ones(n_sources))


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
@properties
@given(
    st.sampled_from((1, 2, 3, 7, 8, 15, 33)), st.integers(0, 40), moves, st.integers(0, 2**32 - 1)
)
def test_every_answer_is_that_of_the_plain_formula(
    sizes: dict[str, int], n_sources: int, n_first: int, moves: list[tuple[bool, str]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    with patch.multiple(module, **sizes):
        added = sample(n_first, n_sources, seed)
        grown = Centres.of(added) if n_first else Centres(n_sources)
        alpha = rng.dirichlet(np.ones(n_sources))
        for only_asked, kind in moves:
            alpha = drawn(kind, added, alpha, rng)
            if len(added):
                assert grown.nearest(alpha) == oracle(added, alpha)
            if not only_asked:
                assert grown.add(alpha) == len(added)
                added = np.concatenate([added, alpha[None]])
                assert grown.nearest(alpha) == oracle(added, alpha)
        assert len(grown) == len(added) and np.array_equal(grown.points, added)
        whole = Centres.of(added)
        assert len(whole) == len(added) and np.array_equal(whole.points, added)
        for kind in KINDS if len(added) else ():
            alpha = drawn(kind, added, alpha, rng)
            assert whole.nearest(alpha) == grown.nearest(alpha) == oracle(added, alpha)


def stream(kind: str, n: int, n_sources: int, rng: np.random.Generator) -> Floats:
    if kind == "uniform":
        return rng.dirichlet(np.ones(n_sources), n)
    if kind == "there and back":  # boxes overlap, and the nearest is long ago
        half = stream("drifting", n // 2, n_sources, rng)
        return np.concatenate([half, half[::-1] + 1e-5 * rng.standard_normal(half.shape)])
    walk = rng.dirichlet(np.ones(n_sources)) + 0.001 * rng.standard_normal((n, n_sources)).cumsum(0)
    return np.abs(walk) / np.abs(walk).sum(1, keepdims=True)


@pytest.mark.parametrize("kind", ["uniform", "drifting", "there and back"])
@pytest.mark.parametrize("n_sources", [2, 15])
def test_where_pruning_begins_and_beyond(kind: str, n_sources: int) -> None:
    before, after = module.PRUNE - 100, module.PRUNE + 2 * module.BLOCK
    points = stream(kind, after, n_sources, np.random.default_rng(n_sources))
    centres = Centres.of(points[:before])
    for n in range(before, after):
        if n % 7 == 0:
            assert centres.nearest(points[n]) == oracle(points[:n], points[n])
        centres.add(points[n])
    assert np.array_equal(centres.points, points)


def test_crowded_centres_far_from_the_others_are_told_apart() -> None:
    # All differences among them are far below what float32 can tell at the size of their scores.
    rng = np.random.default_rng(0)
    crowd = np.eye(15)[3] + 1e-10 * rng.standard_normal((300, 15))
    points = np.concatenate([sample(700, 15), crowd])
    centres = Centres.of(points)
    for alpha in np.eye(15)[3] + 1e-10 * rng.standard_normal((200, 15)):
        assert centres.nearest(alpha) == oracle(points, alpha)


def test_distances_below_the_range_of_float32() -> None:
    rng = np.random.default_rng(0)
    crowd = np.eye(5)[0] + 1e-22 * rng.random((600, 5))
    centres = Centres.of(crowd[:400])
    for alpha in crowd[400:]:
        assert centres.nearest(alpha) == oracle(crowd[:400], alpha)


def test_centres_that_are_equally_far_but_for_rounding() -> None:
    points = np.random.default_rng(0).permuted(np.tile(sample(1, 15), (1_000, 1)), axis=1)
    centres = Centres.of(points)
    for shift in (0.0, 1e-15, 1e-3):
        alpha = np.full(15, 1 / 15) + shift
        assert centres.nearest(alpha) == oracle(points, alpha)


def test_the_lowest_number_among_many_ties() -> None:
    with patch.multiple(module, PLAIN=2, PRUNE=4, BLOCK=4, LOOK=0):
        centres = Centres.of(np.tile(np.eye(3), (40, 1)))
        assert centres.nearest(np.array([0.0, 1.0, 0.0])) == (1, 0.0)
        assert centres.nearest(np.full(3, 1 / 3))[0] == 0


def test_what_was_given_may_change_afterwards() -> None:
    points = sample(300, 4)
    centres, alpha = Centres.of(points), np.full(4, 0.25)
    centres.add(alpha)
    kept = centres.points.copy()
    points[:], alpha[:] = 0.0, 0.0
    assert np.array_equal(centres.points, kept)


def test_no_centre_no_answer() -> None:
    for centres in (Centres(3), Centres.of(np.empty((0, 3)))):
        assert len(centres) == 0 and centres.points.shape == (0, 3)
        with pytest.raises(ValueError, match="no centre"):
            centres.nearest(np.full(3, 1 / 3))
