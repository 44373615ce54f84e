"""Tables that nobody prepared: what a new user brings is read alike by every way in, and whatever is
not learnt from as it stands is said with its number.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cuvee.data.frame import read, spec
from cuvee.data.spool import spool
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
    with pytest.warns(CuveeWarning, match="'sex' .3 rows, like 'x'") as warned:
        pd.testing.assert_frame_equal(run.predict(rows), answers)
    assert [one.filename for one in warned] == [__file__]
    with pytest.raises(DomainError, match="'sex' is 'x' at row 1, a value that no training row"):
        run.predict(rows.reset_index(drop=True), strict=True)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    ended = command("predict", run.path, tmp_path / "rows.csv", "--out", tmp_path / "out.csv")
    assert ended.code == 0 and "'sex' (3 rows, like 'x')" in ended.err
    written = pd.read_csv(tmp_path / "out.csv")["prediction"]
    np.testing.assert_allclose(written, answers.prediction, rtol=1e-8)  # nine digits
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


# Every way in reads the same row alike.


def odd(rows: int = 24) -> pd.DataFrame:
    """A table with what real ones hold: words for gaps, a class and a category of such a name."""
    frame = table(4, rows)
    n = len(frame)
    frame["country"] = np.array(["NA", "DE", "null", "n/a"])[np.arange(n) % 4]
    frame["visits"] = np.array(["1", "2", "3", "4-10"])[np.arange(n) // 3 % 4]
    frame["seen"] = [f"2024-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(n)]
    frame["sick"] = np.where(frame.sick == "yes", "NA", "none")
    return frame


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    """A run of each kind of table: their rows are the same."""
    folder = tmp_path_factory.mktemp("doors")
    odd().to_csv(folder / "odd.csv", index=False)
    odd().to_parquet(folder / "odd.parquet")
    frames = {
        "csv": folder / "odd.csv",
        "parquet": folder / "odd.parquet",
        "frame": odd(),
        "mapping": {name: rows.drop(columns="site") for name, rows in odd().groupby("site")},
    }
    asked = {"options": options("sick", targets="site 3")}
    return {
        name: adapt(source, folder / name, **asked, domain=None if name == "mapping" else "site")
        for name, source in frames.items()
    }


def test_words_for_gaps_are_names_of_categories_and_classes(doors):
    for run in doors.values():
        assert run.classes.tolist() == ["NA", "none"]
        said = " ".join(run.notes)
        assert "kept as values: 'country'" in said and "--missing " in said
        assert "few different values are there and some are no numbers: 'visits'" in said
        assert "column of dates taken as days since 1970, month" in said and "'seen'" in said
        names = {"country=NA", "country=null", "visits=4-10", "seen → days", "seen → weekday"}
        assert names <= {*run._encoders[0].names}
        assert run.features == ("age", "sex", "country", "visits", "seen")
        np.testing.assert_allclose(run.w, doors["csv"].w, rtol=1e-9, atol=1e-12)


def test_the_same_row_is_answered_alike_by_every_way_in(doors, tmp_path):
    from serve_builders import Client

    rows = odd()[-24:].drop(columns=["cost", "sick", "site"]).reset_index(drop=True)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.to_parquet(tmp_path / "rows.parquet")
    run = doors["csv"]
    wanted = run.predict(rows, target="site 3")["p(NA)"].to_numpy()
    assert wanted.std() > 0.01
    for source in (tmp_path / "rows.csv", tmp_path / "rows.parquet"):
        found = run.predict(source, target="site 3")["p(NA)"]
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    client, url = Client(run.path), "/v1/targets/site%203/predict"
    try:
        by_json = client.post(url, {"rows": rows.to_dict("records")}).json()
        csv = {"content": rows.to_csv(index=False), "headers": {"Content-Type": "text/csv"}}
        for answer in (by_json, client.post(url, **csv).json()):
            np.testing.assert_allclose(answer["probabilities"]["NA"], wanted, rtol=1e-12)
        alone = [client.post(url, {"rows": [row]}).json() for row in rows.to_dict("records")[:4]]
        found = [answer["probabilities"]["NA"][0] for answer in alone]
        np.testing.assert_allclose(found, wanted[:4], rtol=1e-12)
    finally:
        client.state.close()


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame", "mapping"])
def test_words_are_missing_where_told_and_in_columns_of_numbers(tmp_path, kind):
    frame = odd().assign(age=odd().age.map(str))
    frame.loc[[1, 5, 7], "age"] = ["NA", "", "null"]
    frame.loc[[2, 9], "country"] = ["-", ""]
    frame.loc[[3, 4], "cost"] = [-99.0, np.nan]
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    source = {
        "csv": tmp_path / "t.csv",
        "parquet": tmp_path / "t.parquet",
        "frame": frame,
        "mapping": {name: rows.drop(columns="site") for name, rows in frame.groupby("site")},
    }[kind]
    domain = None if kind == "mapping" else "site"
    found = read(source, domain=domain, label="cost", missing=["-", "-99", "null"])
    assert found.frame.country.isna().sum() == (odd().country == "null").sum() + 1
    assert (found.frame.country == "NA").sum() == 24
    assert found.frame.age.dtype == np.float64 and found.frame.age.isna().sum() == 3
    assert found.frame.cost.isna().sum() == 2
    assert any("taken as missing: 'age' (1 cell, like 'NA')" in note for note in found.notes)


def test_words_for_gaps_in_one_file_are_categories_where_another_has_text(tmp_path):
    frame = odd().assign(country=lambda f: f.country.where(f.site != "site 0", "NA"))
    for name, rows in frame.groupby("site"):
        rows.drop(columns="site").to_csv(tmp_path / f"{name}.csv", index=False)
    found = read(tmp_path, label="sick").frame
    assert (found.country[found.domain == "site 0"] == "NA").all()
    spooled = spool(spec(tmp_path, label="cost", drop=("sick",)), tmp_path)
    assert "country=NA" in spooled.encoder.names


# Labels come back as they came.


@pytest.mark.parametrize("kind", ["frame", "nullable", "csv", "parquet", "mapping"])
def test_truth_values_beside_gaps_come_back_as_they_came(tmp_path, kind):
    frame = table(4, 20).drop(columns="cost")
    frame["sick"] = (frame.sick == "yes").astype(object)
    frame.loc[[1, 30, 65, 66], "sick"] = None
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.astype({"sick": "boolean"}).to_parquet(tmp_path / "t.parquet")
    source = {
        "frame": frame,
        "nullable": frame.astype({"sick": "boolean"}),
        "csv": tmp_path / "t.csv",
        "parquet": tmp_path / "t.parquet",
        "mapping": {n: (rows[["age"]], [*rows.sick]) for n, rows in frame.groupby("site")},
    }[kind]
    asked = options("sick", targets="site 3", drop=())
    domain = "site" if kind != "mapping" else None
    label = "sick" if kind != "mapping" else "label"
    run = adapt(source, tmp_path / "run", options=asked, domain=domain, label=label)
    assert run.classes.tolist() == [False, True] and run.classes.dtype == np.bool_
    known = frame[60:].dropna()
    answers = run.predict(known[["age", "sex"]] if kind != "mapping" else known[["age"]],
                          target="site 3")  # fmt: skip
    assert answers.prediction.dtype == np.bool_
    assert (answers.prediction.to_numpy() == known.sick.to_numpy(bool)).mean() > 0.5
    assert sum(about["learn"] + about["test"] for about in [run.described(0)]) == 18


# Rows that take no part, and names that look alike.


@pytest.mark.parametrize("stream", [False, True])
def test_rows_that_take_no_part_are_counted(tmp_path, stream):
    frame = visits()
    frame.loc[[2, 3, 25], "cost"] = np.nan
    frame.loc[[5, 45, 46, 70], "site"] = [None, "", " ", None]
    frame.to_csv(tmp_path / "t.csv", index=False)
    how = {"stream": stream, "hypothesis": "ridge", "task": "regression"}
    run = adapt(
        tmp_path / "t.csv", tmp_path / "run",
        options=options(drop=(), targets="site 3", **how),
    )  # fmt: skip
    said = " ".join(run.notes)
    assert "4 of 80 rows left out, as column 'site' names no domain there" in said
    assert ("3 of 76 rows have no label" if stream else "3 of 57 rows of sources have no") in said
    with pytest.raises(DomainError, match=r"'site' names no domain at row 5 .4 such rows"):
        adapt(
            tmp_path / "t.csv", tmp_path / "strict",
            options=options(drop=(), targets="site 3", strict=True, **how),
        )  # fmt: skip


def test_domains_spelt_alike_are_named(tmp_path):
    frame = visits()
    frame.loc[:9, "site"] = "Site 0 "
    frame.loc[20:22, "site"] = "SITE  1"
    run = run_of(frame, tmp_path)
    for pair in ("'Site 0 ', 'site 0'", "'SITE  1', 'site 1'"):
        assert any(f"domains {pair} differ in case or spaces alone" in note for note in run.notes)
    assert "Site 0 " in run.columns


# A plain `df.to_csv()`.


def dated(form: str = "%Y-%m-%d") -> pd.DataFrame:
    days = pd.Series(pd.date_range("2021-01-01", periods=400)).sample(80, random_state=0)
    return visits().assign(when=days.dt.strftime(form).to_numpy())


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("some", ["unknown", "n. d."])
def test_words_among_dates_are_named_with_what_to_do(tmp_path, stream, some):
    frame = dated()
    frame.loc[[7, 30], "when"] = some
    frame.to_csv(tmp_path / "t.csv", index=False)
    how = {"stream": stream, "hypothesis": "ridge", "task": "regression"}
    asked = {"drop": (), "targets": "site 3", **how}
    shown = f"'{some}'" if " " in some else some
    with pytest.raises(
        DomainError,
        match=rf"'when' mixes types: it holds dates, but '{some}' at row 7; correct it, leave it "
        rf"empty, say that it is missing \(--missing {shown}\), or",
    ):
        adapt(tmp_path / "t.csv", tmp_path / "run", options=options(**asked))
    # gaps in dates are those of their column
    with pytest.raises(DomainError, match=r"in 1 column: 'when' \(2\); fill them in"):
        adapt(tmp_path / "t.csv", tmp_path / "run", options=options(missing=some, **asked))
    run = adapt(
        tmp_path / "t.csv", tmp_path / "run", options=options(missing=some, impute=True, **asked)
    )
    assert any("'when' (2 gaps)" in note for note in run.notes)
    # few different dates are categories, as it is said
    frame["when"] = np.where(frame.index == 7, some, frame.index % 3 + 2001)
    frame["when"] = frame.when.where(frame.when == some, frame.when + "-01-01")
    frame.to_csv(tmp_path / "t.csv", index=False)
    few = adapt(tmp_path / "t.csv", tmp_path / "few", options=options(**asked))
    assert any(
        "some are no dates: 'when' (like" in note and f"(--missing {shown})" in note
        for note in few.notes
    )


@pytest.mark.parametrize("form", ["%B %d, %Y", "%b %d %Y", "%d %B %Y"])
def test_dates_with_the_month_by_name(form):
    by_name, plain = (read(dated(one), domain="site", label="cost") for one in (form, "%Y-%m-%d"))
    pd.testing.assert_frame_equal(by_name.frame, plain.frame)
    assert "when → days" in by_name.features


@pytest.mark.parametrize("stream", [False, True])
def test_a_column_of_dates_counts_as_one_feature(tmp_path, stream):
    frame = visits()
    frame["when"] = [f"2024-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(len(frame))]
    frame.to_csv(tmp_path / "t.csv", index=False)
    how = {"stream": stream, "hypothesis": "ridge", "task": "regression"}
    asked = options(drop=(), targets="site 3", **how)
    run = adapt(tmp_path / "t.csv", tmp_path / "run", options=asked)
    assert run.features == ("age", "sex", "when") and "3 features" in run.summary()


def test_an_index_without_a_name_is_left_out(tmp_path):
    frame = visits().sample(frac=1, random_state=0)
    frame.to_csv(tmp_path / "t.csv")
    note = "the first column has no name and holds whole numbers: it is an index, and left out"
    read_back = pd.read_csv(tmp_path / "t.csv")
    for source, where in ((tmp_path / "t.csv", "csv"), (read_back, "frame")):
        run = adapt(source, tmp_path / where, options=options(drop=(), targets="site 3"))
        assert note in run.notes and run.features == ("age", "sex")
        answers = run.predict(tmp_path / "t.csv", target="site 3")
        wanted = run.predict(frame.reset_index(drop=True), target="site 3")
        np.testing.assert_allclose(answers.prediction, wanted.prediction, rtol=1e-12)
    how = {"stream": True, "hypothesis": "ridge", "task": "regression"}
    stream = adapt(
        tmp_path / "t.csv", tmp_path / "stream", options=options(drop=(), targets="site 3", **how)
    )
    assert note in stream.notes and stream.features == ("age", "sex")
    frame.assign(**{"": frame.sex})[["", *frame.columns]].to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DomainError, match="column 0 has no name; name it, remove it, or name the"):
        adapt(tmp_path / "t.csv", tmp_path / "no", options=options(drop=(), targets="site 3"))
