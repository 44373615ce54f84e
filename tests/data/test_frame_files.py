"""Every kind of file gives the same table, and a broken one a sentence that names it, whatever its
bytes.
"""

from __future__ import annotations

import bz2
import gzip
import os
import re
import shutil
from contextlib import suppress

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cuvee.data.encode import Encoder
from cuvee.data.frame import located, read, read_rows, spec
from cuvee.data.spool import spool
from cuvee.errors import CuveeError, DomainError, InputError, OptionError
from frame_builders import FUZZ, ROLES, VISITS, check_visits, written
from hypothesis import given
from hypothesis import strategies as st

NAMES = ["v.csv", "v.tsv", "v.txt", "v.psv", "bom.csv", "v.csv.gz", "v.parquet", "v.feather"]


@pytest.mark.parametrize("name", NAMES)
def test_files(tmp_path, name):
    path = written(VISITS, tmp_path, name)
    check_visits(read(path, **ROLES))
    check_visits(read(str(path), **ROLES, features=["age", "sex", "smokes"]))


def test_content_tells_more_than_the_name(tmp_path):
    check_visits(read(written(VISITS, tmp_path, "v.parquet").rename(tmp_path / "table"), **ROLES))
    packed = tmp_path / "packed.csv"
    packed.write_bytes(gzip.compress(VISITS.to_csv(index=False).encode()))
    check_visits(read(packed, **ROLES))


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather", "csv.gz"])
def test_a_folder_with_a_file_per_domain(tmp_path, kind):
    for name, rows in VISITS.groupby("hospital"):
        written(rows.drop(columns="hospital"), tmp_path, f"{name}.{kind}")
    (tmp_path / "README.md").write_text("not a table")
    (tmp_path / ".hidden.csv").write_text("nor this")
    table = read(tmp_path, label="readmitted")
    assert table.names == ("north", "south", "west") and table.domain == "domain"
    assert table.rows("north")["age"].tolist() == [30.5, 28.0]
    rows = read_rows(tmp_path, ["age"], domain="site")
    assert rows["site"].tolist() == ["north", "north", "south", "west"]


PACKING = {"gz": gzip.compress, "bz2": bz2.compress, "zst": lambda text: zstd(text)}


def zstd(content):
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as stream:
        stream.write(content)
    return out.getvalue().to_pybytes()


@pytest.mark.parametrize("kind", PACKING)
def test_a_folder_of_packed_files_loses_no_domain(tmp_path, kind):
    for name, rows in VISITS.groupby("hospital"):
        content = rows.drop(columns="hospital").to_csv(index=False).encode()
        ending = "CSV.GZ" if kind == "gz" and name == "north" else f"csv.{kind}"
        (tmp_path / f"{name}.{ending}").write_bytes(PACKING[kind](content))
    table = read(tmp_path, label="readmitted")
    assert table.names == ("north", "south", "west")
    assert table.rows("north")["age"].tolist() == [30.5, 28.0]


@pytest.mark.parametrize("kind", PACKING)
def test_errors_of_packed_files_name_lines(tmp_path, kind):
    content = b"age,hospital,readmitted\n1,a,0\n2,b,1\ninf,b,1\n"
    (tmp_path / "v.csv").write_bytes(PACKING[kind](content))
    with located(tmp_path / "v.csv"), pytest.raises(DomainError, match=r"is line 4 of v\.csv"):
        read(tmp_path / "v.csv", **ROLES)
    (tmp_path / "v.csv").write_bytes(PACKING[kind](content.replace(b"2,b", b"2,\xe4")))
    with pytest.raises(InputError, match=r"is not UTF-8: byte 32, in line 3"):
        read(tmp_path / "v.csv", **ROLES)


def dead_link(path):
    path.symlink_to(path.with_name("nowhere.csv"))


def of_tables(path):
    path.mkdir()
    (path / "part-0.csv").write_text("age,readmitted\n1,0\n")


