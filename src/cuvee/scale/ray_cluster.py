"""Reach a Ray cluster, or start one on this machine, and say in a sentence where that fails."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from cuvee.errors import InputError, MissingExtra, OptionError
from cuvee.numerics.cores import available
from cuvee.scale.ray_probe import HERE, answers, check_answers

STORE = 256 * 2**20  # bytes of the object store of a local cluster, beside what is put there
PREFIX = "ray"
VARIABLE = "RAY_ADDRESS"  # where Ray looks for a cluster that nobody named


def engine() -> Any:
    """Return the package ray, or raise `MissingExtra`."""
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise MissingExtra("Ray is not installed: pip install 'cuvee[ray]'") from None


def address_of(on: str) -> str | None:
    """Return the address in "ray:HOST:PORT"; None for "ray" alone.

    >>> address_of("ray:10.0.0.4:6379"), address_of("ray")
    ('10.0.0.4:6379', None)
    """
    name, _, address = on.partition(":")
    host, _, port = address.rpartition(":")
    if name != PREFIX or (address and not (host and port.isdigit() and int(port) < 2**16)):
        raise OptionError(
            f"on must be 'ray', or 'ray:HOST:PORT' for a cluster that is running; got {on!r}"
        )
    return address or None


def connect(
    address: str | None = None, *, put: int = 0, say: Callable[[str], None] | None = None
) -> Any:
    """Return ray, connected: to this address, to a cluster that is running here, or to a new one.

    `put` are the bytes that will be put into the object store of a new one, and `say` is told of
    what was found or started.
    """
    ray, tell = engine(), say or (lambda sentence: None)
    if ray.is_initialized():
        return ray
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    named = address or _named()
    if named is not None:
        check_answers(named, None if address else VARIABLE)
        try:
            ray.init(address=named, **quiet)
        except Exception as error:  # Ray raises errors of many kinds here
            raise InputError(
                f"the Ray cluster at {named} cannot be joined ({_first_line(error)}); is it a "
                "Ray cluster of the same version of Ray and Python, and is your token the right "
                "one?"
            ) from None
        tell(f"joined the Ray cluster at {named}: {_size(ray)}")
        return ray
    if answers(HERE):  # one that was killed leaves its address behind
        with suppress(ConnectionError):
            ray.init(address=HERE, **quiet)
            tell(f"joined the Ray cluster that is running here: {_size(ray)}")
            return ray
    ray.init(
        address="local", num_cpus=available(), object_store_memory=STORE + put * 5 // 4,
        include_dashboard=False, **quiet,
    )  # fmt: skip
    tell(f"no Ray cluster is running here: a local one was started, {_size(ray)}")
    return ray


def n_workers(ray: Any, asked: int | None, most: int, n_bytes: int) -> int:
    """Return how many workers to start: as many as the cluster has CPUs, and no more than `most`.

    Raise `InputError` where the cluster is too small for the workers asked for, or for rows of
    `n_bytes`.
    """
    there = ray.cluster_resources()
    cpus, memory = int(there.get("CPU", 0)), float(there.get("memory", 0.0))
    if asked is not None and asked < 1:
        raise OptionError(f"workers must be at least 1; got {asked}")
    if cpus < (asked or 1):
        raise InputError(
            f"the Ray cluster is too small: {asked or 1} workers need a CPU each, and it has "
            f"{cpus}; ask for fewer workers, or add nodes"
        )
    if memory and n_bytes > memory:
        raise InputError(
            f"the Ray cluster is too small: the rows take {n_bytes / 1e9:.1f} GB, and its workers "
            f"may use {memory / 1e9:.1f} GB; add nodes"
        )
    return max(1, min(asked or cpus, most))


def _named() -> str | None:
    """Return the address that the environment names; None where it is not one of HOST:PORT."""
    host, _, port = os.environ.get(VARIABLE, "").rpartition(":")
    return f"{host}:{port}" if host and "/" not in host and port.isdigit() else None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200].rstrip(".") or type(error).__name__


def _size(ray: Any) -> str:
    there = ray.cluster_resources()
    nodes = sum(bool(node["Alive"]) for node in ray.nodes())
    cpus = int(there.get("CPU", 0))
    return f"{cpus} CPU{'' if cpus == 1 else 's'} on {nodes} node{'' if nodes == 1 else 's'}"
