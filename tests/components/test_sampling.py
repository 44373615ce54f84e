from __future__ import annotations

import zlib

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency, chisquare

from cuvee.components.sampling import RowStream
from hypothesis import given, settings
from hypothesis import strategies as st

properties = settings(derandomize=True, deadline=None, max_examples=50)
names_and_counts = st.dictionaries(
    st.text(min_size=1, max_size=6), st.integers(1, 1000), min_size=1, max_size=5
)
SURELY = 1e-4
"""Below this p-value a fixed seed is a bug, not bad luck; real bugs land many orders of magnitude
lower.
"""


def stream(domains: dict[str, int], seed: int = 0) -> RowStream:
    return RowStream(list(domains), torch.tensor(list(domains.values())), seed)


def long_draw(name: str, count: int, seed: int = 0, steps: int = 500, size: int = 40) -> np.ndarray:
    one = stream({name: count}, seed)
    return torch.cat([one.draw(step, size)[0] for step in range(steps)]).numpy()


@properties
@given(names_and_counts, st.integers(-(2**62), 2**62), st.integers(0, 10**9), st.integers(1, 40))
def test_draws_are_rows_of_their_domain(domains, seed, step, size):
    rows = stream(domains, seed).draw(step, size)
    assert rows.shape == (len(domains), size)
    assert rows.dtype == torch.int64
    assert (rows >= 0).all()
    assert (rows < torch.tensor(list(domains.values()))[:, None]).all()


@pytest.mark.parametrize("count", [1, 2, 3, 2**31 + 1, 2**40 - 1, 2**52])
def test_draws_stay_in_range_for_any_count(count):
    rows = long_draw("a", count, steps=50, size=1000)
    assert rows.min() >= 0
    assert rows.max() < count
    assert rows.max() >= (count - 1) * 0.99


@properties
@given(names_and_counts, st.integers(0, 2**62), st.integers(0, 10**6))
def test_a_draw_has_no_memory(domains, seed, step):
    fresh, used = stream(domains, seed), stream(domains, seed)
    for earlier in range(3):
        used.draw(earlier, 7)
    assert torch.equal(fresh.draw(step, 8), used.draw(step, 8))
    assert torch.equal(fresh.draw(step, 8), fresh.draw(step, 8))


@properties
@given(names_and_counts, st.randoms(use_true_random=False), st.integers(0, 100))
def test_a_domain_draws_the_same_alone_or_in_any_company(domains, random, step):
    together = dict(zip(domains, stream(domains).draw(step, 9).tolist(), strict=True))
    order = list(domains)
    random.shuffle(order)
    shuffled = stream({name: domains[name] for name in order}).draw(step, 9).tolist()
    assert dict(zip(order, shuffled, strict=True)) == together
    for name, count in domains.items():
        assert stream({name: count}).draw(step, 9)[0].tolist() == together[name]


def test_no_domains_draw_nothing():
    assert RowStream([], torch.tensor([], dtype=torch.int64), 0).draw(3, 5).shape == (0, 5)


@properties
@given(st.integers(0, 10**6), st.integers(1, 1000), st.integers(0, 2**40))
def test_steps_differ(step, gap, seed):
    one = stream({"a": 10**6}, seed)
    assert not torch.equal(one.draw(step, 8), one.draw(step + gap, 8))


def test_successive_minibatches_do_not_overlap():
    one = stream({"a": 2**50})
    rows = torch.cat([one.draw(step, 16)[0] for step in range(200)])
    assert len(rows.unique()) == len(rows)


def test_seeds_differ():
    draws = [stream({"a": 10**6}, seed).draw(0, 8) for seed in range(20)]
    assert len({tuple(d[0].tolist()) for d in draws}) == 20


@pytest.mark.parametrize("seed", [0, 1, 2**40])
@pytest.mark.parametrize("count", [2, 7, 64, 100])
def test_draws_are_uniform(count, seed):
    rows = long_draw("north", count, seed)
    assert chisquare(np.bincount(rows, minlength=count)).pvalue > SURELY


def test_every_position_of_a_minibatch_is_uniform():
    one = stream({"north": 10})
    rows = torch.stack([one.draw(step, 8)[0] for step in range(3000)]).numpy()
    for position in range(8):
        assert chisquare(np.bincount(rows[:, position], minlength=10)).pvalue > SURELY


@pytest.mark.parametrize("lag", [1, 2, 40])
def test_a_draw_says_nothing_about_a_later_one(lag):
    rows = long_draw("north", 8)
    assert independent(rows[:-lag], rows[lag:], 8)


PAIRS = [("north", "south"), ("a0", "a1"), ("source a", "target a"), ("s1", "s10"), ("ab", "ba")]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_streams_of_two_domains_are_independent(one, other):
    assert independent(long_draw(one, 8), long_draw(other, 8), 8)


def test_streams_of_two_seeds_are_independent():
    assert independent(long_draw("a", 8, seed=0), long_draw("a", 8, seed=1), 8)


def test_a_stream_is_no_shifted_copy_of_another():
    first = set(long_draw("a", 2**50, steps=100).tolist())
    assert first.isdisjoint(long_draw("b", 2**50, steps=100).tolist())
    assert first.isdisjoint(long_draw("a", 2**50, seed=1, steps=100).tolist())


def test_names_with_the_same_crc_are_independent():
    one, other = "source plumless", "source buckeroo"
    assert zlib.crc32(one.encode()) == zlib.crc32(other.encode())
    assert independent(long_draw(one, 8), long_draw(other, 8), 8)


def independent(a: np.ndarray, b: np.ndarray, count: int) -> bool:
    table = np.zeros((count, count))
    np.add.at(table, (a, b), 1)
    return chi2_contingency(table).pvalue > SURELY
