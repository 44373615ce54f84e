"""An estimator that is fitted with row weights, which a pipeline hands to its last step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from cuvee.errors import OptionError
from cuvee.estimators.weights import take
from cuvee.problem import Array
from cuvee.results import Floats


def weight_parameter(estimator: Any) -> str | None:
    """Return the name under which `fit` takes row weights, or None where it takes none.

    >>> from sklearn.linear_model import Ridge
    >>> weight_parameter(Pipeline([("scale", "passthrough"), ("model", Ridge())]))
    'model__sample_weight'
    """
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner = weight_parameter(last)
        return None if inner is None else f"{name}__{inner}"
    if isinstance(estimator, GridSearchCV | RandomizedSearchCV):
        return weight_parameter(estimator.estimator)
    takes = hasattr(estimator, "fit") and has_fit_parameter(estimator, "sample_weight")
    return "sample_weight" if takes else None


def check_estimator(estimator: Any, *, classify: bool) -> None:
    """Raise `OptionError` where an estimator takes no row weights, or predicts something else."""
    name = _name(estimator)
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise OptionError(
            f"estimator must be a scikit-learn estimator, such as Ridge(); got {estimator!r}"
        )
    if weight_parameter(estimator) is None:
        raise OptionError(
            f"estimator {name} takes no sample_weight in fit, and mixtures are weights of "
            "rows: choose one that does, such as histogram gradient boosting or a forest"
        )
    other = is_regressor(estimator) if classify else is_classifier(estimator)
    if other:
        wanted, given = ("classes", "a quantity") if classify else ("a quantity", "classes")
        raise OptionError(f"estimator {name} predicts {given}, and here it must be {wanted}")


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A fitted estimator of classes 0..K−1, some of which it may not have seen, or of a quantity.

    It was fitted on numbers 0, 1, … of the classes `seen`, because XGBoost takes no others.
    """

    estimator: Any
    n_classes: int | None  # None: it predicts a quantity
    seen: Array | None = None  # (classes of its rows,) sorted numbers below n_classes

    def predict(self, X: Any) -> Array:
        """Return numbers of classes, or quantities: (rows,)."""
        answers = np.asarray(self.estimator.predict(X)).reshape(-1)
        if self.seen is None:
            return answers.astype(np.float64)
        return self.seen[answers.astype(np.int64)]

    def predict_proba(self, X: Any) -> Floats:
        """Return probabilities (rows, K); a class that it has not seen has 0."""
        assert self.n_classes is not None and self.seen is not None
        chance = np.zeros((X.shape[0], self.n_classes))
        chance[:, self.seen] = self.estimator.predict_proba(X)
        return chance


@dataclass(frozen=True, eq=False)
class Learner:
    """An estimator that was checked, and is fitted anew for every mixture."""

    estimator: Any
    classes: Array | None  # (K,) whose numbers it learns; None: a quantity
    seed: int

    @property
    def n_classes(self) -> int | None:
        return None if self.classes is None else len(self.classes)

    @classmethod
    def of(cls, estimator: Any, classes: Array | None, seed: int) -> Learner:
        """Return the estimator as a learner of classes (K,), or of a quantity.

        Raise `OptionError` where `check_estimator` does.
        """
        check_estimator(estimator, classify=classes is not None)
        return cls(estimator, classes, seed)

    @property
    def probabilities(self) -> bool:
        """Return whether its models have class probabilities."""
        return self.classes is not None and hasattr(self.estimator, "predict_proba")

    def fit(self, X: Any, y: Array, weight: Floats) -> FittedModel:
        """Return the model of rows X, y (rows,) with weights (rows,); rows of weight 0 are left
        out.

        Where all rows are of one class, the model always answers that class: many estimators refuse
        such rows.
        """
        rows = np.flatnonzero(weight > 0)
        X, y, weight = take(X, rows), y[rows], weight[rows]
        seen = None
        if self.classes is not None:
            seen, y = np.unique(y, return_inverse=True)
            if len(seen) == 1:
                constant = DummyClassifier(strategy="prior")
                constant.fit(np.zeros((len(y), 1)), y, weight)
                return FittedModel(constant, self.n_classes, seen)
        model = clone(self.estimator)
        model.set_params(**_seeds(model, self.seed))
        key = weight_parameter(model)
        # A name with the step in front is understood only where scikit-learn's routing is off.
        with sklearn.config_context(enable_metadata_routing=False):
            model.fit(X, y, **{str(key): weight})
        return FittedModel(model, self.n_classes, seen)


def _seeds(estimator: Any, seed: int) -> dict[str, int]:
    """Return the parameters that say how to draw, where they say nothing: one call, one result."""
    return {
        name: seed
        for name, value in estimator.get_params(deep=True).items()
        if value is None and name.split("__")[-1] == "random_state"
    }


def _name(estimator: Any) -> str:
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    return type(last).__name__ if not isinstance(last, str | type) else repr(last)
