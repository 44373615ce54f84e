from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq

from cuvee import simplex
from cuvee.errors import MixtureError
from hypothesis import given, settings
from hypothesis import strategies as st
from rounding import assert_rounded

properties = settings(derandomize=True, deadline=None, max_examples=150)


SIZES = st.integers(1, 12)


def rows(
    low: float, high: float, sizes: st.SearchStrategy[int] = SIZES
) -> st.SearchStrategy[np.ndarray]:
    """One row, with ties and zeros as well as spread-out values."""
    values = st.one_of(st.floats(low, high), st.sampled_from([0.0, low, high, low / 2, 1 / 3]))
    return sizes.flatmap(lambda size: arrays(np.float64, size, elements=values))


def project(row: np.ndarray) -> np.ndarray:
    return simplex.project(torch.as_tensor(row)).numpy()


def slow_project(row: np.ndarray) -> np.ndarray:
    """max(v − t, 0) with t found by root search on the sum: no sorting."""
    top = row.max()
    threshold = brentq(
        lambda t: np.maximum(row - t, 0).sum() - 1, top - 2, top, xtol=1e-15, rtol=1e-15
    )
    return np.maximum(row - threshold, 0)


@properties
@given(rows(-1e3, 1e3))
def test_projection_is_on_the_simplex(row):
    p = project(row)
    assert (p >= 0).all()
    assert p.sum() == pytest.approx(1, abs=1e-10)


@properties
@given(rows(-5, 5))
def test_projection_equals_root_search(row):
    np.testing.assert_allclose(project(row), slow_project(row), atol=1e-12)


@properties
@given(rows(-5, 5), st.integers(0, 1000))
def test_no_other_point_of_the_simplex_is_nearer(row, seed):
    p = project(row)
    others = np.vstack([np.eye(len(row)), simplex.sample(50, len(row), seed=seed)])
    assert ((others - p) @ (row - p) <= 1e-12).all()


@properties
@given(rows(-100, 100))
def test_projection_is_idempotent(row):
    p = project(row)
    np.testing.assert_allclose(project(p), p, atol=1e-13)


@properties
@given(rows(-5, 5), st.randoms(use_true_random=False))
def test_projection_follows_permutations(row, random):
    order = list(range(len(row)))
    random.shuffle(order)
    np.testing.assert_allclose(project(row[order]), project(row)[order], rtol=0, atol=1e-14)


@properties
@given(rows(-5, 5), st.floats(-100, 100))
def test_projection_ignores_shifts(row, shift):
    np.testing.assert_allclose(project(row + shift), project(row), atol=1e-11)


@properties
@given(rows(-1e6, 1e6, sizes=st.just(1)))
def test_one_source_gets_everything(row):
    assert project(row) == pytest.approx([1.0], abs=1e-9)


@properties
@given(rows(-1e-8, 1e-8), st.integers(-300, 0))
def test_small_values_move_the_uniform_mixture_little(row, exponent):
    n, small = len(row), row * 10.0**exponent
    np.testing.assert_allclose(project(small), 1 / n + small - small.mean(), atol=1e-14)


@pytest.mark.parametrize("size", [1e3, 1e6, 1e9])
def test_a_dominant_entry_gets_everything(size):
    assert project(np.array([0.0, size, -size, 3.0])).tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    "row",
    [
        torch.tensor([0.0, 1e17, 3.0], dtype=torch.float64),
        torch.tensor([-1e17, -1e17], dtype=torch.float64),
        torch.tensor([1e12 + 0.25, 1e12, 1e12 + 0.5], dtype=torch.float64),
        torch.tensor([3e7, 1.0], dtype=torch.float32),
        torch.tensor([1e5 + 0.5, 1e5, 1e5 + 0.25], dtype=torch.float32),
    ],
    ids=["1e17", "-1e17", "around 1e12", "float32 3e7", "float32 around 1e5"],
)
def test_huge_values_still_give_a_point_of_the_simplex(row):
    exact = slow_project((row.double() - row.double().max()).numpy())
    np.testing.assert_allclose(simplex.project(row).double().numpy(), exact, atol=1e-6)


@properties
@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 5)),
        elements=st.floats(-3, 3),
    )
)
def test_a_batch_is_its_rows_one_by_one(batch):
    one_by_one = [[project(row) for row in block] for block in batch]
    assert_rounded(project(batch), one_by_one)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_projection_keeps_the_precision(dtype):
    v = torch.tensor([0.5, 0.9, -1.0], dtype=dtype)
    p = simplex.project(v)
    assert p.dtype == dtype
    torch.testing.assert_close(p, torch.tensor([0.3, 0.7, 0.0], dtype=dtype))
    assert v.tolist() == torch.tensor([0.5, 0.9, -1.0], dtype=dtype).tolist()


