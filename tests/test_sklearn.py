"""The estimators: scikit-learn's own checks, the direct calls they stand for, the tools around
them, bad input.
"""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import coo_array, csc_matrix, csr_array
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, PredefinedSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import cuvee
from cuvee.sklearn import CuveeClassifier, CuveeRegressor, TargetScorer, TargetSplit
from rounding import ESTIMATED, SOLVED, assert_rounded

SIZES = {"east": 60, "mid": 50, "west": 60, "north": 16, "south": 14}
EFFECT = {"east": 2.0, "mid": 0.0, "west": -3.0, "north": 1.8, "south": -2.5}
SIGN = {"east": 1, "mid": 2, "west": 3, "north": -5, "south": -4}
NEW = ["north", "south"]


@pytest.fixture(autouse=True)
def _routing_off():
    """What other tests import (skada does) may have turned it on for the whole process."""
    with sklearn.config_context(enable_metadata_routing=False):
        yield


def table(kind: str = "classes", seed: int = 0):
    """X (rows, 3), y, the site of each row; rows shuffled."""
    rng = np.random.default_rng(seed)
    site = rng.permutation(np.repeat(list(SIZES), list(SIZES.values())))
    X = rng.normal(size=(len(site), 3))
    signal = (
        X @ [1.0, -1.0, 0.0]
        + X[:, 2] * [EFFECT[s] for s in site]
        + 0.3 * rng.normal(size=len(site))
    )
    return X, (signal > 0).astype(int) if kind == "classes" else signal, site


def problem_of(X, y, site) -> cuvee.Problem:
    def domain(name):
        return cuvee.Domain(name, X[site == name], y[site == name])

    return cuvee.Problem([domain(s) for s in ("east", "mid", "west")], [domain(t) for t in NEW])


CASES = [
    pytest.param(CuveeClassifier, cuvee.Logistic(l2=1e-2), "classes", id="classifier"),
    pytest.param(CuveeRegressor, cuvee.Ridge(l2=1e-2), "numbers", id="regressor"),
]


@parametrize_with_checks([CuveeClassifier(), CuveeRegressor()])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


# ---- one domain is plain empirical risk minimisation


