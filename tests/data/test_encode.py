"""Encoding is scikit-learn's, up to rounding; what cannot be encoded is said with column, row and
count.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from cuvee.data.columns import tidy
from cuvee.data.encode import Category, Encoder, Number
from cuvee.data.frame import read_rows
from cuvee.errors import DomainError, InputError
from hypothesis import given, settings
from hypothesis import strategies as st
from rounding import assert_rounded


def people(rows=200, seed=0, gaps=False):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 12, rows),
            "sex": rng.choice(["f", "m"], rows),
            "visits": rng.integers(0, 9, rows),
            "smokes": rng.random(rows) < 0.3,
            "ward": pd.Categorical(rng.choice([3, 1, 2], rows)),
            "city": rng.choice(["Aix", "Ålesund", "Žilina"], rows),
        }
    )
    if gaps:
        for name in ("age", "sex", "visits", "city"):
            frame[name] = frame[name].astype(object).where(rng.random(rows) > 0.1, None)
    return frame


FEATURES = tuple(people(2).columns)


def sklearn_twin(impute):
    """The same columns through a ColumnTransformer, one transformer each."""

    def steps(name):
        number = name in ("age", "visits", "smokes")
        last = StandardScaler() if number else OneHotEncoder(sparse_output=False)
        filled = SimpleImputer(strategy="median" if number else "most_frequent")
        return make_pipeline(filled, last) if impute else make_pipeline(last)

    return ColumnTransformer([(name, steps(name), [name]) for name in FEATURES])


def for_sklearn(frame):
    """Types that scikit-learn takes: floats, and objects with NaN."""
    out = frame.astype(dict.fromkeys(("age", "visits", "smokes"), float))
    for name in ("sex", "ward", "city"):
        cells = [str(v) if pd.notna(v) else np.nan for v in frame[name]]
        out[name] = pd.Series(cells, dtype=object)
    return out


@pytest.mark.parametrize("gaps", [False, True])
def test_the_numbers_are_scikit_learns(gaps):
    train, new = people(gaps=gaps), people(50, seed=1, gaps=gaps)
    encoder, twin = (
        Encoder.fit(train, FEATURES, impute=gaps),
        sklearn_twin(gaps).fit(for_sklearn(train)),
    )
    for frame in (train, new, new[::-1].reset_index(drop=True)):
        assert_rounded(encoder(frame), twin.transform(for_sklearn(frame)))
    assert encoder.names[:4] == ("age", "sex=f", "sex=m", "visits") and encoder.names[5:8] == (
        "ward=1",
        "ward=2",
        "ward=3",
    )
    assert encoder(new).shape == (50, len(encoder.names)) and encoder.text == (
        "sex",
        "ward",
        "city",
    )


@pytest.mark.parametrize("impute", [False, True])
def test_json_restores_it_bit_by_bit(impute):
    encoder = Encoder.fit(people(), FEATURES, impute=impute)
    again = Encoder.from_dict(json.loads(json.dumps(encoder.as_dict(), allow_nan=False)))
    assert again.columns == encoder.columns and again.names == encoder.names
    assert np.array_equal(again(people(seed=5)), encoder(people(seed=5)))


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"format": 99, "columns": []},
        {"format": 1, "columns": [{}]},
        {
            "format": 1,
            "columns": [{"kind": "number", "name": "a", "mean": "x", "scale": 1, "fill": None}],
        },
        {"format": 1, "columns": 3},
    ],
)
def test_what_is_no_stored_encoder(stored):
    with pytest.raises(InputError, match="not a stored encoder"):
        Encoder.from_dict(stored)


def test_order_and_further_columns_do_not_matter():
    train = people()
    encoder = Encoder.fit(train, FEATURES)
    shuffled = train[[*reversed(FEATURES)]].assign(more=object())
    assert np.array_equal(encoder(train), encoder(shuffled))
    assert encoder(train[:0]).shape == (0, len(encoder.names))


def test_columns_that_never_vary_are_zero_and_said():
    frame = pd.DataFrame(
        {"a": [0.1] * 7, "b": ["x"] * 7, "c": range(7), "d": 1e9 + np.array([0, 1e-7] * 3 + [0])}
    )
    encoder = Encoder.fit(frame, "abcd")
    assert (encoder(frame)[:, [0, 1, 3]] == 0).all() and encoder.names == ("a", "b=x", "c", "d")
    said = (
        "3 columns ('a', 'b', 'd') have the same value in every training row: they are encoded as 0"
    )
    assert encoder.notes == (said,)
    (alone,) = Encoder.fit(frame, "ac").notes
    assert alone.startswith("column 'a' has the same value in every training row")
    assert encoder(frame.assign(a=5.0))[0, 0] == 0  # a model knows nothing of other values


def test_truth_values():
    frame = pd.DataFrame(
        {
            "a": [True, False, True, True],
            "b": [0, 5, 5, 0],
            "c": np.array([True, False, None, True], object),
        }
    )
    encoder = Encoder.fit(frame, "abc", impute=True)
    assert encoder.names == ("a", "b", "c")  # 0, 1 and a gap, as a file has it
    assert encoder(frame)[2, 2] == encoder(frame)[0, 2]  # the median
    assert np.array_equal(encoder(frame.astype({"a": float})), encoder(frame))
    assert (
        encoder(pd.DataFrame({"a": [True], "b": [5], "c": [False]}))[0, 2] == encoder(frame)[1, 2]
    )


def test_numbers_that_are_categories(tmp_path):
    frame = pd.DataFrame({"code": ["1", "2", "01"], "n": [1, 2, 3]})
    encoder = Encoder.fit(frame, ["code", "n"])
    assert encoder(pd.DataFrame({"code": [2, 1], "n": [1, 1]}))[:, :3].tolist() == [
        [0, 0, 1],
        [0, 1, 0],
    ]
    (tmp_path / "new.csv").write_text("n,code\n1,01\n2,1\n")
    rows = read_rows(tmp_path / "new.csv", encoder.features, text=encoder.text)
    assert encoder(rows)[:, :3].tolist() == [[1, 0, 0], [0, 1, 0]]


def test_missing_values_without_impute():
    frame = people(gaps=True)[:40]
    rows, cells = frame.isna().any(axis=1).sum(), frame.isna().sum()
    message = (
        rf"{rows} of 40 rows have missing values, in 4 columns: 'age' \({cells['age']}\), .* or "
        r"let --impute \(impute=True\) fill them"
    )
    with pytest.raises(DomainError, match=message):
        Encoder.fit(frame, FEATURES)
    encoder = Encoder.fit(people(), FEATURES)
    with pytest.raises(DomainError, match=f"north: {message}"):
        encoder(frame, where="north")
    with pytest.raises(DomainError, match="column 'age' is missing in every row; drop it"):
        Encoder.fit(frame.assign(age=None), FEATURES, impute=True)


def test_all_columns_that_are_refused_are_named_in_one_error():
    ids = {"order id": [f"o{i}" for i in range(300)], "when, where": [f"w{i}" for i in range(300)]}
    frame = pd.DataFrame({**ids, "age": range(300), "sex": ["f", "m"] * 150})
    with pytest.raises(DomainError) as caught:
        Encoder.fit(frame, [*frame])
    said = str(caught.value)
    assert "column 'order id' has 300 different values in 300 training rows, like 'o0'; " in said
    assert said.endswith(
        "drop them with --drop 'order id,\"when, where\"' (drop= in Python), or make numbers of them"
    )
    gaps = frame.assign(age=frame.age.where(frame.age > 9))
    with pytest.raises(DomainError, match="10 of 300 rows have missing values") as caught:
        Encoder.fit(gaps, [*frame])
    assert str(caught.value).endswith(
        "the columns have too many different values besides, as ids and free texts do: "
        "'order id', 'when, where'; add --drop 'order id,\"when, where\"' --impute"
    )
    with pytest.raises(DomainError) as caught:  # of rows to predict on nothing is known
        Encoder.fit(frame, ["age", "sex"])(gaps)
    assert "--drop" not in str(caught.value)


def test_a_column_of_gaps_alone_is_missing_whatever_kind_of_gaps():
    """Found by the fuzz of runs: objects that are all NaT have no kind to complain of."""
    for gap in (None, np.nan, pd.NaT, pd.NA):
        frame = pd.DataFrame(
            {"age": pd.Series([gap] * 4, dtype=object), "size": [1.0, 2.0, 3.0, 4.0]}
        )
        with pytest.raises(DomainError, match="column 'age' is missing in every row; drop it"):
            Encoder.fit(frame, ["age", "size"], impute=True)


def test_imputed_values_come_from_the_training_rows():
    train = pd.DataFrame({"n": [1.0, 2.0, 9.0, None], "c": ["a", "b", "b", None]})
    encoder = Encoder.fit(train, ["n", "c"], impute=True)
    number, category = encoder.columns
    assert isinstance(number, Number) and number.fill == 2.0 and number.mean == 3.5
    assert isinstance(category, Category) and category.fill == "b"
    new = encoder(pd.DataFrame({"n": [None], "c": [None]}))
    assert new.tolist() == encoder(pd.DataFrame({"n": [2.0], "c": ["b"]})).tolist()


def test_unseen_values():
    encoder = Encoder.fit(people(), FEATURES)
    new = people(10, seed=2)
    new.loc[[3, 7], "sex"] = "x"
    with pytest.raises(
        DomainError,
        match=r"new.csv: column 'sex' is 'x' at row 3.* \(2 rows with such values; known: 'f', 'm'\)",
    ):
        encoder.unseen(new, where="new.csv", strict=True)
    assert encoder.unseen(new)["sex"].to_dict() == {3: "x", 7: "x"}
    X, sexes = encoder(new), [i for i, name in enumerate(encoder.names) if name.startswith("sex=")]
    assert not X[[3, 7]][:, sexes].any() and X[[0, 1, 2, 4]][:, sexes].sum() == 4
    with pytest.raises(
        DomainError,
        match="column 'age' holds text, 'old' at row 0, where the training rows hold numbers",
    ):
        encoder(people(3).assign(age=["old", "1", "2"]))
    with pytest.raises(DomainError, match=r"column 'age' mixes types.*text \('old'\) at row 1"):
        encoder(people(3).assign(age=[1, "old", 2]))
    with pytest.raises(DomainError, match="column 'age' is infinite at row 1"):
        encoder(people(3).assign(age=[1, np.inf, 2]))
    with pytest.raises(DomainError, match="no column is named 'age'"):
        encoder(people(3).drop(columns="age"))
    with pytest.raises(DomainError, match="two columns are named 'age'"):
        encoder(pd.concat([people(3), people(3)[["age"]]], axis=1))


def test_ids_are_not_categories():
    ids = [f"p{i}" for i in range(300)]
    with pytest.raises(
        DomainError,
        match="column 'id' has 300 different values in 300 training rows, like 'p0'; an id",
    ):
        Encoder.fit(pd.DataFrame({"id": ids}), ["id"])
    with pytest.raises(DomainError, match="'id' has 25 different values in 26 training rows"):
        Encoder.fit(pd.DataFrame({"id": [*ids[:25], "p0"]}), ["id"])
    with pytest.raises(DomainError, match="'id' has 201 different values in 2,010 training rows"):
        Encoder.fit(pd.DataFrame({"id": ids[:201] * 10}), ["id"])
    assert len(Encoder.fit(pd.DataFrame({"id": ids[:200] * 2}), ["id"]).names) == 200
    assert len(Encoder.fit(pd.DataFrame({"id": ids[:10]}), ["id"]).names) == 10


def test_numbers_too_large_to_standardise():
    with pytest.raises(
        DomainError, match=r"'a' runs from -1e[+]308 to 1.7e[+]308, too far for a float"
    ):
        Encoder.fit(pd.DataFrame({"a": [1.7e308, -1e308]}), ["a"])
    encoder = Encoder.fit(pd.DataFrame({"a": [1e-150, 3e-150]}), ["a"])
    with pytest.raises(DomainError, match="'a' is too far from the training rows at row 1"):
        encoder(pd.DataFrame({"a": [1e-150, 1e300]}))
    for frame, features in ((people(0), FEATURES), (people(), ())):
        with pytest.raises(DomainError, match="there are no"):
            Encoder.fit(frame, features)


def test_tidy_leaves_good_columns_alone():
    for column in (
        pd.Series([1.0, np.nan]),
        pd.Series([True]),
        pd.Series(["a", None], dtype="str"),
    ):
        assert tidy(column) is column


def near_to_0(value):
    """Return 0 for numbers whose squares are too near to 0: a column of these is refused."""
    return value if abs(value) > 1e-150 else 0.0


@settings(max_examples=60, deadline=4000)
@given(
    st.lists(st.one_of(st.none(), st.floats(-1e100, 1e100).map(near_to_0)), min_size=1, max_size=8),
    st.lists(st.one_of(st.none(), st.text(max_size=3).filter(str.strip)), min_size=8, max_size=8),
)
def test_whatever_was_fitted_can_be_encoded_and_stored(numbers, texts):
    frame = pd.DataFrame({"n": numbers, "t": texts[: len(numbers)]})
    if frame.isna().all().any():
        with pytest.raises(DomainError, match="missing in every row"):
            Encoder.fit(frame, ["n", "t"], impute=True)
        return
    encoder = Encoder.fit(frame, ["n", "t"], impute=True)
    X = encoder(frame)
    assert np.isfinite(X).all() and X.shape == (len(frame), len(encoder.names))
    assert np.array_equal(Encoder.from_dict(json.loads(json.dumps(encoder.as_dict())))(frame), X)
