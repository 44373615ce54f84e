"""What every map promises, whatever it was learnt by and for: one suite for all kinds and
hypotheses.
"""

from __future__ import annotations

import pickle
from dataclasses import fields
from functools import cache, partial
from itertools import product

import numpy as np
import pytest
import torch
from safetensors import safe_open

import cuvee
from cuvee import ModelMap, Status, erm, simplex
from learn_builders import HYPOTHESES, KINDS, make_sources, relative
from rounding import assert_rounded

pytestmark = pytest.mark.sample(6)

CONVEX = [*product(("ridge", "binary", "softmax"), KINDS)]
NETS = [
    ("net", kind)
    for kind in ("auto", "network-own", "network-shared", "ntf-shared", "kernel-exact", "meta")
]
EVERY = CONVEX + NETS
N, TOL = 4, 1e-4
UNSEEN = np.concatenate([simplex.sample(30, N, 99), np.eye(N)])

# How near a prediction at a label comes to it: median of ‖ŵ − w‖/‖w‖.
AT_LABELS = {
    "auto": 0.1,
    "network-own": 0.6,
    "network-shared": 0.4,
    "ntf-own": 1e-6,
    "ntf-shared": 1e-6,
    "kernel-exact": 1e-6,
    "kernel-descent": 0.05,
    "surface-degree-2": 0.1,
    "surface-order-1": 1e-9,
    "surface-order-2": 1e-9,
    "surface": 0.01,
    "meta": 0.3,
}


@cache
def sources(name: str):
    return make_sources(HYPOTHESES[name][0], N, rows=24 if name == "net" else 50)


def learnt(name: str, kind: str, seed: int = 0) -> ModelMap:
    net = name == "net"
    return cuvee.learn(
        sources(name),
        HYPOTHESES[name][1],
        n_labels=6 if net else 32,
        n_calibration=4 if net else 80,
        tol=TOL,
        seed=seed,
        **KINDS[kind],
    )


@cache
def atlas_of(name: str, kind: str) -> ModelMap:
    return learnt(name, kind)


@cache
def best(name: str):
    """w* at UNSEEN."""
    return cuvee.solve(sources(name), HYPOTHESES[name][1], UNSEEN, tol=1e-11)


def rounding(atlas: ModelMap) -> float:
    """What predictions may change by, relative, when they are asked for in other company."""
    parts = (getattr(atlas.predictor, f.name) for f in fields(atlas.predictor))
    single = any(isinstance(part, torch.Tensor) and part.dtype == torch.float32 for part in parts)
    return 5e-6 if single else 1e-9


def spent(atlas: ModelMap) -> int:
    """Passes that a prediction itself takes."""
    return 5 if atlas.settings.method == "meta" else 0


def true_gradient(name: str, w):
    return cuvee.certify(sources(name), HYPOTHESES[name][1], UNSEEN, w).gradient_norm


def seen(name: str, w):
    """What can be told of w: softmax does not notice what all intercepts share."""
    if name != "softmax":
        return w
    table = w.reshape(len(w), 3, -1).copy()
    table[..., -1] -= table[..., -1].mean(1, keepdims=True)
    return table


every = pytest.mark.parametrize(("name", "kind"), EVERY)
convex = pytest.mark.parametrize(("name", "kind"), CONVEX)


@every
def test_shapes_types_and_finite_parameters(name, kind):
    atlas = atlas_of(name, kind)
    P = HYPOTHESES[name][1].bind(cuvee.Problem(sources(name)).facts).n_params
    for trust in (
        (None, "predicted") if name == "net" else (None, "predicted", "certified", "corrected")
    ):
        sol = atlas(UNSEEN, trust=trust)
        M = len(UNSEEN)
        assert isinstance(sol, cuvee.Solution)
        assert sol.w.shape == (M, P) and sol.w.dtype == np.float64 and sol.w.flags.c_contiguous
        np.testing.assert_array_equal(sol.alpha, UNSEEN)
        assert len(sol.status) == M and all(isinstance(s, Status) for s in sol.status)
        assert sol.passes.shape == (M,) and sol.passes.dtype == np.int64
        bound = sol.certificate
        for field in (bound.distance, bound.excess_risk, bound.gradient_norm):
            assert field.shape == (M,) and field.dtype == np.float64
            assert not np.isnan(field).any() and (field >= 0).all()
        assert bound.calibrated.shape == (M,) and bound.calibrated.dtype == bool
        assert np.isfinite(sol.w).all()
        assert np.isfinite(sol.predict(np.ones((2, 3))).astype(float)).all()
        assert repr(sol) and bound.rests_on
    assert (
        atlas.n_sources == N
        and atlas.tol == TOL
        and atlas.status in (Status.TRAINED, Status.DIVERGED)
    )


