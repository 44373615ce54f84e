"""How many cores a process may use, read from made-up /proc and /sys."""

from __future__ import annotations

import os

import pytest

from cuvee.numerics.cores import available, quotas


@pytest.fixture
def host(tmp_path, monkeypatch):
    """The root of a host with 12 cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(12)), raising=False)
    return tmp_path


def put(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_without_control_groups_affinity_counts(host):
    assert available(host) == 12
    assert quotas(host) == ()


def test_quota_of_version_2_in_a_container(host):
    put(host, "proc/self/cgroup", "0::/\n")
    put(host, "sys/fs/cgroup/cpu.max", "250000 100000\n")
    assert available(host) == 3


def test_no_limit_of_version_2(host):
    put(host, "sys/fs/cgroup/cpu.max", "max 100000\n")
    assert available(host) == 12


def test_the_tightest_group_above_counts(host):
    put(host, "proc/self/cgroup", "0::/user.slice/job/inner\n")
    put(host, "sys/fs/cgroup/user.slice/job/cpu.max", "200000 100000\n")
    put(host, "sys/fs/cgroup/user.slice/cpu.max", "800000 100000\n")
    put(host, "sys/fs/cgroup/user.slice/job/inner/cpu.max", "max 100000\n")
    assert available(host) == 2


@pytest.mark.parametrize(("quota", "cores"), [("-1", 12), ("50000", 1), ("400000", 4)])
def test_quota_of_version_1(host, quota, cores):
    put(host, "proc/self/cgroup", "4:memory:/box\n3:cpu,cpuacct:/box\n1:cpuset:/\n")
    put(host, "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", quota + "\n")
    put(host, "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n")
    assert available(host) == cores


@pytest.mark.parametrize("text", ["", "nonsense", "100000", "1 2 3", "100000 0", "nan nan"])
def test_files_that_say_nothing_are_passed_over(host, text):
    put(host, "proc/self/cgroup", "nonsense\n0::/../../etc\n\n")
    put(host, "sys/fs/cgroup/cpu.max", text)
    assert available(host) == 12


def test_affinity_is_tighter_than_the_quota(host, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5}, raising=False)
    put(host, "sys/fs/cgroup/cpu.max", "800000 100000\n")
    assert available(host) == 2


def test_without_affinity_all_cores_count(host, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert available(host) == 7


def test_this_machine():
    assert 1 <= available() <= (os.cpu_count() or 1)
