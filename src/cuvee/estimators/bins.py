"""Columns as numbers of their bins, for histogram gradient boosting on weighed rows.

Since version 1.8 scikit-learn looks for 255 weighted quantiles of every column one by one, which
takes many times as long as the trees themselves, in each of a hundred fits. A column of at most 255
values has no need of them. Unweighted quantiles serve as well: a row that weighs much moves no bin.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

BINS = 255  # the most that histogram gradient boosting has


class Bins(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Replace each number by that of its bin among the column's quantiles; gaps stay gaps.

    >>> Bins().fit_transform(np.array([[0.5], [0.1], [0.5]])).ravel().tolist()
    [1.0, 0.0, 1.0]
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the edges of every column's bins."""
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan")
        self.edges_ = [_edges(column[~np.isnan(column)]) for column in X.T]
        return self

    def transform(self, X: Any) -> Any:
        """Return the bins (rows, features)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        bins = [np.searchsorted(e, column) for e, column in zip(self.edges_, X.T, strict=True)]
        return np.where(np.isnan(X), np.nan, np.stack(bins, 1))


def _edges(values: Any) -> Any:
    """Return the numbers between the bins: halfway between neighbours where these are few."""
    distinct = np.unique(values)
    if len(distinct) > BINS:
        at = np.linspace(0.0, 1.0, BINS + 1)[1:-1]
        return np.unique(np.quantile(values, at))
    return 0.5 * (distinct[1:] + distinct[:-1])
