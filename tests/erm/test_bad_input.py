"""What is wrong is named; what is merely hard gets a result and a status, and never spoils its
neighbours.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import cuvee
from builders import make_problem, mlp
from cuvee import Domain, Logistic, MixtureError, Network, OptionError, Problem, Ridge, Status
from rounding import assert_rounded

pytestmark = pytest.mark.sample(6)

FAMILIES = {
    "ridge": (0, Ridge(0.1)),
    "ridge-no-intercept": (0, Ridge(0.1, intercept=False)),
    "ridge-ball": (0, Ridge(0.1, radius=0.2)),
    "binary": (2, Logistic(0.1)),
    "binary-ball": (2, Logistic(0.1, radius=0.2)),
    "softmax": (3, Logistic(0.1)),
    "softmax-no-intercept": (3, Logistic(0.1, intercept=False)),
    "softmax-ball": (3, Logistic(0.1, radius=0.2)),
}


@pytest.fixture(params=list(FAMILIES))
def family(request):
    return FAMILIES[request.param]


@pytest.fixture(autouse=True)
def _no_complaints(capfd):
    """Neither NumPy nor torch may warn on the way, nor LAPACK write to the terminal."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    written = "".join(capfd.readouterr())
    assert "ERROR" not in written and "entry to" not in written


# ---- alpha ---------------------------------------------------------------------------------------

GOOD = [0.2, 0.3, 0.5]
WRONG = {
    "negative": ([GOOD, [0.5, 0.6, -0.1]], "row 1 of alpha has a negative entry"),
    "tiny negative": ([GOOD, [0.5, 0.5 + 1e-12, -1e-12]], "row 1 of alpha has a negative entry"),
    "sum too large": ([GOOD, GOOD, [0.2, 0.3, 0.50001]], "row 2 of alpha does not sum to 1"),
    "sum too small": ([[0.2, 0.3, 0.49999]], "row 0 of alpha does not sum to 1"),
    "zeros": ([GOOD, [0.0, 0.0, 0.0]], "row 1 of alpha does not sum to 1"),
    "NaN": ([GOOD, [0.2, np.nan, 0.8]], "row 1 of alpha holds a value that is not finite"),
    "inf": ([[np.inf, 0.0, 0.0]], "row 0 of alpha holds a value that is not finite"),
    "too few": ([[0.5, 0.5]], r"\(M, 3\).*got \(1, 2\)"),
    "too many": ([[0.25, 0.25, 0.25, 0.125, 0.125]], r"got \(1, 5\)"),
    "one dimension": (GOOD, r"got \(3,\)"),
    "three dimensions": ([[GOOD]], r"got \(1, 1, 3\)"),
    "empty list": ([], r"got \(0,\)"),
    "text": ([["a", "b", "c"]], "numeric"),
    "ragged": ([GOOD, [1.0]], "numeric"),
    "none": (None, "alpha"),
}


@pytest.mark.parametrize("wrong", list(WRONG))
def test_alphas_off_the_simplex_are_named(wrong):
    alpha, message = WRONG[wrong]
    problem = make_problem((5, 7, 4), ())
    P = Ridge().bind(problem.facts).n_params
    w = np.zeros((len(alpha) if alpha is not None else 1, P))
    for call in (
        lambda: cuvee.solve(problem, Ridge(), alpha),
        lambda: cuvee.solve(problem.sources, Ridge(), alpha),
        lambda: cuvee.certify(problem, Ridge(), alpha, w),
        lambda: cuvee.sensitivity(problem, Ridge(), alpha, w),
    ):
        with pytest.raises(MixtureError, match=message):
            call()


def test_own_columns_need_their_targets():
    alpha = np.full((2, 4), 0.25)
    with pytest.raises(MixtureError, match=r"\(M, 3\)"):
        cuvee.solve(make_problem((5, 7, 4), ()), Ridge(), alpha)
    for n in (1, 3):
        with pytest.raises(MixtureError, match=f"2 rows .* {n} target"):
            cuvee.solve(make_problem((5, 7, 4), (3,) * n), Ridge(), alpha)
    assert cuvee.solve(make_problem((5, 7, 4), (3, 3)), Ridge(), alpha).w.shape == (2, 4)
    # Without the column, the number of targets says nothing about the number of models.
    assert cuvee.solve(make_problem((5, 7, 4), (3, 3)), Ridge(), [GOOD] * 5).w.shape == (5, 4)