@pytest.mark.parametrize(("make", "hypothesis", "kind"), CASES)
def test_one_domain_is_solve(make, hypothesis, kind):
    X, y, _ = table(kind)
    model = make().fit(X, y)
    sol = cuvee.solve([cuvee.Domain("all", X, y)], hypothesis, [[1.0]])
    assert_rounded(model.solution_.w, sol.w, SOLVED)
    if kind == "classes":
        assert np.abs(model.decision_function(X)).min() > 1e-6  # or rounding would choose a class
    assert_rounded(model.predict(X), sol.models[0].predict(X), SOLVED)
    assert model.alpha_.tolist() == [[1.0]] and model.mixtures_ is None and len(model.targets_) == 0
    assert model.certificate_.distance[0] < 1e-2


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_one_domain_is_scikit_learns_logistic_regression(classes, intercept, weighted):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 3))
    y = np.array(["a", "b", "c"])[rng.permutation(np.arange(80) % classes)]
    weight = rng.integers(0, 4, 80) if weighted else np.ones(80)
    mine = CuveeClassifier(l2=0.05, fit_intercept=intercept, tol=1e-9).fit(
        X, y, weight if weighted else None
    )
    theirs = LogisticRegression(
        C=1 / (0.05 * weight.sum()), fit_intercept=intercept, tol=1e-10, max_iter=10_000
    )
    theirs.fit(X, y, weight)
    np.testing.assert_allclose(mine.coef_[0], theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(mine.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(mine.decision_function(X), theirs.decision_function(X), atol=1e-4)
    np.testing.assert_array_equal(mine.classes_, theirs.classes_)
    assert mine.score(X, y, weight) == pytest.approx(theirs.score(X, y, weight))


@pytest.mark.parametrize("intercept", [True, False])
def test_one_domain_is_scikit_learns_ridge(intercept):
    X, y, _ = table("numbers")
    mine = CuveeRegressor(l2=0.1, fit_intercept=intercept).fit(X, y)
    theirs = Ridge(alpha=0.1 * len(X), fit_intercept=intercept).fit(X, y)
    np.testing.assert_allclose(mine.coef_[0], theirs.coef_, atol=1e-10)
    np.testing.assert_allclose(mine.intercept_[0], theirs.intercept_, atol=1e-10)
    assert mine.score(X, y) == pytest.approx(theirs.score(X, y))


# ---- many domains are estimate and solve


@pytest.mark.parametrize(("make", "hypothesis", "kind"), CASES)
def test_many_domains_are_estimate_and_solve(make, hypothesis, kind):
    X, y, site = table(kind)
    model = make(random_state=3).fit(X, y, sample_domain=site, target_domains=NEW)
    problem = problem_of(X, y, site)
    mix = cuvee.estimate(problem, hypothesis, seed=3)
    assert_rounded(model.alpha_, mix.alpha, ESTIMATED)
    assert_rounded(model.solution_.w, cuvee.solve(problem, hypothesis, model.alpha_).w, SOLVED)
    assert model.alpha_columns_ == ("east", "mid", "west", cuvee.OWN)
    assert model.targets_.tolist() == NEW and model.sources_.tolist() == ["east", "mid", "west"]
    assert sorted(model.domains_) == sorted(SIZES)
    assert model.coef_.shape == ((2, 1, 3) if kind == "classes" else (2, 3))
    assert model.alpha_[0, 0] > model.alpha_[0, 2] and model.alpha_[1, 2] > model.alpha_[1, 0]
    assert model.score(X, y, sample_domain=site) > 0.8


@pytest.mark.parametrize(("make", "hypothesis", "kind"), CASES)
def test_every_row_is_answered_by_the_model_of_its_domain(make, hypothesis, kind):
    X, y, site = table(kind)
    model = make(method="uniform").fit(X, y, sample_domain=site, target_domains=NEW)
    alone = cuvee.solve(problem_of(X, y, site).sources, hypothesis, np.eye(3))
    expected = np.empty_like(y)
    for i, name in enumerate(NEW):
        expected[site == name] = model.solution_.models[i].predict(X[site == name])
    for j, name in enumerate(("east", "mid", "west")):
        expected[site == name] = alone.models[j].predict(X[site == name])
    np.testing.assert_allclose(model.predict(X, sample_domain=site), expected, rtol=1e-12)
    assert_rounded(
        model.predict(X, sample_domain="south"), model.predict(X, sample_domain=["south"] * len(X))
    )


def test_probabilities_and_scores_follow_the_domain():
    X, y, site = table()
    model = CuveeClassifier(method="uniform", l2=1e-3).fit(
        X, y, sample_domain=site, target_domains=NEW
    )
    chances, scores = (
        model.predict_proba(X, sample_domain=site),
        model.decision_function(X, sample_domain=site),
    )
    np.testing.assert_allclose(chances[:, 1], 1 / (1 + np.exp(-scores)))
    assert np.abs(scores).min() > 1e-6  # or rounding would choose a class
    np.testing.assert_array_equal(model.predict(X, sample_domain=site), (scores > 0).astype(int))


@pytest.mark.slow
def test_numbers_follow_skadas_signs():
    X, y, site = table("numbers")
    named = CuveeRegressor().fit(X, y, sample_domain=site, target_domains=["south", "north"])
    number = np.array([SIGN[s] for s in site])
    for given in (
        number,
        number.astype(float),
        number.astype(object),
        number.tolist(),
        pd.Series(number),
    ):
        signed = CuveeRegressor().fit(X, y, sample_domain=given)
        assert signed.targets_.tolist() == [-5, -4] and signed.sources_.tolist() == [1, 2, 3]
        np.testing.assert_allclose(signed.alpha_, named.alpha_[::-1], atol=1e-12)
    np.testing.assert_allclose(
        signed.predict(X, sample_domain=number), named.predict(X, sample_domain=site)
    )


def test_numbers_may_be_plain_names_too():
    X, y, site = table("numbers")
    number = np.array([abs(SIGN[s]) for s in site])
    model = CuveeRegressor(method="uniform").fit(X, y, sample_domain=number, target_domains=4)
    assert model.targets_.tolist() == [4] and model.sources_.tolist() == [1, 2, 3, 5]


def test_one_target_needs_no_domain_to_predict():
    X, y, site = table("numbers")
    kept = site != "south"
    X, y, site = X[kept], y[kept], site[kept]
    model = CuveeRegressor(method="uniform").fit(X, y, sample_domain=site, target_domains="north")
    assert_rounded(model.predict(X), model.predict(X, sample_domain="north"))


@pytest.mark.parametrize(
    ("kind", "mask"),
    [("classes", -1), ("classes", np.nan), ("text", None), ("text", np.nan), ("numbers", np.nan)],
)
def test_rows_of_a_target_without_label_are_left_out(kind, mask):
    X, y, site = table("numbers" if kind == "numbers" else "classes")
    y = np.array(["no", "yes"], dtype=object)[y] if kind == "text" else y
    make = CuveeRegressor if kind == "numbers" else CuveeClassifier
    gone = np.isin(site, NEW) & (np.arange(len(y)) % 4 == 0)
    hidden = y.copy() if y.dtype.kind in "fO" or mask == -1 else y.astype(float)
    hidden[gone] = mask
    model = make(method="pooled").fit(X, hidden, sample_domain=site, target_domains=NEW)
    fewer = make(method="pooled").fit(
        X[~gone], y[~gone], sample_domain=site[~gone], target_domains=NEW
    )
    assert_rounded(model.solution_.w, fewer.solution_.w, SOLVED)
    score = fewer.score(X[~gone], y[~gone], sample_domain=site[~gone])
    assert model.score(X, hidden, sample_domain=site) == pytest.approx(score)


def test_minus_one_is_a_class_where_a_source_has_it():
    X, y, site = table()
    model = CuveeClassifier(method="target_only").fit(
        X, 2 * y - 1, sample_domain=site, target_domains=NEW
    )
    other = CuveeClassifier(method="target_only").fit(X, y, sample_domain=site, target_domains=NEW)
    assert model.classes_.tolist() == [-1, 1]
    assert_rounded(model.solution_.w, other.solution_.w, SOLVED)


def test_a_weight_of_zero_is_a_row_less():
    X, y, site = table("numbers")
    weight = np.random.default_rng(2).integers(0, 3, len(y))
    weight[site == "south"] = 1
    kept = weight > 0
    every = CuveeRegressor().fit(X, y, weight, sample_domain=site, target_domains=NEW)
    fewer = CuveeRegressor().fit(
        X[kept], y[kept], weight[kept], sample_domain=site[kept], target_domains=NEW
    )
    plain = CuveeRegressor().fit(X, y, sample_domain=site, target_domains=NEW)
    assert_rounded(every.solution_.w, fewer.solution_.w, ESTIMATED)
    assert not np.allclose(every.solution_.w, plain.solution_.w)


def test_frames_and_random_states():
    X, y, site = table("numbers")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    place = pd.Series(site).astype("category")
    model = CuveeRegressor(random_state=np.random.RandomState(0)).fit(
        frame, pd.Series(y), sample_domain=place, target_domains=pd.Index(NEW)
    )
    assert model.feature_names_in_.tolist() == ["a", "b", "c"] and model.solution_.features == (
        "a",
        "b",
        "c",
    )
    again = clone(model).set_params(random_state=np.random.RandomState(0))
    again.fit(frame, y, sample_domain=site, target_domains=NEW)
    assert_rounded(model.alpha_, again.alpha_, ESTIMATED)
    assert model.predict(frame, sample_domain=place).shape == y.shape


def test_a_model_that_did_not_end_well_is_named():
    X, y, site = table()
    one_class = np.where(site == "north", 1, y)
    with pytest.warns(ConvergenceWarning, match="north: absent class"):
        CuveeClassifier(method="target_only").fit(
            X, one_class, sample_domain=site, target_domains=NEW
        )


# ---- inside scikit-learn


def test_pipeline_clone_and_cross_validation():
    X, y, site = table("numbers")
    pipe = clone(make_pipeline(StandardScaler(), CuveeRegressor(method="pooled")))
    pipe.fit(X, y, cuveeregressor__sample_domain=site, cuveeregressor__target_domains=NEW)
    direct = CuveeRegressor(method="pooled")
    direct.fit(StandardScaler().fit_transform(X), y, sample_domain=site, target_domains=NEW)
    np.testing.assert_allclose(pipe[-1].solution_.w, direct.solution_.w)
    assert pipe.predict(X, sample_domain=site).shape == y.shape
    assert cross_val_score(CuveeClassifier(), X, y > 0, cv=3).shape == (3,)  # one domain
    with sklearn.config_context(enable_metadata_routing=True):
        model = CuveeRegressor(method="pooled").set_fit_request(
            sample_domain=True, target_domains=True
        )
        model.set_score_request(sample_domain=True)
        folds = PredefinedSplit(np.where(np.isin(site, NEW), np.arange(len(site)) % 2, -1))
        params = {"sample_domain": site, "target_domains": NEW}
        scores = cross_val_score(
            make_pipeline(StandardScaler(), model), X, y, cv=folds, params=params
        )
    assert np.isfinite(scores).all() and scores.shape == (2,)


def test_grid_search_with_routing():
    X, y, site = table()
    folds = PredefinedSplit(np.where(np.isin(site, NEW), np.arange(len(site)) % 2, -1))
    grid = {"method": ["uniform", "pooled"], "l2": [1e-2, 1e3]}
    with sklearn.config_context(enable_metadata_routing=True):
        clf = CuveeClassifier().set_fit_request(sample_domain=True, target_domains=True)
        clf.set_score_request(sample_domain=True)
        search = GridSearchCV(clf, grid, cv=folds, error_score="raise")
        search.fit(X, y, sample_domain=site, target_domains=NEW)
    assert search.best_estimator_.targets_.tolist() == NEW
    by_hand = []
    for train, test in folds.split():
        model = CuveeClassifier(method="pooled", l2=1e-2)
        model.fit(X[train], y[train], sample_domain=site[train], target_domains=NEW)
        by_hand.append(model.score(X[test], y[test], sample_domain=site[test]))
    found = search.cv_results_["params"].index({"l2": 1e-2, "method": "pooled"})
    assert search.cv_results_["mean_test_score"][found] == pytest.approx(np.mean(by_hand))


# ---- bad input: one sentence that says what to do

X, Y, SITE = table()
NUMBER = np.array([SIGN[s] for s in SITE])
FEW = np.where((SITE == "south") & (np.cumsum(SITE == "south") > 3), -1, Y)
THIRD = np.where((SITE == "north") & (np.cumsum(SITE == "north") == 2), 7, Y)
GAP = np.where(np.arange(len(SITE)) == 6, None, SITE)
named = {"sample_domain": SITE, "target_domains": NEW}


@pytest.mark.parametrize(
    ("y", "options", "says"),
    [
        (Y, {"sample_domain": SITE[:-1], "target_domains": NEW}, "sample_domain has shape (199,), but X has 200 rows"),
        (Y, {"sample_domain": GAP, "target_domains": NEW}, "sample_domain is missing at row 6 (1 such rows)"),
        (Y, {"sample_domain": [*SITE[:-1], np.nan], "target_domains": NEW}, "missing at row 199"),
        (Y, {"sample_domain": SITE}, "say with target_domains=[...] which of them are targets"),
        (Y, {"target_domains": NEW}, "target_domains needs sample_domain"),
        (Y, {"sample_domain": SITE, "target_domains": ["nort"]}, "'nort' is in no row of sample_domain; did"),
        (Y, {"sample_domain": SITE, "target_domains": ["nor"]}, "did you mean 'north'?"),
        (Y, {"sample_domain": SITE, "target_domains": ["zzz"]}, "there is east, mid, north, south, west"),
        (Y, {"sample_domain": SITE, "target_domains": []}, "there is no target: name it in target_domains"),
        (Y, {"sample_domain": abs(NUMBER)}, "make its sample_domain negative"),
        (Y, {"sample_domain": NUMBER, "target_domains": [-4]}, "domain -5 is a target by its sign"),
        (Y, {"sample_domain": SITE, "target_domains": list(SIZES)}, "no source is left to learn from"),
        (FEW, {**named, "target_domains": ["south"]}, "target 'south' has 3 labelled rows, and needs 5"),
        (np.where(np.arange(len(Y)) == np.argmax(SITE == "mid"), np.nan, Y), named, "source 'mid' has no label at row"),
        (Y, {**named, "sample_weight": np.zeros(len(Y))}, "one per row and not all zero"),
        (Y + 0.5 * np.arange(len(Y)), named, "Unknown label type: continuous"),
        (np.zeros(len(Y), int), named, "a classifier needs two classes"),
        (None, named, "requires y to be passed"),
        ([1, "1", *Y[2:].tolist()], named, "y holds the number 1 at row 0 and the text '1' at row 1"),
    ],
)  # fmt: skip
def test_bad_input_to_fit(y, options, says):
    with pytest.raises(ValueError, match=re.escape(says)) as caught:
        CuveeClassifier().fit(X, y, **options)
    assert "\n" not in str(caught.value)


# ---- small and unwanted domains, by the rule of cuvee.data.roles

HUTS = np.where(
    np.isin(np.arange(len(SITE)), np.flatnonzero(SITE == "mid")[:3]), "hut", SITE
).astype(object)
HUTS[HUTS == "hut"] = ["hut 1", "hut 2", "hut 3"]


@pytest.mark.parametrize("make", [CuveeClassifier, CuveeRegressor])
def test_small_sources_are_pooled(make):
    y = table("classes" if make is CuveeClassifier else "numbers")[1]
    with pytest.warns(
        cuvee.errors.CuveeWarning,
        match="3 domains .'hut 1', 'hut 2', 'hut 3'. .* pooled into one source",
    ):
        model = make(method="uniform").fit(X, y, sample_domain=HUTS, target_domains=NEW)
    pooled = np.where(
        np.char.startswith(HUTS.astype(str), "hut"), "(small sources)", HUTS.astype(str)
    )
    same = make(method="uniform").fit(X, y, sample_domain=pooled, target_domains=NEW)
    order = [same.alpha_columns_.index(name) for name in model.alpha_columns_]
    np.testing.assert_allclose(model.alpha_, same.alpha_[:, order], atol=1e-12)
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-9)
    assert model.pooled_.tolist() == ["hut 1", "hut 2", "hut 3"]
    assert model.sources_.tolist() == ["east", "mid", "west", "(small sources)"]
    rows = np.char.startswith(HUTS.astype(str), "hut")  # predicted by the model of the pool
    expected = same.predict(X[rows], sample_domain="(small sources)")
    np.testing.assert_allclose(
        model.predict(X[rows], sample_domain=HUTS[rows]), expected, atol=1e-9
    )


def test_one_small_source_is_left_out():
    site = np.where(np.arange(len(SITE)) == np.argmax(SITE == "mid"), "hut", SITE)
    with pytest.warns(
        cuvee.errors.CuveeWarning,
        match="domain 'hut' has fewer than 2 labelled rows: it is left out",
    ):
        model = CuveeRegressor(method="uniform").fit(X, Y, sample_domain=site, target_domains=NEW)
    assert model.sources_.tolist() == ["east", "mid", "west"]
    with pytest.raises(cuvee.DomainError, match="'hut' was not there in fit"):
        model.predict(X, sample_domain="hut")


def test_targets_with_too_few_labels_and_classes_that_no_source_has():
    with pytest.warns(
        cuvee.errors.CuveeWarning,
        match="domain 'south' has fewer than 5 labelled rows: it gets no model",
    ):
        model = CuveeClassifier(method="uniform").fit(X, FEW, **named)
    assert model.targets_.tolist() == ["north"] and model.skipped_.tolist() == ["south"]
    with pytest.raises(
        cuvee.DomainError, match="'south' had too few labelled rows in fit, so it has no model"
    ):
        model.predict(X, sample_domain=SITE)
    row = int(np.argmax(THIRD == 7))
    with pytest.warns(
        cuvee.errors.CuveeWarning,
        match=f"1 row of class 7 .first at row {row}., which no source has: left",
    ):
        model = CuveeClassifier().fit(X, THIRD, **named)
    kept = np.arange(len(Y)) != row
    same = CuveeClassifier().fit(X[kept], Y[kept], sample_domain=SITE[kept], target_domains=NEW)
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-9)