@properties
@given(st.integers(0, 6), st.integers(1, 6), st.integers(0, 10**6), st.floats(0.2, 20))
def test_samples_are_mixtures_fixed_by_their_seed(n_rows, n_sources, seed, concentration):
    alpha = simplex.sample(n_rows, n_sources, seed, concentration)
    assert alpha.shape == (n_rows, n_sources)
    np.testing.assert_array_equal(simplex.check_alpha(alpha, n_sources), alpha)
    np.testing.assert_array_equal(simplex.sample(n_rows, n_sources, seed, concentration), alpha)


def test_samples_are_uniform_on_the_simplex():
    alpha = simplex.sample(20_000, 4, seed=1)
    np.testing.assert_allclose(alpha.mean(0), 0.25, atol=0.01)
    np.testing.assert_allclose(alpha.var(0), 3 / 80, atol=0.003)  # Dirichlet(1,1,1,1): (1/4)(3/4)/5
    assert not np.array_equal(alpha, simplex.sample(20_000, 4, seed=2))


def test_concentration_draws_towards_the_centre_or_the_corners():
    assert simplex.sample(500, 5, concentration=100.0).max() < 0.5
    assert np.median(simplex.sample(500, 5, concentration=0.05).max(1)) > 0.9


GOOD = [0.25, 0.75]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([np.nan, 1.0], "row 2 of alpha holds a value that is not finite"),
        ([np.inf, 0.0], "row 2 of alpha holds a value that is not finite"),
        ([-0.1, 1.1], "row 2 of alpha has a negative entry.*min -0.1"),
        ([0.5, 0.6], "row 2 of alpha does not sum to 1 within 1e-06.*sum 1.1"),
        ([0.0, 0.0], "row 2 of alpha does not sum to 1"),
        ([0.5, 0.5 + 2e-6], "row 2 of alpha does not sum to 1"),
    ],
)
def test_bad_row_of_alpha_is_named(row, message):
    with pytest.raises(MixtureError, match=message):
        simplex.check_alpha([GOOD, GOOD, row], 2)


def test_bad_rows_of_alpha_are_counted():
    with pytest.raises(MixtureError, match=r"row 1 .*\(2 such rows\)"):
        simplex.check_alpha([GOOD, [1, 1], [2, 0]], 2)


@pytest.mark.parametrize(
    ("alpha", "columns", "message"),
    [
        ([GOOD], 3, r"shape \(M, 3\), a row per model; got \(1, 2\)"),
        (GOOD, 2, r"shape \(M, 2\), a row per model; got \(2,\)"),
        ([[GOOD]], 2, r"shape \(M, 2\), a row per model; got \(1, 1, 2\)"),
        ([GOOD], (3, 4), r"shape \(M, 3\) or \(M, 4\), a row per model; got \(1, 2\)"),
        ([["a", "b"]], 2, "numeric array"),
        ([[0.5, 0.5], [1.0]], 2, "numeric array"),
        (None, 2, "shape|numeric"),
    ],
)
def test_bad_shape_of_alpha_is_said(alpha, columns, message):
    with pytest.raises(MixtureError, match=message):
        simplex.check_alpha(alpha, columns)


def test_good_alpha_is_returned_as_it_is():
    alpha = np.array([GOOD, [0.5, 0.5 + 5e-7], [0, 1]], dtype=np.float64)
    np.testing.assert_array_equal(simplex.check_alpha(alpha.tolist(), (1, 2)), alpha)
    assert simplex.check_alpha(np.array([[1, 0]]), 2).dtype == np.float64
    assert simplex.check_alpha(np.zeros((0, 2)), 2).shape == (0, 2)


def test_alpha_lies_row_after_row_in_memory_of_its_own_however_it_was_given():
    """Of other strides torch chooses another matrix product, whose last bits differ."""
    row = np.array([0.2, 0.3, 0.5])
    views = (
        row[None],
        np.asfortranarray([row, row]),
        np.tile(row, (6, 1))[::2],
        torch.tensor(row).expand(4, 3),
    )
    for view in views:
        alpha = simplex.check_alpha(view, 3)
        assert alpha.strides == (24, 8) and alpha.flags.writeable and (alpha == row).all()
        assert not np.shares_memory(alpha, np.asarray(view))


def test_tolerance_is_what_was_asked_for():
    assert simplex.check_alpha([[0.5, 0.51]], 2, atol=0.02).tolist() == [[0.5, 0.51]]
    with pytest.raises(MixtureError, match=r"within 0\.001"):
        simplex.check_alpha([[0.5, 0.51]], 2, atol=1e-3)
