"""The language models of examples/mixture_of_texts.py, against the same in plain Python."""

from collections import Counter, defaultdict

import numpy as np
import pytest

texts = pytest.importorskip("examples.mixture_of_texts", reason="run from the repository's root")


def plain_loss(text, test):
    """Bits per character of interpolated n-grams, one letter at a time."""
    bits = []
    followers = defaultdict(Counter)
    for i in range(texts.ORDER - 1, len(text)):
        for back in range(texts.ORDER):
            followers[tuple(text[i - back : i])][text[i]] += 1
    for i in range(texts.ORDER - 1, len(test)):
        chance = 1 / texts.LETTERS
        for back in range(texts.ORDER):
            seen = followers.get(tuple(test[i - back : i]))
            if seen:
                new = len(seen)
                chance = (seen[test[i]] + new * chance) / (seen.total() + new)
        bits.append(-np.log2(chance))
    return np.mean(bits)


def test_losses_are_those_of_plain_python():
    rng = np.random.default_rng(0)
    words = ["the ", "mixture ", "of ", "texts ", "a ", "model "]
    learnt, judged = (texts.pieces("".join(rng.choice(words, size=1500))) for _ in range(2))
    unlike = texts.pieces("".join(map(chr, rng.integers(40, 120, size=1000))))
    losses = texts.trained_losses(learnt.ravel()[:2000], {"like": judged[:1], "unlike": unlike[:1]})
    for loss, test in zip(losses, (judged[:1], unlike[:1]), strict=True):
        plain = plain_loss(learnt.ravel()[:2000].tolist(), test.ravel().tolist())
        assert loss == pytest.approx(plain, abs=1e-9)
    assert losses[0] < 1.5 and losses[1] > 6


def test_a_domain_is_repeated_only_once_it_is_used_up():
    domains = {
        name: np.arange(n * texts.PIECE).reshape(n, -1) for name, n in (("a", 10), ("b", 40))
    }
    budget = 20 * texts.PIECE
    rng = np.random.default_rng(0)
    half = texts.mixed(domains, np.array([0.4, 0.6]), budget, rng)
    assert len(half) == budget
    assert len(np.unique(half[: 8 * texts.PIECE])) == 8 * texts.PIECE  # 8 different pieces
    alone = texts.mixed(domains, np.array([1.0, 0.0]), budget, rng)
    assert set(np.unique(alone, return_counts=True)[1]) == {2}  # every piece twice