def test_excluded_domains_are_as_good_as_absent():
    model = CuveeClassifier(exclude=["mid", "nor*"]).fit(
        X, Y, sample_domain=SITE, target_domains=["south"]
    )
    kept = ~np.isin(SITE, ["mid", "north"])
    same = CuveeClassifier().fit(
        X[kept], Y[kept], sample_domain=SITE[kept], target_domains=["south"]
    )
    np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-9)
    for exclude, says in (
        (["midd"], "exclude: no domain matches 'midd'; did you mean 'mid'"),
        (["north"], "'north' is in target_domains and in exclude"),
        (["*"], "exclude names all 5 domains"),
        (["east", "mid", "west"], "no source is left"),
    ):
        with pytest.raises(ValueError, match=re.escape(says)):
            CuveeClassifier(exclude=exclude).fit(X, Y, **named)
    with pytest.raises(cuvee.OptionError, match="exclude needs sample_domain"):
        CuveeClassifier(exclude=["mid"]).fit(X, Y)


@pytest.mark.parametrize(
    ("y", "options", "says"),
    [
        (Y, {**named, "sample_domain": HUTS}, "source 'hut 1' has 1 labelled row, and needs 2: label more, or leave"),
        (FEW, named, "target 'south' has 3 labelled rows, and needs 5"),
        (THIRD, named, f"1 row of class 7 (first at row {int(np.argmax(THIRD == 7))}), which no source has: add"),
        (Y, {**named, "sample_weight": np.where(SITE == "mid", 0, 1)}, "source 'mid' has 0 labelled rows, and needs 2"),
    ],
)  # fmt: skip
def test_strict_makes_errors_of_notes(y, options, says):
    with pytest.raises(cuvee.DomainError, match=re.escape(says)):
        CuveeClassifier(strict=True).fit(X, y, **options)
    with pytest.warns(cuvee.errors.CuveeWarning):
        CuveeClassifier(method="uniform").fit(X, y, **options)


