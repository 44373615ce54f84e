"""What models go by: coefficients that give the predictions back, and importances of columns."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, softmax
from sklearn.metrics import mean_squared_error

import cuvee
from cuvee.data.encode import Encoder
from cuvee.errors import OptionError
from cuvee.run import adapt, open_run
from cuvee.run.explained import REPEATS, importance
from run_builders import command, options, table

BASE = table(5, 30)
TARGETS = ("site 1", "site 3")


def scores_by_hand(rows, frame):
    """The linear scores (classes, rows) of raw rows, from the coefficients of one target alone."""
    said = []
    for _, of in frame.groupby(frame["class"].fillna(""), sort=False):
        total = np.zeros(len(rows))
        for one in of.itertuples():
            if one.column == "(intercept)":
                total += one.per_unit
            elif isinstance(one.category, str):
                total += one.per_unit * (rows[one.column].astype(str) == one.category)
            else:
                total += one.per_unit * rows[one.column]
        said.append(total)
    return np.array(said)


@pytest.mark.parametrize("targets", [TARGETS, "each"])
@pytest.mark.parametrize("kind", ["cost", "sick", "three", "visits"])
def test_coefficients_by_name_give_the_predictions_back(tmp_path, kind, targets):
    frame = BASE.assign(
        three=np.where(BASE.age > 55, "old", np.where(BASE.sick == "yes", "ill", "well")),
        visits=np.random.default_rng(0).poisson(np.exp(BASE.cost / 10)),
    )[["age", "sex", "site", kind]]
    how = {"drop": (), "targets": targets, "levels": True}
    task = {"task": "counts"} if kind == "visits" else {}
    run = adapt(frame, tmp_path / "run", options=options(kind, **how, **task))
    every = run.explain()
    assert list(dict.fromkeys(every.target)) == list(run.targets)
    assert set(every.column) == {"age", "sex", "(intercept)"} and every.importance.isna().all()
    for target in TARGETS:
        rows, of = frame[frame.site == target], every[every.target == target]
        pd.testing.assert_frame_equal(run.explain(target), of.reset_index(drop=True))
        scores = scores_by_hand(rows, of)
        if kind == "cost":
            np.testing.assert_allclose(scores[0], run.predict(rows).prediction, rtol=1e-9)
        elif kind == "visits":
            np.testing.assert_allclose(np.exp(scores[0]), run.predict(rows).prediction, rtol=1e-9)
        elif kind == "sick":
            assert set(of["class"]) == {"yes"}
            np.testing.assert_allclose(expit(scores[0]), run.predict_proba(rows)[:, 1], rtol=1e-9)
        else:
            assert list(dict.fromkeys(of["class"])) == ["ill", "old", "well"]
            np.testing.assert_allclose(softmax(scores, 0).T, run.predict_proba(rows), rtol=1e-9)
    report = (run.path / "report.html").read_text()
    section = report[report.index('id="columns"') : report.index('id="sensitivity"')]
    assert "sex=f" in section and "cuvee adapt --importance" in section


def test_coefficients_of_models_in_a_file(tmp_path):
    north = pd.DataFrame({"age": [20.0, 30.0, 40.0], "cost": [2.0, 3.0, 4.0]})
    encoder = Encoder.fit(north, ["age"])
    problem = cuvee.Problem([cuvee.Domain("north", encoder(north), north.cost)])
    solution = cuvee.solve(problem, cuvee.Ridge(1e-9), [[1.0]])
    named = {"targets": ["new"], "columns": ["north"], "encoder": encoder}
    asked = cuvee.Options(label="cost", l2=1e-9)
    cuvee.SavedModels.of(solution, **named, options=asked).save(tmp_path / "m.safetensors")
    ended = command("explain", tmp_path / "m.safetensors")
    said = pd.read_csv(io.StringIO(ended.out))
    assert said.column.tolist() == ["age", "(intercept)"]
    np.testing.assert_allclose(said.per_unit, [0.1, 0.0], atol=1e-6)


@pytest.mark.parametrize("model", ["linear", "forest"])
@pytest.mark.parametrize("label", ["cost", "sick"])
def test_importance_finds_the_column_that_counts(tmp_path, model, label):
    frame = BASE.assign(noise=np.random.default_rng(9).normal(size=len(BASE)))
    how = options(label, targets=TARGETS, importance=True, model=model, test=0.5)
    run = adapt(frame, tmp_path / "run", options=how)
    said = run.explain().drop_duplicates(["target", "column"])
    wide = said.pivot(index="target", columns="column", values="importance")
    assert (wide["age"] > wide["noise"].abs()).all() and (wide["age"] > 0.05).all()
    assert ("coefficient" in said) == (model == "linear")
    report = (run.path / "report.html").read_text()
    assert "Importance" in report[report.index('id="columns"') : report.index('id="sensitivity"')]
    ended = command("explain", run.path, "--out", tmp_path / "c.csv", "--target", "site 3")
    assert ended.code == 0, ended
    written = pd.read_csv(tmp_path / "c.csv", keep_default_na=False, na_values=[""])
    assert set(written.target) == {"site 3"}
    alone = run.explain("site 3")
    np.testing.assert_allclose(written.importance, alone.importance.astype(float))


def test_importance_is_the_mean_rise_of_the_error():
    """A model that reads one column alone: of the others the importance is 0, of it as by hand."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=40), "b": rng.choice(["x", "y", "z"], 40)})
    encoder = Encoder.fit(frame, ["a", "b"]).unscaled()
    X, y = encoder(frame), frame.a.to_numpy() + 0.1 * rng.normal(size=40)
    rows = cuvee.Domain("rows", X, y)
    found = importance(lambda X: X[:, 0], rows, None, "root mean squared error", encoder, 0)
    assert found.shape == (2, 2) and (found[1] == 0.0).all()
    before = np.sqrt(mean_squared_error(y, X[:, 0]))
    drawn = [
        np.sqrt(mean_squared_error(y, rng.permutation(X[:, 0]))) - before for _ in range(2_000)
    ]
    assert found[0, 0] == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / np.sqrt(REPEATS))
    other = cuvee.Domain("other", X[::-1].copy(), y[::-1].copy())  # the same rows
    again = importance(lambda X: X[:, 0], other, None, "root mean squared error", encoder, 0)
    np.testing.assert_allclose(again, found, rtol=1e-9)
    # what a category became is permuted together: every row keeps one category
    sums = []
    importance(
        lambda X: sums.append(X[:, 1:].sum(1)) or X[:, 1],
        *(rows, None, "mean absolute error", encoder, 0),
    )
    assert all((one == 1.0).all() for one in sums)


