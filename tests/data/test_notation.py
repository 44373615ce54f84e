"""Numbers written as text: read where that is safe, refused where it is not, never turned into
categories silently.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cuvee.data.encode import Encoder
from cuvee.data.frame import read, read_rows, spec
from cuvee.data.spool import spool
from cuvee.errors import DomainError
from cuvee.serve.sentences import over_http
from frame_builders import FUZZ
from hypothesis import given
from hypothesis import strategies as st


def csv_of(cells, folder, separator=",", name="t.csv"):
    """A file whose column `x` holds these cells as they are written here."""
    quoted = [f'"{cell}"' if separator in str(cell) else str(cell) for cell in cells]
    lines = [
        separator.join(row)
        for row in zip(quoted, "ab" * len(cells), map(str, range(len(cells))), strict=False)
    ]
    path = folder / name
    path.write_text("\n".join([separator.join(("x", "domain", "label")), *lines, ""]))
    return path


def frame_of(cells):
    return pd.DataFrame(
        {"x": cells, "domain": ["a", "b"] * (len(cells) // 2), "label": range(len(cells))}
    )


# Text that reads as numbers.


@pytest.mark.parametrize("dtype", [object, "str", "string"])
def test_numeric_strings_of_a_frame_are_numbers(dtype, tmp_path):
    frame = frame_of(pd.Series(["37", " 41.5", "-1e3", None, "", "NA"], dtype=dtype))
    path = tmp_path / "t.parquet"
    frame.to_parquet(path)
    for source in (frame, path):
        table = read(source)
        np.testing.assert_array_equal(table.frame["x"], [37, 41.5, -1000, np.nan, np.nan, np.nan])
        said = (
            "column of text read as numbers: 'x' (like '37'); name it in text (--text) if it holds "
            "categories"
        )
        word = "column with words for missing cells, taken as missing: 'x' (1 cell, like 'NA')"
        assert table.notes == (said, word)
        assert read(source, text=["x"]).frame["x"].tolist()[:3] == ["37", " 41.5", "-1e3"]
    # said by the type
    assert read(frame.astype({"x": "category"}), text=()).frame["x"].tolist()[0] == "37"


def test_numeric_strings_as_labels(tmp_path):
    frame = frame_of([1.0, 2.0, 3.0, 4.0]).assign(label=["3.5", "2", "1", "0.25"])
    assert read(frame).frame["label"].tolist() == [3.5, 2.0, 1.0, 0.25]
    assert "text read as numbers: 'label'" in read(frame).notes[0]
    assert read(frame.assign(label=["01", "02", "01", "02"])).frame["label"].tolist() == [
        "01",
        "02",
        "01",
        "02",
    ]


@pytest.mark.parametrize("cells", [["1,5", "2", "-0,25", ",5"], ["1,234", "2,5", "3", "4"]])
def test_decimal_commas_between_semicolons(tmp_path, cells):
    path = csv_of(cells, tmp_path, ";")
    wanted = [float(cell.replace(",", ".")) for cell in cells]
    table = read(path)
    assert table.frame["x"].tolist() == wanted
    assert table.notes == (f"column read with decimal commas: 'x' (like {cells[0]!r})",)
    assert read_rows(path, ["x"])["x"].tolist() == wanted
    spooled = spool(spec(path), tmp_path, standardise=False, batch_rows=1)
    assert [v for d in spooled.domains for v in d.X[:, 0]] == [*wanted[::2], *wanted[1::2]]
    assert spooled.notes == table.notes


def test_plain_numbers_are_read_as_ever_and_nothing_is_said(tmp_path):
    for cells in (["1", "+2.5", "-3e2", ".5"], ["0", "1", "0.5", "00.5"], ["0", "0", "1", "1"]):
        for separator in ",;\t|":
            table = read(csv_of(cells, tmp_path, separator))
            assert table.frame["x"].tolist() == list(map(float, cells)) and table.notes == ()


# Text that does not.

NOTATIONS = [
    ["37%", "41 %", "9%", "12%"],
    ["1,234", "5,678", "12", "13"],
    ["1 234,5", "2 345,5", "1", "2"],
    ["1\u202f234", "2\u00a0345", "7", "8"],
    ["$12", "$9.50", "$1,200", "$3"],
    ["12 €", "9,50 €", "3 €", "1 €"],
    ["1.234,56", "2.345,67", "5", "6"],
    ["1'234", "2'345", "1", "2"],
    ["−5", "−6", "7", "8"],
    ["(5)", "(6)", "7", "8"],
    ["EUR 5", "EUR 6", "7", "8"],
    ["1_000", "2_000", "5", "6"],
]


@pytest.mark.parametrize("cells", NOTATIONS, ids=lambda cells: cells[0])
def test_other_notations_are_refused(tmp_path, cells):
    first = next(i for i, cell in enumerate(cells) if not cell.isascii() or not cell.isdigit())
    message = (
        rf"column 'x' holds numbers in a notation that is not read, like {cells[first]!r} at row "
        rf"{first}"
    )
    for source in (csv_of(cells, tmp_path), frame_of(cells)):
        with pytest.raises(DomainError) as caught:
            read(source)
        assert (
            message in str(caught.value)
            and "plain numbers" in str(caught.value)
            and "--text" in str(caught.value)
        )
        assert read(source, text=["x"]).frame["x"].tolist() == cells
    with pytest.raises(DomainError, match="a notation that is not read"):
        spool(spec(csv_of(cells, tmp_path)), tmp_path, batch_rows=1)


def test_decimal_commas_between_commas_say_what_works(tmp_path):
    """Text is advised where it would be taken, and not for more values than categories have."""
    few, many = ["1,5", "2,5", "3,5", "4"], [f"{i},5" for i in range(300)]
    path = csv_of(many, tmp_path)
    with pytest.raises(DomainError) as caught:
        read(path)
    assert (
        "write plain numbers, such as 1234.5, or drop the column (--drop); if its commas are "
        "decimal, save the file with ';' between columns, or read it in Python with "
        'pd.read_csv(path, decimal=",")'
    ) in str(caught.value)
    assert "at row 0; write plain numbers, such as 1234.5 (row" in over_http(str(caught.value))
    assert read(pd.read_csv(path, decimal=",")).frame["x"][1] == 1.5
    semicolons = tmp_path / "semicolons.csv"
    pd.read_csv(path, dtype=str).to_csv(semicolons, sep=";", index=False)
    assert read(semicolons).frame["x"][1] == 1.5
    with pytest.raises(DomainError, match=r"\(--text\) if it holds categories; if its commas are"):
        read(csv_of(few, tmp_path))
    with pytest.raises(DomainError) as caught:
        read(frame_of(many))
    assert "semicolon" not in str(caught.value) and "';'" not in str(caught.value)
    with pytest.raises(DomainError) as caught:
        read(csv_of([f"{i}%" for i in range(300)], tmp_path))
    assert "--text" not in str(caught.value) and "its commas" not in str(caught.value)


@pytest.mark.parametrize(
    "cells",
    [["1,5", "2.5", "3", "4"], ["1.234,5", "2,5", "3", "4"], ["1,5%", "2,5%", "3%", "4%"]],
)
def test_between_semicolons_too(tmp_path, cells):
    with pytest.raises(
        DomainError, match="column 'x' holds numbers in a notation that is not read"
    ):
        read(csv_of(cells, tmp_path, ";"))


def test_a_point_that_may_separate_thousands(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x;y;domain;label\n1.234;1,5;a;0\n999;2,5;b;1\n12.000;3,5;a;2\n")
    with pytest.raises(
        DomainError,
        match=r"column 'x' is written with points, like '1.234' at row 0, beside decimal c",
    ):
        read(path)
    # cannot be thousands
    path.write_text("x;y;domain;label\n1.234;1,5;a;0\n999;2,5;b;1\n12.5;3,5;a;2\n")
    assert read(path).frame["x"].tolist() == [1.234, 999, 12.5]


def test_numbers_with_something_else_among_them(tmp_path):
    cells = ["1", "2", "<0.5", "3"]
    for source in (csv_of(cells, tmp_path), frame_of(cells)):
        with pytest.raises(
            DomainError,
            match=r"'x' mixes types: it holds numbers, but '<0.5' at row 2; correct it,",
        ):
            read(source)


@pytest.mark.parametrize(
    "cells",
    [
        ["31.12.2020", "1.1.2021", "02.03.21", "5.5.2021"],
        ["12/31/2020", "1/1/2021", "02/03/21", "5/5/2021"],
        ["31 Dec 2020", "1 January 2021", "02-Mar-21", "5 May 2021"],
        ["1/2/2020", "3/4/2020", "2020-01-31", "5/6/2020"],
        ["1/31/2020", "31/1/2020", "3/4/2020", "5/6/2020"],
    ],
)
def test_dates_that_may_be_read_in_two_ways_are_refused(tmp_path, cells):
    for source in (csv_of(cells, tmp_path), frame_of(cells)):
        with pytest.raises(
            DomainError,
            match=rf"column 'x' holds dates, like '{cells[0]}' at row 0, of which it is open what",
        ):
            read(source)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["2020-01-31", "2020-02-01 12:00", "2020-2-1", "2021/01/01"], ""),
        (["31.1.2020", "1.2.2020 12:00:00", "01.02.2020", "1.1.2021"], ", day first"),
        (["1/31/2020 0:00:00", "2/1/2020 12:00 PM", "02/01/2020", "1/1/2021"], ", month first"),
        (["31 Jan 2020", "1 February 2020 12:00", "1-Feb-2020", "2021-01-01"], ""),
    ],
)
def test_dates_are_days_months_and_weekdays(tmp_path, cells, said):
    names = [f"x → days{said}", f"x → month{said}", f"x → weekday{said}"]
    wanted = [[18292, 1, 5], [18293.5, 2, 6], [18293, 2, 6], [18628, 1, 5]]
    for source in (csv_of(cells, tmp_path), frame_of(cells)):
        table = read(source)
        assert list(table.features) == names and table.frame[names].to_numpy().tolist() == wanted
        first = said.removeprefix(", ").replace(" first", " written first")
        assert table.notes[0].startswith(
            f"column of dates{f', the {first},' * bool(said)} taken as days since 1970, month"
        )
        again = read_rows(csv_of(cells[1:2], tmp_path), names)  # as before, whatever this row shows
        assert again.to_numpy().tolist() == wanted[1:2]
        gap = read_rows(csv_of(["NA", cells[0]], tmp_path), names)
        assert gap.isna().all(axis=1).tolist() == [True, False]
        with pytest.raises(DomainError, match="'x' is 'soon' at row 1, where the other rows hold"):
            read_rows(csv_of([cells[0], "soon"], tmp_path), names)
    spooled = spool(spec(csv_of(cells, tmp_path)), tmp_path, batch_rows=1, standardise=False)
    assert spooled.encoder.names == tuple(names) and spooled.notes == table.notes
    rows = {tuple(row) for domain in spooled.domains for row in domain.X.tolist()}
    assert rows == {*map(tuple, wanted)}


def test_dates_by_their_type(tmp_path):
    cells = ["2020-01-31", "2020-02-01 12:00", None, "2021-01-01"]
    days = pd.to_datetime(cells, format="ISO8601")
    frame = frame_of(["a", "b", "a", "b"]).assign(label=[0.5, 1.5, 2.5, 3.5])
    typed = {
        "datetimes": days,
        "with a zone": days.tz_localize("Europe/Berlin"),
        "objects": days.to_pydatetime().astype(object),
        "text": days.strftime("%Y-%m-%d %H:%M"),
    }
    wanted = read(frame.assign(x=days)).frame
    assert wanted.columns.tolist()[:3] == ["x → days", "x → month", "x → weekday"]
    assert wanted.iloc[1, :3].tolist() == [18293.5, 2, 6] and wanted.iloc[2, :3].isna().all()
    for name, cells in typed.items():
        one = frame.assign(x=cells)
        pd.testing.assert_frame_equal(read(one).frame, wanted, obj=name)
        if name != "objects":
            one.to_parquet(tmp_path / "t.parquet")
            pd.testing.assert_frame_equal(read(tmp_path / "t.parquet").frame, wanted, obj=name)
            kept = read_rows(tmp_path / "t.parquet", wanted.columns.tolist()[:3])
            pd.testing.assert_frame_equal(kept, wanted.iloc[:, :3], obj=name)


# Text that is categories.


@pytest.mark.parametrize("cells", [["01234", "80331", "10115", "01067"], ["007", "7", "12", "00"]])
def test_leading_zeros_make_categories(tmp_path, cells):
    path = csv_of(cells, tmp_path)
    said = f"column taken as categories, being digits with leading zeros: 'x' (like {cells[0]!r})"
    for source in (path, frame_of(cells)):
        table = read(source)
        assert table.frame["x"].tolist() == cells and table.notes == (said,)
    spooled = spool(spec(path), tmp_path, batch_rows=1)  # the zero may stand in any batch
    assert spooled.encoder.names == tuple(
        f"x={cell}" for cell in sorted(cells)
    ) and spooled.notes == (said,)
    kept = read_rows(path, ["label"], ["x"])  # carried over as they are
    assert kept["x"].tolist() == cells


def test_leading_zeros_in_one_file_of_a_folder(tmp_path):
    csv_of(["01067", "01069"], tmp_path, name="dresden.csv")
    csv_of(["80331", "80333"], tmp_path, name="munich.csv")
    wanted = ["01067", "01069", "80331", "80333"]
    table = read(tmp_path)
    assert table.frame["x"].tolist() == wanted and len(table.notes) == 2
    (tmp_path / "out").mkdir()
    assert spool(spec(tmp_path), tmp_path / "out").encoder.names == tuple(
        f"x={cell}" for cell in wanted
    )
    frames = {
        "a": frame_of(["01", "02"]).drop(columns="domain"),
        "b": frame_of(["3", "x"]).drop(columns="domain"),
    }
    assert read(frames).frame["x"].tolist() == ["01", "02", "3", "x"]
    numbers = {
        "a": frame_of(["1", "2"]).drop(columns="domain"),
        "b": frame_of(["A", "B"]).drop(columns="domain"),
    }
    # text by type, and not numbers throughout
    assert read(numbers).frame["x"].tolist() == ["1", "2", "A", "B"]


def test_text_is_said_with_its_reason(tmp_path):
    frame = frame_of(["f", "m", "f", "m"]).assign(
        ward=["A3", "B1", "A3", "10-20"], kind=["5mg", "10mg", "5mg", "x"]
    )
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    said = (
        "columns taken as categories, being text: 'x' (like 'f'), 'ward' (like 'A3'), 'kind' (like "
        "'5mg')"
    )
    for source in (path, frame):
        assert read(source).notes == (said,)
    assert read(path, text=["x", "ward", "kind"]).notes == ()  # who says so need not be told
    many = pd.DataFrame({f"c{i}": ["x", "y"] for i in range(30)}).assign(
        domain=["a", "b"], label=[0, 1]
    )
    assert "'c9' (like 'x') and 20 more" in read(many).notes[0] and "c10" not in read(many).notes[0]


def test_declared_text_holds_for_every_kind_of_file(tmp_path):
    frame = frame_of([1, 2, 1, 10])
    frame.to_parquet(tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet", text=["x"]).frame["x"].tolist() == ["1", "2", "1", "10"]
    assert spool(spec(tmp_path / "t.parquet", text=["x"]), tmp_path).encoder.text == ("x",)


# Whole numbers that look like something else, or are too long.


def test_days_written_as_numbers_are_noted(tmp_path):
    cells = ["20200131", "20201231", "19991130", "20210101"]
    table = read(csv_of(cells, tmp_path))
    assert table.frame["x"].tolist() == list(map(float, cells))
    assert table.notes == (
        "column read as numbers, though it looks like dates: 'x' (like '20200131'); make days "
        "since a date of it, or "
        "name it in text (--text)",
    )
    assert read(csv_of(["20200131", "20201331", "1", "2"], tmp_path)).notes == ()


LONG = [2**60 + 1, 2**60 + 2, 2**60 + 3, 5]


def test_whole_numbers_that_floats_would_merge_are_refused(tmp_path):
    message = (
        rf"column 'x' holds whole numbers with more digits than are kept: {LONG[0]} at row 0 and "
        rf"{LONG[1]} at row 1 "
    )
    frame = frame_of(LONG)
    frame.to_parquet(tmp_path / "t.parquet")
    sources = (
        frame,
        frame.astype({"x": object}),
        frame.astype({"x": "Int64"}),
        tmp_path / "t.parquet",
    )
    for source in (*sources, csv_of(LONG, tmp_path), frame.astype({"x": str})):
        with pytest.raises(DomainError, match=message) as caught:
            read(source)
        assert "--text" in str(caught.value)
        assert read(source, text=["x"]).frame["x"].tolist() == list(map(str, LONG))
    apart = [2**60, 2**60 + 2**20, 2**61, 7]  # nothing merges
    assert read(frame_of(apart)).frame["x"].tolist() == list(map(float, apart))
    assert read(csv_of(apart, tmp_path)).frame["x"].tolist() == list(map(float, apart))


@pytest.mark.parametrize("first", [10**9, 10**15, 2**53 - 1000])
@pytest.mark.parametrize("streamed", [False, True])
def test_large_whole_numbers_that_differ_do_vary(tmp_path, first, streamed):
    values = first + np.arange(400) % 3
    frame = pd.DataFrame({"x": values, "domain": ["a", "b"] * 200, "label": np.arange(400.0)})
    if streamed:
        frame.to_parquet(tmp_path / "t.parquet")
        encoder = spool(spec(tmp_path / "t.parquet"), tmp_path, batch_rows=7).encoder
    else:
        encoder = Encoder.fit(read(frame).frame, ["x"])
    X = encoder(frame)[:, 0]
    assert encoder.notes == () and len(np.unique(X)) == 3
    assert X.std() == pytest.approx(1, rel=1e-9) and np.ptp(X) == pytest.approx(
        2 / (values - first).std(), rel=1e-9
    )


def test_what_differs_by_rounding_alone_does_not_vary():
    frame = pd.DataFrame({"x": [0.1 + 0.2, 0.3, 0.3, 0.1 + 0.2]})
    encoder = Encoder.fit(frame, ["x"])
    assert not encoder(frame).any() and "same value in every training row" in encoder.notes[0]


@FUZZ
@given(
    st.lists(
        st.text(alphabet=st.sampled_from(list("0123456789.,-+%$€ '_eE()x")), max_size=6),
        min_size=2,
        max_size=6,
    ),
    st.sampled_from(",;\t|"),
)
def test_no_number_changes_silently(tmp_path, cells, separator):
    """Whatever is read as a number is that number, or was said to have been read with a decimal
    comma.
    """
    path = csv_of([cell.replace('"', "") for cell in cells], tmp_path, separator)
    try:
        table = read(path)
    except DomainError:
        return
    column = table.frame["x"]
    if column.dtype == np.float64 and column.notna().any():
        comma = any("decimal commas" in note for note in table.notes)
        cells = [cell.strip() for cell in cells]
        wanted = [
            float(cell.replace(",", ".") if comma else cell) if cell else np.nan for cell in cells
        ]
        np.testing.assert_array_equal(column, wanted)
    elif column.notna().any():
        assert any("'x'" in note for note in table.notes)