@pytest.mark.parametrize(
    ("options", "says"),
    [({"l2": -1.0}, "l2 must be"), ({"tol": 0.0}, "tol must be"), ({"method": "best"}, "method must be one of"),
     ({"C": 0.0, "method": "agp"}, "C must be"), ({"random_state": -1}, "seed must be")],
)  # fmt: skip
def test_bad_settings_are_said_in_fit(options, says):
    with pytest.raises(cuvee.OptionError, match=says):
        CuveeClassifier(**options).fit(X, Y, **named)


def test_bad_input_to_predict():
    model = CuveeClassifier(method="uniform").fit(X, Y, **named)
    with pytest.raises(
        cuvee.OptionError, match=re.escape("each target has a model (north, south)")
    ):
        model.predict(X)
    with pytest.raises(
        cuvee.DomainError,
        match="'sout' was not there in fit, so it has no model; did you mean 'south'",
    ):
        model.predict(X, sample_domain="sout")
    with pytest.raises(cuvee.DomainError, match="give one label per row"):
        model.predict_proba(X, sample_domain=SITE[1:])
    with pytest.raises(cuvee.OptionError, match="fit had no sample_domain"):
        CuveeClassifier().fit(X, Y).predict(X, sample_domain=SITE)


# ---- the domain of a row in a column of X