@pytest.mark.parametrize("model", ["linear", "forest"])
def test_a_date_has_one_importance_as_one_column(tmp_path, model):
    days = np.random.default_rng(3).integers(0, 700, len(BASE))
    when = (pd.Timestamp("2024-01-01") + pd.to_timedelta(days, unit="D")).strftime("%Y-%m-%d")
    frame = BASE.assign(when=when, cost=BASE.cost + days / 50)
    how = options("cost", targets=TARGETS, importance=True, model=model, test=0.5)
    run = adapt(frame, tmp_path / "run", options=how)
    said = run.explain("site 3")
    made = [f"when → {unit}" for unit in ("days", "month", "weekday")]
    if model == "linear":
        assert set(made) < {*said.column} and "when" not in {*said.column}
        said = said[said.column.isin(made)]
        assert len(said) == 3 and said.importance.nunique() == 1
    else:
        said = said[said.column == "when"]
        assert len(said) == 1
    assert (said.importance > 0.5).all()
    assert {"age", "when"} < {*run.findings.importance}
    assert not {*made} & {*run.findings.importance}


def test_models_without_either_say_what_to_do(tmp_path):
    run = adapt(BASE, tmp_path / "run", options=options(targets=TARGETS, model="forest"))
    with pytest.raises(OptionError, match="run cuvee adapt with --importance"):
        run.explain()
    assert "cuvee adapt --importance" in run.report().read_text()
    with pytest.raises(OptionError, match="'site 9' is not a target"):
        run.explain("site 9")
    assert command("explain", tmp_path / "run").code == 2
    again = open_run(tmp_path / "run")
    assert again.findings.coefficients == {} and again.findings.importance == {}
