"""The two estimators: classes, or a quantity."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from cuvee.errors import OptionError, check_choice
from cuvee.hypothesis import Logistic, Poisson, Ridge
from cuvee.problem import Array
from cuvee.sklearn.any_estimator import has_probabilities
from cuvee.sklearn.tables import Tables


class CuveeClassifier(Tables, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
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
        estimator: any scikit-learn classifier whose `fit` takes `sample_weight`, or a pipeline that
            ends in one, to be fitted on each target's mixture instead of logistic regression, which
            then only finds the mixtures. Its own folds choose among a few of them. Such models
            carry no certificate. Where its `random_state` is None, it is given this one's.
        budget: seconds for judging mixtures with `estimator` and for fitting the targets' models.
        progress: called with (what, done, total) while `estimator` is fitted.
        domain: the column of X that says whose row each is, by name or number, in place of
            `sample_domain`: pipelines, searches and scorers then need no metadata routing. It is
            no feature, and not in `n_features_in_`. A text also finds "remainder__hospital".
        target_domains: the targets, in place of that of `fit`.

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
        estimators_, choices_: with `estimator`, the (M,) fitted ones, which know classes by their
            numbers 0, 1, … among those of the rows they learnt from, and which mixtures were judged
            for each target, with their losses and shares. There is then no `coef_`, `solution_` or
            certificate.
    """

    _hypothesis, _metric = Logistic, staticmethod(accuracy_score)

    @available_if(has_probabilities)  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any, *, sample_domain: Any = None) -> Array:
        """Return log-odds (rows,) of the second of two classes, else scores (rows, classes).

        Those of an `estimator` are the logarithms of its probabilities.
        """
        check_is_fitted(self)
        if self.blended_ is not None:
            chance = self._asked("predict_proba", X, sample_domain)
            logs = np.log(np.maximum(chance, np.finfo(np.float64).tiny))
            return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs
        scores = np.asarray(self._scores(X, sample_domain))
        return scores[0] if len(scores) == 1 else scores.T

    @available_if(has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, *, sample_domain: Any = None) -> Array:
        """Return class probabilities (rows, classes), which sum to 1, of X (rows, features)."""
        check_is_fitted(self)
        if self.blended_ is not None:
            return self._asked("predict_proba", X, sample_domain)
        scores = self._scores(X, sample_domain)
        return np.asarray(self.solution_.space.probabilities(scores))


class CuveeRegressor(Tables, RegressorMixin, BaseEstimator):  # type: ignore[misc]
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
        C: float | None = None,
        tol: float = 1e-6,
        random_state: Any = 0,
        exclude: Any = (),
        strict: bool = False,
        levels: bool = False,
        loss: str = "squared",
        estimator: Any = None,
        budget: float | None = None,
        progress: Any = None,
        domain: str | int | None = None,
        target_domains: Any = None,
    ) -> None:
        shared: Any = {"fit_intercept": fit_intercept, "random_state": random_state}
        shared |= {"estimator": estimator, "budget": budget, "progress": progress}
        shared |= {"domain": domain, "target_domains": target_domains}
        super().__init__(
            l2=l2, method=method, C=C, tol=tol, exclude=exclude, strict=strict, **shared
        )
        self.levels, self.loss = levels, loss