def test_alpha_may_be_anything_that_holds_numbers():
    import torch

    problem = make_problem((5, 7, 4), ())
    wanted = cuvee.solve(problem, Ridge(), [GOOD]).w
    for alpha in (np.array([GOOD]), (tuple(GOOD),), torch.tensor([GOOD], dtype=torch.float64)):
        assert_rounded(cuvee.solve(problem, Ridge(), alpha).w, wanted)
    assert np.isfinite(cuvee.solve(problem, Ridge(), np.array([GOOD], dtype=np.float32)).w).all()
    assert np.isfinite(cuvee.solve(problem, Ridge(), [[1, 0, 0]]).w).all()


def test_what_was_passed_in_is_left_alone():
    problem = make_problem((5, 7, 4), (), classes=3, weighted=True)
    alpha = np.array([GOOD, [1.0, 0.0, 0.0]])
    before = [(s.X.copy(), s.y.copy(), s.weight.copy()) for s in problem.sources]
    sol = cuvee.solve(problem, Logistic(0.1, radius=0.3), alpha)
    w = sol.w.copy() * 3 + 1
    kept = w.copy()
    cuvee.certify(problem, Logistic(0.1, radius=0.3), alpha, w)
    cuvee.sensitivity(problem, Logistic(0.1, radius=0.3), alpha, w)
    np.testing.assert_array_equal(w, kept)
    np.testing.assert_array_equal(alpha, [GOOD, [1.0, 0.0, 0.0]])
    for s, (X, y, weight) in zip(problem.sources, before, strict=True):
        assert (s.X == X).all() and (s.y == y).all() and (s.weight == weight).all()


# ---- w and options -------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [cuvee.certify, cuvee.sensitivity])
def test_ws_that_do_not_fit_are_named(call):
    problem = make_problem((5, 7, 4), ())
    for w, message in (
        (np.zeros((2, 3)), r"\(2, 4\).*got \(2, 3\)"),
        (np.zeros((1, 4)), r"\(2, 4\).*got \(1, 4\)"),
        (np.zeros(4), r"got \(4,\)"),
        (np.zeros((2, 1, 4)), r"got \(2, 1, 4\)"),
        ([[0, 0, 0, 0], [0, 0, np.nan, 0]], "row 1 of w"),
        ([[0, np.inf, 0, 0], [0, 0, 0, 0]], "row 0 of w"),
        ([["a"] * 4] * 2, "numeric"),
        (None, "w must"),
        (np.zeros((2, 4)) * 1j, "w must"),
    ):
        with pytest.raises(OptionError, match=message):
            call(problem, Ridge(), [GOOD, GOOD], w)


def test_options_out_of_range_are_named():
    problem = make_problem((5, 7, 4), ())
    for option, values in {
        "tol": (0, -1e-6, np.nan, np.inf, "small", None, True),
        "device": ("gpu7", "nowhere", "cuda:99", 3.5),
        "memory": (0, 2**19, 1e9, -1),
        "steps": (0, -1, 1.5, True),
        "seed": (-1, 0.5),
        "method": ("newton", "", None),
    }.items():
        for value in values:
            with pytest.raises(OptionError, match=option):
                cuvee.solve(problem, Ridge(), [GOOD], **{option: value})
    for hypothesis in (Ridge, "ridge", None):
        with pytest.raises(OptionError, match="hypothesis"):
            cuvee.solve(problem, hypothesis, [GOOD])
    for call in (cuvee.certify, cuvee.sensitivity):
        for option, value in (("device", "nowhere"), ("memory", 1)):
            with pytest.raises(OptionError, match=option):
                call(problem, Ridge(), [GOOD], np.zeros((1, 4)), **{option: value})


# ---- nothing to do -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "descent"])
@pytest.mark.parametrize("targets", [(), (3, 4)])
def test_no_mixtures_give_no_models(family, method, targets):
    classes, hypothesis = family
    problem = make_problem((5, 7, 4), targets, classes=classes)
    P = hypothesis.bind(problem.facts).n_params
    none = np.zeros((0, 3))
    sol = cuvee.solve(problem, hypothesis, none, method=method)
    assert (
        sol.w.shape == (0, P)
        and sol.alpha.shape == (0, 3)
        and sol.status == ()
        and sol.passes.shape == (0,)
    )
    assert len(sol.models) == 0 and list(sol.models) == []
    assert sol.predict(np.zeros((6, 3))).shape == (0, 6)
    for bound in (sol.certificate, cuvee.certify(problem, hypothesis, none, np.zeros((0, P)))):
        assert (
            len(bound) == 0
            and bound.excess_risk.shape
            == bound.gradient_norm.shape
            == bound.certified.shape
            == (0,)
        )
        assert "nothing" in repr(bound)
    assert cuvee.sensitivity(problem, hypothesis, none, np.zeros((0, P))).shape == (0, 3, P)
    assert "nothing to solve" in repr(sol)
    assert sol.raise_for_status() is sol


