"""`CuveeClassifier`, `CuveeRegressor`: a table with a domain per row in, a model per target out,
for scikit-learn.
"""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import (
    assert_all_finite,
    check_array,
    check_consistent_length,
    check_random_state,
    column_or_1d,
)
from sklearn.utils.validation import check_is_fitted, validate_data

from cuvee.api import estimate, solve
from cuvee.data.levels import take_out
from cuvee.data.roles import SMALL
from cuvee.data.samples import Roles, domain_labels, masked, nearest, rows_by_domain, some, split
from cuvee.errors import CuveeWarning, DomainError, OptionError, StatusError, check_choice
from cuvee.hypothesis import Logistic, Poisson, Ridge
from cuvee.inputs.arrays import as_labels
from cuvee.problem import Array, Problem
from cuvee.results import Mixtures, raise_unless_ok

FLOATS = (np.float64, np.float32)


def seed_of(random_state: Any) -> int:
    """Return a whole number as the seed itself; draw one from whatever else scikit-learn takes."""
    return int(
        random_state
        if isinstance(random_state, Integral)
        else check_random_state(random_state).randint(2**31)
    )


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


class _Cuvee:
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
        C: float = 10.0,
        tol: float = 1e-6,
        random_state: Any = 0,
        exclude: Any = (),
        strict: bool = False,
    ) -> None:
        self.l2, self.fit_intercept, self.method = l2, fit_intercept, method
        self.C, self.tol, self.random_state = C, tol, random_state
        self.exclude, self.strict = exclude, strict

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
        is one domain, learnt as it is. Rows of a target without a label (−1, NaN) are left out;
        `sample_weight` (rows,) counts within each domain.
        """
        if y is None:
            raise OptionError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        X = validate_data(self, X, dtype=FLOATS, ensure_min_samples=2)
        y = column_or_1d(as_labels(y, "y"), warn=True)
        check_consistent_length(X, y)
        assert_all_finite(y, allow_nan=sample_domain is not None, input_name="y")
        weight, roles = (
            _weights(sample_weight, len(X)),
            Roles.read(sample_domain, target_domains, len(X), self.exclude),
        )
        classify, features = (
            self._hypothesis is Logistic,
            tuple(getattr(self, "feature_names_in_", ())),
        )
        parts = split(
            X, y, roles, classify=classify, strict=self.strict, weight=weight, features=features
        )
        for note in parts.notes:
            warnings.warn(note, CuveeWarning, stacklevel=2)
        self._solve(parts.problem, (SMALL,) if len(parts.pooled) else ())
        self.sources_, self.targets_ = parts.sources, parts.targets
        self.pooled_, self.skipped_ = parts.pooled, parts.skipped
        self.domains_ = np.concatenate([self.sources_, self.targets_])
        return self

    def _solve(self, problem: Problem, pooled: tuple[str, ...]) -> None:
        """Find α (M, columns) and w (M, P) of the targets.

        A table of one domain is the only mixture of itself.
        """
        hypothesis = self._hypothesis(l2=self.l2, intercept=bool(self.fit_intercept))
        self._source_level, level = np.zeros(problem.n_sources), np.zeros(max(1, problem.n_targets))
        if self.levels and problem.n_targets:
            at_one = take_out(problem, self.l2, pooled=pooled)
            problem, self._source_level, level = at_one.problem, at_one.levels, at_one.offset
        self._level = level
        self.mixtures_: Mixtures | None = None
        # Each source alone: predict answers its rows too, and with one domain this is all there is.
        self.solution_ = solve(problem.sources, hypothesis, np.eye(problem.n_sources), tol=self.tol)
        self.source_solution_, self.alpha_columns_ = (
            self.solution_,
            tuple(s.name for s in problem.sources),
        )
        if problem.n_targets:
            seed = seed_of(self.random_state)
            self.mixtures_ = estimate(problem, hypothesis, method=self.method, C=self.C, seed=seed)
            self.solution_ = solve(problem, hypothesis, self.mixtures_, tol=self.tol)
            self.alpha_columns_ = self.mixtures_.columns
        try:
            raise_unless_ok(
                [d.name for d in problem.targets or problem.sources], self.solution_.status
            )
        except StatusError as error:
            warnings.warn(str(error), ConvergenceWarning, stacklevel=3)
        self.alpha_, self.certificate_ = self.solution_.alpha, self.solution_.certificate
        space: Any = self.solution_.space
        w = self.solution_.w.reshape(
            -1, *(() if space.classes is None else (space.n_outputs,)), space.width
        )
        self.coef_ = w[..., : self.n_features_in_]
        self.intercept_ = w[..., -1] if self.fit_intercept else np.zeros(w.shape[:-1])
        self.intercept_ = self.intercept_ + level.reshape(-1, *[1] * (self.intercept_.ndim - 1))
        if space.classes is not None:
            self.classes_ = space.classes

    def _scores(self, X: Any, sample_domain: Any) -> torch.Tensor:
        """Return scores (outputs, rows) of X (rows, features), each row by its domain's model."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        space: Any = self.solution_.space
        scores = torch.empty(space.n_outputs, len(X), dtype=space.dtype)
        for (w, level), rows in self._routed(sample_domain, len(X)):
            scores[:, rows] = (
                space.scores(torch.as_tensor(w), space.prepare(torch.as_tensor(X[rows]))) + level
            )
        return scores

    def _routed(self, sample_domain: Any, n_rows: int) -> list[tuple[tuple[Array, float], Array]]:
        """Return models w (P,) and their levels, each with the rows it answers for."""
        names = [str(t) for t in self.targets_]
        if sample_domain is None:
            if len(names) > 1:
                raise OptionError(
                    f"each target has a model ({some(names)}): say with sample_domain whose row "
                    "each is"
                )
            return [((self.solution_.w[0], self._level[0]), np.arange(n_rows))]
        if not names:
            raise OptionError(
                "fit had no sample_domain, so that one model answers all rows: leave it out here "
                "too"
            )
        alone = zip(self.source_solution_.w, self._source_level, strict=True)
        models: dict[str, Any] = dict(zip(map(str, self.sources_), alone, strict=True))
        models |= dict.fromkeys(map(str, self.pooled_), models.get(SMALL))
        models |= dict(zip(names, zip(self.solution_.w, self._level, strict=True), strict=True))
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
        scores = self._scores(X, sample_domain)  # first: it says when nothing was fitted
        return np.asarray(self.solution_.space.decide(scores))

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, sample_domain: Any = None
    ) -> float:
        """Return the accuracy, or R² of a regression, on the rows that have a label."""
        predicted, y = self.predict(X, sample_domain=sample_domain), column_or_1d(y)
        check_consistent_length(predicted, y)
        rows, weight = ~masked(y, getattr(self, "classes_", None)), _weights(sample_weight, len(y))
        return float(
            self._metric(
                y[rows], predicted[rows], sample_weight=None if weight is None else weight[rows]
            )
        )


