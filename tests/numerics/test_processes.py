"""Forked processes return what a loop returns, and leave nothing behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch

import cuvee
from cuvee.data.synthetic import shifted_sources
from cuvee.numerics import parallel
from cuvee.numerics.parallel import count, workers
from cuvee.numerics.processes import apart, may_fork

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks here")


@pytest.fixture
def threads(monkeypatch):
    """Sets torch's threads, on a machine that has cores for them."""
    before = torch.get_num_threads()
    monkeypatch.setattr(parallel, "available", lambda: 16)
    yield torch.set_num_threads
    torch.set_num_threads(before)


def square(item, tell):
    tell("squares", item, 10)
    return item, item**2, os.getpid()


@pytest.mark.parametrize(("n_items", "n"), [(0, 3), (1, 3), (7, 3), (2, 5)])
def test_results_come_in_order_from_other_processes(n_items, n):
    results = apart(square, range(n_items), n)
    assert [r[:2] for r in results] == [(i, i**2) for i in range(n_items)]
    assert len({r[2] for r in results}) == min(n, n_items)
    assert os.getpid() not in {r[2] for r in results}
    assert not multiprocessing.active_children()


def test_the_first_process_tells_how_far_it_is():
    said = []
    apart(square, range(4), 2, lambda *words: said.append(words))
    assert said and set(said) <= {("squares", 0, 10), ("squares", 2, 10)}


def test_an_error_is_raised_in_the_parent():
    def divide(item, tell):
        return 1 / item

    with pytest.raises(ZeroDivisionError):
        apart(divide, [1, 0, 2], 2)
    assert not multiprocessing.active_children()


def test_the_parent_does_what_a_killed_process_did_not():
    parent = os.getpid()

    def fragile(item, tell):
        if item == 1 and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return item, os.getpid() == parent

    assert apart(fragile, range(4), 2) == [(0, False), (1, True), (2, False), (3, True)]


def test_an_interrupt_ends_the_processes():
    def slow(item, tell):
        tell("begun")
        time.sleep(60)

    def interrupt(*words):
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        apart(slow, range(2), 2, interrupt)
    assert time.monotonic() - began < 30 and not multiprocessing.active_children()


def test_processes_end_when_their_parent_is_killed():
    program = """
import os, time
from cuvee.numerics.processes import apart
def slow(item, tell):
    os.write(1, f"{os.getpid()}\\n".encode())  # at once, whatever the other one writes
    time.sleep(60)
apart(slow, range(2), 2)
"""
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        children = [int(parent.stdout.readline()) for _ in range(2)]
        parent.kill()
    until = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{child}/fd") and _alive(child) for child in children):
        assert time.monotonic() < until
        time.sleep(0.05)


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_process_has_one_worker_and_starts_no_other(threads):
    threads(3)
    with workers():
        inside = apart(lambda item, tell: (count(), may_fork("cpu")), range(2), 2)
        assert may_fork("cpu") and not may_fork("cuda")
    assert inside == [(1, False)] * 2
    threads(1)
    assert not may_fork("cpu")


def test_the_thread_of_a_service_does_not_fork(threads):
    threads(3)
    said = []
    thread = threading.Thread(target=lambda: said.append(may_fork("cpu")))
    thread.start()
    thread.join()
    assert said == [False]


def test_mixtures_are_the_same_from_processes(threads, monkeypatch):
    domains = shifted_sources(9, 60, 4)
    targets = [cuvee.Domain(f"target {t.name}", t.X[:30], t.y[:30]) for t in domains[4:]]
    problem = cuvee.Problem(domains[:4], targets)
    pids = []
    real = os.fork
    monkeypatch.setattr(os, "fork", lambda: pids.append(1) or real())
    mixes = []
    for n, least in ((1, 0), (3, 0), (3, 10**9)):
        threads(n)
        monkeypatch.setattr("cuvee.api.mixtures.FORK", least)
        mixes.append(cuvee.estimate(problem, cuvee.Logistic(0.1)))
    assert len(pids) == 3
    for mix in mixes[1:]:
        np.testing.assert_allclose(mix.alpha, mixes[0].alpha, atol=1e-5)
        np.testing.assert_array_equal(mix.status, mixes[0].status)
        assert mix.targets == mixes[0].targets and mix.alpha.shape == (5, 5)
