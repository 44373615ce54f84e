"""What is wrong is named before it costs anything; what is merely hard gets a map and a status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import cuvee
from builders import mlp
from cuvee import (
    CuveeError,
    Domain,
    DomainError,
    InputError,
    Logistic,
    MixtureError,
    Network,
    OptionError,
    Problem,
    Ridge,
    Status,
    simplex,
)
from cuvee.components import LocalComponents
from cuvee.outputs import files
from learn_builders import HYPOTHESES, KINDS, make_sources, relative, rescaled, rewritten
from rounding import assert_rounded

pytestmark = pytest.mark.sample(8)

HYPOTHESIS = Logistic(0.1)
TRUSTS = (None, "predicted", "certified", "corrected")
ALPHA = simplex.sample(20, 4, 77)
SMALL = {"n_labels": 24, "n_calibration": 64, "tol": 1e-3}
SINGLE = 5e-6  # predictions of a map that was fitted in float32, asked for in other company


def learn(sources, hypothesis=HYPOTHESIS, **options):
    return cuvee.learn(sources, hypothesis, **{**SMALL, **options})


@pytest.fixture(scope="module")
def sources():
    return make_sources(2, 4)


@pytest.fixture(scope="module")
def atlas(sources):
    return learn(sources)


def honest(atlas, sources, hypothesis, alpha, tol, trusts=TRUSTS):
    """No row is below the tolerance without saying so: judged by the true gradient, but for rows
    that are predicted.
    """
    for trust in trusts:
        sol = atlas(alpha, trust=trust, tol=tol)
        assert np.isfinite(sol.w).all()
        g = cuvee.certify(sources, hypothesis, alpha, sol.w).gradient_norm
        for s, said, true in zip(sol.status, sol.certificate.gradient_norm, g, strict=True):
            if s in (Status.CERTIFIED, Status.CORRECTED):
                assert true <= tol * (1 + 1e-6)
            if s is Status.PREDICTED:
                assert said <= tol
        if trust in (None, "corrected"):
            assert Status.OFF_TOLERANCE not in sol.status
    return sol


# ---- options -------------------------------------------------------------------------------------

ABSURD = {
    "n_labels": (1, 0, -5, 3, 2.5, "many", None, True, np.nan, 2**70),
    "tol": (0, -1e-3, np.nan, np.inf, "small", None, True),
    "n_calibration": (-1, 0.5, "few", None, True),
    "level": (0, 1, 1.5, 0.49, -0.1, np.nan, "95%", None, True),
    "concentration": (0, -1, np.nan, np.inf, "flat", None),
    "degree": (0, -1, 1.5, "two", True, np.inf),
    "order": (0, 3, -1, 1.5, "first", True),
    "width": (0, 1, 3, -2, 2.5, "wide", True),
    "steps": (0, -1, 1.5, "some", True),
    "eta": (0, -1, np.nan, np.inf, "fast", True),
    "K": (0, -1, 1.5, "ten", None, True),
    "trunk": ("none", "", None, 1),
    "solver": ("fast", "", None, 1),
    "method": ("magic", "", None, 1, ["auto"]),
    "seed": (-1, 0.5, "x", None),
    "device": ("nowhere", "cuda:99", 3.5),
    "memory": (0, -1, 1e9, 2**19),
}


@pytest.mark.parametrize("option", list(ABSURD))
def test_options_out_of_range_are_named(sources, option):
    for value in ABSURD[option]:
        with pytest.raises(OptionError, match=option):
            cuvee.learn(sources, HYPOTHESIS, **{option: value})


def test_what_is_no_hypothesis_or_no_data_is_named(sources):
    for hypothesis in (Ridge, "ridge", None, nn.Linear(3, 1)):
        with pytest.raises(OptionError, match="hypothesis"):
            cuvee.learn(sources, hypothesis)
    for data in ([], sources[0], [sources[0], "b"]):
        with pytest.raises(DomainError):
            cuvee.learn(data, HYPOTHESIS)
    with pytest.raises(DomainError, match="class"):
        cuvee.learn(make_sources(0), HYPOTHESIS)


@pytest.mark.parametrize("kind", list(KINDS))
def test_one_source_is_no_map(sources, kind):
    with pytest.raises(OptionError, match="N=1"):
        cuvee.learn(sources[:1], HYPOTHESIS, **KINDS[kind])


def test_fewer_labels_than_a_degree_needs(sources):
    with pytest.raises(OptionError, match=r"degree=6.*n_labels of at least 21; there are 20"):
        learn(sources, method="surface", degree=6, n_labels=20)  # 84 monomials, 4 equations a label
    assert learn(sources, method="surface", degree=6, n_labels=21).plan.n_labels == 21
    with pytest.raises(OptionError, match="degree"):
        learn(sources, method="surface", degree=100, n_labels=2_000, n_calibration=0)
    three = make_sources(3, 4, rows=20)
    # a network has no derivatives
    with pytest.raises(OptionError, match=r"degree=3.*n_labels of at least 20"):
        learn(three, Network(mlp(3, 3)), method="surface", degree=3, n_labels=6, n_calibration=0)


def test_degree_and_order_together_are_refused(sources):
    for order in (1, 2):
        with pytest.raises(OptionError, match=r"degree|order"):
            learn(sources, method="surface", degree=2, order=order)


def test_taylor_pieces_of_networks_are_refused():
    for order in (1, 2):
        with pytest.raises(OptionError, match=r"order|convex"):
            learn(
                make_sources(3, 4, rows=20),
                Network(mlp(3, 3)),
                method="surface",
                order=order,
                n_labels=4,
            )


def test_a_hidden_layer_for_each_of_thousands_of_parameters_is_refused():
    wide = make_sources(2, 2, d=2_100, rows=8)
    for method in ("network", "ntf"):
        with pytest.raises(OptionError, match="shared"):
            learn(wide, Ridge(1.0), method=method, n_labels=4, n_calibration=0)


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_fewest_labels_there_may_be(sources, kind):
    atlas = learn(sources, n_labels=4, n_calibration=0, **KINDS[kind])
    sol = honest(atlas, sources, HYPOTHESIS, ALPHA, 1e-3)
    assert atlas.plan.n_labels == 4 and all(s.ok for s in sol.status)


@pytest.mark.parametrize("kind", list(KINDS))
def test_two_sources(kind):
    two = make_sources(2, 2)
    atlas = learn(two, **KINDS[kind])
    alpha = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.25, 0.75]])
    honest(atlas, two, HYPOTHESIS, alpha, 1e-4)


# ---- mixtures to learn from ----------------------------------------------------------------------


def test_equal_mixtures_are_no_sample(sources):
    for given in (
        np.full((50, 4), 0.25),
        np.eye(4)[:1].repeat(30, 0),
        np.full((60, 4), 0.25) + 1e-15,
    ):
        with pytest.raises(OptionError, match="equal"):
            learn(sources, mixtures=given)


def test_a_law_that_draws_equal_mixtures_is_refused(sources):
    for concentration in (1e25, 1e300):
        with pytest.raises(OptionError, match=r"equal|concentration"):
            learn(sources, concentration=concentration)


@pytest.mark.parametrize(
    "given",
    [None, ALPHA[:, :3], np.full((9, 4), np.nan), np.full((9, 4), 0.3), [[0.5, 0.6, -0.1, 0]], "x"],
)
def test_samples_off_the_simplex_are_named(sources, given):
    if given is None:
        given = np.full((9, 5), 0.2)
    with pytest.raises(MixtureError, match="alpha"):
        learn(sources, mixtures=given)


def test_no_mixtures_and_few_mixtures(sources):
    with pytest.raises(OptionError, match="mixtures"):
        learn(sources, mixtures=np.zeros((0, 4)))
    for n in (1, 3):
        with pytest.raises(OptionError, match="mixtures"):
            learn(sources, mixtures=simplex.sample(n, 4))
    for n in (4, 10, 30, 80):  # enough to learn from, if not to calibrate on
        atlas = learn(sources, mixtures=simplex.sample(n, 4))
        assert 4 <= atlas.plan.n_labels <= min(n, SMALL["n_labels"])
        assert all(s.ok for s in atlas(ALPHA).status)


@pytest.mark.parametrize("kind", list(KINDS))
def test_duplicates_among_the_mixtures(sources, kind):
    given = simplex.sample(8, 4, 3).repeat(12, 0)
    atlas = learn(sources, mixtures=given, **KINDS[kind])
    honest(atlas, sources, HYPOTHESIS, np.concatenate([given[::12], ALPHA]), 1e-3)


def test_almost_all_mixtures_are_equal(sources):
    """Those that differ may all fall to the calibration, or to the labels."""
    given = np.concatenate([np.full((40, 4), 0.25), simplex.sample(8, 4)])
    for kind in ("auto", "surface", "kernel-exact", "ntf-own"):
        honest(learn(sources, mixtures=given, **KINDS[kind]), sources, HYPOTHESIS, ALPHA, 1e-3)


def test_a_sample_is_shared_out_and_never_learnt_and_calibrated_on(sources):
    given = simplex.sample(100, 4, 3)
    atlas = learn(sources, mixtures=given, n_labels=30, n_calibration=70)
    assert atlas.plan.n_labels == 30 and atlas.plan.n_calibration == 70
    rows = {tuple(row) for row in given.round(12).tolist()}
    assert {tuple(row) for row in atlas.labels.alpha.numpy().round(12).tolist()} <= rows
    assert "sample of 100" in atlas.plan.why


def test_mixtures_of_estimate_will_do(sources):
    problem = Problem(
        sources, [Domain(f"t{i}", s.X[:9] + 0.1, s.y[:9]) for i, s in enumerate(sources)]
    )
    names = tuple(f"t{i}" for i in range(20))
    none, ended = np.zeros(20), (Status.CONVERGED,) * 20
    mixtures = cuvee.Mixtures(
        ALPHA, tuple(s.name for s in sources), names, none, ended, "given", none
    )
    atlas = learn(problem, mixtures=mixtures, n_calibration=0)
    assert_rounded(atlas(mixtures, trust="predicted").w, atlas(ALPHA, trust="predicted").w, SINGLE)


# ---- alpha ---------------------------------------------------------------------------------------

WRONG = {
    "negative": ([[0.25] * 4, [0.5, 0.6, -0.1, 0.0]], "row 1 of alpha has a negative entry"),
    "sum": ([[0.3] * 4], "row 0 of alpha does not sum to 1"),
    "NaN": ([[0.25] * 4, [np.nan, 0, 0, 1]], "row 1 of alpha holds a value that is not finite"),
    "inf": ([[np.inf, 0, 0, 0]], "not finite"),
    "N-1": ([[0.2, 0.3, 0.5]], r"\(M, 4\).*got \(1, 3\)"),
    "N+2": ([[0.1] * 4 + [0.3, 0.3]], r"got \(1, 6\)"),
    "one dimension": ([0.25] * 4, r"got \(4,\)"),
    "empty": ([], r"got \(0,\)"),
    "text": ([["a"] * 4], "numeric"),
    "none": (None, "alpha"),
}


@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("wrong", list(WRONG))
def test_alphas_off_the_simplex_are_named(atlas, wrong, trust):
    alpha, message = WRONG[wrong]
    with pytest.raises(MixtureError, match=message):
        atlas(alpha, trust=trust)


def test_trust_and_tol_out_of_range_are_named(atlas):
    for trust in ("blind", "", True, 1, ["predicted"]):
        with pytest.raises(OptionError, match="trust"):
            atlas(ALPHA, trust=trust)
    for tol in (0, -1, np.nan, np.inf, "x", True):
        with pytest.raises(OptionError, match="tol"):
            atlas(ALPHA, tol=tol)


def test_what_was_passed_in_is_left_alone(atlas):
    alpha = ALPHA.copy()
    first = atlas(alpha)
    first.w[:] = np.nan
    np.testing.assert_array_equal(alpha, ALPHA)
    assert np.isfinite(atlas(alpha).w).all()
    for given in (torch.as_tensor(ALPHA), ALPHA.tolist(), np.asfortranarray(ALPHA)):
        assert_rounded(atlas(given, trust="predicted").w, atlas(ALPHA, trust="predicted").w, SINGLE)


def test_a_tolerance_beyond_rounding_is_said(atlas, sources):
    sol = atlas(ALPHA, trust="corrected", tol=1e-300)
    # Rounding may cancel a gradient to 0, and then no tolerance is beyond it.
    rounded = [s is Status.ROUNDED for s in sol.status]
    assert rounded == (sol.certificate.gradient_norm > 0.0).tolist() and any(rounded)
    assert cuvee.certify(sources, HYPOTHESIS, ALPHA, sol.w).gradient_norm.max() < 1e-12


def test_a_hundred_thousand_rows_at_once(atlas):
    alpha = simplex.sample(100_000, 4, 1)
    seen = []
    sol = atlas(
        alpha,
        trust="predicted",
        progress=lambda what, done, total: seen.append((what, done, total)),
    )
    assert sol.w.shape == (100_000, 4) and len(sol.status) == 100_000 and np.isfinite(sol.w).all()
    assert seen[0][1] == 0 and seen[-1][1] == seen[-1][2] == 100_000
    some = np.random.default_rng(0).integers(100_000, size=50)
    few = atlas(alpha[some], trust="predicted")
    assert_rounded(few.w, sol.w[some], SINGLE)


def test_descents_keep_to_the_memory_they_are_given(monkeypatch):
    few, alpha = make_sources(3, 3, rows=20), simplex.sample(500, 3)
    losses, sizes, found = LocalComponents.losses, [], []
    monkeypatch.setattr(
        LocalComponents, "losses", lambda c, w, batch: sizes.append(len(w)) or losses(c, w, batch)
    )
    for memory in (2**20, None):
        atlas = learn(
            few, Network(mlp(3, 3)), method="meta", memory=memory, n_labels=4, n_calibration=0
        )
        atlas(alpha[:1], trust="predicted")  # how curved the sources are is asked for once
        sizes.clear()
        found.append(atlas(alpha, trust="predicted").w)
        assert sum(sizes) == 5 * 500 and (memory is None or max(sizes) * 60 * 8 <= memory)
        assert (len(sizes) == 5) == (memory is None)
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-9)


# ---- hard data -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["auto", "surface", "kernel-exact", "network-own"])
@pytest.mark.parametrize("name", ["ridge", "binary", "softmax"])
def test_no_l2_corrects_without_a_proof(name, kind):
    classes, hypothesis = HYPOTHESES[name][0], type(HYPOTHESES[name][1])(0.0)
    sources = make_sources(classes, 4)
    atlas = learn(sources, hypothesis, **KINDS[kind])
    sol = atlas(ALPHA, trust="corrected", tol=1e-5)
    assert set(sol.status) == {Status.SOLVED} and not sol.certificate.certified.any()
    assert cuvee.certify(sources, hypothesis, ALPHA, sol.w).gradient_norm.max() <= 1e-5
    assert "l2 = 0" in sol.certificate.rests_on
    looked = atlas(ALPHA, trust="certified", tol=1e-5)
    assert set(looked.status) <= {Status.SOLVED, Status.OFF_TOLERANCE}


@pytest.mark.parametrize("kind", ["auto", "surface", "kernel-exact", "meta", "network-own"])
@pytest.mark.parametrize("factor", [1e6, 1e8])
@pytest.mark.parametrize("name", ["ridge", "binary"])
def test_a_huge_column_certifies_nothing_that_is_not_so(name, factor, kind):
    classes, hypothesis = HYPOTHESES[name]
    sources = rescaled(make_sources(classes, 4), [factor, 1.0, 1.0])
    honest(learn(sources, hypothesis, tol=1e-6, **KINDS[kind]), sources, hypothesis, ALPHA, 1e-6)


@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["auto", "surface", "kernel-exact", "meta"])
@pytest.mark.parametrize("name", ["ridge", "binary", "softmax"])
def test_a_constant_column_and_a_column_twice(name, kind, l2):
    classes, hypothesis = HYPOTHESES[name][0], type(HYPOTHESES[name][1])(l2)
    sources = [
        Domain(s.name, np.c_[s.X, np.full(len(s.X), 3.0), s.X[:, 0]], s.y)
        for s in make_sources(classes, 4)
    ]
    honest(learn(sources, hypothesis, **KINDS[kind]), sources, hypothesis, ALPHA, 1e-4)


@pytest.mark.parametrize("kind", list(KINDS))
def test_sources_of_unlike_scale(kind):
    """One source is 900 times as curved as the others: a step length for the mean of them would run
    away.
    """
    sources = make_sources(0, 4)
    sources[0] = rescaled(sources[:1], 30.0)[0]
    hypothesis = Ridge(0.1)
    atlas = learn(sources, hypothesis, **KINDS[kind])
    assert atlas.status is Status.TRAINED
    sol = atlas(np.concatenate([np.eye(4), ALPHA]), trust="predicted")
    best = cuvee.solve(sources, hypothesis, np.concatenate([np.eye(4), ALPHA]))
    assert np.median(relative(sol.w, best.w)) < 1.5 and relative(sol.w, best.w).max() < 1e3


@pytest.mark.parametrize(
    "kind", ["auto", "surface", "kernel-exact", "meta", "network-shared", "ntf-own"]
)
def test_mixtures_that_lack_a_class(kind):
    sources = make_sources(2, 3, only={0: 0, 1: 1})
    atlas = learn(sources, **KINDS[kind])
    alpha = np.array([[1.0, 0, 0], [0, 1.0, 0], [0.5, 0.5, 0], [0, 0, 1.0], [0.2, 0.3, 0.5]])
    for trust in TRUSTS:
        sol = atlas(alpha, trust=trust)
        assert np.isfinite(sol.w).all()
        assert (
            not any(s.ok for s in sol.status[:2]) and np.isinf(sol.certificate.distance[:2]).all()
        )
        if trust in (None, "corrected"):
            assert sol.status[:2] == (Status.ABSENT_CLASS,) * 2 and all(
                s.ok for s in sol.status[2:]
            )
            assert (sol.models[0].predict(sources[0].X) == 0).all()
    honest(atlas, sources, HYPOTHESIS, alpha[2:], 1e-4)


def test_labels_that_lack_a_class_are_left_out():
    sources = make_sources(2, 3, only={0: 0, 1: 1})
    given = np.concatenate([np.eye(3)[:2].repeat(30, 0), simplex.sample(120, 3)])
    atlas = learn(sources, mixtures=given, n_labels=60, n_calibration=100, method="surface")
    assert 20 < atlas.plan.n_labels < 60 and (atlas.labels.alpha.amax(1) < 1).all()
    with pytest.raises(OptionError, match="model"):
        learn(sources[:2], mixtures=np.eye(2).repeat(40, 0))


def test_sources_that_are_all_alike():
    one = make_sources(2, 1)[0]
    sources = [Domain(f"s{j}", one.X, one.y) for j in range(3)]
    alpha = simplex.sample(10, 3)
    for kind in KINDS:
        atlas = learn(sources, **KINDS[kind])
        sol = honest(atlas, sources, HYPOTHESIS, alpha, 1e-4)
        best = cuvee.solve(sources, HYPOTHESIS, alpha)
        np.testing.assert_allclose(sol.w, best.w, atol=1e-2)
    wide = [
        Domain(s.name, np.c_[s.X, np.random.default_rng(0).normal(size=(50, 40))], s.y)
        for s in sources
    ]
    for kind in ("auto", "surface", "kernel-exact", "network-shared"):
        honest(learn(wide, **KINDS[kind]), wide, HYPOTHESIS, alpha, 1e-4)


def test_labels_that_are_all_zero():
    """w* = 0 everywhere: nothing to divide by."""
    sources = [Domain(s.name, s.X, np.zeros(len(s.X))) for s in make_sources(0, 3)]
    for kind in KINDS:
        atlas = learn(sources, Ridge(0.1), **KINDS[kind])
        sol = honest(atlas, sources, Ridge(0.1), simplex.sample(10, 3), 1e-4)
        np.testing.assert_allclose(sol.w, 0.0, atol=1e-6)


@pytest.mark.parametrize("value", [1e160, 1e300])
def test_a_source_that_overflows(value):
    sources = make_sources(0, 3)
    X = sources[0].X.copy()
    X[0, 0] = value
    with pytest.raises(OptionError, match="model"):
        learn([Domain("bad", X, sources[0].y), *sources[1:]], Ridge(0.1))


@pytest.mark.parametrize("trunk", ["own", "shared"])
@pytest.mark.parametrize("eta", [1e4, 1e30, 1e300])
def test_training_that_diverges_says_so_and_stays_finite(sources, eta, trunk):
    atlas = learn(sources, method="network", width=64, steps=50, trunk=trunk, eta=eta)
    assert atlas.status is Status.DIVERGED
    sol = atlas(ALPHA, trust="predicted")
    best = cuvee.solve(sources, HYPOTHESIS, ALPHA)
    assert np.isfinite(sol.w).all() and relative(sol.w, best.w).max() < 5
    assert set(sol.status) == {Status.OFF_TOLERANCE}
    assert all(s.ok for s in atlas(ALPHA).status)
    assert "diverged" in repr(atlas)


# ---- networks ------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["float64", "float32"])
def net(request):
    module = mlp(3, 3).to(getattr(torch, request.param))
    sources = make_sources(3, 3, rows=20)
    return (
        sources,
        Network(module),
        cuvee.learn(sources, Network(module), method="kernel", n_labels=5, n_calibration=2),
    )


def test_nothing_is_proven_of_a_network(net):
    _, _, atlas = net
    for trust in ("certified", "corrected"):
        with pytest.raises(OptionError, match="network"):
            atlas(simplex.sample(3, 3), trust=trust)
    sol = atlas(simplex.sample(3, 3))
    assert set(sol.status) == {Status.OFF_TOLERANCE} and sol.w.dtype == np.float64
    assert np.isinf(sol.certificate.distance).all() and (sol.passes == 0).all()


def test_own_samples_of_a_network_are_trained(net):
    sources, _, atlas = net
    targets = [
        Domain(f"t{i}", s.X[:6] + 0.1, [0, 1, 2, 0, 1, 2]) for i, s in enumerate(sources[:2])
    ]
    alpha = np.array([[0.2, 0.2, 0.2, 0.4], [0.0, 0.0, 0.0, 1.0]])
    sol = atlas(alpha, targets=targets)
    assert sol.w.shape == atlas(alpha[:, :3] * 0 + 1 / 3).w.shape and sol.w.dtype == np.float64
    assert np.isfinite(sol.w).all() and set(sol.status) <= {Status.TRAINED, Status.STEP_LIMIT}
    assert np.isinf(sol.certificate.distance).all()


def test_a_map_is_no_other_networks(net, tmp_path):
    sources, hypothesis, atlas = net
    atlas.save(tmp_path / "net")
    dtype = next(hypothesis.module.parameters()).dtype
    again = cuvee.load_map(tmp_path / "net", sources, Network(mlp(3, 3).to(dtype)))
    np.testing.assert_array_equal(again(simplex.sample(3, 3)).w, atlas(simplex.sample(3, 3)).w)
    relu = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3)).to(dtype)
    for module in (relu, mlp(3, 3, hidden=5).to(dtype)):
        with pytest.raises(InputError, match="other data or another hypothesis"):
            cuvee.load_map(tmp_path / "net", sources, Network(module))
    with pytest.raises(InputError, match="other data or another hypothesis"):
        cuvee.load_map(tmp_path / "net", sources, Network(mlp(3, 3).to(dtype), l2=0.5))


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
import cuvee
from builders import log_cosh, mlp
from learn_builders import make_sources
print(cuvee.load_map({path!r}, make_sources(0, 3, rows=20), cuvee.Network(mlp(3, 2), loss=log_cosh)).method)
"""