@every
def test_the_plan_says_what_was_done(name, kind):
    atlas = atlas_of(name, kind)
    plan = atlas.plan
    assert plan.method == atlas.method and plan.method in plan.why
    assert plan.n_labels == len(atlas.labels) and str(plan.n_labels) in plan.why
    assert set(plan.seconds) == {"labels", "fit", "calibration"} and min(plan.seconds.values()) >= 0
    assert plan.passes >= plan.n_labels + plan.n_calibration
    assert plan.method in [t.name for t in plan.trials] and str(plan) and not plan.saved
    if atlas.settings.method in ("auto", "surface", "kernel", "ntf"):
        chosen = next(t for t in plan.trials if t.name == plan.method)
        assert chosen.gradient == min(t.gradient for t in plan.trials)
        assert np.isfinite(chosen.gradient)


@pytest.mark.parametrize(("name", "kind"), [*CONVEX, ("net", "network-shared"), ("net", "meta")])
def test_the_same_seed_gives_the_same_bits(name, kind):
    first, again = atlas_of(name, kind), learnt(name, kind)
    a, b = (m(UNSEEN, trust="predicted") for m in (first, again))
    np.testing.assert_array_equal(a.w, b.w)
    np.testing.assert_array_equal(a.certificate.gradient_norm, b.certificate.gradient_norm)
    assert first.method == again.method and a.status == b.status
    if name != "net":
        other = learnt(name, kind, seed=1)
        assert not torch.equal(other.labels.alpha, first.labels.alpha)
        if (name, kind) != ("ridge", "auto"):  # exact, wherever it was learnt
            assert (other(UNSEEN, trust="predicted").w != a.w).any()


@every
def test_a_batch_is_its_rows(name, kind):
    atlas = atlas_of(name, kind)
    whole = atlas(UNSEEN, trust="predicted")
    scale = np.abs(whole.w).max()
    order = np.random.default_rng(0).permutation(len(UNSEEN))
    permuted = atlas(UNSEEN[order], trust="predicted")
    alone = [atlas(row[None], trust="predicted") for row in UNSEEN]
    for other in (permuted.w[np.argsort(order)], np.concatenate([s.w for s in alone])):
        np.testing.assert_allclose(other, whole.w, rtol=0, atol=rounding(atlas) * scale)
    bounds = whole.certificate.gradient_norm
    for other in (
        permuted.certificate.gradient_norm[np.argsort(order)],
        np.concatenate([s.certificate.gradient_norm for s in alone]),
    ):
        np.testing.assert_allclose(other, bounds, rtol=1e-9)


@convex
def test_corrections_do_not_depend_on_the_rest_of_the_batch(name, kind):
    atlas = atlas_of(name, kind)
    whole = atlas(UNSEEN[:10], trust="corrected", tol=1e-8)
    alone = [atlas(row[None], trust="corrected", tol=1e-8) for row in UNSEEN[:10]]
    away = np.linalg.norm(whole.w - np.concatenate([s.w for s in alone]), axis=1)
    allowed = whole.certificate.distance + np.concatenate([s.certificate.distance for s in alone])
    assert (away <= allowed).all()


@every
def test_no_mixtures_give_no_models(name, kind):
    atlas = atlas_of(name, kind)
    for trust in (
        (None, "predicted") if name == "net" else (None, "predicted", "certified", "corrected")
    ):
        sol = atlas(np.zeros((0, N)), trust=trust)
        assert sol.w.shape == (0, atlas.labels.w.shape[1]) and sol.w.dtype == np.float64
        assert sol.status == () and len(sol.certificate) == 0 and sol.passes.shape == (0,)
        assert sol.raise_for_status() is sol and "nothing" in repr(sol)


@every
def test_saved_and_loaded_it_says_the_same_bits(name, kind, tmp_path, monkeypatch):
    atlas, hypothesis = atlas_of(name, kind), HYPOTHESES[name][1]
    path = tmp_path / "atlas.safetensors"
    atlas.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["atlas.safetensors"]

    def never(*args, **options):
        raise AssertionError("unpickled")

    for module, loader in (
        (pickle, "load"),
        (pickle, "loads"),
        (pickle, "Unpickler"),
        (torch, "load"),
    ):
        monkeypatch.setattr(module, loader, never)
    with safe_open(path, framework="np") as file:
        parts = {key.split(".")[0] for key in file.keys()}  # noqa: SIM118
        assert parts <= {"predictor", "subspace", "calibration", "labels"}
    loaded = cuvee.load_map(path, sources(name), hypothesis)
    for trust in (None, "predicted"):
        a, b = atlas(UNSEEN, trust=trust), loaded(UNSEEN, trust=trust)
        np.testing.assert_array_equal(a.w, b.w)
        for field in ("distance", "excess_risk", "gradient_norm", "calibrated"):
            np.testing.assert_array_equal(
                getattr(a.certificate, field), getattr(b.certificate, field)
            )
        assert a.status == b.status and (a.passes == b.passes).all()
        assert a.certificate.rests_on == b.certificate.rests_on
    assert loaded.plan == atlas.plan or "nan" in str(atlas.plan)
    assert (
        str(loaded.plan) == str(atlas.plan)
        and loaded.status is atlas.status
        and loaded.tol == atlas.tol
    )
    assert torch.equal(loaded.labels.alpha, atlas.labels.alpha) and torch.equal(
        loaded.labels.w, atlas.labels.w
    )