def frame_of(kind: str = "classes") -> tuple[pd.DataFrame, np.ndarray]:
    X, y, site = table(kind)
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(site=site)[["a", "site", "b", "c"]], y


@pytest.mark.parametrize(("make", "hypothesis", "kind"), CASES)
def test_a_column_of_x_says_whose_row_each_is(make, hypothesis, kind):
    X, y, site = table(kind)
    raw, _ = frame_of(kind)
    plain = make(method="uniform").fit(X, y, sample_domain=site, target_domains=NEW)
    codes = np.column_stack([X, [SIGN[s] for s in site]])
    for given, domain, targets in (
        (raw, "site", NEW),
        (raw, 1, NEW),
        (raw.rename(columns={"site": "remainder__site"}), "site", NEW),
        (raw.astype({"site": "category"}), "site", NEW),
        (np.column_stack([X.astype(object), site]), 3, NEW),
        (raw.to_numpy().tolist(), 1, NEW),
        (codes, -1, None),
        (csr_array(codes), 3, None),
    ):
        model = make(method="uniform", domain=domain, target_domains=targets).fit(given, y)
        same = [[str(t) for t in model.targets_].index(n) for n in NEW if targets] or [1, 0]
        assert_rounded(model.solution_.w[same][:, : X.shape[1]], plain.coef_.reshape(2, 3), SOLVED)
        assert_rounded(model.predict(given), plain.predict(X, sample_domain=site), SOLVED)
        assert model.score(given, y) == pytest.approx(plain.score(X, y, sample_domain=site))
        assert model.n_features_in_ == 3
    assert list(make(domain="site").fit(raw, y, target_domains=NEW).feature_names_in_) == [*"abc"]