@pytest.mark.slow
def test_a_map_of_a_network_with_its_own_loss_is_read_in_another_process(tmp_path):
    from builders import log_cosh

    path = tmp_path / "net"
    sources = make_sources(0, 3, rows=20)
    atlas = cuvee.learn(
        sources,
        Network(mlp(3, 2), loss=log_cosh),
        method="ntf",
        width=16,
        n_labels=4,
        n_calibration=0,
    )
    atlas.save(path)
    script = SCRIPT.format(tests=str(Path(__file__).parents[1]), path=str(path))
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.strip() == atlas.method


# ---- own samples ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def targets():
    rng = np.random.default_rng(5)
    return [Domain(f"t{i}", rng.normal(size=(6, 3)), [0, 1, 0, 1, 1, 0]) for i in range(3)]


@pytest.mark.parametrize("trust", [None, "corrected"])
@pytest.mark.parametrize("name", ["ridge", "binary"])
def test_own_samples_start_from_the_map_and_are_corrected(name, targets, trust):
    classes, hypothesis = HYPOTHESES[name]
    sources = make_sources(classes, 4)
    problem = Problem(sources, targets)
    alpha = np.array(
        [[0.1, 0.2, 0.3, 0.2, 0.2], [0.0, 0.0, 0.0, 0.0, 1.0], [0.25, 0.25, 0.25, 0.25, 0.0]]
    )
    best = cuvee.solve(problem, hypothesis, alpha, tol=1e-10)
    for atlas, given in (
        (learn(sources, hypothesis), {"targets": targets}),
        (learn(problem, hypothesis), {}),
    ):
        sol = atlas(alpha, trust=trust, tol=1e-5, **given)
        assert set(sol.status) == {Status.CORRECTED} and (sol.passes >= 1).all()
        assert sol.certificate.gradient_norm.max() <= 1e-5 and sol.certificate.certified.all()
        assert (
            np.linalg.norm(sol.w - best.w, axis=1)
            <= sol.certificate.distance + best.certificate.distance
        ).all()
        np.testing.assert_array_equal(sol.alpha, alpha)


