"""Any estimator of scikit-learn on the mixtures that a linear model found."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data

from cuvee.data.samples import Roles, masked
from cuvee.estimators import surrogate
from cuvee.estimators.blended import Blended, blended, classes_of
from cuvee.estimators.choose import warn
from cuvee.estimators.routing import Learner
from cuvee.estimators.weights import take
from cuvee.hypothesis import Logistic
from cuvee.problem import Array, Problem
from cuvee.results import OWN
from cuvee.sklearn.linear import seed_of
from cuvee.solution import Certificate

FLOATS = (np.float64, np.float32)


def has_probabilities(model: Any) -> bool:
    """Return whether class probabilities can be asked for; some estimators have none."""
    return model.estimator is None or hasattr(model.estimator, "predict_proba")


class AnyEstimator:
    """Fit an estimator on the mixture of every target; `Tables` says whose rows are whose."""

    _hypothesis: Any
    estimator: Any
    budget: float | None
    progress: Any
    random_state: Any
    _estimate: Any
    blended_: Blended | None
    certificate_: Certificate | None  # there is none here
    _apart: Any
    _routed: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # of the mixins that follow
        tags.input_tags.sparse = self.estimator is None  # the linear model makes a dense copy
        if isinstance(self.estimator, BaseEstimator):
            piped = isinstance(self.estimator, Pipeline)
            # A pipeline does not say by itself whether gaps may reach its ends.
            ends = (self.estimator[0], self.estimator[-1]) if piped else (self.estimator,)
            inner = tags.input_tags
            inner.sparse = get_tags(self.estimator).input_tags.sparse
            inner.allow_nan = all(
                isinstance(one, BaseEstimator) and get_tags(one).input_tags.allow_nan
                for one in ends
            )
            inner.string = piped  # its steps may encode text, so X reaches them as it is
        return tags

    def _checked(self, X: Any, **how: Any) -> Any:
        """Return X as numbers (rows, features), or as it is where an estimator encodes it."""
        tags = get_tags(self).input_tags
        if issparse(X) or self.estimator is None or not surrogate.encodes(self.estimator, X):
            X = validate_data(
                self,
                X,
                dtype=FLOATS,
                accept_sparse="csr" if tags.sparse else False,
                ensure_all_finite="allow-nan" if tags.allow_nan else True,
                **how,
            )
            return X.toarray() if issparse(X) and self.estimator is None else X
        X = X if hasattr(X, "shape") else np.asarray(X)
        if X.ndim == 1 and hasattr(self, "n_features_in_") and not how.get("reset", True):
            raise ValueError(
                f"X has one dimension, and fit had {self.n_features_in_} columns. Reshape your "
                "data with X.reshape(1, -1) where it is one row"
            )
        if X.shape[0] < how.pop("ensure_min_samples", 1):
            raise ValueError(f"X has {X.shape[0]} sample(s) (n_samples = {X.shape[0]}): too few")
        return validate_data(self, X, skip_check_array=True, **how)

    def _seen(self, X: Any, y: Array, roles: Roles, classify: bool) -> Array:
        """Return what the linear surrogate sees of X; nothing where the table is one domain."""
        if not len(roles.targets):
            return np.zeros((len(y), 1))
        of_source = np.isin(roles.labels, roles.sources)
        labelled = ~masked(y, np.unique(y[of_source]) if classify else None)
        return surrogate.surrogate_features(self.estimator, X, y, labelled)

    def _blend(self, X: Any, rows: dict[str, Array], problem: Problem) -> None:
        """Fit the estimator on the mixture of every target, and on each source alone."""
        classes = classes_of(problem.sources) if self._hypothesis is Logistic else None
        learner = Learner.of(self.estimator, classes, seed_of(self.random_state))
        self.mixtures_ = self._estimate(problem)
        self.blended_ = blended(
            learner, X, rows, problem, self.mixtures_, budget=self.budget, progress=self.progress
        )
        warn(self.blended_.choices)
        self.alpha_, self.choices_ = self.blended_.alpha, self.blended_.choices
        self.estimators_ = [model.estimator for model in self.blended_.models]
        own = (OWN,) if problem.n_targets else ()
        self.alpha_columns_ = (*problem.source_names, *own)
        self.certificate_ = None
        if classes is not None:
            self.classes_ = classes

    def _asked(self, ask: str, X: Any, sample_domain: Any) -> Array:
        """Return what the fitted estimators answer, each row by that of its domain."""
        X, sample_domain = self._apart(X, sample_domain)
        X = self._checked(X, reset=False)
        answers: list[tuple[Array, Array]] = []
        for (model, level), rows in self._routed(sample_domain, X.shape[0]):
            one = getattr(model, ask)(take(X, rows))
            answers.append((rows, one + level if self._hypothesis is not Logistic else one))
        order = np.argsort(np.concatenate([rows for rows, _ in answers]))
        return np.asarray(np.concatenate([one for _, one in answers])[order])