def test_no_mixtures_of_networks():
    problem = make_problem((5, 7, 4), (), classes=3)
    hypothesis = Network(mlp(3, 3))
    P = hypothesis.bind(problem.facts).n_params
    for method in ("auto", "descent"):
        sol = cuvee.solve(problem, hypothesis, np.zeros((0, 3)), method=method)
        assert sol.w.shape == (0, P) and len(sol.certificate) == 0
    assert len(cuvee.certify(problem, hypothesis, np.zeros((0, 3)), np.zeros((0, P)))) == 0


# ---- hard data -----------------------------------------------------------------------------------


def healthy(rng, classes, d=3, rows=40, name="good"):
    X = rng.normal(size=(rows, d))
    y = np.arange(rows) % classes if classes else X[:, 0] + rng.normal(size=rows)
    return Domain(name, X, y)


def seen(space, w):
    """Of softmax, what differs between classes: with next to no l2 the rest is anyone's guess."""
    if getattr(space, "n_outputs", 1) == 1:
        return w
    table = w.reshape(space.n_outputs, -1)
    return table - table.mean(0)


def unspoiled(good, bad, hypothesis, *, tol=1e-8):
    """Solve, certify and differentiate over a good and a bad source; the good row must not notice.
    -> Solution.
    """
    alpha = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])
    sol = cuvee.solve([good, bad], hypothesis, alpha, tol=tol)
    assert all(isinstance(s, Status) for s in sol.status)
    assert (
        not np.isnan(sol.certificate.distance).any()
        and not np.isnan(sol.certificate.excess_risk).any()
    )
    for s, w in zip(sol.status, sol.w, strict=True):
        assert np.isfinite(w).all() or s is Status.DIVERGED
    space = hypothesis.bind(Problem([good, bad]).facts)
    if space.classes is None or len(np.unique(good.y)) == len(space.classes):
        alone = cuvee.solve([good], hypothesis, [[1.0]], tol=tol)
        for i in (0, 3):
            assert sol.status[i] is alone.status[0]
            np.testing.assert_allclose(seen(space, sol.w[i]), seen(space, alone.w[0]), atol=1e-5)
            if np.isfinite(alone.certificate.distance[0]) and hypothesis.l2 > 0:
                assert np.isfinite(sol.certificate.distance[i]) or isinstance(hypothesis, Logistic)
    w = np.where(np.isfinite(sol.w), sol.w, 0.0)
    bound = cuvee.certify([good, bad], hypothesis, alpha, w)
    assert not np.isnan(bound.distance).any() and not np.isnan(bound.excess_risk).any()
    assert cuvee.sensitivity([good, bad], hypothesis, alpha, w).shape == (4, 2, w.shape[1])
    return sol


@pytest.mark.parametrize("l2", [0.0, 1e-12, 0.1])
def test_a_column_twice_and_a_constant_column(family, l2):
    classes, hypothesis = family
    hypothesis = type(hypothesis)(l2, hypothesis.intercept, hypothesis.radius)
    rng = np.random.default_rng(0)
    good = healthy(rng, classes)
    X = rng.normal(size=(30, 3))
    X[:, 1] = X[:, 0]
    X[:, 2] = 3.0
    y = np.arange(30) % classes if classes else X[:, 0] * 2 + rng.normal(size=30)
    sol = unspoiled(good, Domain("bad", X, y), hypothesis)
    assert np.isfinite(sol.w).all()
    if l2 == 0.0 and not classes and hypothesis.radius is None:
        assert sol.status[1] is Status.ILL_CONDITIONED
        assert abs(sol.w[1, 0] - sol.w[1, 1]) < 1e-8  # of least norm: what is alike shares alike


@pytest.mark.parametrize("l2", [0.0, 1e-12, 0.1])
def test_fewer_rows_than_columns(family, l2):
    classes, hypothesis = family
    hypothesis = type(hypothesis)(l2, hypothesis.intercept, hypothesis.radius)
    rng = np.random.default_rng(1)
    few = Domain(
        "few", rng.normal(size=(4, 6)), np.arange(4) % classes if classes else rng.normal(size=4)
    )
    sol = unspoiled(healthy(rng, classes, d=6), few, hypothesis)
    assert np.isfinite(sol.w).all()
    if not classes and l2 < 0.1 and hypothesis.radius is None:
        np.testing.assert_allclose(sol.models[1].predict(few.X), few.y, atol=1e-5)  # interpolates