def test_the_column_of_domains_is_no_feature_of_an_estimator():
    raw, y = frame_of()
    model = CuveeClassifier(
        estimator=LogisticRegression(), method="uniform", domain="site", target_domains=NEW
    ).fit(raw, y)
    X, _, site = table()
    same = CuveeClassifier(estimator=LogisticRegression(), method="uniform").fit(X, y, **named)
    np.testing.assert_allclose(
        model.predict_proba(raw), same.predict_proba(X, sample_domain=site), atol=1e-9
    )


@pytest.mark.parametrize(
    ("domain", "X", "options", "says"),
    [
        ("sight", frame_of()[0], {}, "domain='sight' is not one column of X; did you mean 'site'?"),
        ("site", table()[0], {}, "X is an array of 3 columns without names: give the number"),
        (7, table()[0], {}, "domain=7 is not one column of X"),
        ("site", frame_of()[0].assign(x__site=1, y__site=1).drop(columns="site"), {}, "several columns have that"),
        ("site", frame_of()[0], {"sample_domain": table()[2]}, "leave sample_domain out"),
        ("site", frame_of()[0].replace({"site": {"mid": None}}), {}, "column 'site', which says whose row each is, is empty at row"),
        (0, np.arange(200), {}, "so X must be a table"),
        ("site", frame_of()[0][["site"]], {}, "X has no column beside 'site', so that there is nothing to"),
    ],
)  # fmt: skip
def test_bad_columns_of_domains(domain, X, options, says):
    with pytest.raises(cuvee.CuveeError, match=re.escape(says)):
        CuveeClassifier(domain=domain, target_domains=NEW).fit(X, Y, **options)


