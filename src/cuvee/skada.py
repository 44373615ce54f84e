"""`CuveeReweightAdapter`: mixture weights as row weights, inside `skada.make_da_pipeline`."""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import type_of_target

from cuvee.api import OWN, estimate
from cuvee.data.samples import Roles, masked, missing, split
from cuvee.errors import CuveeWarning, DomainError, MissingExtra, OptionError, check_choice
from cuvee.hypothesis import Logistic, Ridge
from cuvee.problem import Array
from cuvee.sklearn import FLOATS, seed_of

try:
    from skada import BaseAdapter
except ImportError:
    raise MissingExtra("cuvee.skada needs skada: pip install 'cuvee[skada]'") from None


class CuveeReweightAdapter(BaseAdapter):  # type: ignore[misc]  # skada has no types
    """An adapter that weighs every row of domain j by n α_j/m_j.

    A weighted estimator then minimises the risk of the mixture.

    m_j are the labelled rows of the domain and n those of all, so that weights are 1 in the mean.
    The target's labelled rows take part, which skada hides unless `make_da_pipeline(...,
    mask_target_labels=False)` lets them through. The estimator that follows needs
    `.set_fit_request(sample_weight=True)`.

    Args:
        target: the negative number of the target to adapt to; by default all of them, their
            mixtures averaged.
        task: what y is; "auto" looks.
        l2, method, C, random_state, exclude, strict: as in `cuvee.CuveeClassifier`; l2 is that of
            the models α is found with. Rows that are left out weigh 0.

    Attributes:
        mixtures_: what `cuvee.estimate` returned, a row per target.
        sample_weight_: (rows,) of the table in fit, 0 where a row has no label.
    """

    def __init__(
        self,
        target: int | None = None,
        *,
        task: Literal["auto", "classification", "regression"] = "auto",
        l2: float = 1e-2,
        method: Any = "path",
        C: float | None = None,
        random_state: Any = 0,
        exclude: Any = (),
        strict: bool = False,
    ) -> None:
        super().__init__()
        self.target, self.task, self.l2 = target, task, l2
        self.method, self.C, self.random_state = method, C, random_state
        self.exclude, self.strict = exclude, strict

    def fit(self, X: Any, y: Any = None, *, sample_domain: Any = None, **params: Any) -> Self:
        """Find the mixtures of X (rows, features), y (rows,), sample_domain (rows,).

        A row of a target has a negative number in sample_domain.
        """
        if y is None or sample_domain is None:
            raise OptionError(
                "CuveeReweightAdapter learns from labels and domains: pass y and sample_domain"
            )
        X, y = check_array(X, dtype=FLOATS), column_or_1d(y)
        check_consistent_length(X, y)
        roles = Roles.read(sample_domain, None, len(X), self.exclude)
        rows = np.arange(len(X))
        if self.target is not None:
            if self.target not in roles.targets:
                raise OptionError(
                    f"target {self.target!r} is not among the targets of sample_domain, "
                    f"{roles.targets}"
                )
            rows = np.flatnonzero(np.isin(roles.labels, [*roles.sources, self.target]))
            roles = Roles(roles.labels[rows], roles.sources, np.array([self.target]))
        classify = self._classify(y)
        _check_labels_seen(y[rows], roles, classify)
        parts = split(X[rows], y[rows], roles, classify=classify, strict=self.strict)
        for note in parts.notes:
            warnings.warn(note, CuveeWarning, stacklevel=2)
        problem, groups = parts.problem, parts.rows
        hypothesis = Logistic(l2=self.l2) if classify else Ridge(l2=self.l2)
        self.mixtures_ = estimate(
            problem, hypothesis, method=self.method, C=self.C, seed=seed_of(self.random_state)
        )
        alpha = dict(zip(self.mixtures_.columns, self.mixtures_.alpha.mean(0), strict=True))
        if OWN in alpha:  # one column, but each target has rows of its own
            alpha |= dict(
                zip(
                    self.mixtures_.targets,
                    self.mixtures_.alpha[:, -1] / problem.n_targets,
                    strict=True,
                )
            )
        n = sum(len(held) for held in groups.values())
        self.sample_weight_ = np.zeros(len(X))
        for name, held in groups.items():
            self.sample_weight_[rows[held]] = n * alpha.get(name, 0.0) / len(held)
        return self

    def fit_transform(
        self, X: Any, y: Any = None, *, sample_domain: Any = None, **params: Any
    ) -> Any:
        """Return X as it is, and its row weights (rows,) for the estimator that follows."""
        self.fit(X, y, sample_domain=sample_domain)
        return X, {"sample_weight": self.sample_weight_}

    def _classify(self, y: Array) -> bool:
        """Return whether y are classes.

        NaN masks quantities, −1 classes: where rows are masked, that says what y is.
        """
        check_choice("task", self.task, ("auto", "classification", "regression"))
        if self.task != "auto":
            return self.task == "classification"
        return not missing(y).any() and not type_of_target(y).startswith("continuous")


def _check_labels_seen(y: Array, roles: Roles, classify: bool) -> None:
    of_target = np.isin(roles.labels, roles.targets)
    if masked(y, np.unique(y[~of_target]) if classify else None)[of_target].all():
        raise DomainError(
            "no row of a target has a label, and skada hides those there are: pass "
            "mask_target_labels=False to "
            "make_da_pipeline, and mask rows that have none (−1, NaN) yourself; copies of a "
            "pipeline, which searches make, forget it in skada 0.6 (see cuvee's page on skada)"
        )