def test_own_columns_need_their_targets(atlas, targets):
    alpha = np.full((3, 5), 0.2)
    with pytest.raises(MixtureError, match="0 targets"):
        atlas(alpha)
    with pytest.raises(MixtureError, match="2 targets"):
        atlas(alpha, targets=targets[:2])
    with pytest.raises(DomainError, match="list of domains"):
        atlas(alpha[:1], targets=targets[0])
    with pytest.raises(DomainError, match="features"):
        atlas(alpha[:1], targets=[Domain("t", np.zeros((2, 2)), [0, 1])])
    with pytest.raises(DomainError, match="label"):
        atlas(alpha[:1], targets=[Domain("t", np.zeros((2, 3)), [0, 7])])
    assert atlas(alpha[:0], targets=[]).w.shape == (0, 4)
    with pytest.raises(OptionError, match="5 columns"):
        atlas(ALPHA[:3], targets=targets)
    for trust in ("predicted", "certified"):
        with pytest.raises(OptionError, match="own sample"):
            atlas(alpha, targets=targets, trust=trust)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("kernel", {"degree": 3}),
        ("kernel", {"eta": 1.0, "steps": 3}),
        ("auto", {"order": 2}),
        ("auto", {"trunk": "shared"}),
        ("surface", {"width": 8}),
        ("meta", {"K": 3}),
        ("network", {"solver": "descent"}),
    ],
)
def test_options_that_a_method_has_no_use_for_are_named(sources, method, options):
    with pytest.raises(OptionError, match=next(iter(options))):
        learn(sources, method=method, **options)


