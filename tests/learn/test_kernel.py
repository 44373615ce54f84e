"""κ is the kernel it claims to be, its descent is the loop's, and random features lead to it."""

from __future__ import annotations

from math import inf, pi

import numpy as np
import pytest
import torch
from hypothesis.extra.numpy import arrays

from cuvee import simplex
from cuvee.errors import OptionError
from cuvee.learn import kernel
from cuvee.learn.base import Labels
from cuvee.learn.kernel import GRID, KernelPredictor, fit_kernel, fit_ntf, kappa, spectrum, tangent
from hypothesis import given, settings
from hypothesis import strategies as st
from learn_builders import begin, train

TRUNKS = ["own", "shared"]
vectors = st.tuples(st.integers(1, 6), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-10, 10).map(lambda x: round(x, 3)))
)


def labels(n: int, n_sources: int = 4, n_outputs: int = 3, seed: int = 0) -> Labels:
    alpha = torch.as_tensor(simplex.sample(n, n_sources, seed))
    rng = np.random.default_rng(7)
    return Labels(
        alpha, torch.sin(2 * alpha @ torch.as_tensor(rng.normal(size=(n_sources, n_outputs)))) + 0.5
    )


@given(vectors)
@settings(deadline=None, max_examples=60)
def test_kappa_is_a_bounded_kernel(rows):
    a = torch.as_tensor(rows)
    K, norms = kappa(a, a), torch.linalg.vector_norm(a, dim=1)
    size = float(norms.max()) ** 2 + 1e-300
    torch.testing.assert_close(K, K.T, rtol=0, atol=1e-13 * size)
    assert torch.linalg.eigvalsh(K)[0] >= -1e-12 * size
    assert (norms[:, None] * norms / 2 * (1 + 1e-12) >= K).all()
    torch.testing.assert_close(K.diagonal(), norms**2 / 2, rtol=1e-13, atol=0)


