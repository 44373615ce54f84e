"""Tables that nobody prepared: what a new user brings is read alike by every way in, and whatever is
not learnt from as it stands is said with its number.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cuvee.errors import CuveeWarning, DomainError
from cuvee.run import adapt
from run_builders import command, options, table


def visits(rows: int = 20) -> pd.DataFrame:
    return table(4, rows).drop(columns="sick")


def run_of(frame, folder, **how):
    return adapt(frame, folder / "run", options=options(drop=(), targets="site 3", **how))


# Categories that no training row has.


def test_a_category_never_seen_counts_as_another_and_is_said(tmp_path):
    run = run_of(visits(), tmp_path)
    rows = visits()[-6:].assign(sex=["f", "x", "m", "x", "y", "f"])
    said: list[str] = []
    answers = run.predict(rows, say=said.append)
    plain = run.predict(rows[rows.sex.isin(["f", "m"])])
    np.testing.assert_array_equal(answers.prediction.iloc[[0, 2, 5]], plain.prediction)
    assert said == [
        "categories that no training row has count as 'other': 'sex' (3 rows, like 'x')"
    ]
    with pytest.warns(CuveeWarning, match="'sex' .3 rows, like 'x'"):
        pd.testing.assert_frame_equal(run.predict(rows), answers)
    with pytest.raises(DomainError, match="'sex' is 'x' at row 1, a value that no training row"):
        run.predict(rows.reset_index(drop=True), strict=True)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    ended = command("predict", run.path, tmp_path / "rows.csv", "--out", tmp_path / "out.csv")
    assert ended.code == 0 and "'sex' (3 rows, like 'x')" in ended.err
    written = pd.read_csv(tmp_path / "out.csv")["prediction"]
    np.testing.assert_allclose(written, answers.prediction, rtol=1e-12)
    ended = command("predict", run.path, tmp_path / "rows.csv", "--strict")
    assert ended.code == 2 and "'sex' is 'x' at row 1" in ended.err


def test_test_rows_of_a_category_never_learnt_stay_in_the_score(tmp_path):
    frame = visits()
    # one category for each row of the target: those of test rows are in no training row
    frame.loc[frame.site == "site 3", "sex"] = [f"only {i}" for i in range(20)]
    run = run_of(frame, tmp_path)
    assert run.described(0)["test"] == 5
    note = "categories that no training row has count as 'other': 'sex' (5 test rows, like "
    assert any(note in one for one in run.notes)
    with pytest.raises(
        DomainError, match=r"'sex' is 'only .*' at row .*, a value that no training"
    ):
        adapt(frame, tmp_path / "strict", options=options(drop=(), targets="site 3", strict=True))
