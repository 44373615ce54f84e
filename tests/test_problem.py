from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from builders import make_domain
from cuvee.errors import CuveeError, CuveeWarning, DomainError, InputError
from cuvee.problem import Domain, Problem, as_problem
from hypothesis import given, settings
from hypothesis import strategies as st

X = np.arange(6.0).reshape(3, 2)
Y = [0, 1, 1]
properties = settings(derandomize=True, deadline=None, max_examples=40)


def with_value(value: object, row: int = 2, column: int = 1) -> np.ndarray:
    table = X.copy()
    table[row, column] = value
    return table


def frame(*columns: str, shift: float = 0.0) -> pd.DataFrame:
    return pd.DataFrame(X + shift, columns=list(columns))


BAD_DOMAINS = {
    "unlabelled rows with another number of columns": (
        lambda: Domain("north", X, Y, unlabelled=X[:, :1]),
        r"'north': its unlabelled rows have 1 features, but its labelled ones 2 features; give both",
    ),
    "unlabelled rows with other columns": (
        lambda: Domain("north", frame("age", "dose"), Y, unlabelled=frame("dose", "age")),
        r"'north': its unlabelled rows have column 'dose' at position 0, .*'age'; bring",
    ),
    "nan in unlabelled rows": (
        lambda: Domain("north", X, Y, unlabelled=with_value(np.nan)),
        r"'north': unlabelled has nan at row 2, column 1",
    ),
    "unlabelled rows of text": (
        lambda: Domain("north", X, Y, unlabelled=[["a", "b"]]),
        r"'north': unlabelled is not numeric",
    ),
    "neither labelled nor unlabelled rows": (
        lambda: Domain("north", X[:0], [], unlabelled=X[:0]),
        r"'north' is empty: X has no rows",
    ),
    "labels without rows beside unlabelled ones": (
        lambda: Domain("north", X[:0], Y, unlabelled=X),
        r"'north' is empty: X has no rows",
    ),
    "nan in X": (
        lambda: Domain("north", with_value(np.nan), Y),
        r"'north'.* nan at row 2, column 1",
    ),
    "inf in X": (
        lambda: Domain("north", with_value(np.inf), Y),
        r"'north'.* inf at row 2, column 1",
    ),
    "-inf in X": (
        lambda: Domain("north", with_value(-np.inf, 0, 0), Y),
        r"'north'.* -inf at row 0, column 0",
    ),
    "nan in float32": (
        lambda: Domain("north", with_value(np.nan).astype(np.float32), Y),
        r"'north'.* nan at row 2, column 1",
    ),
    "nan in a frame": (
        lambda: Domain("north", pd.DataFrame(with_value(np.nan), columns=["age", "dose"]), Y),
        r"'north'.* nan at row 2, column 'dose'",
    ),
    "None in a list": (
        lambda: Domain("north", [[1.0, None], [2.0, 3.0]], [0, 1]),
        r"'north'.* row 0, column 1",
    ),
    "nan in an image": (
        lambda: Domain(
            "north", np.where(np.arange(24.0) == 17, np.nan, 0.0).reshape(2, 3, 4), [0, 1]
        ),
        r"'north'.* nan at row 1, column 1, 1",
    ),
    "text X": (lambda: Domain("north", [["a", "b"]], [0]), r"'north'.*not numeric"),
    "ragged X": (lambda: Domain("north", [[1.0, 2.0], [3.0]], [0, 1]), r"'north'.*not numeric"),
    "flat X": (lambda: Domain("north", [1.0, 2.0], [0, 1]), r"'north'.*rows × features.*\(2,\)"),
    "no X": (lambda: Domain("north", None, []), r"'north'.*rows × features"),
    "no rows": (lambda: Domain("north", np.zeros((0, 2)), []), r"'north' is empty"),
    "no columns": (lambda: Domain("north", np.zeros((2, 0)), [0, 1]), r"'north'.*no columns"),
    "nan in y": (
        lambda: Domain("north", X, [0.0, np.nan, 1.0]),
        r"'north'.*y is nan at row 1 \(1 such",
    ),
    "inf in y": (lambda: Domain("north", X, [0.0, 1.0, -np.inf]), r"'north'.*y is -inf at row 2"),
    "None in y": (
        lambda: Domain("north", X, np.array(["a", "b", None], object)),
        r"'north'.*y is None at row 2",
    ),
    "nan in object y": (
        lambda: Domain("north", X, np.array([np.nan, "b", 1], object)),
        r"'north'.*y is nan at row 0",
    ),
    "missing in text column": (
        lambda: Domain("north", X, pd.Series(["a", None, "b"])),
        r"'north'.*y is (nan|None) at row 1",
    ),
    "missing in nullable integers": (
        lambda: Domain("north", X, pd.Series([1, 2, None], dtype="Int64")),
        r"'north'.*y is (nan|<NA>) at row 2",
    ),
    "short y": (lambda: Domain("north", X, [0, 1]), r"'north'.*3 rows but y has 2"),
    "long y": (lambda: Domain("north", X, [0, 1, 1, 0]), r"'north'.*3 rows but y has 4"),
    "wide y": (lambda: Domain("north", X, X), r"'north'.*one label per row.*\(3, 2\)"),
    "scalar y": (lambda: Domain("north", X, 1.0), r"'north'.*one label per row"),
    "nan weight": (
        lambda: Domain("north", X, Y, weight=[1, np.nan, 1]),
        r"'north'.*weight is nan at row 1",
    ),
    "inf weight": (
        lambda: Domain("north", X, Y, weight=[1, 1, np.inf]),
        r"'north'.*weight is inf at row 2",
    ),
    "negative weight": (
        lambda: Domain("north", X, Y, weight=[-0.5, 1, 1]),
        r"'north'.*weight is -0.5 at row 0",
    ),
    "zero weights": (
        lambda: Domain("north", X, Y, weight=[0, 0, 0]),
        r"'north'.*all row weights are 0",
    ),
    "short weights": (
        lambda: Domain("north", X, Y, weight=[1, 1]),
        r"'north'.*weight needs shape \(3,\)",
    ),
    "wide weights": (
        lambda: Domain("north", X, Y, weight=[[1], [1], [1]]),
        r"'north'.*weight needs shape \(3,\)",
    ),
    "numeric name": (lambda: Domain(3, X, Y), r"string as name; got 3"),
    "empty name": (lambda: Domain("", X, Y), r"non-empty string as name; got ''"),
    "no name": (lambda: Domain(None, X, Y), r"string as name; got None"),
}