@every
def test_at_a_label_it_says_about_that_label(name, kind):
    atlas = atlas_of(name, kind)
    sol = atlas(atlas.labels.alpha.numpy(), trust="predicted")
    away = relative(sol.w, atlas.labels.w.numpy())
    if name == "net" and kind in ("auto", "meta", "network-own", "network-shared"):
        assert np.median(away) < 1.5  # six labels, each trained from its own initialisation
        return
    assert np.median(away) <= AT_LABELS[kind]
    if AT_LABELS[kind] <= 1e-6:
        assert away.max() <= 10 * AT_LABELS[kind]


@convex
def test_labels_are_solved(name, kind):
    atlas = atlas_of(name, kind)
    bound = cuvee.certify(
        sources(name), HYPOTHESES[name][1], atlas.labels.alpha.numpy(), atlas.labels.w.numpy()
    )
    assert bound.gradient_norm.max() <= 1e-3 * TOL


# ---- trust ---------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("tol", [1e-1, 1e-4])
def test_predicted_rows_are_within_what_was_calibrated_or_say_so(name, kind, tol):
    atlas = atlas_of(name, kind)
    sol = atlas(UNSEEN, trust="predicted", tol=tol)
    bound = sol.certificate
    assert bound.calibrated.all() and not bound.certified.any() and "calibrated" in bound.rests_on
    assert (sol.passes == spent(atlas)).all()
    for s, g in zip(sol.status, bound.gradient_norm, strict=True):
        assert s in (Status.PREDICTED, Status.OFF_TOLERANCE)
        assert g <= tol or s is Status.OFF_TOLERANCE
    if name == "net":  # four mixtures calibrate nothing
        assert set(sol.status) == {Status.OFF_TOLERANCE}


@convex
@pytest.mark.parametrize("tol", [1e-1, 1e-4])
def test_certified_rows_are_proven_in_one_pass(name, kind, tol):
    atlas = atlas_of(name, kind)
    sol = atlas(UNSEEN, trust="certified", tol=tol)
    bound, w = sol.certificate, sol.w
    np.testing.assert_allclose(bound.gradient_norm, true_gradient(name, w), rtol=1e-9, atol=1e-13)
    assert (sol.passes == 1 + spent(atlas)).all() and not bound.calibrated.any()
    away = np.linalg.norm(w - best(name).w, axis=1)
    assert (away <= bound.distance + best(name).certificate.distance).all()
    for s, g, distance in zip(sol.status, bound.gradient_norm, bound.distance, strict=True):
        assert s in (Status.CERTIFIED, Status.OFF_TOLERANCE)
        assert (s is Status.CERTIFIED) == (g <= tol and np.isfinite(distance))
    predicted = atlas(UNSEEN, trust="predicted", tol=tol)
    np.testing.assert_allclose(seen(name, w), seen(name, predicted.w), rtol=1e-9, atol=1e-9)


@convex
@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_corrected_rows_agree_with_the_solver(name, kind, tol):
    atlas = atlas_of(name, kind)
    sol = atlas(UNSEEN, trust="corrected", tol=tol)
    assert sol.raise_for_status() is sol
    assert set(sol.status) <= {Status.CERTIFIED, Status.CORRECTED, Status.SOLVED}
    assert true_gradient(name, sol.w).max() <= tol * (1 + 1e-6)
    assert sol.certificate.certified.all() and not sol.certificate.calibrated.any()
    away = np.linalg.norm(sol.w - best(name).w, axis=1)
    assert (away <= sol.certificate.distance + best(name).certificate.distance).all()
    assert (sol.passes >= 1 + spent(atlas)).all()
    seen = np.array([s is Status.CERTIFIED for s in sol.status])
    assert (sol.passes[seen] == 1 + spent(atlas)).all() and (
        sol.passes[~seen] > 1 + spent(atlas)
    ).all()


