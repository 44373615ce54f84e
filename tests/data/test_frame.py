"""Every way in gives the same table; everything wrong with a table is one sentence that says where
and what to do.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import date

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from cuvee.data.encode import Encoder
from cuvee.data.frame import read, read_rows, suggest
from cuvee.errors import CuveeError, DomainError
from frame_builders import FUZZ, ROLES, VISITS, check_visits, written
from hypothesis import given
from hypothesis import strategies as st


class ArrowOnly:
    """As a polars frame looks to Arrow."""

    def __init__(self, frame):
        self._table = pa.Table.from_pandas(frame)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_frames_and_arrow():
    check_visits(read(VISITS.set_index(pd.Index([7, 7, 1, 0])), **ROLES))
    check_visits(read(pa.Table.from_pandas(VISITS), **ROLES))
    check_visits(read(ArrowOnly(VISITS), **ROLES))
    check_visits(read(VISITS.convert_dtypes(), **ROLES))
    check_visits(read(VISITS.convert_dtypes(dtype_backend="pyarrow"), **ROLES))
    check_visits(
        read(VISITS.astype({"sex": "category", "hospital": "category", "age": object}), **ROLES)
    )


class Items(torch.utils.data.Dataset):
    def __init__(self, X, y):
        self.X, self.y = X, y

    def __len__(self):
        return len(self.X)

    def __getitem__(self, i):
        return self.X[i], self.y[i]


def test_arrays_and_datasets():
    X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])
    names = np.array(["a", "a", "a", "b", "b", "b"])
    wanted = read((X, y, names))
    assert wanted.features == ("x0", "x1") and wanted.names == ("a", "b")
    torch_X = torch.tensor(X, requires_grad=True)
    for source in (
        {"a": (X[:3], y[:3]), "b": (X[3:], y[3:].tolist())},
        {"a": (torch_X[:3], torch.as_tensor(y[:3])[:, None]), "b": (X[3:], y[3:])},
        {"a": Items(torch.as_tensor(X[:3]), torch.as_tensor(y[:3])), "b": Items(X[3:], y[3:])},
        {
            "a": torch.utils.data.TensorDataset(torch.as_tensor(X[:3]), torch.as_tensor(y[:3])),
            "b": (X[3:], y[3:]),
        },
        {"a": pd.DataFrame(X[:3], columns=["x0", "x1"]).assign(label=y[:3]), "b": (X[3:], y[3:])},
        (torch.as_tensor(X), torch.as_tensor(y), names.tolist()),
        (torch.as_tensor(X).bfloat16(), torch.as_tensor(y).bfloat16(), names.tolist()),
        {
            "a": Items(torch.as_tensor(X[:3]).bfloat16(), torch.as_tensor(y[:3])),
            "b": (X[3:], y[3:]),
        },
    ):
        pd.testing.assert_frame_equal(read(source).frame, wanted.frame)
    assert read({"a": (np.zeros((2, 4, 4)), [0, 1])}).features[-1] == "x15"
    assert read((pd.DataFrame(X, columns=["u", "v"]), y, names)).features == ("u", "v")


def test_missing_labels_are_unlabelled_rows():
    table = read(VISITS.assign(readmitted=[0, None, 1, None]), **ROLES)
    assert len(table.rows("west")) == 1 and len(table.labelled("west")) == 0
    assert table.labelled("north")["readmitted"].to_numpy().dtype == np.int64
    assert len(read({"a": ([[1.0]], [1]), "b": ([[1.0]], None)}).labelled("b")) == 0


def test_domains_are_text_whatever_they_were(tmp_path):
    big = [2**60 + 1, 2**60 + 2, 2**60 + 1, 5]
    assert read(VISITS.assign(hospital=big), **ROLES).names == tuple(map(str, dict.fromkeys(big)))
    path = tmp_path / "codes.csv"
    path.write_text("age,domain,label\n1,007,0\n2,7,1\n3,1e3,1\n")
    assert read(path).names == ("007", "7", "1e3")
    assert read(VISITS.assign(hospital=[1.0, 2.0, 1.0, 2.5]), **ROLES).names == ("1", "2", "2.5")


def test_columns_declared_as_text_stay_what_they_are(tmp_path):
    path = tmp_path / "codes.csv"
    path.write_text("ward,domain,label\n01,a,0\n1,a,1\nX,b,1\n02,b,1\n")
    assert read(path, text=["ward"]).frame["ward"].tolist() == ["01", "1", "X", "02"]
    assert read(VISITS, **ROLES, text=["age"]).frame["age"].tolist() == [
        "30.5",
        "41",
        "28",
        "65.25",
    ]


def test_dropped_columns_are_never_looked_at(tmp_path):
    frame = VISITS.assign(when=pd.Timestamp("2020-01-01"), list=[[1], [2], [3], [4]])
    check_visits(read(frame, **ROLES, drop=["when", "list"]))
    check_visits(read(written(frame, tmp_path, "v.parquet"), **ROLES, drop=["when", "list"]))


def test_what_pandas_adds_to_parquet_is_no_feature(tmp_path):
    frame = VISITS.set_index(pd.Index([3, 2, 1, 0]))
    check_visits(read(written(frame, tmp_path, "v.parquet"), **ROLES))


def test_rows_to_predict_on(tmp_path):
    extra = VISITS[["sex", "readmitted", "age"]].assign(
        when=date(2020, 1, 1), note=["a", "1", "2", "3"]
    )
    for source in (
        extra,
        written(extra, tmp_path, "new.csv"),
        written(extra, tmp_path, "new.parquet"),
    ):
        rows = read_rows(source, ["age", "sex"], also=["when", "note"])
        assert (
            list(rows.columns) == ["age", "sex", "when", "note"]
            and rows["age"].tolist() == VISITS["age"].tolist()
        )
        assert str(rows["when"].iloc[0]) == "2020-01-01"
    with pytest.raises(DomainError, match=r"there is no column 'agee'; did you mean 'age'\?"):
        read_rows(extra, ["agee"])


def test_names_are_suggested():
    assert suggest("Readmited", ["age", "readmitted"]) == "; did you mean 'readmitted'?"
    assert suggest("xyz", ["age", "sex"]) == "; there are 'age', 'sex'" and suggest("a", []) == ""
    with pytest.raises(DomainError, match="there is no domain 'nroth'; did you mean 'north'"):
        read(VISITS, **ROLES).rows("nroth")


BAD_FRAMES = {
    "misspelt label": (
        VISITS,
        {**ROLES, "label": "readmited"},
        "no column 'readmited'; did you mean 'readmitted'",
    ),
    "misspelt domain": (
        VISITS,
        {**ROLES, "domain": "hopsital"},
        "no column 'hopsital'; did you mean 'hospital'",
    ),
    "no domain named": (VISITS, {"label": "readmitted"}, "no column 'domain'; there are 'age'"),
    "misspelt feature": (
        VISITS,
        {**ROLES, "features": ["agee"]},
        "no column 'agee'; did you mean 'age'",
    ),
    "misspelt drop": (VISITS, {**ROLES, "drop": ["agee"]}, "no column 'agee'; did you mean 'age'"),
    "no features": (VISITS, {**ROLES, "features": []}, "at least one"),
    "feature twice": (VISITS, {**ROLES, "features": ["age", "age"]}, "each feature once"),
    "features as text": (VISITS, {**ROLES, "features": "age"}, "lists of column names"),
    "label as feature": (
        VISITS,
        {**ROLES, "features": ["readmitted"]},
        "'readmitted' is the label; it is no feature",
    ),
    "domain dropped": (VISITS, {**ROLES, "drop": ["hospital"]}, "'hospital' is the domain"),
    "nothing left": (
        VISITS,
        {**ROLES, "drop": ["age", "sex", "smokes"]},
        "no column is left to learn from",
    ),
    "same column": (
        VISITS,
        {"domain": "sex", "label": "sex"},
        "'sex' is named as domain and as label",
    ),
    "no rows": (VISITS[:0], ROLES, "there are no rows"),
    "twice": (
        pd.concat([VISITS, VISITS[["age"]]], axis=1),
        ROLES,
        "2 columns are named 'age'; rename them",
    ),
    "no name": (
        VISITS.rename(columns={"age": ""}),
        ROLES,
        "column 0 has no name; name it, remove it, or name the columns",
    ),
    "no domain": (
        VISITS.assign(hospital=["a", None, "b", None]),
        {**ROLES, "strict": True},
        r"'hospital' names no domain at row 1 \(2 such",
    ),
    "nameless": (
        VISITS.assign(hospital=["a", "", "b", "c"]),
        {**ROLES, "strict": True},
        "names no domain at row 1",
    ),
    "no domain at all": (
        VISITS.assign(hospital=["", None, np.nan, " "]),
        ROLES,
        "'hospital' names no domain in any row",
    ),
    "domains that would merge": (
        VISITS.assign(hospital=pd.Series(["1", "a", 1, "b"], dtype=object)),
        ROLES,
        "'hospital' holds the text '1' at row 0 and the number 1 at row 2, which would become one",
    ),
    "lists as domain": (
        VISITS.assign(hospital=[[1], [2], [1], [2]]),
        ROLES,
        "does not hold names of domains; use text",
    ),
    "mixed": (
        VISITS.assign(age=[1, 2, "x", 3]),
        ROLES,
        "'age' mixes types: it holds numbers, but 'x' at row 2",
    ),
    "bools": (
        VISITS.assign(age=[1, True, 2, 3]),
        ROLES,
        r"holds numbers, but a truth value \(True\) at row 1",
    ),
    "dates as labels": (
        VISITS.assign(readmitted=pd.Timestamp("2020-01-02")),
        ROLES,
        "'readmitted' holds dates, like 2020-01-02.* at row 0; make",
    ),
    "days as labels": (
        VISITS.assign(readmitted=date(2020, 1, 2)),
        ROLES,
        "'readmitted' holds dates, like 2020-01-02 at row 0",
    ),
    "dates among numbers": (
        VISITS.assign(age=pd.Series([date(2020, 1, 2), 1, 2, 3], dtype=object)),
        ROLES,
        r"'age' mixes types: it holds numbers, but a date at row 0",
    ),
    "spans": (VISITS.assign(age=pd.Timedelta("1D")), ROLES, "'age' holds dates, like 1 day"),
    "lists": (
        VISITS.assign(age=[[1], [2], [3], [4]]),
        ROLES,
        "'age' holds a list at row 0.*spread it over several columns",
    ),
    "objects": (VISITS.assign(age=[{}, {}, {}, {}]), ROLES, "'age' holds a dict at row 0"),
    "bytes": (VISITS.assign(age=[b"a"] * 4), ROLES, "'age' holds a bytes at row 0"),
    "complex": (VISITS.assign(age=1j), ROLES, "'age' holds a complex at row 0"),
    "infinite": (
        VISITS.assign(age=[1, 2, np.inf, -np.inf]),
        ROLES,
        r"'age' is infinite at row 2 \(2 such values\)",
    ),
    "infinite label": (
        VISITS.assign(readmitted=[1, np.inf, 0, 1]),
        ROLES,
        "'readmitted' is infinite at row 1",
    ),
    "huge": (
        VISITS.assign(age=[10**400, 1, 2, 3]),
        ROLES,
        "'age' holds a number that no float can hold",
    ),
}


@pytest.mark.parametrize("case", BAD_FRAMES)
def test_bad_frames(case):
    frame, options, message = BAD_FRAMES[case]
    with pytest.raises(DomainError, match=message):
        read(frame, **options)


BAD_ARRAYS = {
    "y too short": (
        {"a": (np.zeros((3, 2)), [1, 2])},
        r"domain 'a': X has 3 rows, but y has shape \(2,\)",
    ),
    "domain too short": (
        (np.zeros((3, 2)), [1, 2, 3], ["a"]),
        r"X has 3 rows, but domain has shape \(1,\)",
    ),
    "flat X": ({"a": ([1, 2], [1, 2])}, "domain 'a': a list is not a table, rows × columns"),
    "ragged X": ({"a": ([[1], [1, 2]], [1, 2])}, "domain 'a': a list is not a table"),
    "no dataset": ({"a": 3}, "domain 'a': a int is neither"),
    "items of one": ({"a": Items([1, 2], None)}, "domain 'a': a Items is neither"),
    "different columns": (
        {"a": (np.zeros((2, 2)), [0, 1]), "b": (np.zeros((2, 3)), [0, 1])},
        "'b': column 'x2' is not in",
    ),
    "labels that would merge": (
        {"a": (np.zeros((3, 2)), [0, "1", 1])},
        "domain 'a': y holds the text '1' at row 1 and the number 1 at row 2, which would become "
        "one label",
    ),
    "domains that would merge": (
        (np.zeros((2, 1)), [0, 1], ["1", 1]),
        "domain holds the text '1' at row 0 and the",
    ),
    "empty": ({}, "the mapping is empty"),
    "no rows": ({"a": (np.zeros((0, 2)), [])}, "domain 'a': there are no rows"),
    "label in X": (
        {"a": (pd.DataFrame({"label": [1, 2]}), [0, 1])},
        "X has a column 'label' beside the labels",
    ),
}


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_bad_arrays(case):
    source, message = BAD_ARRAYS[case]
    with pytest.raises(DomainError, match=message):
        read(source)


# Fuzzing: whatever is in a frame, only cuvee's own errors come out.

CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.dates(),
    st.decimals(),
    st.complex_numbers(),
    st.lists(st.integers(), max_size=2),
)


@FUZZ
@given(st.data())
def test_random_frames(data):
    rows = data.draw(st.integers(0, 5))
    names = data.draw(st.lists(st.text(max_size=4), min_size=1, max_size=4))
    frame = pd.DataFrame(
        {i: data.draw(st.lists(CELLS, min_size=rows, max_size=rows)) for i in range(len(names) + 2)}
    )
    frame.columns = [*names, "domain", "label"]
    with suppress(CuveeError):
        table = read(frame)
        X = Encoder.fit(table.frame, table.features, impute=True)(table.frame)
        assert np.isfinite(X).all() and len(X) == len(frame)