@pytest.mark.parametrize(("make", "message"), BAD_DOMAINS.values(), ids=BAD_DOMAINS)
def test_bad_domain_is_named(make, message):
    with pytest.raises(DomainError, match=message):
        make()


BAD_TABLES = {
    "pd.NA in text y": (
        lambda: Domain("north", X, pd.Series(["a", None, "b"], dtype="string")),
        r"'north'.*row 1",
    ),
    "NaT in y": (
        lambda: Domain("north", X, np.array(["2020", "NaT", "2021"], "M8[D]")),
        r"'north'.*row 1",
    ),
    "ragged y": (lambda: Domain("north", X, [[1], [2, 3], [4]]), r"'north'.*y"),
    "text weights": (lambda: Domain("north", X, Y, weight=["a", "b", "c"]), r"'north'.*weight"),
    "pd.NA in a frame": (
        lambda: Domain(
            "north", pd.DataFrame({"age": [1, 2, 3], "dose": pd.array([1, None, 2], "Int64")}), Y
        ),
        r"'north'.*row 1, column 'dose'",
    ),
    "text column in a frame": (
        lambda: Domain("north", pd.DataFrame({"age": [1, 2, 3], "site": ["a", "b", "c"]}), Y),
        r"'north'.*'site'",
    ),
    "too few feature names": (
        lambda: Domain("north", X, Y, features=("age",)),
        r"'north': 1 feature names for 2 columns",
    ),
    "text and number that would be one label": (
        lambda: Domain("north", X, [0, "1", 1]),
        r"'north': y holds the text '1' at row 1 and the number 1 at row 2, which would become "
        r"one label",
    ),
    "truth value and number that would be one label": (
        lambda: Domain("north", X, [[1], [0], [True]]),
        r"'north': y holds the number 1 at row 0 and the truth value True at row 2",
    ),
    "mixed objects that would be one label": (
        lambda: Domain("north", X, pd.Series([0, "1", 1], dtype=object)),
        r"'north': y holds the text '1' at row 1",
    ),
    "nan beyond the feature names": (
        lambda: Domain("north", with_value(np.nan), Y, features=("age",)),
        r"'north'",
    ),
}


@pytest.mark.parametrize(("make", "message"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_bad_domain_should_be_named(make, message):
    with pytest.raises(DomainError, match=message):
        make()


def test_labels_of_mixed_types_that_stay_apart_are_taken():
    assert Domain("north", X, [0, "a", 1]).y.tolist() == ["0", "a", "1"]
    assert Domain("north", X, [1, 1.0, 2]).y.tolist() == [1, 1, 2]


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float32]
)
def test_tensors_of_every_float_are_converted(dtype):
    made = torch.tensor([[0.5, 1.0], [2.0, -4.0], [0.0, 1.0]]).to(dtype)
    domain = Domain("north", made, made[:, 1], weight=(made[:, 0].float() + 1).to(dtype))
    assert domain.X.tolist() == [[0.5, 1.0], [2.0, -4.0], [0.0, 1.0]] and domain.y.tolist() == [
        1.0,
        -4.0,
        1.0,
    ]
    assert domain.weight.tolist() == [1.5, 3.0, 1.0]


