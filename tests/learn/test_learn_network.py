"""Algorithm 2: the update is the gradient, h starts at exactly 0, labels contract, and width leads
to the kernel.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch

import cuvee
from builders import make_problem
from cuvee import Logistic, Ridge, erm, simplex
from cuvee.erm import descent
from cuvee.learn import network
from cuvee.learn.base import Labels
from cuvee.learn.kernel import KernelPredictor, kappa, spectrum
from cuvee.learn.network import NetworkPredictor, gradient, init, largest_rate, risk, step
from learn_builders import begin, train

TRUNKS = ["own", "shared"]


def mixtures(n: int, n_sources: int = 4, seed: int = 0) -> torch.Tensor:
    return torch.as_tensor(simplex.sample(n, n_sources, seed))


def smooth_map(alpha: torch.Tensor, n_outputs: int = 3) -> torch.Tensor:
    rng = np.random.default_rng(7)
    inner, shift = (
        torch.as_tensor(rng.normal(size=s)) for s in ((alpha.shape[1], n_outputs), (n_outputs,))
    )
    return torch.sin(2 * alpha @ inner) + shift


def slow_outputs(U, a, alpha):
    """h (n, P), an output at a time, as the paper writes it."""
    layers = U if len(U) == len(a) else U.expand(len(a), -1, -1)
    return torch.stack(
        [(alpha @ U_k.T).relu() @ a_k for U_k, a_k in zip(layers, a, strict=True)], dim=1
    )


@pytest.mark.parametrize("trunk", TRUNKS)
@pytest.mark.parametrize("block", [network.BLOCK, 16])
def test_the_update_is_the_gradient_of_the_loss(trunk, block, monkeypatch):
    monkeypatch.setattr(network, "BLOCK", block)
    alpha = mixtures(9)
    w = smooth_map(alpha)
    state = init(4, w, width=10, trunk=trunk)
    U = (
        state.U + torch.randn(state.U.shape, generator=torch.Generator().manual_seed(1))
    ).requires_grad_()
    h = slow_outputs(U, state.a, alpha)
    expected = torch.autograd.grad((h - w).square().sum() / (2 * len(w)), U)[0]
    assert expected.abs().max() > 0.01
    torch.testing.assert_close(
        gradient(U.detach(), state.a, alpha, w), expected, rtol=0, atol=1e-12
    )
    torch.testing.assert_close(
        NetworkPredictor(U.detach(), state.a)(alpha), h.detach(), rtol=0, atol=1e-12
    )
    moved = step(network.State(U.detach(), state.a, w), alpha, 0.3, lambda labels: labels / 2)
    torch.testing.assert_close(moved.U, U.detach() - 0.3 * expected, rtol=0, atol=1e-12)
    assert torch.equal(moved.w, w / 2)


@pytest.mark.parametrize("trunk", TRUNKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [2, 6, 130, 1000])
def test_it_starts_at_exactly_zero(trunk, dtype, width):
    for seed in range(5):
        state = begin(7, 5, 0, width=width, trunk=trunk, seed=seed, dtype=dtype)
        h = NetworkPredictor(state.U, state.a)
        for alpha in (mixtures(37, 7, seed), torch.eye(7), 1e5 * mixtures(3, 7, seed) - 1e4):
            out = h(alpha)
            assert out.shape == (len(alpha), 5) and out.dtype == torch.float64
            assert bool((out == 0.0).all())


def test_the_start_is_the_papers():
    for trunk, layers in (("own", 5), ("shared", 1)):
        state = begin(3, 5, 8, width=6, trunk=trunk)
        assert (
            state.U.shape == (layers, 6, 3) and state.a.shape == (5, 6) and state.w.shape == (8, 5)
        )
        assert torch.equal(state.U[:, :3], state.U[:, 3:]) and torch.equal(
            state.a[:, :3], -state.a[:, 3:]
        )
        torch.testing.assert_close(state.a.abs(), torch.full((5, 6), 6**-0.5, dtype=torch.float64))
        assert not state.w.any()


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize(
    ("classes", "hypothesis"),
    [(0, Ridge(0.3, intercept=False)), (2, Logistic(0.1, intercept=False))],
)
def test_labels_contract_at_the_rate_of_the_proposition(classes, hypothesis, K):
    """‖w_i^t − w*_i‖² ≤ (1 − μγ)^{Kt} D, and a fortiori with the paper's exponent t."""
    problem = make_problem((12, 20, 9), (), classes=classes)
    alpha = mixtures(20, 3)
    space = hypothesis.bind(problem.facts)
    plain = partial(descent.gradient, erm.components(problem, space))
    w0 = torch.zeros(20, space.n_params, dtype=torch.float64)
    gamma = 1.0 / descent.smoothness(plain, space, w0, alpha)
    best = torch.as_tensor(cuvee.solve(problem, hypothesis, alpha.numpy(), tol=1e-11).w)
    history = [w0]

    def refine(w: torch.Tensor) -> torch.Tensor:
        history.append(descent.gd(plain, space, w, alpha, K, gamma)[0])
        return history[-1]

    found = train(alpha, w0, refine=refine, width=32, steps=400, patience=400)
    distance = torch.stack([(w - best).square().sum(-1) for w in history])  # (t, n)
    power = K * torch.arange(len(history))[:, None]
    mu = space.l2
    assert 0.02 < float((mu * gamma).max()) < 1
    assert (distance <= (1 - mu * gamma) ** power * distance[0] * (1 + 1e-9) + 1e-18).all()
    assert torch.equal(found.w, history[-1]) and not found.diverged
    assert len(history) < 400, "labels at rest are refined no more"
    torch.testing.assert_close(found.w, best, rtol=0, atol=1e-6)
    assert risk(found.predictor, Labels(alpha, best)) < 0.02 * best.square().sum(-1).mean()


