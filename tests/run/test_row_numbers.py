"""Rows in errors are rows of the table, whoever they belong to, with their line in the file that
the user has open.
"""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest

from cuvee.data.frame import read, read_rows, spec
from cuvee.data.spool import spool
from cuvee.errors import DomainError
from cuvee.run import adapt
from run_builders import command, options, table

BASE = table(4, 12)
ROW = 40  # of "site 3", which begins at row 36
ODD = BASE.assign(sick=BASE.sick.where(BASE.index != ROW, "maybe"))
ROLES = ("--strict", "--domain", "site", "--label", "sick", "--drop", "cost", "--targets", "site 3")


def refused(source, folder, **asked):
    with pytest.raises(DomainError) as caught:
        adapt(
            source,
            folder / "run",
            options=options("sick", **{"targets": "site 3", "strict": True, **asked}),
        )
    return str(caught.value)


@pytest.mark.parametrize(
    "asked", [{}, {"targets": "each"}, {"labelled": 11}, {"targets": ("site 2", "site 3")}]
)
def test_a_label_that_no_source_has(tmp_path, asked):
    said = f"target 'site 3' has 1 row of class 'maybe' (first at row {ROW}), which no source has"
    assert refused(ODD, tmp_path, **asked).startswith(said)
    ODD.to_csv(tmp_path / "t.csv", index=False)
    found = refused(tmp_path / "t.csv", tmp_path, **asked)
    assert found.startswith(said) and found.endswith(f"(row {ROW} is line {ROW + 2} of t.csv)")
    ODD.to_parquet(tmp_path / "t.parquet")
    assert "is line" not in refused(tmp_path / "t.parquet", tmp_path, **asked)


def test_the_single_steps_say_the_same(tmp_path):
    ODD.to_csv(tmp_path / "t.csv", index=False)
    ended = command("weights", tmp_path / "t.csv", *ROLES)
    assert (
        ended.code == 2 and f"class 'maybe' (first at row {ROW}), which no source has" in ended.err
    )
    assert f"(row {ROW} is line {ROW + 2} of t.csv)" in ended.err
    (tmp_path / "a.csv").write_text("target,site 0,(own sample)\nsite 3,0.5,0.5\n")
    words = ("--alpha", tmp_path / "a.csv", "--out", tmp_path / "m.safetensors")
    assert f"first at row {ROW})" in command("solve", tmp_path / "t.csv", *ROLES[:-2], *words).err


def test_folders_and_mappings_name_the_part(tmp_path):
    folder = tmp_path / "sites"
    folder.mkdir()
    for name, rows in ODD.groupby("site"):
        rows.drop(columns="site").to_csv(folder / f"{name}.csv", index=False)
    assert refused(folder, tmp_path, domain=None).endswith(f"(row {ROW} is line 6 of site 3.csv)")
    rows = ODD[ODD.site == "site 3"].drop(columns="site")
    rows.to_parquet(folder / "site 3.parquet")
    (folder / "site 3.csv").unlink()
    assert refused(folder, tmp_path, domain=None).endswith(
        f"(row {ROW} is row 4 of {folder / 'site 3.parquet'})"
    )
    parts = {name: rows.drop(columns="site") for name, rows in ODD.groupby("site")}
    assert refused(parts, tmp_path, domain=None).endswith(
        f"(row {ROW} is row 4 of domain 'site 3')"
    )


LINES = 'note,x,domain,label\n"two\nlines",1,a,0\n\nplain,2,b,1\n"three\n\nlines",{},a,2\n'


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("cell", "says"),
    [("old", "'x' mixes types: it holds numbers, but 'old'"), ("inf", "'x' is infinite")],
)
def test_lines_are_counted_as_an_editor_counts_them(tmp_path, packed, cell, says):
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    content = LINES.format(cell).encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    for work in (
        lambda: read(path, drop=["note"]),
        lambda: spool(spec(path, drop=["note"]), tmp_path, batch_rows=1),
    ):
        with pytest.raises(DomainError) as caught:
            work()
        assert f"{says} at row 2" in str(caught.value)
        assert str(caught.value).endswith(f"(row 2 is line 6 of {path.name})")
    with pytest.raises(DomainError, match=r"line 6 of t.csv"):
        read_rows(path, ["x"])


def test_rows_to_predict(tmp_path):
    run = adapt(BASE, tmp_path / "run", options=options(targets="site 3"))
    rows = BASE[BASE.site == "site 3"].reset_index(drop=True)
    for frame, says in (
        (rows.assign(sex=rows.sex.where(rows.index != 7, "x")), "'sex' is 'x' at row 7"),
        (
            rows.assign(site=rows.site.where(rows.index != 7, "nobody")),
            "row 7 is of domain 'nobody'",
        ),
        (rows.assign(age=rows.age.where(rows.index != 7, np.inf)), "'age' is infinite at row 7"),
    ):
        frame.to_csv(tmp_path / "rows.csv", index=False)
        with pytest.raises(DomainError) as caught:
            run.predict(tmp_path / "rows.csv", strict=True)
        assert says in str(caught.value) and str(caught.value).endswith(
            "(row 7 is line 9 of rows.csv)"
        )
        with pytest.raises(DomainError) as caught:
            run.predict(frame, strict=True)
        assert says in str(caught.value) and "line" not in str(caught.value)


def test_a_row_of_a_part_is_not_taken_for_one_of_the_whole(tmp_path):
    run = adapt(BASE, tmp_path / "run", options=options(targets="site 3"))
    parts = tmp_path / "parts"
    parts.mkdir()
    BASE[:12].assign(site="site 3").to_parquet(parts / "a.parquet")
    BASE[12:24].assign(site="site 3", age=[*BASE.age[12:23], np.inf]).to_parquet(
        parts / "b.parquet"
    )
    with pytest.raises(
        DomainError,
        match=r"b.parquet: column 'age' is infinite at row 11 .*--impute \(impute=True\), which fills them$",
    ):
        run.predict(parts)


def test_a_class_that_is_a_fraction(tmp_path):
    frame = BASE.assign(cost=(BASE.index % 3).astype(float))
    frame.loc[ROW, "cost"] = 0.5
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(
        DomainError, match=rf"is 0.5 at row {ROW}; .*\(row {ROW} is line {ROW + 2} of t.csv\)"
    ):
        adapt(
            tmp_path / "t.csv",
            tmp_path / "run",
            options=options(targets="site 3", task="classification"),
        )


def test_the_index_of_a_frame_does_not_matter(tmp_path):
    assert f"first at row {ROW})" in refused(ODD.set_index(pd.Index(range(1000, 1048))), tmp_path)