def test_a_search_over_a_pipeline_needs_no_routing():
    raw, y = frame_of()
    scaler = make_column_transformer((StandardScaler(), ["a", "b", "c"]), remainder="passthrough")
    pipe = make_pipeline(
        scaler.set_output(transform="pandas"), CuveeClassifier(domain="site", target_domains=NEW)
    )
    grid = {"cuveeclassifier__method": ["uniform", "pooled_own"]}
    folds = TargetSplit(NEW, 2, domain="site")
    scoring = {
        "rows": "roc_auc",
        "mean": TargetScorer("roc_auc"),
        "worst": TargetScorer("roc_auc", worst=True),
        "own": TargetScorer(),
    }
    search = GridSearchCV(pipe, grid, cv=folds, scoring=scoring, refit="mean", error_score="raise")
    search.fit(raw, y)
    X, _, site = table()
    X = StandardScaler().fit_transform(X)
    by_hand = []
    for train, test in folds.split(raw, y):
        assert set(site[test]) == set(NEW)
        Z = StandardScaler().fit(table()[0][train]).transform(table()[0])
        model = CuveeClassifier(method="uniform")
        model.fit(Z[train], y[train], sample_domain=site[train], target_domains=NEW)
        scores = model.decision_function(Z[test], sample_domain=site[test])
        each = [roc_auc_score(y[test][site[test] == n], scores[site[test] == n]) for n in NEW]
        by_hand.append([roc_auc_score(y[test], scores), np.mean(each), np.min(each)])
    found = [search.cv_results_[f"mean_test_{one}"][0] for one in ("rows", "mean", "worst")]
    np.testing.assert_allclose(found, np.mean(by_hand, axis=0), atol=1e-9)
    assert search.best_estimator_.predict_proba(raw[:5]).shape == (5, 2)
    assert 0.0 <= search.cv_results_["mean_test_own"][0] <= 1.0
    one_class = np.where(site == "north", 1, y)  # whose AUC is not defined
    south = site == "south"
    best = search.best_estimator_
    with pytest.warns(UndefinedMetricWarning):
        found = TargetScorer("roc_auc")(best, raw, one_class)
    assert found == roc_auc_score(y[south], best.predict_proba(raw[south])[:, 1])