class CuveeClassifier(_Cuvee, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Logistic regression for every target, from its few labelled rows and the sources.

    As much of each source is learnt from as helps.

    Args:
        l2: λ of λ/2‖w‖² beside the mean loss: on one domain scikit-learn's `LogisticRegression(C=1
            / (l2 * rows))`.
        fit_intercept: let scores have a constant, which is not penalised.
        method: of `cuvee.estimate`; C: its weight of Σ_j α_j²/m_j, which "path" finds by itself.
        tol: on ‖∇‖∞ of every model.
        random_state: the same whole number gives the same bits on the same machine, with the same
            number of threads and the same versions of torch and NumPy.
        exclude: domains to leave out, named as in `target_domains`, or patterns such as "test*".
        strict: make errors of what is otherwise a `CuveeWarning`: small sources that are pooled or
            left out, targets with too few labelled rows, rows of a target whose class no source
            has.

    Attributes:
        alpha_: (M, columns) how much of each source, `alpha_columns_`, is in each target's model.
        classes_: (classes,) those of the sources.
        coef_, intercept_: (M, outputs, features), (M, outputs); one output where there are two
            classes.
        sources_, targets_, domains_: their labels. Rows of a source are answered by a model of that
            source alone.
        pooled_, skipped_: labels of the domains that are the one source "(small sources)", and of
            targets that got no model, for too few labelled rows.
        mixtures_, solution_, source_solution_, certificate_: what `cuvee.estimate` and
            `cuvee.solve` returned.
    """

    _hypothesis, _metric = Logistic, staticmethod(accuracy_score)

    def decision_function(self, X: Any, *, sample_domain: Any = None) -> Array:
        """Return log-odds (rows,) of the second of two classes, else scores (rows, classes)."""
        scores = np.asarray(self._scores(X, sample_domain))
        return scores[0] if len(scores) == 1 else scores.T

    def predict_proba(self, X: Any, *, sample_domain: Any = None) -> Array:
        """Return class probabilities (rows, classes), which sum to 1, of X (rows, features)."""
        scores = self._scores(X, sample_domain)
        return np.asarray(self.solution_.space.probabilities(scores))


class CuveeRegressor(_Cuvee, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Ridge regression for every target; arguments and attributes are those of `CuveeClassifier`.

    `coef_` is (M, features) and `intercept_` (M,); on one domain it is scikit-learn's
    `Ridge(alpha=l2 * rows)`.

    Args:
        levels: take each domain's own level out of its labels, as `cuvee.adapt` does, so that
            domains share slopes and not means; predictions and `intercept_` hold it again. By
            default labels are taken as they are, so that `mixtures_` and `solution_` are what
            `cuvee.estimate` and `cuvee.solve` return for them.
        loss: "squared", or "poisson" for counts: visits, sales, claims.
    """

    _metric = staticmethod(r2_score)

    @property
    def _hypothesis(self) -> Any:
        check_choice("loss", self.loss, ("squared", "poisson"))
        if self.loss == "poisson" and self.levels:
            raise OptionError("levels are for a quantity: leave levels out with loss='poisson'")
        return Poisson if self.loss == "poisson" else Ridge

    def __init__(
        self,
        *,
        l2: float = 1e-2,
        fit_intercept: bool = True,
        method: Any = "path",
        C: float = 10.0,
        tol: float = 1e-6,
        random_state: Any = 0,
        exclude: Any = (),
        strict: bool = False,
        levels: bool = False,
        loss: str = "squared",
    ) -> None:
        shared: Any = {"fit_intercept": fit_intercept, "random_state": random_state}
        super().__init__(
            l2=l2, method=method, C=C, tol=tol, exclude=exclude, strict=strict, **shared
        )
        self.levels, self.loss = levels, loss