def test_training_from_moving_labels_ends_where_solved_ones_lead():
    alpha, solved = mixtures(16), smooth_map(mixtures(16))
    options = {"width": 64, "steps": 1500, "patience": 1500}
    moving = train(
        alpha, torch.zeros_like(solved), refine=lambda w: w + 0.5 * (solved - w), **options
    )
    fixed = train(alpha, solved, **options)
    torch.testing.assert_close(moving.w, solved, rtol=0, atol=1e-7)
    unseen = mixtures(50, seed=1)
    away = (moving.predictor(unseen) - fixed.predictor(unseen)).square().mean()
    assert away < 1e-3 * fixed.predictor(unseen).square().mean()


@pytest.mark.parametrize("trunk", TRUNKS)
def test_wide_networks_do_as_the_kernel_does(trunk):
    """After the same number of the same steps; the distance falls like 1/√m."""
    alpha, unseen, steps = mixtures(12, 3), mixtures(40, 3, seed=1), 30
    w = smooth_map(alpha, 2)
    found = spectrum(kappa(alpha, alpha)[None], w)
    eta = 12 / float(found.values.amax())
    limit = KernelPredictor(alpha, found.coefficients(steps, eta)[0])(unseen)

    def distance(m: int, seed: int) -> float:
        run = train(alpha, w, width=m, steps=steps, eta=eta, trunk=trunk, seed=seed, patience=steps)
        assert run.steps == steps
        return float(
            torch.linalg.vector_norm(run.predictor(unseen) - limit)
            / torch.linalg.vector_norm(limit)
        )

    widths = [64, 256, 1024, 4096]
    away = [np.mean([distance(m, seed) for seed in range(8)]) for m in widths]
    assert all(after < 0.85 * before for before, after in pairwise(away)) and away[-1] < 0.02, away
    assert -0.65 < np.polyfit(np.log(widths), np.log(away), 1)[0] < -0.3, away


@pytest.mark.parametrize("trunk", TRUNKS)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_the_default_rate_is_stable_and_near_the_limit(trunk, scale):
    alpha = mixtures(30)
    w = scale * smooth_map(alpha)
    for width in (2, 64):
        run = train(alpha, w, width=width, steps=200, trunk=trunk, seed=3)
        assert not run.diverged
        assert run.trace[-1, 1] <= run.trace[0, 1]
    state = begin(4, 3, 30, width=256, trunk=trunk)
    top = torch.linalg.eigvalsh(kappa(alpha, alpha))[-1] / 30
    assert 0.2 / top < largest_rate(state.a, alpha, len(state.U)) < 2 / top


