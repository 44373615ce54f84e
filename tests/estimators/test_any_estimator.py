"""`CuveeClassifier(estimator=...)`, `CuveeRegressor(estimator=...)`: scikit-learn's own checks,
weights by hand, pipelines and searches, bad input.
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    parametrize_with_checks,
)

import cuvee
from cuvee.errors import CuveeWarning
from cuvee.estimators.bins import Bins
from cuvee.sklearn import CuveeClassifier, CuveeRegressor

SOURCES, NEW = ["east", "mid", "west"], ["north", "south"]
EFFECT = {"east": 2.0, "mid": 0.0, "west": -3.0, "north": 1.8, "south": -2.5}


@pytest.fixture(autouse=True)
def _routing_off():
    """What other tests import (skada does) may have turned it on for the whole process."""
    with sklearn.config_context(enable_metadata_routing=False):
        yield


def table(kind: str = "classes", seed: int = 0):
    """X (rows, 3), y, the site of each row; rows shuffled."""
    rng = np.random.default_rng(seed)
    site = rng.permutation(np.repeat(list(EFFECT), [60, 50, 60, 24, 20]))
    X = rng.normal(size=(len(site), 3))
    signal = X @ [1.0, -1.0, 0.0] + X[:, 2] * [EFFECT[s] for s in site]
    return X, (signal > 0).astype(int) if kind == "classes" else signal, site


X, Y, SITE = table()
named = {"sample_domain": SITE, "target_domains": NEW}


def forbidden(estimator) -> dict[str, str]:
    """Return the checks that cannot pass, each with its reason."""
    inner = estimator.estimator
    if isinstance(inner, Pipeline) and isinstance(inner[0], StandardScaler):
        why = "a pipeline's last step gets the weights, and its scaler counts rows without them"
        return dict.fromkeys(WEIGHTS, why)
    if isinstance(inner, RandomForestClassifier):
        return dict.fromkeys(WEIGHTS, "it draws rows, so that a bare forest fails this check too")
    return {}


WEIGHTS = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)


@pytest.mark.sample(200)
@parametrize_with_checks(
    [
        CuveeClassifier(estimator=DecisionTreeClassifier()),
        CuveeRegressor(estimator=DecisionTreeRegressor()),
        CuveeClassifier(estimator=LogisticRegression()),
        CuveeRegressor(estimator=LinearRegression()),
        CuveeClassifier(estimator=make_pipeline(StandardScaler(), LogisticRegression())),
        CuveeRegressor(estimator=make_pipeline(Bins(), HistGradientBoostingRegressor(max_iter=5))),
        CuveeRegressor(estimator=HistGradientBoostingRegressor(max_iter=5)),
        CuveeClassifier(estimator=RandomForestClassifier(n_estimators=5)),
        Bins(),
    ],
    expected_failed_checks=lambda one: {} if isinstance(one, Bins) else forbidden(one),
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_a_check_that_is_expected_to_fail_fails_for_a_bare_forest_too():
    with pytest.raises(AssertionError, match="not equivalent to fitting with removed"):
        check_sample_weight_equivalence_on_dense_data("forest", RandomForestClassifier(5))


# ---- what it stands for


def test_each_model_is_the_estimator_on_rows_weighed_by_alpha():
    X, y, site = table("numbers")
    model = CuveeRegressor(estimator=LinearRegression()).fit(
        X, y, sample_domain=site, target_domains=NEW
    )
    assert model.alpha_columns_ == (*SOURCES, cuvee.OWN)
    for i, target in enumerate(NEW):
        a = dict(zip((*SOURCES, target), model.alpha_[i], strict=True))
        weight = np.array([a.get(s, 0.0) / (site == s).sum() for s in site])
        by_hand = LinearRegression().fit(X, y, sample_weight=weight)
        np.testing.assert_allclose(
            model.predict(X, sample_domain=target), by_hand.predict(X), atol=1e-9
        )
    alone = LinearRegression().fit(X[site == "mid"], y[site == "mid"])
    np.testing.assert_allclose(model.predict(X, sample_domain="mid"), alone.predict(X), atol=1e-9)


def test_alpha_is_the_average_of_the_candidates_by_the_estimators_own_folds():
    model = CuveeClassifier(estimator=HistGradientBoostingClassifier(max_iter=10)).fit(
        X, Y, **named
    )
    linear = CuveeClassifier().fit(StandardScaler().fit_transform(X), Y, **named)
    for i, choice in enumerate(model.choices_):
        np.testing.assert_allclose(choice.share.sum(), 1.0)
        np.testing.assert_allclose(model.alpha_[i], choice.share @ choice.candidates)
        assert choice.names[:4] == ("averaged", "half own", "pooled_own", "target_only")
        np.testing.assert_allclose(choice.candidates[0], linear.alpha_[i], atol=1e-5)
        np.testing.assert_allclose(choice.candidates[1][-1], 0.5)
        assert np.isfinite(choice.cv_loss).all()
        # with twenty rows a boosting of leaves of twenty rows learns nothing from them alone
        assert choice.share[3] < choice.share[0]
    again = clone(model).fit(X, Y, **named)
    np.testing.assert_array_equal(again.alpha_, model.alpha_)


def test_a_held_out_loss_is_that_of_a_model_that_did_not_see_the_row():
    X, y, site = table("numbers")
    model = CuveeRegressor(estimator=LinearRegression()).fit(
        X, y, sample_domain=site, target_domains="south"
    )
    choice = model.choices_[0]
    at = choice.names.index("half own")
    own = np.flatnonzero(site == "south")
    fold = np.argsort(np.argsort(y[own])) % 5
    squares = []
    for f in range(5):
        kept, test = own[fold != f], own[fold == f]
        others = np.flatnonzero(np.isin(site, [*SOURCES, "north"]))
        weight = np.r_[np.full(len(others), 0.5 / len(others)), np.full(len(kept), 0.5 / len(kept))]
        rows = np.r_[others, kept]
        by_hand = LinearRegression().fit(X[rows], y[rows], weight)
        squares += ((by_hand.predict(X[test]) - y[test]) ** 2).tolist()
    assert choice.cv_loss[at] == pytest.approx(np.mean(squares), rel=1e-9)


def test_a_named_method_is_taken_at_its_word():
    model = CuveeClassifier(estimator=DecisionTreeClassifier(), method="uniform").fit(X, Y, **named)
    np.testing.assert_allclose(model.alpha_, [[1 / 3, 1 / 3, 1 / 3, 0.0]] * 2)
    assert model.choices_[0].names == ()


def test_levels_and_weights_of_rows():
    X, y, site = table("numbers")
    y = y + np.array([{"east": 50.0, "north": -80.0}.get(s, 0.0) for s in site])
    model = CuveeRegressor(estimator=LinearRegression(), levels=True).fit(
        X, y, sample_domain=site, target_domains=NEW
    )
    assert model.score(X, y, sample_domain=site) > 0.9
    weight = np.random.default_rng(2).integers(0, 3, len(y))
    kept = weight > 0
    one = CuveeRegressor(estimator=LinearRegression()).fit(
        X, y, weight, sample_domain=site, target_domains=NEW
    )
    two = CuveeRegressor(estimator=LinearRegression()).fit(
        X[kept], y[kept], weight[kept], sample_domain=site[kept], target_domains=NEW
    )
    # the surrogate standardises all rows it is given, so that α moves a little
    np.testing.assert_allclose(one.alpha_, two.alpha_, atol=0.05)


@pytest.mark.parametrize("spent", [False, True])
def test_a_budget_ends_with_what_was_judged(spent):
    model = CuveeClassifier(
        estimator=DecisionTreeClassifier(max_depth=3), budget=1e-9 if spent else 1e9
    )
    if spent:
        with pytest.warns(
            CuveeWarning, match="target 'north', mixture 'averaged': not judged, bec"
        ):
            model.fit(X, Y, **named)
        np.testing.assert_allclose(model.alpha_, model.mixtures_.alpha)
    else:
        model.fit(X, Y, **named)
        assert all(np.isfinite(choice.cv_loss).all() for choice in model.choices_)


def test_progress_tells_of_every_target():
    heard = []
    CuveeRegressor(
        estimator=DecisionTreeRegressor(), progress=lambda *told: heard.append(told)
    ).fit(*table("numbers")[:2], **named)
    assert ("fitting models", 1, 2) in heard and heard[-1] == ("fitting models", 2, 2)
    assert any(what == "judging mixtures for south" for what, _, _ in heard)


# ---- pipelines, searches, other kinds of estimators


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    colour = rng.choice(["red", "blue"], len(Y))
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "colour": colour})


def encoder():
    return make_column_transformer(
        (OneHotEncoder(), ["colour"]), (StandardScaler(), ["a", "b", "c"])
    )


def test_a_pipeline_with_encoders_takes_a_raw_frame():
    pipe = make_pipeline(encoder(), LogisticRegression())
    model = CuveeClassifier(estimator=pipe).fit(frame(), Y, **named)
    assert model.score(frame(), Y, sample_domain=SITE) > 0.8
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "colour"]
    a = dict(zip((*SOURCES, "north"), model.alpha_[0], strict=True))
    weight = np.array([a.get(s, 0.0) / (s == SITE).sum() for s in SITE])
    kept = weight > 0
    by_hand = clone(pipe).fit(
        frame()[kept], Y[kept], logisticregression__sample_weight=weight[kept] * kept.sum()
    )
    np.testing.assert_allclose(
        model.predict_proba(frame(), sample_domain="north"),
        by_hand.predict_proba(frame()),
        atol=1e-4,
    )


def test_sparse_rows_reach_an_estimator_that_takes_them():
    dense = CuveeClassifier(estimator=LogisticRegression()).fit(X, Y, **named)
    for estimator in (LogisticRegression(), make_pipeline(MaxAbsScaler(), LogisticRegression())):
        model = CuveeClassifier(estimator=estimator).fit(csr_array(X), Y, **named)
        chance = model.predict_proba(csr_array(X), sample_domain=SITE)
        if not isinstance(estimator, Pipeline):
            np.testing.assert_allclose(
                chance, dense.predict_proba(X, sample_domain=SITE), atol=1e-6
            )
        assert model.score(csr_array(X), Y, sample_domain=SITE) > 0.8
    with pytest.raises(TypeError, match="Sparse data was passed"):
        CuveeClassifier(estimator=HistGradientBoostingClassifier()).fit(csr_array(X), Y, **named)


def test_a_pipeline_may_read_texts_that_are_no_table():
    words = np.array([f"{'good' if y else 'bad'} {site}" for y, site in zip(Y, SITE, strict=True)])
    pipe = make_pipeline(CountVectorizer(), LogisticRegression())
    model = CuveeClassifier(estimator=pipe).fit(words, Y, **named)
    assert model.score(words, Y, sample_domain=SITE) == 1.0


def test_categories_and_gaps_reach_a_boosting_as_they_are():
    raw = frame().astype({"colour": "category"})
    boosting = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")
    model = CuveeClassifier(estimator=boosting).fit(raw, Y, **named)
    assert model.estimators_[0].is_categorical_.tolist() == [False, False, False, True]
    gaps = X.copy()
    gaps[::7, 1] = np.nan
    model = CuveeRegressor(estimator=HistGradientBoostingRegressor(max_iter=5))
    model.fit(gaps, Y, **named)
    assert np.isfinite(model.predict(gaps, sample_domain=SITE)).all()
    with pytest.raises(ValueError, match="contains NaN"):
        CuveeRegressor(estimator=LinearRegression()).fit(gaps, Y, **named)


def test_a_grid_search_over_the_parameters_of_a_pipelines_steps():
    folds = PredefinedSplit(np.where(np.isin(SITE, NEW), np.arange(len(SITE)) % 2, -1))
    grid = {"estimator__model__max_depth": [1, 4], "method": ["pooled"]}
    pipe = Pipeline([("encode", encoder()), ("model", DecisionTreeClassifier())])
    with sklearn.config_context(enable_metadata_routing=True):
        model = CuveeClassifier(estimator=pipe)
        model.set_fit_request(sample_domain=True, target_domains=True)
        model.set_score_request(sample_domain=True)
        search = GridSearchCV(model, grid, cv=folds, error_score="raise").fit(frame(), Y, **named)
    scores = search.cv_results_["mean_test_score"]
    depths = [one["estimator__model__max_depth"] for one in search.cv_results_["params"]]
    assert search.best_estimator_.estimators_[0][-1].max_depth == depths[int(scores.argmax())]
    assert scores[0] != scores[1]  # the parameter reached the trees
    assert search.best_estimator_.score(frame(), Y, sample_domain=SITE) > 0.6
    assert pipe[-1].max_depth is None  # nobody's estimator is fitted or changed


def test_a_search_is_an_estimator_too():
    inner = GridSearchCV(DecisionTreeClassifier(), {"max_depth": [1, 3]}, cv=2)
    model = CuveeClassifier(estimator=inner, method="uniform").fit(X, Y, **named)
    assert model.estimators_[0].best_params_["max_depth"] in (1, 3)


def test_an_estimator_without_probabilities_is_judged_by_its_answers():
    model = CuveeClassifier(estimator=RidgeClassifier()).fit(X, Y, **named)
    assert not hasattr(model, "predict_proba") and not hasattr(model, "decision_function")
    assert ((model.choices_[0].cv_loss * 24).round(9) % 1 == 0).all()  # wrong answers of 24


def test_classes_may_have_names_and_be_many():
    X, y, site = table("numbers")
    y = np.array(["low", "mid", "top"])[np.digitize(y, [-1.0, 1.0])]
    model = CuveeClassifier(estimator=LogisticRegression()).fit(
        X, y, sample_domain=site, target_domains=NEW
    )
    chance = model.predict_proba(X, sample_domain=site)
    np.testing.assert_array_equal(
        model.predict(X, sample_domain=site), model.classes_[chance.argmax(1)]
    )
    assert model.decision_function(X, sample_domain=site).shape == chance.shape == (len(y), 3)


# ---- bad input: one sentence that says what is wrong and where


class Moody(ClassifierMixin, BaseEstimator):
    """An estimator that refuses few rows."""

    def __init__(self, least=0):
        self.least = least

    def fit(self, X, y, sample_weight=None):
        if len(X) < self.least:
            raise RuntimeError(f"{len(X)} rows are too few\nfor me")
        self.classes_ = np.unique(y)
        self.chance_ = np.bincount(y) / len(y)
        return self

    def predict_proba(self, X):
        return np.tile(self.chance_[self.classes_], (len(X), 1))

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


@pytest.mark.parametrize(
    ("estimator", "says"),
    [
        (KNeighborsClassifier(), "estimator KNeighborsClassifier takes no sample_weight in fit"),
        (make_pipeline(StandardScaler(), KNeighborsClassifier()), "KNeighborsClassifier takes no sample_weight"),
        (make_pipeline(StandardScaler(), "passthrough"), "takes no sample_weight in fit"),
        (ExtraTreesRegressor(), "ExtraTreesRegressor predicts a quantity, and here it must be classes"),
        (DecisionTreeClassifier, "estimator must be a scikit-learn estimator, such as Ridge(); got"),
        ("trees", "estimator must be a scikit-learn estimator"),
        (Moody(least=10**6), "source 'east': the estimator failed on its rows alone (RuntimeError: 60 rows"),
    ],
)  # fmt: skip
def test_bad_estimators(estimator, says):
    with pytest.raises(cuvee.OptionError, match=re.escape(says)):
        CuveeClassifier(estimator=estimator).fit(X, Y, **named)


def test_a_mixture_on_which_the_estimator_fails_gets_no_share():
    says = (
        "target 'north', mixture 'target_only': fold 1 of 5 failed (RuntimeError: 19 rows are too"
    )
    with pytest.warns(CuveeWarning, match=re.escape(says)):
        model = CuveeClassifier(estimator=Moody(least=30)).fit(X, Y, **named)
    at = model.choices_[0].names.index("target_only")
    assert np.isnan(model.choices_[0].cv_loss[at]) and model.choices_[0].share[at] == 0.0


def test_a_class_that_a_fold_lacks_is_named():
    rare = np.where(np.isin(SITE, NEW), 0, Y)
    rare[np.flatnonzero(SITE == "north")[0]] = 1
    says = "target 'north', mixture 'target_only': the rows to learn from have no row of class 1 in"
    with pytest.warns(CuveeWarning, match=says):
        model = CuveeClassifier(estimator=LogisticRegression()).fit(X, rare, **named)
    assert np.isfinite(model.choices_[0].cv_loss).all()


def test_a_budget_is_a_number_of_seconds():
    with pytest.raises(cuvee.OptionError, match="budget must be"):
        CuveeClassifier(estimator=DecisionTreeClassifier(), budget=0).fit(X, Y, **named)


@pytest.mark.parametrize(
    ("labelled", "says"),
    [(0, "domain 'north' has no labelled row"), (1, "domain 'north' has fewer than 2 labelled rows")],
)  # fmt: skip
def test_a_target_with_no_label_or_one_gets_no_model(labelled, says):
    y = Y.astype(float)
    y[np.flatnonzero(SITE == "north")[labelled:]] = np.nan
    model = CuveeClassifier(estimator=DecisionTreeClassifier(), method="uniform")
    with pytest.warns(CuveeWarning) as heard:
        model.fit(X, y, **named)
    assert [str(one.message).split(":")[0] for one in heard] == [
        "domain 'north' has fewer than 5 labelled rows",
        says,
    ]
    assert model.skipped_.tolist() == ["north"] and len(model.estimators_) == 1
    with pytest.raises(cuvee.DomainError, match="'north' had too few labelled rows in fit, so it"):
        model.predict(X, sample_domain="north")
    y[np.flatnonzero(SITE == "south")[labelled:]] = np.nan
    says = f"none of the 2 targets has labelled rows enough: target 'north' has {labelled} labelled"
    with pytest.raises(cuvee.DomainError, match=says):
        model.fit(X, y, **named)