def test_estimated_mixtures_with_own_columns_will_do(sources, targets):
    problem = Problem(sources, targets)
    mix = cuvee.estimate(problem, cuvee.Logistic(0.1), method="uniform", own=True)
    assert mix.alpha.shape[1] == problem.n_sources + 1
    with pytest.raises(OptionError, match="equal"):
        cuvee.learn(problem, cuvee.Logistic(0.1), mixtures=mix)
    alpha = np.random.default_rng(0).dirichlet(np.ones(5), size=40)
    several = replace(mix, alpha=alpha)
    atlas = cuvee.learn(
        problem, cuvee.Logistic(0.1), mixtures=several, n_labels=20, n_calibration=0
    )
    np.testing.assert_allclose(atlas.labels.alpha.sum(1).numpy(), 1.0)


def test_solved_means_within_the_tolerance_on_badly_scaled_columns():
    rng = np.random.default_rng(0)
    sources = [
        Domain(f"s{j}", X := 1e5 + 1e4 * rng.normal(size=(60, 3)), X @ rng.normal(size=3))
        for j in range(4)
    ]
    atlas = cuvee.learn(sources, cuvee.Ridge(1e-3), n_labels=24, n_calibration=60)
    for trust in (None, "corrected"):
        sol = atlas(cuvee.simplex.sample(100, 4, seed=5), tol=1e-8, trust=trust)
        beyond = (Status.PREDICTED, Status.ROUNDED)
        good = np.array([s.ok and s not in beyond for s in sol.status])
        assert (sol.certificate.gradient_norm[good] <= 1e-8).all()
        assert {s for s, ok in zip(sol.status, good, strict=True) if not ok} <= {
            Status.ILL_CONDITIONED,
            *beyond,
        }