@pytest.mark.parametrize("trunk", TRUNKS)
@pytest.mark.parametrize("eta", [1e3, 1e30])
@pytest.mark.parametrize("with_held_out", [False, True])
def test_an_absurd_rate_is_told_and_leaves_finite_models(trunk, eta, with_held_out):
    alpha = mixtures(20)
    w = smooth_map(alpha)
    held_out = Labels(alpha[:5], w[:5]) if with_held_out else None
    for refine, start in ((None, w), (lambda v: v + 0.5 * (w - v), torch.zeros_like(w))):
        run = train(
            alpha,
            start,
            eta=eta,
            steps=300,
            width=64,
            trunk=trunk,
            held_out=held_out,
            refine=refine,
        )
        assert run.diverged and run.steps < 300
        assert run.predictor(alpha).isfinite().all() and run.w.isfinite().all()
        assert risk(run.predictor, Labels(alpha, w)) <= 5 * w.square().sum(-1).mean()


def test_labels_that_break_are_told_too():
    alpha = mixtures(6)
    run = train(alpha, smooth_map(alpha), refine=lambda w: w * 1e80, steps=100, width=8)
    assert run.diverged and run.w.isfinite().all() and run.predictor(alpha).isfinite().all()


@pytest.mark.parametrize("trunk", TRUNKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_few_and_equal_mixtures_are_learnt(trunk, dtype):
    for alpha in (mixtures(1), mixtures(1).expand(6, -1), torch.eye(4, dtype=torch.float64)[:1]):
        w = smooth_map(alpha)
        run = train(alpha, w, width=64, steps=300, trunk=trunk, dtype=dtype)
        assert run.predictor(alpha).dtype == torch.float64 and not run.diverged
        torch.testing.assert_close(run.predictor(alpha), w, rtol=0, atol=1e-3)
    assert not train(alpha, torch.zeros(1, 2, dtype=torch.float64), width=4).diverged


def test_the_best_on_held_out_labels_is_kept_and_training_ends_early():
    rng = np.random.default_rng(0)
    alpha, unseen = mixtures(30), mixtures(200, seed=1)
    noisy = smooth_map(alpha) + torch.as_tensor(rng.normal(size=(30, 3)))
    held_out = Labels(unseen, smooth_map(unseen))
    run = train(alpha, noisy, held_out=held_out, steps=20_000, width=128, patience=300)
    best = float(run.trace[:, 2].min())
    assert run.steps < 20_000 and not run.diverged
    assert risk(run.predictor, held_out) == pytest.approx(best, rel=1e-12)
    assert best < 0.95 * run.trace[-1, 2], "it would have overfitted"
    assert (run.trace[1:, 0] > run.trace[:-1, 0]).all() and run.trace[-1, 0] == run.steps
    without = train(alpha, noisy, steps=100, width=16)
    assert without.trace[:, 2].isnan().all() and without.trace[-1, 0] == without.steps == 100


def test_labels_come_from_the_last_step_even_if_the_predictor_is_an_early_one():
    alpha, solved = mixtures(10), smooth_map(mixtures(10))
    nothing = Labels(alpha, torch.zeros_like(solved))  # so that h = 0 stays the best
    run = train(
        alpha, nothing.w, refine=lambda w: w + 0.2 * (solved - w), held_out=nothing, width=16
    )
    assert risk(run.predictor, nothing) == 0.0 and run.steps == 500
    torch.testing.assert_close(run.w, solved, rtol=0, atol=1e-6)


def test_predictions_do_not_depend_on_the_rest_of_the_batch(monkeypatch):
    alpha = mixtures(50)
    run = train(alpha, smooth_map(alpha), width=32, steps=50)
    whole = run.predictor(alpha)
    monkeypatch.setattr(network, "BLOCK", 32 * 3 * 7)
    torch.testing.assert_close(run.predictor(alpha), whole, rtol=0, atol=1e-12)
    assert run.predictor(alpha[:0]).shape == (0, 3)
