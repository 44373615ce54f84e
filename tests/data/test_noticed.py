"""What the owner of a table is told of: gaps that were filled, ids, labels spelt in two ways or
very skewed.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cuvee.data.columns import tidy
from cuvee.data.noticed import noticed, skewed
from cuvee.data.prepare import prepare
from cuvee.run import Options, adapt

ROWS = 80


def columns(**changed):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(size=ROWS),
            "ward": rng.choice(["a", "b"], ROWS),
            "y": ["no", "yes"] * 40,
        }
    )
    return frame.assign(**changed)


def said(frame, impute=False):
    tidied = {name: tidy(frame[name]) for name in frame}
    return noticed(tidied, [name for name in frame if name != "y"], "y", impute)


def test_an_ordinary_table_needs_no_word():
    assert said(columns()) == []
    assert said(columns(), impute=True) == []
    few = columns(year=np.arange(ROWS) // 2)  # whole numbers that come again
    assert said(few) == []


def test_gaps_that_are_filled_are_counted():
    frame = columns()
    frame.loc[:4, "age"] = np.nan
    frame.loc[7, "ward"] = None
    (note,) = said(frame, impute=True)
    assert "'age' (5 gaps), 'ward' (1 gap)" in note and "median" in note
    assert said(frame) == []


def test_a_column_of_row_numbers_is_named_with_what_to_do():
    (note,) = said(columns(visit=np.arange(ROWS) + 10_000))
    assert "'visit' has a different whole number in every row" in note and "--drop visit" in note
    assert said(columns(visit=np.arange(ROWS) + 0.5)) == []


def test_labels_that_differ_in_case_alone():
    frame = columns()
    frame.loc[0, "y"] = "No "
    (note,) = said(frame)
    assert note.startswith("label 'y' has ") and "'No '" in note and "'no'" in note
    assert said(columns(y=np.arange(ROWS) % 2)) == []


def test_a_quantity_above_0_with_a_few_large_values():
    usual = np.random.default_rng(0).uniform(1, 3, ROWS)
    assert skewed(pd.Series(usual)) == [] and skewed(pd.Series([np.nan])) == []
    far = np.append(usual, 60 * np.median(usual))
    assert "--hypothesis poisson" in "".join(skewed(pd.Series(far)))
    heavy = np.exp(np.random.default_rng(0).normal(0, 1.5, 400))
    assert len(skewed(pd.Series([*heavy, np.nan]))) == 1
    assert skewed(pd.Series([*heavy, 0.0])) == [] and skewed(pd.Series(-heavy)) == []


def test_a_run_says_that_its_labels_are_skewed_where_that_can_be_helped(tmp_path):
    sites = {"site": ["north", "south", "west", "east"] * 20}
    frame = columns(**sites, y=np.exp(np.random.default_rng(0).normal(0, 1.5, ROWS)))
    said = {}
    for name in ("auto", "poisson"):
        run = adapt(
            frame, tmp_path / name, label="y", domain="site", targets=["east"],
            method="pooled_own", hypothesis=name,
        )  # fmt: skip
        said[name] = any("a few are very large" in note for note in run.notes)
    assert said == {"auto": True, "poisson": False}


def test_a_run_says_it_and_so_do_its_predictions(tmp_path):
    frame = columns(site=["north", "south", "west", "east"] * 20, visit=np.arange(ROWS))
    frame.loc[3, "age"] = np.nan
    run = adapt(
        frame, tmp_path / "run", label="y", domain="site", targets=["east"], impute=True,
        method="pooled_own",
    )  # fmt: skip
    notes = " ".join(run.notes)
    assert "'age' (1 gap)" in notes and "--drop visit" in notes
    heard: list[str] = []
    new = frame.assign(age=frame.age.where(frame.index > 9))
    answers = run.predict(new, target="east", keep=["age"], say=heard.append)
    assert len(answers) == ROWS and answers.age.isna().sum() == 10
    assert heard == [
        "gaps are filled, numbers with the column's median and categories with the most frequent "
        "value: 'age' (10 gaps)"
    ]


def panel(n=120, years=range(2015, 2020)):
    """Persons in several years, beside columns that look a bit like ids."""
    rng = np.random.default_rng(0)
    parts = [
        pd.DataFrame({"year": str(year), "person": np.arange(n), "x": rng.normal(size=n)})
        for year in years
    ]
    frame = pd.concat(parts, ignore_index=True)
    frame["age"], frame["pay"] = (
        rng.integers(18, 90, len(frame)),
        rng.integers(1, 10**6, len(frame)),
    )
    return frame.assign(y=frame.x + rng.normal(size=len(frame)))


def repeated(source, **how):
    prepared = prepare(source, Options(domain="year", label="y", **how))
    return [note for note in prepared.notes if "rows to learn from have too" in note]


@pytest.mark.parametrize("targets", ["2019", "each"])
def test_ids_of_test_rows_that_are_known_are_noticed(targets):
    frame = panel()
    for name in ("person", "rowlabel"):  # called like an id, or one for each row of a domain
        (said,) = repeated(frame.rename(columns={"person": name}), targets=targets)
        assert said.startswith(f"100% of the test rows have a value of column {name!r}")
    new = frame.assign(person=np.arange(len(frame)))
    assert repeated(new, targets=targets) == []
    # within a target: rows to learn from and rows for scores
    twice = new.assign(person=np.where(frame.year == "2019", frame.person % 60, new.person + 1000))
    assert len(repeated(twice, targets="2019")) == 1


def test_ids_that_are_no_features_are_noticed_too(tmp_path):
    frame = panel().assign(person=lambda f: [f"P{i}" for i in f.person])
    assert len(repeated(frame, targets="2019", drop=("person",))) == 1
    assert len(repeated(frame, targets="2019", features=("x", "age"))) == 1
    for year, part in frame.drop(columns="year").groupby(frame.year):
        part.to_csv(tmp_path / f"{year}.csv", index=False)
    assert len(repeated(tmp_path, targets="2019", drop=("person",))) == 1
    some = frame.assign(person=np.where(np.arange(len(frame)) % 2, frame.person, None))
    (said,) = repeated(some, targets="2019", drop=("person",))
    assert not said.startswith("100%")