@given(vectors, st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
@settings(deadline=None, max_examples=60)
def test_kappa_scales_with_its_arguments(rows, s, t):
    a = torch.as_tensor(rows)
    size = float(a.square().sum(1).max()) * s * t
    torch.testing.assert_close(
        kappa(s * a, t * a), s * t * kappa(a, a), rtol=0, atol=1e-13 * size + 1e-300
    )


def test_kappa_is_the_closed_form_and_the_integral():
    rng = np.random.default_rng(0)
    a, b = (torch.as_tensor(rng.normal(size=(k, 3))) for k in (5, 4))
    norm = torch.linalg.vector_norm
    angle = torch.arccos(a @ b.T / (norm(a, dim=1)[:, None] * norm(b, dim=1)))
    torch.testing.assert_close(kappa(a, b), (a @ b.T) * (pi - angle) / (2 * pi), rtol=0, atol=1e-13)
    u = torch.as_tensor(rng.normal(size=(400_000, 3)))
    both = (a @ u.T > 0).double() @ (b @ u.T > 0).double().T / len(u)
    torch.testing.assert_close(kappa(a, b), (a @ b.T) * both, rtol=0, atol=0.02)


def test_angles_too_small_for_arccos_are_seen():
    a = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    b = a + torch.tensor([[1e-10, -1e-10]])
    loss = 0.5 * (a @ b.T) - kappa(a, b)
    assert float(loss) == pytest.approx(0.5 * 2e-10 / (2 * pi), rel=1e-4)


def test_kernel_matrices_of_random_features_lead_to_kappa():
    alpha = labels(15).alpha
    K, away = kappa(alpha, alpha), []
    widths = [64, 256, 1024, 4096]
    for m in widths:
        U = begin(4, 20, 0, width=m).U[:, : m // 2]
        away.append(float((tangent(U, alpha, alpha) - K).square().mean().sqrt()))
    assert -0.6 < np.polyfit(np.log(widths), np.log(away), 1)[0] < -0.4, away


@pytest.mark.parametrize("layers", [1, 3])
def test_the_filter_is_the_loop(layers):
    known = labels(25)
    U = begin(4, 3, 0, width=64).U[:layers, :32]
    K = (
        tangent(U, known.alpha, known.alpha)
        if layers > 1
        else kappa(known.alpha, known.alpha)[None]
    )
    found, n = spectrum(K, known.w), 25
    w = known.w.view(n, layers, -1).transpose(0, 1)
    for eta in (None, 0.3 * n / float(found.values.amax())):
        rate = n / float(found.values.amax()) if eta is None else eta
        c = torch.zeros_like(w)
        for t in range(1, 301):
            c = c - rate / n * (K @ c - w)
            if t in (1, 2, 17, 300):
                torch.testing.assert_close(
                    K @ found.coefficients(t, eta), K @ c, rtol=0, atol=1e-10
                )
                if layers == 1:
                    torch.testing.assert_close(found.coefficients(t, eta), c, rtol=0, atol=1e-8)


def test_descent_of_the_network_is_descent_of_its_features_at_first():
    """One step from h = 0 changes h by the tangent kernel, up to the gates that flip."""
    known, unseen = labels(10), labels(30, seed=1).alpha
    start = begin(4, 3, 10, width=4096)
    U = start.U[:, :2048]
    run = train(known.alpha, known.w, width=4096, steps=1, eta=0.1)
    linear = tangent(U, unseen, known.alpha) @ (0.1 / 10 * known.w.T[:, :, None])
    torch.testing.assert_close(run.predictor(unseen), linear[:, :, 0].T, rtol=0, atol=2e-4)
    assert linear.abs().max() > 5e-3


def fits(held_out=None, solver="exact"):
    yield "kernel", lambda known: fit_kernel(known, held_out, solver)
    for trunk in TRUNKS:
        yield (
            trunk,
            lambda known, trunk=trunk: fit_ntf(
                known, held_out, width=256, trunk=trunk, solver=solver
            ),
        )


def test_exact_fits_pass_through_the_labels_and_generalise():
    known, unseen = labels(60), labels(100, seed=1)
    for name, fit in fits():
        predictor = fit(known)
        assert predictor.steps == inf
        torch.testing.assert_close(predictor(known.alpha), known.w, rtol=0, atol=1e-8, msg=name)
        error = (predictor(unseen.alpha) - unseen.w).square().mean() / unseen.w.square().mean()
        assert error < 5e-3, (name, error)


def test_a_fit_is_its_own_kernel_expansion():
    """θ = Φc: the features and the kernel say the same."""
    known, unseen = labels(20), labels(30, seed=1).alpha
    for trunk in TRUNKS:
        predictor = fit_ntf(known, width=64, trunk=trunk, seed=5)
        c = spectrum(tangent(predictor.U, known.alpha, known.alpha), known.w).coefficients(inf)
        slow = tangent(predictor.U, unseen, known.alpha) @ c
        torch.testing.assert_close(
            predictor(unseen), slow.transpose(0, 1).flatten(1), rtol=1e-8, atol=1e-8
        )


def test_wide_features_do_as_the_kernel_does():
    known, unseen = labels(20), labels(50, seed=1).alpha
    limit = fit_kernel(known)(unseen)
    for trunk in TRUNKS:
        away = [
            np.mean(
                [
                    float(
                        (fit_ntf(known, width=m, trunk=trunk, seed=s)(unseen) - limit).abs().mean()
                    )
                    for s in range(4)
                ]
            )
            for m in (256, 4096)
        ]
        assert away[1] < 0.5 * away[0], (trunk, away)


def test_duplicates_and_single_labels_are_fitted():
    known = labels(12)
    twice = Labels(known.alpha.repeat(2, 1), torch.cat([known.w + 0.1, known.w - 0.1]))
    same = Labels(known.alpha[:1].repeat(7, 1), known.w[:1].repeat(7, 1))
    for solver in ("exact", "descent"):
        for name, fit in fits(solver=solver):
            once, both = fit(known)(known.alpha), fit(twice)(known.alpha)
            if solver == "exact":
                torch.testing.assert_close(both, known.w, rtol=0, atol=1e-8, msg=name)
                torch.testing.assert_close(both, once, rtol=0, atol=1e-8, msg=name)
            assert both.isfinite().all()
            for few in (same, known[:1], known[:3]):
                torch.testing.assert_close(fit(few)(few.alpha), few.w, rtol=0, atol=1e-8, msg=name)


def test_fewer_features_than_labels_is_least_squares():
    known = labels(80)
    predictor = fit_ntf(known, width=4, trunk="shared")
    on = kernel.gates(predictor.U, known.alpha)[0]  # (n, m/2)
    features = (on[:, :, None] * known.alpha[:, None]).flatten(1)
    slow = features @ torch.linalg.lstsq(features, known.w, driver="gelsd").solution
    torch.testing.assert_close(predictor(known.alpha), slow, rtol=0, atol=1e-8)


def test_descent_stops_where_held_out_labels_say():
    clean, held_out = labels(60), labels(200, seed=1)
    noise = torch.as_tensor(np.random.default_rng(0).normal(size=(60, 3)))
    noisy = Labels(clean.alpha, clean.w + 0.5 * noise)

    def error(predictor):
        return float((predictor(held_out.alpha) - held_out.w).square().sum())

    for (name, stopped), (_, exact) in zip(fits(held_out, "descent"), fits(), strict=True):
        best = stopped(noisy)
        assert best.steps in GRID and best.steps < 1000, name
        assert error(best) < 0.5 * error(exact(noisy)), name
    found = spectrum(kappa(noisy.alpha, noisy.alpha)[None], noisy.w)
    errors = [error(KernelPredictor(noisy.alpha, found.coefficients(t)[0])) for t in GRID]
    assert error(fit_kernel(noisy, held_out, "descent")) == pytest.approx(min(errors), rel=1e-9)
    assert error(fit_kernel(noisy, solver="descent")) < 0.5 * error(fit_kernel(noisy))
    assert fit_kernel(clean, held_out, "descent").steps > 1000


def test_predictions_do_not_depend_on_the_rest_of_the_batch(monkeypatch):
    known = labels(30)
    for name, fit in fits():
        predictor = fit(known)
        with monkeypatch.context() as few:
            few.setattr(kernel, "ENTRIES", 7 * 30)
            parts = predictor(known.alpha)
        torch.testing.assert_close(parts, predictor(known.alpha), rtol=0, atol=1e-9, msg=name)
        assert predictor(known.alpha[:0]).shape == (0, 3) and parts.dtype == torch.float64
        assert predictor(known.alpha.float()).dtype == torch.float64


def test_unknown_choices_are_named():
    with pytest.raises(OptionError, match="solver"):
        fit_kernel(labels(5), solver="fast")
    with pytest.raises(OptionError, match="trunk"):
        fit_ntf(labels(5), trunk="none")