def test_an_own_sample_of_one_class(atlas):
    sol = atlas([[0.0, 0, 0, 0, 1.0]], targets=[Domain("t", np.ones((3, 3)), [1, 1, 1])])
    assert sol.status == (Status.ABSENT_CLASS,) and np.isfinite(sol.w).all()


# ---- files ---------------------------------------------------------------------------------------


@pytest.fixture
def file(atlas, tmp_path):
    atlas.save(tmp_path / "map")
    return tmp_path / "map"


def test_files_that_are_no_maps(file, sources):
    raw = file.read_bytes()
    folder = file.parent
    for name, content in {
        "text": b"hello, map",
        "empty": b"",
        "pickle": b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00N.",
        **{f"cut at {k}": raw[:k] for k in (7, 100, len(raw) // 2, len(raw) - 1)},
        "longer": raw + b"x",
    }.items():
        (folder / name).write_bytes(content)
        with pytest.raises(InputError, match=r"cannot be read as a cuvee map|is damaged"):
            cuvee.load_map(folder / name, sources, HYPOTHESIS)
    for path in (folder, folder / "nowhere"):
        with pytest.raises(InputError, match="cannot be read as a cuvee map"):
            cuvee.load_map(path, sources, HYPOTHESIS)


HEADERS = {
    "nothing": {},
    "a list": [],
    "a number": 3,
    "another format": {"format": 99, "parts": {}, "notes": {}},
    "no parts": {"format": 3, "parts": {}, "notes": {}},
    "parts in a list": {"format": 3, "parts": [], "notes": {}},
    "a part that is none": {"format": 3, "parts": {"predictor": None}, "notes": {}},
    "an unknown kind": {
        "format": 3,
        "parts": {"predictor": {"kind": "os.system", "numbers": {}}},
        "notes": {},
    },
    "no notes": {"format": 3, "parts": {}, "notes": None},
}


@pytest.mark.parametrize("header", list(HEADERS))
def test_other_safetensors_files(header, tmp_path, sources):
    about = HEADERS[header]
    if isinstance(about, dict) and about.get("format") == 3:
        files.write(tmp_path / "x", {"a": torch.zeros(2)}, about)
    else:
        save_file({"a": torch.zeros(2)}, tmp_path / "x", metadata={"cuvee": json.dumps(about)})
    with pytest.raises(InputError, match=r"cannot be read as a cuvee map|format 99"):
        cuvee.load_map(tmp_path / "x", sources, HYPOTHESIS)
    save_file({"a": torch.zeros(2)}, tmp_path / "y")
    with pytest.raises(InputError, match="cannot be read as a cuvee map"):
        cuvee.load_map(tmp_path / "y", sources, HYPOTHESIS)


CHANGES = {
    "a tensor less": lambda h, t: t.pop("calibration.mean"),
    "a part less": lambda h, t: h["parts"].pop("labels"),
    "another kind": lambda h, t: h["parts"]["predictor"].update(kind="Labels"),
    "an unknown status": lambda h, t: h["notes"].update(status="FINE"),
    "no plan": lambda h, t: h["notes"].update(plan=None),
    "no settings": lambda h, t: h["notes"].pop("settings"),
    "no options": lambda h, t: h["notes"]["settings"].update(options=None),
    "no fingerprint": lambda h, t: h["notes"].pop("fingerprint"),
    "one part too many": lambda h, t: h["parts"].update(bound=h["parts"]["subspace"]),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_files_that_were_tampered_with(change, file, sources):
    with pytest.raises(InputError):
        cuvee.load_map(rewritten(file, CHANGES[change]), sources, HYPOTHESIS)


OTHERS = {
    "rows": lambda s: [*s[:3], Domain("s3", s[3].X + 1e-12, s[3].y)],
    "labels": lambda s: [*s[:3], Domain("s3", s[3].X, 1 - s[3].y)],
    "weights": lambda s: [*s[:3], Domain("s3", s[3].X, s[3].y, weight=np.arange(50) + 1.0)],
    "names": lambda s: [*s[:3], Domain("x", s[3].X, s[3].y)],
    "order": lambda s: s[::-1],
    "fewer": lambda s: s[:3],
    "one": lambda s: s[:1],
    "columns": lambda s: [Domain(d.name, d.X[:, :2], d.y) for d in s],
}


@pytest.mark.parametrize("other", list(OTHERS))
def test_other_data_are_refused(other, file, sources):
    with pytest.raises(InputError, match="other data"):
        cuvee.load_map(file, OTHERS[other](sources), HYPOTHESIS)


@pytest.mark.parametrize(
    "other",
    [Logistic(0.2), Logistic(0.1, intercept=False), Logistic(0.1, radius=1.0), Ridge(0.1)],
    ids=repr,
)
def test_another_hypothesis_is_refused(other, file, sources):
    with pytest.raises(InputError, match="another hypothesis"):
        cuvee.load_map(file, sources, other)


def test_what_is_no_hypothesis_cannot_load(file, sources):
    with pytest.raises(OptionError, match="hypothesis"):
        cuvee.load_map(file, sources, "logistic")
    with pytest.raises(OptionError, match="device"):
        cuvee.load_map(file, sources, HYPOTHESIS, device="nowhere")


def test_a_folder_that_is_not_there(atlas, tmp_path):
    with pytest.raises(InputError, match="folder"):
        atlas.save(tmp_path / "not" / "there")
    assert list(tmp_path.iterdir()) == []


def test_paths_that_are_no_file(atlas, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", "folder", "", "."):
        with pytest.raises(InputError):
            atlas.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["folder"] and not (
        tmp_path / "folder"
    ).is_file()


def test_a_save_that_is_interrupted_leaves_nothing_new(atlas, sources, tmp_path, monkeypatch):
    path = tmp_path / "map"

    def full(path, content):
        path.open("wb").write(b"half of it")
        raise OSError("No space left on device")

    def stopped(*args):
        raise KeyboardInterrupt

    for module, name, broken in ((Path, "write_bytes", full), (os, "replace", stopped)):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, broken)
            with pytest.raises((CuveeError, OSError, KeyboardInterrupt)):
                atlas.save(path)
        assert list(tmp_path.iterdir()) == []
    atlas.save(path)
    before = path.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        with pytest.raises((CuveeError, OSError)):
            atlas.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["map"] and path.read_bytes() == before
    assert cuvee.load_map(str(path), sources, HYPOTHESIS).plan == atlas.plan


@pytest.mark.parametrize(
    "options",
    [
        {"n_labels": np.int64(24)},
        {"seed": np.int32(3)},
        {"tol": np.float32(1e-3)},
        {"level": np.float32(0.9)},
        {"method": "surface", "degree": np.int64(2)},
        {
            "method": "network",
            "steps": np.int64(5),
            "width": np.int64(4),
            "eta": np.float32(0.1),
            "K": np.int64(2),
        },
    ],
    ids=lambda options: ",".join(options),
)
def test_numpy_numbers_as_options_can_be_saved(options, sources, tmp_path):
    atlas = learn(sources, **options)
    atlas.save(tmp_path / "map")
    loaded = cuvee.load_map(tmp_path / "map", sources, HYPOTHESIS)
    np.testing.assert_array_equal(loaded(ALPHA).w, atlas(ALPHA).w)


def test_a_loss_is_known_by_what_it_does(tmp_path):
    """A partial has no name of its own, and two lambdas share theirs."""

    def huber(scores, y, delta):
        away = (scores[0] - y).abs()
        return torch.where(away < delta, 0.5 * away**2, delta * (away - 0.5 * delta))

    sources = make_sources(0, 3, rows=20)
    options = {"method": "ntf", "width": 16, "n_labels": 4, "n_calibration": 0}
    losses = [partial(huber, delta=d) for d in (1.0, 2.0)]
    losses += [lambda s, y: (s[0] - y) ** 2, lambda s, y: (s[0] - y).abs()]
    for loss, other in (losses[:2], losses[2:]):
        cuvee.learn(sources, Network(mlp(3, 1), loss=loss), **options).save(tmp_path / "map")
        assert (
            cuvee.load_map(tmp_path / "map", sources, Network(mlp(3, 1), loss=loss)).n_sources == 3
        )
        with pytest.raises(InputError, match="another hypothesis"):
            cuvee.load_map(tmp_path / "map", sources, Network(mlp(3, 1), loss=other))


def test_labels_of_text_survive_a_file(tmp_path):
    sources = [
        Domain(s.name, s.X, np.array(["no", "yes"], dtype=object)[s.y]) for s in make_sources(2, 3)
    ]
    atlas = learn(sources)
    atlas.save(tmp_path / "map")
    loaded = cuvee.load_map(tmp_path / "map", sources, HYPOTHESIS)
    assert set(loaded(simplex.sample(2, 3)).predict(sources[0].X).ravel()) <= {"no", "yes"}


def test_progress_is_told_and_may_interrupt(sources):
    seen = []
    learn(sources, progress=lambda what, done, total: seen.append((what, done, total)))
    assert len(seen) >= 3 and all(0 <= done <= total for _, done, total in seen)

    def stop(what, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learn(sources, progress=stop)
