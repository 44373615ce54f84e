"""`LinearComponents`: closed-form gradients and Hessians against autograd of the plain losses."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from builders import make_problem, models
from cuvee.components import ALL, Batch, Folds, LinearComponents, LocalComponents, linear
from cuvee.components.tiles import SMALL, TILE_ROWS, cut_rows
from cuvee.errors import OptionError
from cuvee.hypothesis import Logistic, Poisson, Ridge
from hypothesis import given, settings
from hypothesis import strategies as st
from rounding import assert_rounded

# Shared tiles of small sources, a source cut into several tiles, one right at the limit, small ones
# behind it.
SIZES = {"small": (5, 7, 4), "mixed": (5, 300, 2, 3, 1500, 128, 127, 6)}


def coefficients(rng, *shape):
    """Of both signs, with zeros: some sources unused by some models, one source by none, one model
    using nothing.
    """
    v = rng.normal(size=shape) * (rng.random(size=shape) > 0.4)
    v[..., 0] = 0.0
    v[0, 0] = 0.0
    return torch.as_tensor(v)


def build(sizes, *, own, classes, weighted, intercept):
    problem = make_problem(
        SIZES[sizes], (3, 2) if own else (), classes=classes, weighted=weighted, seed=3
    )
    space = Logistic(1e-2, intercept=intercept).bind(problem.facts)
    return LinearComponents(problem, space), LocalComponents(problem, space)


CASES = [
    pytest.param(*case, id="-".join(map(str, case)))
    for sizes in SIZES
    for own in (False, True)
    for classes in (2, 3)
    for weighted in (False, True)
    for intercept in (True, False)
    if (sizes, intercept) != ("mixed", False)
    for case in [(sizes, own, classes, weighted, intercept)]
]  # fmt: skip


@pytest.mark.parametrize(("sizes", "own", "classes", "weighted", "intercept"), CASES)
def test_pull_is_the_pullback(sizes, own, classes, weighted, intercept):
    fast, plain = build(sizes, own=own, classes=classes, weighted=weighted, intercept=intercept)
    M, Q, columns = 2, 3, len(SIZES[sizes]) + own
    w, v = models(fast.space, M, Q, seed=1), coefficients(np.random.default_rng(2), M, Q, columns)
    _, pullback = plain.losses(w, ALL)
    g = fast.pull(w, v, ALL)
    torch.testing.assert_close(g, pullback(v), rtol=1e-11, atol=1e-12)
    again, second = fast.pull_with_second(w, v, ALL)
    assert_rounded(again, g)
    if intercept:
        H = fast.hessians(w, v, ALL)
        K, width = fast.space.n_outputs, fast.space.width
        last = H.view(M, Q, K, width, K, width)[:, :, :, -1, :, -1]
        torch.testing.assert_close(second, last, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("sizes", "own", "classes", "weighted", "intercept"), CASES)
def test_hessians_are_autograds(sizes, own, classes, weighted, intercept):
    fast, plain = build(sizes, own=own, classes=classes, weighted=weighted, intercept=intercept)
    M, Q, columns, P = 2, 2, len(SIZES[sizes]) + own, fast.space.n_params
    w, v = models(fast.space, M, Q, seed=4), coefficients(np.random.default_rng(5), M, Q, columns)

    rows, space = plain._all(torch.float64), plain.space
    # segment_reduce has no second derivative
    share = v[..., : len(SIZES[sizes])].repeat_interleave(rows.lengths, -1)

    def mixed(flat):
        at = flat.view(M, Q, P)
        total = (space.trained(space.scores(at, rows.X), rows.y) * rows.weight * share).sum()
        if own:
            own_loss = space.trained(space.own_scores(at, rows.own_X), rows.own_y) * rows.own_weight
            total = total + (own_loss * v[..., -1:]).sum()
        return total

    wanted = torch.autograd.functional.hessian(mixed, w.reshape(-1)).view(M, Q, P, M, Q, P)
    H = fast.hessians(w, v, ALL)
    u = models(fast.space, M, Q, seed=6)
    for i in range(M):
        for q in range(Q):
            torch.testing.assert_close(H[i, q], wanted[i, q, :, i, q], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(
        fast.hessian_times(w, u, v, ALL), (H @ u[..., None])[..., 0], rtol=1e-9, atol=1e-12
    )
    K, width = fast.space.n_outputs, fast.space.width
    for a in range(K):
        only = fast.hessian_blocks(w, v, ALL, a, only=True)[:, :, 0]
        diagonal = H.view(M, Q, K, width, K, width)[:, :, a, :, a]
        torch.testing.assert_close(only, diagonal, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 4])
def test_small_batches_of_models_change_nothing(classes, monkeypatch):
    fast, _ = build("mixed", own=True, classes=classes, weighted=False, intercept=True)
    w, v = (
        models(fast.space, 2, 5),
        coefficients(np.random.default_rng(0), 2, 5, len(SIZES["mixed"]) + 1),
    )
    g, second = fast.pull_with_second(w, v, ALL)
    H, Hw = fast.hessians(w, v, ALL), fast.hessian_times(w, w, v, ALL)
    monkeypatch.setitem(linear.TILE, "cpu", 1)  # one model at a time
    torch.testing.assert_close(
        fast.pull_with_second(w, v, ALL), (g, second), rtol=1e-12, atol=1e-13
    )
    torch.testing.assert_close(fast.hessians(w, v, ALL), H, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(fast.hessian_times(w, w, v, ALL), Hw, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("classes", [2, 3])
def test_held_out_own_rows(classes):
    """Own row weights may differ per q: cross-validation folds."""
    fast, plain = build("small", own=True, classes=classes, weighted=True, intercept=True)
    rows = Batch(folds=Folds(3, torch.tensor([0, 1, 2])))
    w, v = models(fast.space, 2, 3), coefficients(np.random.default_rng(1), 2, 3, 4)
    _, pullback = plain.losses(w, rows)
    g, second = fast.pull_with_second(w, v, rows)
    torch.testing.assert_close(g, pullback(v), rtol=1e-11, atol=1e-13)
    H = fast.hessians(w, v, rows)
    K, width = fast.space.n_outputs, fast.space.width
    torch.testing.assert_close(
        second, H.view(2, 3, K, width, K, width)[:, :, :, -1, :, -1], rtol=1e-10, atol=1e-12
    )
    torch.testing.assert_close(
        fast.hessian_times(w, w, v, rows), (H @ w[..., None])[..., 0], rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_float32_pass(classes):
    fast, _ = build("mixed", own=True, classes=classes, weighted=True, intercept=True)
    w, v = (
        models(fast.space, 2, 2),
        coefficients(np.random.default_rng(1), 2, 2, len(SIZES["mixed"]) + 1),
    )
    g = fast.pull(w.float(), v, ALL)
    assert g.dtype == torch.float32
    torch.testing.assert_close(g.double(), fast.pull(w, v, ALL), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("classes", [2, 3])
def test_saturated_scores_give_no_nan(classes):
    fast, _ = build("small", own=True, classes=classes, weighted=False, intercept=True)
    w, v = models(fast.space, 2, 1, scale=1e8), torch.ones(2, 1, 4, dtype=torch.float64)
    for t in (*fast.pull_with_second(w, v, ALL), fast.hessians(w, v, ALL)):
        assert t.isfinite().all()


def test_no_models():
    fast, _ = build("small", own=False, classes=3, weighted=False, intercept=True)
    w, v = models(fast.space, 0, 1), torch.zeros(0, 1, 3, dtype=torch.float64)
    P = fast.space.n_params
    assert fast.pull(w, v, ALL).shape == (0, 1, P)
    assert fast.hessians(w, v, ALL).shape == (0, 1, P, P)
    assert fast.hessian_times(w, w, v, ALL).shape == (0, 1, P)


def test_only_logistic_spaces_as_trained():
    problem = make_problem()
    with pytest.raises(OptionError):
        LinearComponents(problem, Ridge().bind(problem.facts))
    problem = make_problem(classes=2)
    with pytest.raises(OptionError):
        LinearComponents(problem, Logistic().bind(problem.facts), "bounded")


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    lengths=st.lists(st.sampled_from([1, 2, 5, 100, 127, 128, 129, 1023, 1024, 1025, 5000]), min_size=1, max_size=20),
    on_gpu=st.booleans(),
)  # fmt: skip
def test_tiles_cover_every_row_once(lengths, on_gpu):
    tiles = list(cut_rows(lengths, on_gpu=on_gpu))
    ends = np.cumsum([0, *lengths])
    longest = TILE_ROWS * (16 if on_gpu else 1)
    assert tiles[0].low == 0 and tiles[-1].high == ends[-1]
    assert all(a.high == b.low for a, b in pairwise(tiles))
    for tile in tiles:
        assert 0 < tile.high - tile.low <= longest
        # The sources named are exactly those that have rows in it.
        having = [j for j in range(len(lengths)) if ends[j] < tile.high and ends[j + 1] > tile.low]
        assert having == list(range(tile.first, tile.last))
        assert tile.last - tile.first == 1 or max(lengths[tile.first : tile.last]) < SMALL


@pytest.mark.parametrize("hypothesis", [Logistic(), Poisson()], ids=["softmax", "poisson"])
@pytest.mark.parametrize("own", [True, False])
def test_closed_forms_are_what_the_graph_gives(hypothesis, own):
    problem = make_problem(classes=3, targets=(4, 6) if own else ())
    space = hypothesis.bind(problem.facts)
    fast, plain = LinearComponents(problem, space), LocalComponents(problem, space)
    M, Q, columns = 2, 2, problem.n_sources + own
    w, u = (0.3 * models(space, M, Q, seed=seed) for seed in (1, 2))
    v = coefficients(np.random.default_rng(3), M, Q, columns)
    torch.testing.assert_close(fast.pull(w, v, ALL), plain.pull(w, v, ALL), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(
        fast.hessians(w, v, ALL), plain.hessians(w, v, ALL), rtol=1e-10, atol=1e-12
    )
    times = fast.hessian_times(w, u, v, ALL), plain.hessian_times(w, u, v, ALL)
    torch.testing.assert_close(*times, rtol=1e-10, atol=1e-12)