@pytest.mark.parametrize(
    ("name", "make", "words"),
    [
        (
            "fir.zip",
            lambda p: p.write_bytes(b"PK"),
            "is no table that cuvee reads: write it as CSV",
        ),
        ("fir.csv.xz", lambda p: p.write_bytes(b"?"), "is no table that cuvee reads"),
        ("fir.xlsx", lambda p: p.write_bytes(b"PK"), "is no table that cuvee reads"),
        ("fir.json", lambda p: p.write_text("[]"), "is no table that cuvee reads"),
        ("fir", lambda p: p.write_text("age\n1\n"), "is no table that cuvee reads"),
        ("fir.csv", dead_link, "is a link to nothing"),
        ("fir", of_tables, "is a folder of tables in a folder of tables"),
    ],
)
def test_what_cannot_be_read_in_a_folder_is_refused_by_name(tmp_path, name, make, words):
    written(VISITS.drop(columns="hospital"), tmp_path, "north.csv")
    make(tmp_path / name)
    with pytest.raises(InputError, match=rf"{re.escape(str(tmp_path / name))} {words}"):
        read(tmp_path, label="readmitted")
    make(tmp_path / f".{name}") if make is not of_tables else None  # what is hidden may stay
    (tmp_path / name).unlink() if make is not of_tables else shutil.rmtree(tmp_path / name)
    assert read(tmp_path, label="readmitted").names == ("north",)


def test_what_lies_beside_tables_may_stay(tmp_path):
    written(VISITS.drop(columns="hospital"), tmp_path, "north.csv")
    for name in ("README", "README.md", "LICENSE", "plot.png", "_SUCCESS", "~$north.xlsx"):
        (tmp_path / name).write_text("no table")
    (tmp_path / "figures").mkdir()
    of_tables(tmp_path / "run")
    (tmp_path / "run" / "manifest.json").write_text("{}")
    assert read(tmp_path, label="readmitted").names == ("north",)


def test_files_of_a_folder_may_name_the_domain_themselves(tmp_path):
    written(VISITS[:2], tmp_path, "part 1.csv"), written(VISITS[2:], tmp_path, "part 2.parquet")
    check_visits(read(tmp_path, **ROLES))


@pytest.mark.parametrize(("names", "many"), [(["north", "south"], 0), (["south", "part"], 1)])
def test_it_is_said_where_names_of_files_do_not_count(tmp_path, names, many):
    folder, out = tmp_path / "data", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    for name, (_, rows) in zip(names, VISITS[:3].groupby("hospital"), strict=True):
        written(rows.rename(columns={"hospital": "domain"}), folder, f"{name}.csv")
    said = "column that names the domain of each row, so that the names of files or parts do not"
    found, streamed = read(folder, label="readmitted"), spool(spec(folder, label="readmitted"), out)
    for one in (found.notes, streamed.notes):
        assert sum(said in note for note in one) == many, one
    assert {d.name for d in streamed.domains} == {*found.names} == {"north", "south"}


def test_files_of_a_folder_that_differ(tmp_path):
    north = written(VISITS.drop(columns="hospital"), tmp_path, "north.csv")
    south = written(VISITS.drop(columns=["hospital", "age"]), tmp_path, "south.csv")
    with pytest.raises(DomainError, match=r"south.csv: there is no column 'age'"):
        read(tmp_path, label="readmitted")
    south.write_text("age,sex,smokes,bmi,readmitted\n1,f,true,2,0\n")
    with pytest.raises(
        DomainError,
        match=r"south.csv: column 'bmi' is not in .*north.csv; give all the same columns",
    ):
        read(tmp_path, label="readmitted")
    south.write_text("age,sex,smokes,readmitted\nold,f,true,0\n")
    with pytest.raises(
        DomainError, match=f"'age' holds numbers in {north} but text in {south}; use one type"
    ):
        read(tmp_path, label="readmitted")
    south.write_text("readmitted,age,sex,smokes\n0,,,\n")
    table = read(tmp_path, label="readmitted")
    assert table.frame["sex"].isna().sum() == 1 and table.frame["age"].dtype == np.float64


BAD_TEXT = {
    "a,a,domain,label\n1,1,x,0\n": "2 columns are named 'a'",
    "a,domain,label\n": "there are no rows",
    "a,domain,label\n1,x,0\n2,x\n": "Expected 3 columns, got 2",
    "a,domain,label\n1,,0\n": "names no domain in any row",
    "a,domain,label\n1,x,0\n2,x,1\nold,x,1\n": "'a' mixes types: it holds numbers, but 'old' at row 2; correct it",
    "a,domain,label\n1,x,0\n2,x,1\n3,x,lots\n": "'label' mixes types: it holds numbers, but 'lots' at row 2",
    "a,domain,label\n1/2/2020,x,0\n3/4/2020,x,1\n": "'a' holds dates, like '1/2/2020' at row 0, of which it is open",
    "a,domain,label\n2020-01-01,x,0\n2020-02-31,x,1\n": "'a' is '2020-02-31' at row 1, where the other rows hold dates",
    "a,domain,label\n1,x,0\ninf,x,1\n": "'a' is infinite at row 1",
    ",a,domain,label\nx,1,x,0\n": "column 0 has no name",
    "a,,domain,label\n1,0,x,0\n": "column 1 has no name",
    "": "is empty",
    " \n\n": "is empty",
    "a\n1\n": "there is no column 'label'; there are 'a'",
}


