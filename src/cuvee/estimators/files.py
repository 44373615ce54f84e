"""Fitted models as bytes, without pickle.

They are written by skops: it knows all of scikit-learn, and LightGBM and XGBoost by the texts that
these write themselves; it is kept up with them, and makes objects of no type but those it trusts
and the few named here. Nodes of trees, which prediction follows without a look at their bounds, are
checked (`nodes.py`) before anything is predicted.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import sklearn

from cuvee.errors import InputError, MissingExtra
from cuvee.estimators.nodes import check_trees
from cuvee.estimators.routing import FittedModel

TRUSTED = [
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.tree._tree.Tree",
    "cuvee.estimators.bins.Bins",
    "collections.OrderedDict",
    "lightgbm.basic.Booster",
    "lightgbm.sklearn.LGBMClassifier",
    "lightgbm.sklearn.LGBMRegressor",
    "builtins.bytearray",  # XGBoost's own form of its trees
    "xgboost.core.Booster",
    "xgboost.sklearn.XGBClassifier",
    "xgboost.sklearn.XGBRegressor",
]


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
        {"estimator": model.estimator, "seen": model.seen},
        compression=zipfile.ZIP_DEFLATED,
        compresslevel=1,
    )
    return content


def from_bytes(content: bytes, n_classes: int | None, where: Path) -> FittedModel:
    """Return the model that `to_bytes` wrote; anything else is an `InputError` that names the file.

    No type is loaded but those named above, and no tree whose nodes lead outside it.
    """
    io = skops_io()
    try:
        if other := set(io.get_untrusted_types(data=content)) - {*TRUSTED}:
            raise InputError(
                f"{where} holds a {min(other)}, which cuvee does not load: it was changed after it "
                "was written; make the run again"
            )
        stored = io.loads(content, trusted=TRUSTED)
        estimator, seen = stored["estimator"], stored["seen"]
        check_trees(estimator)
        if (seen is None) != (n_classes is None):
            raise ValueError("its labels are not those of the run")
        if seen is not None and not (
            min(seen) >= 0 and max(seen) < (n_classes or 0) and len(seen) == len(estimator.classes_)
        ):
            raise ValueError("its classes are not those of the run")
    except (InputError, MissingExtra):
        raise
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{where} holds a model of {error.name}, which is not installed: pip install "
            f"{error.name}"
        ) from None
    except Exception as error:  # skops raises many kinds on bytes that are not its own
        raise InputError(
            f"{where} cannot be read by scikit-learn {sklearn.__version__} "
            f"({type(error).__name__}: {error}): use the version that run.json names, or make the "
            "run again"
        ) from None
    return FittedModel(estimator, n_classes, seen)
