"""What the linear surrogate sees of a table that an estimator or a pipeline is to learn from."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from cuvee.data.encode import Encoder
from cuvee.estimators.weights import take
from cuvee.problem import Array
from cuvee.results import Floats


def surrogate_features(estimator: Any, X: Any, y: Array, labelled: Array) -> Floats:
    """Return numbers (rows, features) with mean 0 and variance 1 for the linear surrogate.

    A pipeline's own steps before its last make them, fitted on the `labelled` rows (rows,); columns
    of a frame that are no numbers are encoded; a missing number becomes its column's median.
    """
    before = estimator[:-1] if isinstance(estimator, Pipeline) else None
    if before is not None and len(before):
        rows = np.flatnonzero(labelled)
        steps = clone(before).fit(take(X, rows), y[rows])
        X = steps.transform(X)
    elif is_raw(X):
        X = Encoder.fit(X, [str(name) for name in X.columns])(X)
    values = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    values = values.reshape(len(values), -1).astype(np.float64)
    if np.isnan(values).any():
        values = SimpleImputer(strategy="median", keep_empty_features=True).fit_transform(values)
    return np.asarray(StandardScaler().fit_transform(values))


def encodes(estimator: Any, X: Any) -> bool:
    """Return whether an estimator gets X as it is: a pipeline does, or a frame of categories."""
    return isinstance(estimator, Pipeline) or is_raw(X)


def is_raw(X: Any) -> bool:
    """Return whether X is a frame with columns that are no numbers."""
    return hasattr(X, "iloc") and any(getattr(kind, "kind", "O") not in "biuf" for kind in X.dtypes)
