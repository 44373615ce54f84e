"""Linear models of a table: α by `cuvee.estimate`, w by `cuvee.solve`."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from cuvee.api import estimate, solve
from cuvee.errors import StatusError
from cuvee.estimators.blended import Blended
from cuvee.problem import Array, Problem
from cuvee.results import Mixtures, raise_unless_ok
from cuvee.solution import Certificate


def seed_of(random_state: Any) -> int:
    """Return a whole number as the seed itself; draw one from whatever else scikit-learn takes."""
    return int(
        random_state
        if isinstance(random_state, Integral)
        else check_random_state(random_state).randint(2**31)
    )


class Linear:
    """Find mixtures and linear models; `Tables` says whose rows are whose."""

    _hypothesis: Any  # the class of the hypothesis
    n_features_in_: int
    l2: float
    fit_intercept: bool
    method: Any
    C: float | None
    tol: float
    random_state: Any
    _level: Array
    _source_level: Array
    blended_: Blended | None  # None: the models are linear
    certificate_: Certificate | None
    _apart: Any
    _checked: Any
    _routed: Any

    def _estimate(self, problem: Problem) -> Mixtures | None:
        """Return the mixtures that the linear hypothesis finds; None where there is no target."""
        if not problem.n_targets:
            return None
        hypothesis = self._hypothesis(l2=self.l2, intercept=bool(self.fit_intercept))
        seed = seed_of(self.random_state)
        return estimate(problem, hypothesis, method=self.method, C=self.C, seed=seed)

    def _solve(self, problem: Problem) -> None:
        """Find α (M, columns) and w (M, P) of the targets.

        A table of one domain is the only mixture of itself.
        """
        hypothesis = self._hypothesis(l2=self.l2, intercept=bool(self.fit_intercept))
        self.blended_, level = None, self._level
        self.mixtures_ = self._estimate(problem)
        # Each source alone: predict answers its rows too, and with one domain this is all there is.
        self.solution_ = solve(problem.sources, hypothesis, np.eye(problem.n_sources), tol=self.tol)
        self.source_solution_, self.alpha_columns_ = (
            self.solution_,
            tuple(s.name for s in problem.sources),
        )
        if self.mixtures_ is not None:
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
        X, sample_domain = self._apart(X, sample_domain)
        X = self._checked(X, reset=False)
        space: Any = self.solution_.space
        scores = torch.empty(space.n_outputs, len(X), dtype=space.dtype)
        for (w, level), rows in self._routed(sample_domain, len(X)):
            scores[:, rows] = (
                space.scores(torch.as_tensor(w), space.prepare(torch.as_tensor(X[rows]))) + level
            )
        return scores
