"""Count the cores that this process may use.

The host may have many more: a process can be tied to some of them (affinity), and a container can
be held to a share of their time (a CPU quota).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from math import ceil
from pathlib import Path

ROOT = Path("/")


def available(root: Path = ROOT) -> int:
    """Return how many cores this process may use, at least 1.

    `root` is where /proc and /sys are found.
    """
    tied = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    # a quota of 1.5 cores keeps two workers busy for three quarters of the time
    return max(1, min([tied or 1, *(ceil(share) for share in quotas(root))]))


@cache
def quotas(root: Path = ROOT) -> tuple[float, ...]:
    """Return the cores' worth of time that each control group above this process grants.

    They are read once.
    """
    granted = []
    for folder in _groups(root):
        quota, period = _quota(folder)
        if quota > 0 and period > 0:
            granted.append(quota / period)
    return tuple(granted)


def _groups(root: Path) -> Iterator[Path]:
    """Yield the folders of this process's control groups, with those they lie in.

    A container sees its own group at the top, whatever name it has outside.
    """
    system = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        lines = []
    groups = [line.split(":", 2)[1:] for line in lines if line.count(":") >= 2]
    named = [(kinds, name) for kinds, name in groups if not kinds or "cpu" in kinds.split(",")]
    for kinds, name in [("", "/"), ("cpu", "/"), *named]:
        top = system / kinds if kinds else system
        inner = Path(name.strip("/"))
        if ".." not in inner.parts:
            yield from (top / part for part in (inner, *inner.parents))


def _quota(folder: Path) -> tuple[float, float]:
    """Return the CPU time and the period of a group; 0 where there is no limit."""
    try:
        if (folder / "cpu.max").is_file():  # version 2: "max 100000" or "150000 100000"
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        else:  # version 1: −1 is no limit
            quota, period = (
                (folder / f"cpu.cfs_{name}_us").read_text(encoding="ascii")
                for name in ("quota", "period")
            )
        return (0.0, 0.0) if quota == "max" else (float(quota), float(period))
    except (OSError, ValueError):  # no such file, or a kernel that writes it in another way
        return 0.0, 0.0
