"""Tables whose label is a count: recognised, said, learnt with Poisson, reported and predicted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import cuvee
from cuvee.data.task import Task, check, infer
from cuvee.errors import DomainError


@pytest.fixture(scope="module")
def table():
    """Visits in four clinics, one of them new."""
    rng = np.random.default_rng(0)
    rows = 320
    clinic = np.repeat(["north", "south", "east", "new"], rows // 4)
    age = rng.normal(size=rows)
    smoker = rng.choice(["yes", "no"], size=rows)
    level = pd.Series(clinic).map({"north": 1.5, "south": 0.2, "east": 2.0, "new": 1.4}).to_numpy()
    rate = np.exp(level + 0.4 * age + 0.5 * (smoker == "yes"))
    visits = rng.poisson(rate * rng.gamma(3.0, 1 / 3.0, size=rows))
    return pd.DataFrame({"clinic": clinic, "age": age, "smoker": smoker, "visits": visits})


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("counts") / "run"
    asked = {"label": "visits", "domain": "clinic", "targets": "new", "method": "agp"}
    return cuvee.adapt(table, out, **asked)


def test_counts_are_recognised_and_said(table):
    inferred = infer(table.visits, "visits")
    assert inferred.task is Task.counts
    assert "different whole numbers from 0 on, most of them small: counts" in inferred.why
    assert infer(range(1, 71), "score").task is Task.regression  # exam scores
    assert infer(list(range(10)) * 20, "digit").task is Task.classification
    assert infer([0, 1, 1, 0, 5, 9, 2, 33, 1, 0], "claims").task is Task.counts


def test_small_counts_are_recognised_too():
    rng = np.random.default_rng(0)
    for mean in (0.6, 1.0, 2.5):
        inferred = infer(rng.poisson(mean, size=3000), "claims")
        assert inferred.task is Task.counts and "the largest rare: counts" in inferred.why
    severity = np.repeat([0, 1, 2, 3, 4], [164, 55, 36, 35, 13])  # the heart disease of UCI
    inferred = infer(severity, "severity")
    assert inferred.task is Task.classification
    assert inferred.why.endswith("classification (if they count something, choose counts)")
    few = np.repeat([0, 1, 2], [900, 90, 1])
    assert infer(few, "grade").task is Task.classification
    assert infer(np.repeat(range(1, 8), [900, 90, 30, 9, 5, 3, 1]), "cover").task is (
        Task.classification
    )


def test_labels_below_zero_are_no_counts():
    with pytest.raises(DomainError, match="label 'y' is -2 at row 1; counts are not below 0"):
        check([3, -2, 5], "counts", "y")


def test_adapt_learns_counts_with_poisson(run, table):
    assert any("most of them small: counts" in note for note in run.notes)
    report = (run.path / "report.html").read_text()
    assert "Poisson regression" in report and "counts" in report
    predicted = run.predict(table.drop(columns="visits"), target="new")
    assert (np.asarray(predicted.prediction) > 0).all()


def test_a_run_read_again_predicts_the_same(run, table):
    rows = table.drop(columns="visits")[:20]
    again = cuvee.open_run(run.path).predict(rows, target="new")
    np.testing.assert_allclose(again.prediction, run.predict(rows, target="new").prediction)


def test_ridge_and_regression_are_still_to_be_had(table, tmp_path):
    asked = {"label": "visits", "domain": "clinic", "targets": "new", "method": "uniform"}
    run = cuvee.adapt(table, tmp_path / "ridge", hypothesis="ridge", **asked)
    assert "ridge regression" in (run.path / "report.html").read_text()
    few = table.assign(visits=table.visits.clip(upper=6))
    run = cuvee.adapt(few, tmp_path / "few", hypothesis="poisson", **asked)
    assert "Poisson regression" in (run.path / "report.html").read_text()


def test_the_estimator_is_the_hypothesis(table):
    X = table[["age"]].to_numpy()
    model = cuvee.CuveeRegressor(loss="poisson", method="agp")
    model.fit(X, table.visits, sample_domain=table.clinic, target_domains=["new"])
    predicted = model.predict(X[table.clinic == "new"])
    scores = X[table.clinic == "new"] @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(predicted, np.exp(scores), rtol=1e-9)
    assert clone(model).loss == "poisson"


def test_levels_are_not_for_counts(table):
    model = cuvee.CuveeRegressor(loss="poisson", levels=True)
    with pytest.raises(cuvee.OptionError, match="levels are for a quantity"):
        model.fit(table[["age"]], table.visits)
