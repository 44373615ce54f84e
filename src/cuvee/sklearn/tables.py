"""A table with a domain per row: who learns from whom, and whose model answers which row."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils import (
    assert_all_finite,
    check_array,
    check_consistent_length,
    column_or_1d,
)
from sklearn.utils.validation import check_is_fitted

from cuvee.data.levels import take_out
from cuvee.data.roles import SMALL
from cuvee.data.samples import Roles, domain_labels, masked, nearest, rows_by_domain, some, split
from cuvee.errors import (
    CuveeWarning,
    DomainError,
    OptionError,
    check_number,
)
from cuvee.estimators.routing import check_estimator
from cuvee.hypothesis import Logistic
from cuvee.inputs.arrays import as_labels
from cuvee.problem import Array, Problem
from cuvee.sklearn.any_estimator import AnyEstimator
from cuvee.sklearn.linear import Linear
from cuvee.sklearn.targets import domain_column


def _weights(sample_weight: Any, n_rows: int) -> Array | None:
    if sample_weight is None:
        return None
    weight = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if weight.shape != (n_rows,) or (weight < 0).any() or not weight.any():
        raise OptionError(
            f"sample_weight must be {n_rows} weights ≥ 0, one per row and not all zero"
        )
    return np.asarray(weight)


class Tables(Linear, AnyEstimator):
    """What both estimators share.

    It stands before scikit-learn's mixins, whose `score` knows no domains.
    """

    _hypothesis: Any  # the class of the hypothesis
    _metric: Any
    n_features_in_: int
    levels = False  # whether each domain's own level is taken out of its labels

    def __init__(
        self,
        *,
        l2: float = 1e-2,
        fit_intercept: bool = True,
        method: Any = "path",
        C: float | None = None,
        tol: float = 1e-6,
        random_state: Any = 0,
        exclude: Any = (),
        strict: bool = False,
        estimator: Any = None,
        budget: float | None = None,
        progress: Any = None,
        domain: str | int | None = None,
        target_domains: Any = None,
    ) -> None:
        self.l2, self.fit_intercept, self.method = l2, fit_intercept, method
        self.C, self.tol, self.random_state = C, tol, random_state
        self.exclude, self.strict = exclude, strict
        self.estimator, self.budget, self.progress = estimator, budget, progress
        self.domain, self.target_domains = domain, target_domains

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        sample_domain: Any = None,
        target_domains: Any = None,
    ) -> Self:
        """Weigh the sources for each target and solve its model: X (rows, features), y (rows,).

        `sample_domain` (rows,) says whose row each is: whole numbers are targets where negative,
        sources elsewhere; of other labels, `target_domains` are the targets. Without it the table
        is one domain, learnt as it is. With `domain=` a column of X says it instead. Rows of a
        target without a label (−1, NaN) are left out; `sample_weight` (rows,) counts within each
        domain.
        """
        if y is None:
            raise OptionError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        if self.budget is not None:
            check_number("budget", self.budget, above=0.0)
            if self.estimator is None:
                raise OptionError("budget has no effect without an estimator: leave it out")
        if self.estimator is not None:
            check_estimator(self.estimator, classify=self._hypothesis is Logistic)
        X, sample_domain = self._apart(X, sample_domain)
        target_domains = self.target_domains if target_domains is None else target_domains
        X = self._checked(X, ensure_min_samples=2)
        y = column_or_1d(as_labels(y, "y"), warn=True)
        check_consistent_length(X, y)
        assert_all_finite(y, allow_nan=sample_domain is not None, input_name="y")
        weight, roles = (
            _weights(sample_weight, len(y)),
            Roles.read(sample_domain, target_domains, len(y), self.exclude),
        )
        classify, features = (
            self._hypothesis is Logistic,
            tuple(getattr(self, "feature_names_in_", ())),
        )
        features = (
            features if self.estimator is None else ()
        )  # the surrogate has columns of its own
        seen = X if self.estimator is None else self._seen(X, y, roles, classify)
        parts = split(
            seen, y, roles, classify=classify, strict=self.strict, weight=weight, features=features
        )
        for note in parts.notes:
            warnings.warn(note, CuveeWarning, stacklevel=2)
        problem = self._at_one_level(parts.problem, (SMALL,) if len(parts.pooled) else ())
        if self.estimator is None:
            self._solve(problem)
        else:
            self._blend(X, parts.rows, problem)
        self.sources_, self.targets_ = parts.sources, parts.targets
        self.pooled_, self.skipped_ = parts.pooled, parts.skipped
        self.domains_ = np.concatenate([self.sources_, self.targets_])
        return self

    def _apart(self, X: Any, sample_domain: Any) -> tuple[Any, Any]:
        """Return X without its column of domains, if it has one, and the domain of each row."""
        if self.domain is None:
            return X, sample_domain
        if sample_domain is not None:
            raise OptionError(
                f"column {self.domain!r} of X says whose row each is (domain=): leave "
                "sample_domain out"
            )
        return domain_column(X, self.domain)

    def _at_one_level(self, problem: Problem, pooled: tuple[str, ...]) -> Problem:
        """Return the problem, less the domains' own levels where these are to be taken out."""
        self._source_level = np.zeros(problem.n_sources)
        self._level = np.zeros(max(1, problem.n_targets))
        if not (self.levels and problem.n_targets):
            return problem
        at_one = take_out(problem, self.l2, pooled=pooled)
        self._source_level, self._level = at_one.levels, at_one.offset
        return at_one.problem

    def _routed(self, sample_domain: Any, n_rows: int) -> list[tuple[tuple[Any, float], Array]]:
        """Return models, w (P,) or fitted, and their levels, each with the rows it answers for."""
        blend = self.blended_
        models_of = self.solution_.w if blend is None else blend.models
        alone_of = self.source_solution_.w if blend is None else blend.alone
        names = [str(t) for t in self.targets_]
        if sample_domain is None:
            if len(names) > 1:
                raise OptionError(
                    f"each target has a model ({some(names)}): say with sample_domain whose row "
                    "each is. A Pipeline's score and scorers by name do not pass it on unless "
                    "scikit-learn's metadata routing is on: name the column of X that holds it "
                    f"instead, {type(self).__name__}(domain=...)"
                )
            return [((models_of[0], self._level[0]), np.arange(n_rows))]
        if not names:
            raise OptionError(
                "fit had no sample_domain, so that one model answers all rows: leave it out here "
                "too"
            )
        alone = zip(alone_of, self._source_level, strict=True)
        models: dict[str, Any] = dict(zip(map(str, self.sources_), alone, strict=True))
        models |= dict.fromkeys(map(str, self.pooled_), models.get(SMALL))
        models |= dict(zip(names, zip(models_of, self._level, strict=True), strict=True))
        for name in map(str, self.skipped_):
            models.pop(name, None)  # that of a few rows of its own is not what was asked for
        groups = rows_by_domain(domain_labels(sample_domain, n_rows))
        for name in sorted(groups.keys() - models.keys()):
            why = (
                "had too few labelled rows" if name in map(str, self.skipped_) else "was not there"
            )
            raise DomainError(
                f"domain {name!r} {why} in fit, so it has no model; {nearest(name, models)}"
            )
        return [(models[name], rows) for name, rows in groups.items()]

    def predict(self, X: Any, *, sample_domain: Any = None) -> Array:
        """Predict X (rows, features) -> (rows,), each row by the model of its domain.

        With one target no domain need be named.
        """
        check_is_fitted(self)
        if self.blended_ is not None:
            answers = self._asked("predict", X, sample_domain)
            return answers if self._hypothesis is not Logistic else self.classes_[answers]
        scores = self._scores(X, sample_domain)
        models = torch.as_tensor(self.solution_.w.sum(0))  # sound where all of them are
        return self.solution_.space.answers(models, scores)

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, sample_domain: Any = None
    ) -> float:
        """Return the accuracy, or R² of a regression, on the rows that have a label.

        Where there is one target and no domain is named, all rows are taken for its own.
        """
        predicted, y = self.predict(X, sample_domain=sample_domain), column_or_1d(y)
        check_consistent_length(predicted, y)
        if sample_domain is None and self.domain is None and len(self.targets_):
            warnings.warn(
                f"no sample_domain reached score, so that all {len(y)} rows are scored with the "
                f"model of target {str(self.targets_[0])!r}, rows of sources too, if there are "
                "some: name the domains, with sample_domain, or with domain= where X holds them",
                CuveeWarning,
                stacklevel=2,
            )
        rows, weight = ~masked(y, getattr(self, "classes_", None)), _weights(sample_weight, len(y))
        return float(
            self._metric(
                y[rows], predicted[rows], sample_weight=None if weight is None else weight[rows]
            )
        )