@pytest.mark.parametrize("l2", [0.0, 1e-12])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_separable_classes(l2, classes, intercept):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int) + (classes == 3) * (X[:, 0] > 1)
    X[:, 0] += 3.0 * (y - y.mean())
    sol = unspoiled(
        healthy(rng, classes, d=2, rows=90),
        Domain("split", X, y),
        Logistic(l2, intercept),
        tol=1e-6,
    )
    assert np.isfinite(sol.w).all()
    if intercept:
        assert (sol.models[1].predict(X) == y).all()
    assert sol.status[0] is Status.SOLVED


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("radius", [None, 1.0])
@pytest.mark.parametrize("intercept", [True, False])
def test_an_absent_class(classes, radius, intercept):
    rng = np.random.default_rng(3)
    good = healthy(rng, classes, rows=60)
    X = rng.normal(size=(30, 3))
    bad = Domain("bad", X, np.arange(30) % (classes - 1))
    sol = unspoiled(good, bad, Logistic(0.1, intercept, radius))
    assert sol.status[0] is sol.status[2] is Status.SOLVED
    if radius is not None:
        assert (np.linalg.norm(sol.w, axis=1) <= radius * (1 + 1e-12)).all()  # a minimiser there is
        assert sol.status[1] is Status.SOLVED
    elif intercept:
        assert sol.status[1] is Status.ABSENT_CLASS and not sol.certificate.certified[1]
        assert not (sol.models[1].predict(100 * X) == classes - 1).any()
        with pytest.raises(cuvee.StatusError, match="model 1"):
            sol.raise_for_status()
        if classes == 3:  # the others are solved as if the absent one had never been
            # two scores ±w for one: half the penalty
            two = cuvee.solve([bad], Logistic(0.1 / 2), [[1.0]], tol=1e-9)
            wanted = two.models[0].predict_proba(X)
            np.testing.assert_allclose(sol.models[1].predict_proba(X)[:, :2], wanted, atol=1e-6)
    else:
        assert sol.status[1] is Status.SOLVED