def test_complex_numbers_are_refused_without_a_warning(recwarn):
    with pytest.raises(DomainError, match="'north': X holds complex numbers; give their real"):
        Domain("north", np.asarray(X, dtype=complex), [0, 1, 1])
    assert not recwarn.list


@properties
@given(st.data())
def test_first_bad_cell_is_named(data):
    rows, columns = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 5))
    cells = st.tuples(st.integers(0, rows - 1), st.integers(0, columns - 1))
    bad = data.draw(st.sets(cells, min_size=1))
    table = np.zeros((rows, columns))
    for cell in bad:
        table[cell] = data.draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    row, column = min(bad)
    message = (
        rf"row {row}, column {column} \({len(bad)} such values in {len({r for r, _ in bad})} rows\)"
    )
    with pytest.raises(DomainError, match=message):
        Domain("north", table, np.zeros(rows))


def test_errors_are_value_errors_of_the_tree():
    with pytest.raises(ValueError, match="north") as caught:
        Domain("north", with_value(np.nan), Y)
    assert isinstance(caught.value, InputError)
    assert isinstance(caught.value, CuveeError)


NORTH, SOUTH = Domain("north", X, Y), Domain("south", X + 1, Y)
BAD_PROBLEMS = {
    "no sources": (lambda: Problem([]), r"at least one source"),
    "one-row source": (lambda: Problem([NORTH, Domain("tiny", X[:1], [0])]), r"'tiny' has one row"),
    "feature counts, sources": (
        lambda: Problem([NORTH, Domain("wide", np.zeros((3, 4)), Y)]),
        r"'wide' has 4 features.*'north' has 2 features",
    ),
    "feature counts, target": (
        lambda: Problem([NORTH], [Domain("wide", np.zeros((3, 4)), Y)]),
        r"'wide' has 4 features.*'north' has 2 features",
    ),
    "image shapes": (
        lambda: Problem([NORTH], [Domain("image", np.zeros((3, 2, 2)), Y)]),
        r"'image' has shape \(2, 2\).*'north' has 2 features",
    ),
    "column order, source": (
        lambda: Problem(
            [Domain("north", frame("age", "dose"), Y), Domain("south", frame("dose", "age"), Y)]
        ),
        r"'south' has column 'dose' at position 0, where 'north' has 'age'",
    ),
    "column order, target": (
        lambda: Problem(
            [Domain("north", frame("age", "dose"), Y)], [Domain("east", frame("age", "Dose"), Y)]
        ),
        r"'east' has column 'Dose' at position 1, where 'north' has 'dose'",
    ),
    "source twice": (lambda: Problem([NORTH, SOUTH, NORTH]), r"two sources are named 'north'"),
    "target twice": (lambda: Problem([NORTH], [SOUTH, SOUTH]), r"two targets are named 'south'"),
    "array as source": (lambda: Problem([NORTH, X]), r"source 1 is a ndarray"),
    "frame as target": (
        lambda: Problem([NORTH], [frame("age", "dose")]),
        r"target 0 is a DataFrame",
    ),
}


@pytest.mark.parametrize(("make", "message"), BAD_PROBLEMS.values(), ids=BAD_PROBLEMS)
def test_bad_problem_is_named(make, message):
    with pytest.raises(DomainError, match=message):
        make()


def test_column_order_is_checked_behind_a_nameless_source():
    domains = [NORTH, Domain("south", frame("age", "dose"), Y)]
    with pytest.raises(DomainError, match="'east'"):
        Problem(domains, [Domain("east", frame("dose", "age", shift=1), Y)])


def test_a_domain_in_place_of_a_list_is_a_domain_error():
    with pytest.raises(DomainError):
        Problem(NORTH)


def test_same_data_as_source_and_target_warns_and_is_noted():
    sources = [NORTH, SOUTH]
    targets = [Domain("east", X + 2, Y), Domain("copy", X.copy(), list(Y))]
    with pytest.warns(CuveeWarning, match="'north' and target 'copy' hold the very same data"):
        problem = Problem(sources, targets)
    (note,) = problem.notes
    assert "'north'" in note
    assert "'copy'" in note


def test_same_text_labels_warn():
    labels = np.array(["a", "b", "c"], object)
    with pytest.warns(CuveeWarning, match="very same data"):
        assert Problem([Domain("north", X, labels)], [Domain("copy", X, labels)]).notes