def test_parts_of_targets():
    X, y, site = table()
    hidden = y.astype(float)
    bare = np.flatnonzero(site == "north")[:3]
    hidden[bare] = np.nan
    parts = list(TargetSplit(NEW, 3).split(X, hidden, groups=site))
    held = np.concatenate([test for _, test in parts])
    expected = np.setdiff1d(np.flatnonzero(np.isin(site, NEW)), bare)
    assert sorted(held) == expected.tolist()
    for train, test in parts:
        assert sorted([*train, *test]) == list(range(len(y)))
        for name in NEW:  # classes in each part as in the whole
            own = expected[site[expected] == name]
            share = y[own].sum() / 3
            assert abs(y[np.intersect1d(test, own)].sum() - share) <= 1
    order = np.random.default_rng(5).permutation(len(y))
    again = TargetSplit(NEW, 3).split(X[order], hidden[order], groups=site[order])
    for (_, test), (_, moved) in zip(parts, again, strict=True):
        assert sorted(order[moved]) == sorted(test)
    raw, _ = frame_of()
    named_columns = [t for _, t in TargetSplit(NEW, 3, domain="site").split(raw, hidden)]
    turned = TargetSplit(NEW, 3, domain="site").split(raw[[*"cba", "site"]], hidden)
    for first, (_, second) in zip(named_columns, turned, strict=True):
        np.testing.assert_array_equal(first, second)
    number = np.array([SIGN[s] for s in site])
    signed = TargetSplit(n_splits=3).split(csr_array(X), y, groups=number)
    assert sorted(np.concatenate([t for _, t in signed])) == np.flatnonzero(number < 0).tolist()


def test_targets_with_few_labels_are_not_held_out():
    X, y, site = table()
    with pytest.warns(cuvee.CuveeWarning, match="no row of south is held out in 3 parts: a targ"):
        parts = list(TargetSplit(NEW, 3).split(X, FEW, groups=site))
    assert set(site[np.concatenate([test for _, test in parts])]) == {"north"}
    for target_domains, says in (("south", "label more rows"), (["sout"], "did you mean 'south'")):
        with pytest.raises(cuvee.DomainError, match=says):
            list(TargetSplit(target_domains, 3).split(X, FEW, groups=site))
    with pytest.raises(cuvee.OptionError, match=re.escape("(domain=...), or pass groups")):
        list(TargetSplit(NEW).split(X, y))
    with pytest.raises(cuvee.OptionError, match="n_splits must be a whole number of at least 2"):
        TargetSplit(NEW, 1)
    with pytest.raises(cuvee.OptionError, match="that was made with domain= and fitted"):
        TargetScorer()(LogisticRegression(), X, y)
    raw, _ = frame_of()
    model = CuveeClassifier(method="uniform", domain="site", target_domains=NEW).fit(raw, y)
    with pytest.raises(cuvee.DomainError, match=r"row of a target \(north, south\) is"):
        TargetScorer()(model, raw[raw["site"] == "mid"], y[raw["site"] == "mid"])


@pytest.mark.parametrize(("make", "hypothesis", "kind"), CASES)
def test_sparse_rows_are_learnt_as_dense_ones(make, hypothesis, kind):
    X, y, site = table(kind)
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense = make(method="uniform").fit(X, y, **named)
    for sparse in (csr_array(X), coo_array(X), csc_matrix(X)):
        model = make(method="uniform").fit(sparse, y, **named)
        assert_rounded(model.solution_.w, dense.solution_.w, SOLVED)
        assert_rounded(
            model.predict(sparse, sample_domain=site), dense.predict(X, sample_domain=site), SOLVED
        )


def test_a_pipelines_score_says_what_to_do():
    X, y, site = table()
    pipe = make_pipeline(StandardScaler(), CuveeClassifier(method="uniform"))
    targets = {"cuveeclassifier__target_domains": NEW}
    pipe.fit(X, y, cuveeclassifier__sample_domain=site, **targets)
    says = "A Pipeline's score and scorers by name do not pass it on .* CuveeClassifier.domain="
    with pytest.raises(cuvee.OptionError, match=says):
        pipe.score(X, y, sample_domain=site)


def test_rows_scored_without_a_domain_are_said_to_be_the_targets():
    X, y, site = table()
    kept = site != "south"
    X, y, site = X[kept], y[kept], site[kept]
    pipe = make_pipeline(StandardScaler(), CuveeClassifier(method="uniform"))
    targets = {"cuveeclassifier__target_domains": "north"}
    pipe.fit(X, y, cuveeclassifier__sample_domain=site, **targets)
    says = "no sample_domain reached score, so that all 186 rows are scored with the model of target 'north'"
    with pytest.warns(cuvee.CuveeWarning, match=says):
        pipe.score(X, y, sample_domain=site)  # which scikit-learn drops without a word
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipe[-1].score(pipe[0].transform(X), y, sample_domain=site)
        pipe[-1].score(pipe[0].transform(X), y, sample_domain="north")
        CuveeClassifier().fit(X, y).score(X, y)  # one domain