def test_classes_absent_in_different_rows():
    """Each row of a batch lacks something else: one class, the other, none, both of three."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(30, 2))
    y = np.arange(30) % 3
    sources = [Domain(f"only {k}", X[y == k], y[y == k]) for k in range(3)]
    alpha = [[1, 0, 0], [0, 0.5, 0.5], [0.3, 0.3, 0.4], [0, 0, 1], [0.5, 0.5, 0]]
    sol = cuvee.solve(sources, Logistic(0.1), alpha)
    wanted = [
        Status.ABSENT_CLASS,
        Status.ABSENT_CLASS,
        Status.SOLVED,
        Status.ABSENT_CLASS,
        Status.ABSENT_CLASS,
    ]
    assert list(sol.status) == wanted
    said = [set(row) for row in sol.predict(np.concatenate([X, 50 * X]))]
    assert said[0] == {0} and said[1] <= {1, 2} and said[3] == {2} and said[4] <= {0, 1}


def test_a_class_absent_but_for_the_own_sample():
    rng = np.random.default_rng(5)
    a, b = (
        Domain(n, rng.normal(size=(20, 2)), y)
        for n, y in (("a", np.zeros(20, int)), ("b", np.arange(20) % 2))
    )
    targets = [
        Domain("t0", rng.normal(size=(3, 2)), [0, 0, 0]),
        Domain("t1", rng.normal(size=(1, 2)), [1]),
    ]
    alpha = [[0.5, 0.0, 0.5], [0.5, 0.0, 0.5]]
    sol = cuvee.solve(Problem([a, b], targets), Logistic(0.1), alpha)
    assert sol.status == (Status.ABSENT_CLASS, Status.SOLVED)
    # A class whose only rows weigh nothing is absent too.
    weight = np.where(b.y == 1, 0.0, 1.0)
    sol = cuvee.solve([a, Domain("b", b.X, b.y, weight=weight)], Logistic(0.1), [[0.5, 0.5]])
    assert sol.status == (Status.ABSENT_CLASS,)


@pytest.mark.parametrize("share", [1e-12, 1e-100, 1e-300])
def test_a_class_that_is_all_but_absent(share):
    rng = np.random.default_rng(6)
    a, b = (
        Domain(n, rng.normal(size=(20, 2)), y)
        for n, y in (("a", np.zeros(20, int)), ("b", np.arange(20) % 2))
    )
    sol = cuvee.solve([a, b], Logistic(0.1), [[1.0 - share, share], [0.5, 0.5]])
    assert np.isfinite(sol.w).all() and sol.status[1] is Status.SOLVED


@pytest.mark.parametrize("classes", [2, 3])
def test_one_row_of_each_class(classes):
    rng = np.random.default_rng(7)
    tiny = Domain("tiny", rng.normal(size=(classes, 3)), np.arange(classes))
    sol = unspoiled(healthy(rng, classes), tiny, Logistic(0.1))
    assert set(sol.status) == {Status.SOLVED}
    assert (sol.models[1].predict(tiny.X) == tiny.y).all()


@pytest.mark.parametrize("value", [1e20, 1e150, 1e160, 1e300])
def test_a_huge_value_stays_at_home(family, value):
    """A source that overflows spoils the rows that weigh it, which say so, and no other."""
    classes, hypothesis = family
    if hypothesis.radius and value in {2: (1e20, 1e150, 1e160), 3: (1e20, 1e150)}.get(classes, ()):
        pytest.skip("finds its way into the ball, but takes many passes")
    rng = np.random.default_rng(8)
    good = healthy(rng, classes)
    X = good.X.copy()
    X[0, 0] = value
    bad = Domain("bad", X, good.y)
    sol = unspoiled(good, bad, hypothesis)
    assert sol.status[0] is sol.status[3] is Status.SOLVED


@pytest.mark.parametrize("value", [1e150, 1e200])
def test_huge_labels_stay_at_home(value):
    rng = np.random.default_rng(9)
    good = healthy(rng, 0)
    for hypothesis in (Ridge(0.1), Ridge(0.1, intercept=False), Ridge(0.1, radius=0.5)):
        sol = unspoiled(
            good, Domain("bad", good.X, np.where(np.arange(40) == 0, value, good.y)), hypothesis
        )
        assert sol.status[0] is Status.SOLVED


@pytest.mark.parametrize("value", [1e-150, 1e-300])
def test_tiny_values(family, value):
    classes, hypothesis = family
    rng = np.random.default_rng(10)
    good = healthy(rng, classes)
    sol = unspoiled(good, Domain("bad", good.X * value, good.y), hypothesis)
    assert set(sol.status) == {Status.SOLVED}


def test_labels_all_alike():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(20, 2))
    sol = cuvee.solve([Domain("a", X, np.full(20, 7.0))], Ridge(0.1), [[1.0]])
    np.testing.assert_allclose(sol.w, [[0, 0, 7.0]], atol=1e-12)
    assert sol.status == (Status.SOLVED,)


def test_a_far_mean_costs_no_digits():
    """Years, prices, timestamps: what is far from 0 for the size of its spread."""
    from sklearn.linear_model import Ridge as Reference

    rng = np.random.default_rng(12)
    for mean, tolerance in ((1e2, 1e-9), (1e4, 1e-8), (1e6, 1e-6)):
        X = rng.normal(size=(200, 3)) + mean
        y = X @ [1.0, 2.0, -3.0] + rng.normal(size=200)
        sol = cuvee.solve(
            [Domain("a", X[:90], y[:90]), Domain("b", X[90:], y[90:])], Ridge(0.01), [[0.4, 0.6]]
        )
        weight = np.r_[np.full(90, 0.4 / 90), np.full(110, 0.6 / 110)]
        wanted = Reference(alpha=0.01, solver="svd").fit(X, y, sample_weight=weight)
        within = sol.certificate.gradient_norm[0] <= 1e-6  # b cannot be rounded any better
        assert sol.status == (Status.SOLVED if within else Status.ROUNDED,)
        np.testing.assert_allclose(sol.w[0, :3], wanted.coef_, rtol=tolerance)


def test_a_tolerance_that_rounding_forbids_is_said():
    problem = make_problem((30, 20, 25), (), classes=3)
    sol = cuvee.solve(problem, Logistic(1e-3), [GOOD, [0.1, 0.2, 0.7], [0.6, 0.3, 0.1]], tol=1e-300)
    for status, gradient in zip(sol.status, sol.certificate.gradient_norm, strict=True):
        # As far as rounding lets it; a gradient that is exactly 0 by rounding would be within any
        # tolerance.
        assert status is Status.ROUNDED or gradient == 0.0
        assert gradient < 1e-12