@pytest.mark.parametrize(
    "labels", [np.array([0.0, 1.0, 1.0]), np.array([0, 1, 1], np.int8), np.array([0, 1, 1], object)]
)
def test_same_data_is_seen_whatever_holds_the_labels(labels):
    with pytest.warns(CuveeWarning, match="very same data"):
        Problem([NORTH], [Domain("copy", X, labels)])


def test_same_rows_with_other_labels_are_no_note():
    assert Problem([NORTH], [Domain("relabelled", X, [1, 0, 0])]).notes == ()


def test_a_source_and_a_target_may_share_a_name():
    problem = Problem([NORTH, SOUTH], [Domain("north", X + 2, Y)])
    assert (problem.n_sources, problem.n_targets, problem.input_shape) == (2, 1, (2,))


def test_a_list_of_sources_is_a_problem_without_targets():
    problem = as_problem([NORTH, SOUTH])
    assert (problem.n_sources, problem.n_targets) == (2, 0)
    assert as_problem(problem) is problem


def test_one_row_targets_are_allowed():
    assert Problem([NORTH], [Domain("tiny", X[:1] + 5, [1])]).targets[0].n_rows == 1


@pytest.mark.parametrize(
    ("table", "labels"),
    [
        (X.tolist(), Y),
        (tuple(map(tuple, X)), tuple(Y)),
        (X.astype(int), np.array(Y, np.int8)),
        (X.astype(np.float16), np.array(Y, bool)),
        (frame("age", "dose"), pd.Series(Y, index=[7, 8, 9])),
        (frame("age", "dose").convert_dtypes(), pd.DataFrame({"y": Y})),
        (np.asfortranarray(X), np.array(Y)[:, None]),
        (np.repeat(X, 2, axis=0)[::2], np.repeat(Y, 2)[::2]),
    ],
    ids=["lists", "tuples", "integers", "float16", "frame", "nullable frame", "fortran", "strided"],
)
def test_inputs_of_many_kinds_become_the_same_domain(table, labels):
    domain = Domain("north", table, labels)
    assert domain.X.dtype == np.float64
    assert domain.X.flags.c_contiguous
    np.testing.assert_array_equal(domain.X, X)
    np.testing.assert_array_equal(domain.y.astype(int), Y)
    assert domain.y.shape == (3,)


def test_float32_is_kept():
    assert Domain("north", X.astype(np.float32), Y).X.dtype == np.float32
    assert Domain("north", X.astype(">f8"), Y).X.dtype == np.float64


def test_frame_columns_are_kept_as_names():
    assert Domain("north", frame("age", "dose"), Y).features == ("age", "dose")
    assert Domain("north", pd.DataFrame(X), Y).features == ("0", "1")
    assert Domain("north", X, Y).features == ()


def test_frames_with_one_order_and_plain_arrays_mix():
    Problem(
        [Domain("north", frame("age", "dose"), Y), SOUTH],
        [Domain("t", frame("age", "dose", shift=3), Y)],
    )


@pytest.mark.parametrize(
    "labels", [["a", "b", "a"], pd.Series(["a", "b", "a"]), pd.Categorical(["a", "b", "a"])]
)
def test_text_labels_are_kept(labels):
    assert Domain("north", X, labels).y.tolist() == ["a", "b", "a"]


def test_weights_are_kept_as_floats():
    weight = Domain("north", X, Y, weight=[0, 2, 1]).weight
    assert weight.dtype == np.float64
    assert weight.tolist() == [0.0, 2.0, 1.0]


@properties
@given(
    rows=st.integers(1, 5),
    shape=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    seed=st.integers(0, 99),
)
def test_good_tables_of_any_shape_pass_unchanged(rows, shape, seed):
    rng = np.random.default_rng(seed)
    domain = make_domain("north", rows, rng, shape=tuple(shape), weighted=True)
    again = Domain("north", domain.X, domain.y, domain.weight)
    assert again.n_rows == rows
    np.testing.assert_array_equal(again.X, domain.X)
    np.testing.assert_array_equal(again.y, domain.y)
    assert repr(again) == f"Domain('north', {rows} rows × {' × '.join(map(str, shape))})"


def test_other_targets_with_the_same_sources_are_warned_of_where_they_are_new():
    a, b = (Domain(name, [[float(i)], [1.0], [2.0]], [0, 1, 1]) for i, name in enumerate("ab"))
    copy = Domain("copy", a.X, a.y)
    problem = Problem([a, b])
    quiet = problem.with_targets([copy])  # a warning would be an error here
    assert (
        quiet.sources == problem.sources
        and quiet.target_names == ("copy",)
        and "very same data" in quiet.notes[0]
    )
    with pytest.warns(CuveeWarning, match="very same data"):
        assert problem.with_targets([copy], warn=True).notes == quiet.notes
