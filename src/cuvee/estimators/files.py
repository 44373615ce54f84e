"""Fitted models as bytes, without pickle.

They are written by skops: it knows all of scikit-learn, is kept up with it, and makes objects of no
type but those it trusts and the three named here. Two of these hold the nodes of a tree, which
prediction follows without a look at their bounds, so they are checked before anything is predicted.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.pipeline import Pipeline

from cuvee.errors import InputError, MissingExtra
from cuvee.estimators.routing import FittedModel

BOOSTED = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
TREE = "sklearn.tree._tree.Tree"
TRUSTED = [BOOSTED, TREE, "cuvee.estimators.bins.Bins"]


def skops_io() -> Any:
    """Return the module that reads and writes; raise `MissingExtra` where it is not installed."""
    try:
        import skops.io
    except ImportError:
        raise MissingExtra(
            "models of trees are kept in files of skops: pip install 'cuvee[trees]'"
        ) from None
    return skops.io


def to_bytes(model: FittedModel) -> bytes:
    """Return a fitted model as the bytes of a file."""
    content: bytes = skops_io().dumps(
        model.estimator, compression=zipfile.ZIP_DEFLATED, compresslevel=1
    )
    return content


def from_bytes(content: bytes, n_classes: int | None, where: Path) -> FittedModel:
    """Return the model that `to_bytes` wrote; anything else is an `InputError` that names the file.

    No type is loaded but scikit-learn's own, and no tree whose nodes lead outside it.
    """
    io = skops_io()
    try:
        if other := set(io.get_untrusted_types(data=content)) - {*TRUSTED}:
            raise InputError(
                f"{where} holds a {min(other)}, which cuvee does not load: it was changed after it "
                "was written; make the run again"
            )
        estimator = io.loads(content, trusted=TRUSTED)
        check_trees(estimator)
        if n_classes is not None and not 0 <= max(estimator.classes_) < n_classes:
            raise ValueError("its classes are not those of the run")
    except (InputError, MissingExtra):
        raise
    except Exception as error:  # skops raises many kinds on bytes that are not its own
        raise InputError(
            f"{where} cannot be read by scikit-learn {sklearn.__version__} "
            f"({type(error).__name__}: {error}): use the version that run.json names, or make the "
            "run again"
        ) from None
    return FittedModel(estimator, n_classes)


def check_trees(estimator: Any) -> None:
    """Raise `ValueError` where a node leads outside its tree, or asks for a column there is not."""
    if isinstance(estimator, Pipeline):
        for _, step in estimator.steps:
            check_trees(step)
        return
    columns = getattr(estimator, "n_features_in_", 0)
    for stage in getattr(estimator, "_predictors", ()):
        for tree in stage:
            nodes = tree.nodes
            inner = nodes[nodes["is_leaf"] == 0]
            _check(inner["left"], inner["right"], inner["feature_idx"], len(nodes), columns)
    for member in getattr(estimator, "estimators_", ()):
        tree = member.tree_
        inner = tree.children_left >= 0
        _check(
            tree.children_left[inner],
            tree.children_right[inner],
            tree.feature[inner],
            tree.node_count,
            columns,
        )


def _check(left: Any, right: Any, feature: Any, n_nodes: int, columns: int) -> None:
    for values, end in ((left, n_nodes), (right, n_nodes), (feature, columns)):
        numbers = np.asarray(values, dtype=np.int64)
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() < end):
            raise ValueError("the nodes of a tree lead outside it")
