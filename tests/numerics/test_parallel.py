"""Workers: what they return, and what they leave behind."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import torch

import cuvee
from cuvee.data.synthetic import shifted_sources
from cuvee.numerics import parallel
from cuvee.numerics.parallel import count, cut, each, slices, stacked, workers
from cuvee.simplex import sample
from hypothesis import given, settings
from hypothesis import strategies as st


def _helpers():
    """The workers that are left; a test runner may have threads of its own."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("cuvee")]


@pytest.fixture
def threads(monkeypatch):
    """Sets torch's threads, on a machine that has cores for them; small tiles are worth it."""
    before = torch.get_num_threads()
    monkeypatch.setattr(parallel, "available", lambda: 16)
    monkeypatch.setattr(parallel, "LEAST", 2**14)
    yield torch.set_num_threads
    torch.set_num_threads(before)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(), max_size=40), st.integers(1, 6))
def test_workers_return_what_a_loop_returns(items, n):
    before = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "available", lambda: 6)
        torch.set_num_threads(n)
        try:
            assert each(lambda i: i * i, items, "cpu") == [i * i for i in items]
            assert torch.get_num_threads() == n
        finally:
            torch.set_num_threads(before)


@given(st.integers(0, 200), st.integers(1, 50))
def test_cuts_are_even_and_leave_nothing_out(n, parts):
    pieces = cut(n, parts)
    assert [i for piece in pieces for i in range(n)[piece]] == list(range(n))
    sizes = [piece.stop - piece.start for piece in pieces]
    assert len(sizes) == min(n, parts) and (not sizes or max(sizes) - min(sizes) <= 1)


def test_tiles_are_a_few_for_each_worker_and_none_is_tiny(threads):
    threads(3)
    with workers():
        assert len(slices(1_000, 2**15)) == parallel.TILES * 3
        assert len(slices(5, 2**15)) == 5
        assert slices(5, 1.0) == [slice(0, 5)]
        assert len(slices(100, 1.0, most=30)) == 4
    threads(1)
    assert slices(1_000, 2**30) == [slice(0, 1_000)]


def test_a_stack_of_slices_is_the_whole(threads):
    A = torch.randn(60, 30, 30)
    threads(4)
    with workers():
        part = stacked(lambda some: A[some] @ A[some], 60, 30**3, "cpu")
    torch.testing.assert_close(part, A @ A)


def test_one_thread_each_and_no_more_workers_than_allowed(threads, monkeypatch):
    monkeypatch.setattr(parallel, "available", lambda: 2)
    threads(5)
    seen = set()

    def work(i):
        seen.add((threading.get_ident(), torch.get_num_threads(), count()))
        time.sleep(0.002)

    with workers():
        assert count() == 2 and torch.get_num_threads() == 1
        each(work, range(20), "cpu")
    assert {s[1:] for s in seen} == {(1, 1)} and len(seen) == 2
    assert torch.get_num_threads() == 5


def test_who_is_held_up_leaves_the_rest_to_others(threads):
    threads(2)
    held = threading.Event()
    by = {}

    def work(i):
        by[i] = threading.get_ident()
        if i == 0:
            assert held.wait(10)
        if i == 9:
            held.set()

    each(work, range(10), "cpu")
    assert len({by[i] for i in range(1, 10)}) == 1 and by[0] != by[1]


@pytest.mark.parametrize("bad", [0, 3, 11])
def test_an_error_comes_out_and_threads_are_restored(threads, bad):
    threads(3)

    def work(i):
        if i == bad:
            raise ValueError(f"item {i}")

    with pytest.raises(ValueError, match=f"item {bad}"), workers():
        each(work, range(12), "cpu")
    assert torch.get_num_threads() == 3 and not _helpers()
    with workers():
        assert count() == 3


def test_calls_inside_calls(threads):
    threads(3)
    with workers():
        with workers(graph=True):
            assert torch.get_num_threads() == 3 and count() == 3
            assert each(lambda i: torch.get_num_threads(), range(9), "cpu") == [1] * 9
            assert torch.get_num_threads() == 3
        assert torch.get_num_threads() == 1

        def outer(i):
            with workers(), workers(graph=True):
                assert torch.get_num_threads() == 1
                return sum(each(lambda j: i * j, range(4), "cpu"))

        assert each(outer, range(8), "cpu") == [6 * i for i in range(8)]
    assert torch.get_num_threads() == 3


