"""Check that the nodes of trees that were read from a file lead nowhere but to nodes of theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

# A tree: its children on the left and right, the columns it asks for, and how many nodes there are.
# The root is node 0.
Tree = tuple[Any, Any, Any, int]


def check_trees(estimator: Any) -> None:
    """Raise `ValueError` where a node leads outside its tree, or asks for a column there is not."""
    if isinstance(estimator, Pipeline):
        for _, step in estimator.steps:
            check_trees(step)
        return
    columns = getattr(estimator, "n_features_in_", 0)
    for left, right, feature, n_nodes in _trees(estimator):
        for values, end in ((left, n_nodes), (right, n_nodes), (feature, columns)):
            numbers = np.asarray(values, dtype=np.int64)
            if len(numbers) and not (numbers.min() >= 0 and numbers.max() < end):
                raise ValueError("the nodes of a tree lead outside it")


def _trees(estimator: Any) -> Iterator[Tree]:
    """Yield the inner nodes of every tree of a fitted estimator; nothing where it has none."""
    package = type(estimator).__module__.partition(".")[0]
    if package == "lightgbm":
        yield from of_lightgbm(estimator.booster_.model_to_string())
    elif package == "xgboost":
        yield from of_xgboost(json.loads(estimator.get_booster().save_raw("json")))
    for stage in getattr(estimator, "_predictors", ()):
        for tree in stage:
            inner = tree.nodes[tree.nodes["is_leaf"] == 0]
            yield inner["left"], inner["right"], inner["feature_idx"], len(tree.nodes)
    for member in getattr(estimator, "estimators_", ()):
        tree = member.tree_
        inner = tree.children_left >= 0
        yield (
            tree.children_left[inner],
            tree.children_right[inner],
            tree.feature[inner],
            tree.node_count,
        )


def of_lightgbm(text: str) -> Iterator[Tree]:
    """Yield the trees of a model in LightGBM's own text.

    A child below 0 is leaf −1 − child there; leaves are numbered after the inner nodes here, and −1
    is what leads outside.
    """
    for part in text.split("\nTree=")[1:]:
        lines = dict(line.split("=", 1) for line in part.splitlines()[1:] if "=" in line)
        leaves = int(lines["num_leaves"])
        if leaves < 2:  # it always gives the same answer
            continue
        left, right, feature = (
            np.array(lines[name].split(), dtype=np.int64)
            for name in ("left_child", "right_child", "split_feature")
        )
        if not len(left) == len(right) == len(feature) == leaves - 1:
            raise ValueError("a tree has more nodes than it says")
        left, right = (
            np.where(child < 0, leaves - 2 - child, np.where(child < leaves - 1, child, -1))
            for child in (left, right)
        )
        yield left, right, feature, 2 * leaves - 1


def of_xgboost(model: Any) -> Iterator[Tree]:
    """Yield the trees of a model in XGBoost's own JSON, where a leaf has no child on the left."""
    for tree in model["learner"]["gradient_booster"]["model"]["trees"]:
        left, right, feature = (
            np.asarray(tree[name], dtype=np.int64)
            for name in ("left_children", "right_children", "split_indices")
        )
        inner = left != -1
        yield left[inner], right[inner], feature[inner], len(left)
