"""One reader: scikit-learn's arrays and the frame of `cuvee.adapt` make the same problem of the
same rows.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import cuvee
from cuvee.data.prepare import prepare
from cuvee.sklearn import CuveeClassifier, CuveeRegressor

CLOSE = {"rtol": 0.0, "atol": 1e-12}
COLUMNS = ["age", "dose"]
SITES = {"a": 0.0, "b": 30.0, "c": -20.0, "hut 1": 5.0, "hut 2": 9.0, "new": 45.0, "north": 20.0}


@pytest.fixture(scope="module")
def table():
    """Four sites and two targets, two sites of one row, a class that one target has, rows without a
    label.
    """
    rng = np.random.default_rng(0)
    site = np.repeat(list(SITES), [30, 30, 30, 1, 1, 14, 12])
    frame = pd.DataFrame(
        {"age": rng.normal(size=len(site)), "dose": rng.normal(size=len(site)), "site": site}
    )
    signal = frame.age - 2.0 * frame.dose + rng.normal(size=len(site))
    frame["cost"] = signal + frame.site.map(SITES)
    frame["sick"] = np.where(signal > 0, "yes", "no").astype(object)
    first = frame.index[frame.site == "new"][0]
    frame.loc[first, "sick"] = "unknown"
    frame.loc[first + 1, ["cost", "sick"]] = np.nan, None
    return frame


CASES = {
    "classes": (CuveeClassifier, "sick", {}),
    "a quantity": (CuveeRegressor, "cost", {"levels": False}),
    "at one level": (CuveeRegressor, "cost", {"levels": True}),
}


# of small domains, as the notes of a run
@pytest.mark.filterwarnings("ignore::cuvee.errors.CuveeWarning")
@pytest.mark.parametrize("kind", CASES)
def test_estimators_have_the_problem_of_adapt(table, tmp_path, kind):
    make, label, how = CASES[kind]
    options = cuvee.Options(
        label=label,
        domain="site",
        targets="new,north",
        features=COLUMNS,
        standardise=False,
        test=0.0,
        **how,
    )
    run = cuvee.adapt(table, tmp_path / "run", options=options)
    # adapt leaves out whoever has no label; in scikit-learn only targets may lack some, and here
    # only they do
    X, y, new = table[COLUMNS].to_numpy(), table[label].to_numpy(), ["new", "north"]
    model = make(**how).fit(X, y, sample_domain=table.site, target_domains=new)
    assert model.alpha_columns_ == run.columns and model.targets_.tolist() == list(run.targets)
    np.testing.assert_allclose(model.alpha_, run.alpha, **CLOSE)
    np.testing.assert_allclose(model.solution_.w, run.w, **CLOSE)
    rows = table[table.site.isin(new)]
    mine = model.predict(rows[COLUMNS].to_numpy(), sample_domain=rows.site)
    theirs = run.predict(rows[[*COLUMNS, "site"]]).prediction.to_numpy()
    if kind == "classes":
        assert mine.tolist() == theirs.tolist()
    else:
        np.testing.assert_allclose(mine, theirs, **CLOSE)
    prepared = prepare(table, options)
    problem = prepared.group(prepared.members[0]).problem
    assert [d.n_rows for d in (*problem.sources, *problem.targets)] == [
        30,
        30,
        30,
        2,
        12 + (label == "cost"),
        12,
    ]


@pytest.mark.filterwarnings("ignore::cuvee.errors.CuveeWarning")
def test_levels_are_in_the_intercept_and_in_the_models_of_sources(table):
    rows = table[table.cost.notna()]
    X, y, site = rows[COLUMNS].to_numpy(), rows.cost.to_numpy(), rows.site.to_numpy()
    plain, levelled = (
        CuveeRegressor(method="pooled", levels=levels).fit(
            X, y, sample_domain=site, target_domains=["new"]
        )
        for levels in (False, True)
    )
    target = site == "new"
    by_hand = X[target] @ levelled.coef_[0] + levelled.intercept_[0]
    np.testing.assert_allclose(levelled.predict(X[target]), by_hand, rtol=0, atol=1e-9)
    error, other = (np.abs(m.predict(X[target]) - y[target]).mean() for m in (levelled, plain))
    assert error < 3.0 < 10.0 < other  # pooled models know nothing of a level of 45
    alone = np.isin(site, ["a", "b", "c"])
    answers = [m.predict(X[alone], sample_domain=site[alone]) for m in (levelled, plain)]
    # a model of one domain is not changed by its level
    np.testing.assert_allclose(*answers, rtol=0, atol=1e-8)