@pytest.mark.parametrize("text", BAD_TEXT)
def test_bad_text(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=BAD_TEXT[text]) as caught:
        read(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


LATIN = "sex,hospital,readmitted\njunge,a,1\nmädchen,a,0\n".encode("latin-1")


def bad_files(folder):
    good = written(VISITS, folder, "good.parquet").read_bytes()
    packed = gzip.compress(VISITS.to_csv(index=False).encode())
    yield "cut.parquet", good[: len(good) // 2], "cannot be read as a table"
    yield (
        "cut.feather",
        written(VISITS, folder, "good.feather").read_bytes()[:-20],
        "cannot be read as a table",
    )
    yield "torn.parquet", good[:200] + bytes(100) + good[300:], "cannot be read as a table"
    yield "text.parquet", b"a,b\n1,2\n", "is not a Parquet file, or a broken one"
    yield "noise.feather", os.urandom(100), "is not a Feather file"
    yield "empty.parquet", b"", "is empty"
    yield "cut.csv.gz", packed[: len(packed) // 2], "cannot be read as a table"
    yield (
        "sheet.xlsx",
        b"PK\x03\x04" + os.urandom(50),
        "is not text; save the table as CSV in UTF-8",
    )
    yield "binary.csv", bytes(range(256)) * 4, "is not text"
    yield "utf16.csv", VISITS.to_csv(index=False).encode("utf-16"), "is UTF-16; .* utf-16"
    yield (
        "latin.csv",
        LATIN,
        r"latin.csv is not UTF-8: byte 35, in line 3, is 0xE4 .*'mädchen'.*--encoding cp1252",
    )
    yield (
        "head.csv",
        "größe,hospital\n1,a\n".encode("latin-1"),
        r"not UTF-8: byte 2, in line 1, is 0xF6 .*'größe'",
    )
    yield "latin.csv.gz", gzip.compress(LATIN), r"latin.csv.gz is not UTF-8: byte 35, in line 3"


def test_broken_and_foreign_files(tmp_path):
    for name, content, message in bad_files(tmp_path):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InputError, match=message) as caught:
            read(path, **ROLES)
        assert name in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8"])
def test_other_encodings(tmp_path, encoding):
    text = VISITS.assign(sex=["weiblich", "männlich", "männlich", "weiblich"]).rename(
        columns={"age": "größe"}
    )
    content = text.to_csv(index=False).encode(encoding)
    path = tmp_path / "v.csv"
    for name, written_ in (("v.csv", content), ("v.csv.gz", gzip.compress(content))):
        path = tmp_path / name
        path.write_bytes(written_)
        table = read(path, **ROLES, encoding=encoding)
        assert (
            table.features == ("größe", "sex", "smokes")
            and table.frame["sex"].tolist()[1] == "männlich"
        )
        assert (
            read_rows(path, ["größe"], ["sex"], encoding=encoding)["sex"].tolist()
            == text["sex"].tolist()
        )
        spooled = spool(spec(path, **ROLES, encoding=encoding), tmp_path, batch_rows=2)
        assert spooled.encoder.names[1:3] == ("sex=männlich", "sex=weiblich")
    written(VISITS, tmp_path, "p.parquet")
    # says by itself how it is written
    check_visits(read(tmp_path / "p.parquet", **ROLES, encoding=encoding))


def test_encodings_that_are_none(tmp_path):
    path = tmp_path / "v.csv"
    path.write_bytes(LATIN)
    for encoding in ("latin-99", "base64", "", None, 3):
        with pytest.raises(
            OptionError,
            match="encoding must be the name of an encoding, such as 'utf-8' or 'cp1252'",
        ):
            read(path, **ROLES, encoding=encoding)
    with pytest.raises(InputError, match=r"v.csv is not ascii: byte 35, in line 3, is 0xE4"):
        read(path, **ROLES, encoding="ascii")


def test_paths_that_lead_nowhere(tmp_path):
    with pytest.raises(InputError, match=r"none.csv does not exist; is the name right\?"):
        read(tmp_path / "none.csv")
    with pytest.raises(InputError, match="holds no table; put a CSV"):
        read(tmp_path)
    with pytest.raises(InputError, match=r"cannot be read|does not exist"):
        read("a" * 5000)
    with pytest.raises(InputError, match="a int is not a table; give a path, a frame"):
        read(3)
    locked = written(VISITS, tmp_path, "locked.csv")
    locked.chmod(0)
    if not os.access(locked, os.R_OK):  # root reads everything
        with pytest.raises(InputError, match=r"locked.csv cannot be read: Permission denied"):
            read(locked)
    written(VISITS, tmp_path, "locked.parquet"), locked.chmod(0o600)
    with pytest.raises(InputError, match="two files for domain 'locked'"):
        read(tmp_path)


# Fuzzing: whatever is in a file, only cuvee's own errors come out.


def survives(path, tmp_path, **roles):
    """Read, encode and spool, or say why not."""
    for work in (
        lambda: (
            (table := read(path, **roles))
            and Encoder.fit(table.frame, table.features, impute=True)(table.frame)
        ),
        lambda: spool(spec(path, **roles), tmp_path, impute=True, batch_rows=2),
    ):
        with suppress(CuveeError):
            work()


@FUZZ
@given(
    st.sampled_from(["f.csv", "f.parquet", "f.feather", "f.csv.gz"]),
    st.binary(max_size=300),
    st.booleans(),
)
def test_random_bytes(tmp_path, name, content, headed):
    path = tmp_path / name
    path.write_bytes((b"a,domain,label\n" if headed else b"") + content)
    survives(path, tmp_path)


@FUZZ
@given(st.sampled_from(["f.csv", "f.parquet", "f.feather"]), st.data())
def test_damaged_files(tmp_path, name, data):
    path = written(VISITS, tmp_path, name)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(
        content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content
    )
    survives(path, tmp_path, **ROLES)


@FUZZ
@given(st.text(alphabet=st.sampled_from(list("a1,;\t|\"'\n\r .-eé")), max_size=60))
def test_random_text(tmp_path, text):
    path = tmp_path / "f.csv"
    path.write_text("a,domain,label\n" + text, newline="")
    survives(path, tmp_path)


UNICODE = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8
)


@FUZZ
@given(
    st.lists(UNICODE.filter(lambda s: s.strip() == s), min_size=2, max_size=4, unique=True),
    st.lists(
        st.tuples(st.floats(allow_nan=False, allow_infinity=False), UNICODE), min_size=1, max_size=6
    ),
    st.sampled_from(["r.parquet", "r.feather", "r.csv"]),
)
def test_round_trips(tmp_path, names, cells, kind):
    names = [f"{name} {i}" for i, name in enumerate(names)]
    frame = pd.DataFrame({name: [number for number, _ in cells] for name in names})
    frame["domain"], frame["label"] = (
        [f"d {text}" for _, text in cells],
        [f"l {text}" for _, text in cells],
    )
    table = read(written(frame, tmp_path, kind))
    assert table.features == tuple(names)
    pd.testing.assert_frame_equal(table.frame[frame.columns], frame, check_exact=True)


@pytest.mark.parametrize(
    ("cells", "kept"),
    [
        (["101094", "7", "0"], [101094, 7, 0]),
        (["900719925474091047", "900719925474091003", "1"], None),
        (["007", "7", "70"], ["007", "7", "70"]),
        (["1.50", "2", "-0"], ["1.50", "2", "-0"]),
        (["12345678901234567890", "1", "2"], ["12345678901234567890", "1", "2"]),
        (["true", "no", "yes"], ["true", "no", "yes"]),
    ],
)
def test_columns_that_are_carried_over_stay_as_they_are_written(tmp_path, cells, kept):
    path = tmp_path / "rows.csv"
    path.write_text("id,age\n" + "".join(f"{cell},{i}\n" for i, cell in enumerate(cells)))
    rows = read_rows(path, ["age"], ["id"])
    assert rows["id"].tolist() == (list(map(int, cells)) if kept is None else kept)
    assert rows["age"].tolist() == [0.0, 1.0, 2.0]
