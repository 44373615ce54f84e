"""Weights do not hang on the units of labels and columns, however small or large their numbers."""

from __future__ import annotations

import numpy as np
import pytest

import cuvee
from cuvee import Domain, Problem, Ridge

LABELS = (2.0**-900, 2.0**-565, 2.0**-506, 2.0**506, 2.0**1000)  # exact: nothing is rounded anew


def problem_of(labels=1.0, column=1.0):
    rng = np.random.default_rng(0)

    def domain(name, rows, slope):
        X = rng.normal(size=(rows, 3))
        y = X @ [1.0, -1.0, slope] + 0.3 * rng.normal(size=rows)
        X[:, 2] *= column
        return Domain(name, X, y * labels)

    sources = [domain("a", 40, 0.1), domain("b", 30, 2.0), domain("c", 50, -1.0)]
    return Problem(sources, [domain("t", 12, 0.0), domain("u", 9, 1.0)])


@pytest.mark.parametrize("method", ["path", "cuts", "agp", "konstantinov_lampert"])
def test_weights_do_not_hang_on_the_unit_of_labels(method):
    wanted = cuvee.estimate(problem_of(), Ridge(), method=method)
    for unit in LABELS:
        found = cuvee.estimate(problem_of(unit), Ridge(), method=method)
        np.testing.assert_allclose(found.alpha, wanted.alpha, atol=1e-7, err_msg=f"{unit:g}")
        assert found.status == wanted.status


@pytest.mark.parametrize("method", ["cuts", "agp", "konstantinov_lampert"])
def test_weights_do_not_hang_on_the_unit_of_a_column(method):
    wanted = cuvee.estimate(problem_of(), Ridge(), method=method).alpha
    for unit in (2.0**-900, 2.0**-550, 2.0**520, 2.0**1000):
        found = cuvee.estimate(problem_of(column=unit), Ridge(), method=method).alpha
        np.testing.assert_allclose(found, wanted, atol=1e-7, err_msg=f"{unit:g}")


@pytest.mark.parametrize("hypothesis", [Ridge(), cuvee.Poisson()])
def test_a_row_whose_prediction_overflows_is_named(hypothesis):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = rng.poisson(np.exp(X[:, 0])) if isinstance(hypothesis, cuvee.Poisson) else X @ [300.0, 1.0]
    model = cuvee.solve([Domain("a", X, y)], hypothesis, [[1.0]]).models[0]
    assert np.isfinite(model.predict(X)).all()
    with pytest.raises(cuvee.DomainError, match="row 1 is so far"):
        model.predict([[1.0, 2.0], [1e308, 0.0]])


@pytest.mark.parametrize(
    ("scale", "said"),
    [({"y": 1e-170}, "label 'y' reaches .*near to 0"), ({"x": 1e-165}, "column 'x' runs from")],
)
def test_a_table_of_numbers_too_small_to_square_is_refused(tmp_path, scale, said):
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"site": ["a", "b", "c"] * 40, "x": rng.normal(size=120)})
    frame["y"] = frame["x"] + rng.normal(size=120)
    for name, unit in scale.items():
        frame[name] *= unit
    with pytest.raises(cuvee.DomainError, match=said):
        cuvee.adapt(frame, domain="site", label="y", targets=["c"], out=tmp_path / "run")


def test_a_row_out_of_many_targets_that_overflows_is_named_by_its_place(tmp_path):
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"site": list("abcd") * 60, "x": rng.normal(size=240)})
    frame["y"] = 300.0 * frame["x"] + rng.normal(size=240)
    run = cuvee.adapt(frame, domain="site", label="y", targets=["c", "d"], out=tmp_path / "run")
    rows = frame[["site", "x"]][frame["site"].isin(["c", "d"])].reset_index(drop=True)
    rows.loc[6, "x"] = 1e308
    with pytest.raises(cuvee.DomainError, match="row 6 "):
        run.predict(rows)
