"""Any estimator of scikit-learn on the mixtures that a linear model found."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data

from cuvee.data.samples import Roles, masked
from cuvee.errors import check_number
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
    _routed: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # of the mixins that follow
        if isinstance(self.estimator, BaseEstimator):
            tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags

    def _checked(self, X: Any, **how: Any) -> Any:
        """Return X as numbers (rows, features), or as it is where an estimator encodes it."""
        if self.estimator is not None and surrogate.encodes(self.estimator, X):
            X = X if hasattr(X, "shape") else np.asarray(X)
            how.pop("ensure_min_samples", None)
            return validate_data(self, X, skip_check_array=True, **how)
        gaps = "allow-nan" if get_tags(self).input_tags.allow_nan else True
        return validate_data(self, X, dtype=FLOATS, ensure_all_finite=gaps, **how)

    def _seen(self, X: Any, y: Array, roles: Roles, classify: bool) -> Array:
        """Return what the linear surrogate sees of X; nothing where the table is one domain."""
        if not len(roles.targets):
            return np.zeros((len(y), 1))
        of_source = np.isin(roles.labels, roles.sources)
        labelled = ~masked(y, np.unique(y[of_source]) if classify else None)
        return surrogate.surrogate_features(self.estimator, X, y, labelled)

    def _blend(self, X: Any, rows: dict[str, Array], problem: Problem) -> None:
        """Fit the estimator on the mixture of every target, and on each source alone."""
        if self.budget is not None:
            check_number("budget", self.budget, above=0.0)
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
        X = self._checked(X, reset=False)
        answers: list[tuple[Array, Array]] = []
        for (model, level), rows in self._routed(sample_domain, X.shape[0]):
            one = getattr(model, ask)(take(X, rows))
            answers.append((rows, one + level if self._hypothesis is not Logistic else one))
        order = np.argsort(np.concatenate([rows for rows, _ in answers]))
        return np.asarray(np.concatenate([one for _, one in answers])[order])