@convex
@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_by_default_what_is_not_predicted_is_corrected(name, kind, tol):
    atlas = atlas_of(name, kind)
    sol, predicted = atlas(UNSEEN, tol=tol), atlas(UNSEEN, trust="predicted", tol=tol)
    assert all(s.ok for s in sol.status) and Status.OFF_TOLERANCE not in sol.status
    trusted = np.array([s is Status.PREDICTED for s in predicted.status])
    assert [s is Status.PREDICTED for s in sol.status] == trusted.tolist()
    np.testing.assert_array_equal(sol.certificate.calibrated, trusted)
    assert_rounded(sol.w[trusted], predicted.w[trusted], rounding(atlas))
    assert (sol.passes[trusted] == spent(atlas)).all() and (
        sol.passes[~trusted] > spent(atlas)
    ).all()
    assert (true_gradient(name, sol.w)[~trusted] <= tol * (1 + 1e-6)).all()


@pytest.mark.parametrize("kind", ["auto", "surface", "kernel-exact"])
@pytest.mark.parametrize("name", ["ridge", "binary", "softmax"])
def test_a_ball_is_kept(name, kind):
    bounded = type(HYPOTHESES[name][1])(0.1, radius=0.5)
    atlas = cuvee.learn(
        sources(name), bounded, n_labels=24, n_calibration=60, tol=TOL, **KINDS[kind]
    )
    for trust in ("predicted", "certified", "corrected"):
        sol = atlas(UNSEEN, trust=trust)
        assert (np.linalg.norm(sol.w, axis=1) <= 0.5 * (1 + 1e-9)).all()
    assert all(s.ok for s in sol.status)
    found = cuvee.certify(sources(name), bounded, UNSEEN, sol.w)
    assert found.gradient_norm.max() <= TOL * (1 + 1e-6)


@pytest.mark.parametrize("name", ["ridge", "binary", "softmax"])
@pytest.mark.parametrize("radius", [None, 0.5])
def test_meta_is_five_steps_of_descent_from_one_start(name, radius):
    """Each mixture with its own γ = 1/Σ_j α_j L_j: with the largest steps that are safe, none runs
    away.
    """
    hypothesis = type(HYPOTHESES[name][1])(0.1, radius=radius)
    atlas = cuvee.learn(sources(name), hypothesis, method="meta", n_labels=16, n_calibration=0)
    problem = cuvee.Problem(sources(name))
    space = hypothesis.bind(problem.facts)
    plain = partial(erm.descent.gradient, erm.components(problem, space))
    alpha = torch.as_tensor(UNSEEN)
    start = atlas.predictor.w
    L = erm.descent.smoothness(
        plain, space, torch.zeros(N, len(start), dtype=torch.float64), torch.eye(N)
    )
    wanted = erm.descent.gd(
        plain, space, start.expand(len(alpha), -1), alpha, 5, 1.0 / (alpha @ L.double())
    )[0]
    found = atlas(UNSEEN, trust="predicted").w
    np.testing.assert_allclose(seen(name, found), seen(name, wanted.numpy()), rtol=0, atol=1e-9)
    exact = cuvee.solve(sources(name), hypothesis, UNSEEN, tol=1e-10).w
    before, after = (
        np.linalg.norm(seen(name, w - exact).reshape(len(exact), -1), axis=1)
        for w in (start.numpy(), found)
    )
    assert (after < before).all()


def test_auto_is_exact_for_ridge():
    sol = atlas_of("ridge", "auto")(UNSEEN, trust="predicted")
    np.testing.assert_allclose(sol.w, best("ridge").w, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["binary", "softmax"])
def test_auto_is_no_worse_than_the_best_surface(name):
    """Errors by ‖∇‖∞ on unseen mixtures, at the 90th percentile; twice as large passes
    as no worse.
    """
    few, hypothesis = UNSEEN[:30], HYPOTHESES[name][1]
    size = {}
    for kind in ("auto", "surface"):
        w = atlas_of(name, kind)(few, trust="predicted").w
        size[kind] = np.quantile(
            cuvee.certify(sources(name), hypothesis, few, w).gradient_norm, 0.9
        )
    assert size["auto"] <= max(2 * size["surface"], TOL)


@every
def test_predict_takes_arrays(name, kind):
    atlas = atlas_of(name, kind)
    w = atlas(UNSEEN, trust="predicted").w
    for given in (UNSEEN, np.asarray(UNSEEN).tolist(), torch.as_tensor(UNSEEN)):
        found = atlas.predict(given)
        assert isinstance(found, np.ndarray)
        assert_rounded(found, w)
    with pytest.raises(cuvee.MixtureError):
        atlas.predict(np.ones((2, atlas.n_sources)))
