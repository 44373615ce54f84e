"""The domain of every row from a column of X, parts of targets to hold out, and scores of targets
alone: what searches need.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.metrics import get_scorer
from sklearn.pipeline import Pipeline
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import type_of_target

from cuvee.data.roles import LEAST_LABELLED
from cuvee.data.samples import Roles, domain_labels, masked, missing, nearest, some
from cuvee.errors import CuveeWarning, DomainError, OptionError, check_whole
from cuvee.estimators.weights import take
from cuvee.inputs.arrays import as_labels
from cuvee.problem import Array


def domain_column(X: Any, domain: str | int) -> tuple[Any, Array]:
    """Return X without the column that says whose row each is, and that column (rows,).

    `domain` is its name, also with the prefix that a ColumnTransformer gave it, or its number.
    """
    X = X if hasattr(X, "shape") else np.asarray(X, dtype=object)
    if len(X.shape) != 2:
        raise OptionError(
            f"domain={domain!r} names a column of X, so X must be a table; it has shape {X.shape}"
        )
    names = list(X.columns) if hasattr(X, "columns") else []
    if issparse(X):
        X = X.tocsc()
    found = [name for name in names if name == domain]
    found = found or [name for name in names if str(name).endswith(f"__{domain}")]
    if not found and isinstance(domain, int | np.integer) and -X.shape[1] <= domain < X.shape[1]:
        found = [names[domain]] if names else [int(domain) % X.shape[1]]
    if len(found) != 1 or names.count(found[0]) > 1:
        if not names:
            why = (
                f"X is an array of {X.shape[1]} columns without names: give the number of the "
                'column, or let the steps before make frames (set_output(transform="pandas"))'
            )
        else:
            why = (
                "several columns have that name"
                if found
                else nearest(str(domain), dict.fromkeys(map(str, names)))
            )
        raise OptionError(f"domain={domain!r} is not one column of X; {why}")
    if not names:
        column, rest = X[:, found[0]], X[:, np.delete(np.arange(X.shape[1]), found[0])]
        column = column.toarray().ravel() if issparse(X) else column
    else:
        column = np.asarray(X[found[0]])
        rest = X.drop(columns=found) if hasattr(X, "iloc") else X.drop(found)
    if rest.shape[1] == 0:
        raise OptionError(
            f"X has no column beside {domain!r}, so that there is nothing to learn from"
        )
    if (absent := missing(column)).any():
        raise DomainError(
            f"column {domain!r}, which says whose row each is, is empty at row "
            f"{int(np.argmax(absent))} ({int(absent.sum())} such rows): fill it, or drop the rows"
        )
    return rest.tocsr() if issparse(rest) else rest, column


class TargetSplit:
    """Hold out labelled rows of targets, a part at a time: `cv=` of searches and cross-validation.

    Rows of sources, and rows of targets without a label, are in every training set and never held
    out. Each target's labels are dealt in turn, so that its parts are alike; equal labels are dealt
    by what their rows hold, so that the order of rows and columns does not matter.

    Args:
        target_domains: the targets; None where domains are whole numbers and targets negative.
        n_splits: how many parts.
        domain: the column of X that says whose row each is, as in `CuveeClassifier`; without it
            these are `groups`, which `GridSearchCV(...).fit(X, y, groups=site)` passes on.
    """

    def __init__(
        self, target_domains: Any = None, n_splits: int = 5, *, domain: str | int | None = None
    ) -> None:
        check_whole("n_splits", n_splits, 2)
        self.target_domains, self.n_splits, self.domain = target_domains, n_splits, domain

    def __repr__(self) -> str:
        return (
            f"TargetSplit({self.target_domains!r}, n_splits={self.n_splits}, "
            f"domain={self.domain!r})"
        )

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return how many parts are held out, one after the other."""
        return self.n_splits

    def split(self, X: Any, y: Any, groups: Any = None) -> Iterator[tuple[Array, Array]]:
        """Yield the numbers of the rows to learn from, and of those held out."""
        if self.domain is not None:
            X, groups = domain_column(X, self.domain)
        if groups is None:
            raise OptionError(
                "TargetSplit must know whose row each is: name the column of X that says it "
                "(domain=...), or pass groups"
            )
        y = column_or_1d(as_labels(y, "y"))
        roles = Roles.read(groups, self.target_domains, len(y))
        part = np.full(len(y), -1)
        keys, few = _contents(X, len(y)), []
        labelled = _labelled(y, np.isin(roles.labels, roles.sources))
        for target in roles.targets:
            rows = np.flatnonzero((roles.labels == target) & labelled)
            if len(rows) - -(-len(rows) // self.n_splits) < LEAST_LABELLED:
                few.append(str(target))
                continue
            order = np.lexsort((keys[rows], np.unique(y[rows], return_inverse=True)[1]))
            part[rows[order]] = np.arange(len(rows)) % self.n_splits
        if few:
            says = (
                f"no row of {some(few)} is held out in {self.n_splits} parts: a target needs "
                f"{LEAST_LABELLED} labelled rows beside those held out"
            )
            if len(few) == len(roles.targets):
                raise DomainError(f"{says}; label more rows")
            warnings.warn(says, CuveeWarning, stacklevel=2)
        for number in range(self.n_splits):
            yield np.flatnonzero(part != number), np.flatnonzero(part == number)


@dataclass(frozen=True)
class TargetScorer:
    """Score every target by itself and return the mean: `scoring=` of searches.

    Rows of sources and rows without a label are left out, so that neither they nor the number of
    rows that a target has decide which settings are best; so is a target whose score is not
    defined, such as the AUC of rows of one class. The estimator, or the last step of a
    pipeline, must be a `CuveeClassifier` or `CuveeRegressor` that finds domains in a column of X.

    Args:
        scoring: what scikit-learn takes, such as "roc_auc" or a scorer; by default the estimator's
            own score.
        worst: return the score of the target that it is worst for, in place of the mean.
        domain: the column of X that says whose row each is; by default that of the estimator.
    """

    scoring: Any = None
    worst: bool = False
    domain: str | int | None = None

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Return the score of a fitted estimator on rows X (rows, …), y (rows,)."""
        model = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        domain = getattr(model, "domain", None) if self.domain is None else self.domain
        if domain is None or not hasattr(model, "targets_"):
            raise OptionError(
                "TargetScorer scores a CuveeClassifier or CuveeRegressor, alone or at the end of "
                "a pipeline, that was made with domain= and fitted"
            )
        y = column_or_1d(y)
        labels = domain_labels(domain_column(X, domain)[1], len(y)).astype(str)
        labelled = ~masked(y, getattr(model, "classes_", None))
        score = get_scorer(self.scoring) if isinstance(self.scoring, str) else self.scoring
        scores = []
        for target in model.targets_:
            rows = np.flatnonzero((labels == str(target)) & labelled)
            if len(rows):
                part = take(X, rows), y[rows]
                scores.append(estimator.score(*part) if score is None else score(estimator, *part))
        if not scores:
            raise DomainError(
                f"no labelled row of a target ({some(model.targets_)}) is there to be "
                "scored: hold out rows of targets, for instance with TargetSplit"
            )
        known = np.array(scores)[~np.isnan(scores)]
        if not len(known):
            return float("nan")
        return float(known.min() if self.worst else known.mean())


def _labelled(y: Array, of_source: Array) -> Array:
    """Return (rows,) whether a row has a label; −1 is none where y are classes without it."""
    known = y[of_source][~missing(y[of_source])]
    quantity = y.dtype.kind == "f" and type_of_target(known).startswith("continuous")
    return ~masked(y, None if quantity else np.unique(known))


def _contents(X: Any, n_rows: int) -> Array:
    """Return a number (rows,) that hangs on what each row holds, and in no order."""
    if issparse(X):
        return np.asarray(X @ np.random.default_rng(0).normal(size=X.shape[1]))
    frame = X if hasattr(X, "iloc") else pd.DataFrame(np.asarray(X))
    total = np.zeros(n_rows, dtype=np.uint64)
    for name in frame.columns:
        odd = int.from_bytes(hashlib.sha256(str(name).encode()).digest()[:8]) | 1
        cells = pd.util.hash_pandas_object(frame[name], index=False).to_numpy()
        total += cells * np.uint64(odd)
    return total