def test_two_threads_of_a_user_at_once(threads):
    """One that starts while the other computes has its workers too, and both leave torch alone."""
    threads(4)
    inside, go, counts = threading.Event(), threading.Event(), {}

    def first():
        with workers():
            inside.set()
            assert go.wait(10)
            counts["first"] = count()

    def second():
        assert inside.wait(10)
        with workers():
            counts["second"] = count()
            go.set()
            one.join()
        counts["after"] = torch.get_num_threads()

    one, two = threading.Thread(target=first), threading.Thread(target=second)
    one.start(), two.start()
    one.join(), two.join()
    assert counts == {"first": 4, "second": 4, "after": 4}
    new = threading.Thread(target=lambda: counts.update(new=torch.get_num_threads()))
    new.start(), new.join()
    assert counts["new"] == 4 and torch.get_num_threads() == 4


def test_little_work_is_done_here(threads):
    threads(4)
    with workers():
        assert set(each(lambda i: threading.get_ident(), range(50), "cpu", cost=100.0)) == {
            threading.get_ident()
        }
        assert parallel._here.crew._pool is None


def test_progress_is_told_in_the_callers_thread(threads):
    threads(3)
    told = []
    each(
        lambda i: time.sleep(0.001),
        range(30),
        "cpu",
        tell=lambda done: told.append((threading.get_ident(), done)),
    )
    assert {thread for thread, _ in told} == {threading.get_ident()}
    assert [n for _, n in told] == sorted(n for _, n in told) and told[-1][1] <= 30


def results(n, kind):
    """What a user gets of a small problem with n threads."""
    domains = shifted_sources(6, 200, 5, quantity=kind == "ridge")
    targets = [cuvee.Domain(f"t{d.name}", d.X[:25], d.y[:25]) for d in domains[4:]]
    problem = cuvee.Problem(domains[:4], targets)
    model = cuvee.Ridge(1e-2) if kind == "ridge" else cuvee.Logistic(1e-2)
    if kind == "softmax":
        three = [cuvee.Domain(d.name, d.X, (3 * i + d.y) % 4) for i, d in enumerate(domains[:4])]
        own = [cuvee.Domain(d.name, d.X[:25], d.y[:25] + 1) for d in targets]
        problem = cuvee.Problem(three, own)
    torch.set_num_threads(n)
    solved = cuvee.solve(problem, model, sample(40, 4, seed=0))
    own = cuvee.solve(problem, model, sample(2, 5, seed=0))
    slope = cuvee.sensitivity(problem, model, solved.alpha[:3], solved.w[:3])
    proven = cuvee.certify(problem, model, solved.alpha, solved.w)
    alpha = cuvee.estimate(problem, model, steps=2).alpha
    assert torch.get_num_threads() == n
    return solved.w, own.w, slope, np.log(proven.distance), alpha


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["ridge", "logistic", "softmax"])
def test_numbers_of_workers_agree(threads, monkeypatch, kind):
    monkeypatch.setattr("cuvee.components.linear.TILE", {"cpu": 2**12, "cuda": 2**12})
    monkeypatch.setattr("cuvee.components.tiles.TILE_ROWS", 150)
    one, two, three = (results(n, kind) for n in (1, 2, 3))
    tolerances = (1e-6, 1e-6, 1e-4, 0.5, 2e-3)
    for several in (two, three):
        for by_one, by_several, tol in zip(one, several, tolerances, strict=True):
            np.testing.assert_allclose(by_several, by_one, rtol=0, atol=tol)
    for a, b in zip(three, results(3, kind), strict=True):
        np.testing.assert_array_equal(a, b)  # the same call, whoever took which tile
    assert not _helpers()


def test_networks_keep_torchs_threads(threads, monkeypatch):
    monkeypatch.setattr(parallel, "available", lambda: 3)
    threads(4)
    seen = set()

    class Net(torch.nn.Linear):
        def forward(self, x):
            seen.add(torch.get_num_threads())
            return super().forward(x)

    sources = shifted_sources(2, 40, 3)
    cuvee.solve(sources, cuvee.Network(Net(3, 2)), [[0.5, 0.5]], steps=20)
    assert max(seen) == 3 and torch.get_num_threads() == 4


def test_a_worker_has_one_thread_of_torch_and_mkl(threads):
    """MKL counts its threads for each thread: a worker that starts with all of them gives other
    bits than the caller, and all of them spin.
    """
    threads(3)
    X = torch.as_tensor(np.random.default_rng(0).normal(size=(40, 1, 3_000)))
    y = torch.as_tensor(np.random.default_rng(1).normal(size=(40, 3_000, 7)))
    names: set[str] = set()

    def product(i):
        names.add(threading.current_thread().name)
        return (X @ y).sum().item(), torch.get_num_threads()

    with workers():
        for _ in range(5):
            assert {n for _, n in each(product, range(12), "cpu")} == {1}
    assert len(names) > 1
