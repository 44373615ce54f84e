"""The truth that `cuvee bench mix` measures regret by."""

import importlib

import numpy as np
import pytest

swarms = pytest.importorskip("benchmarks.swarms", reason="run from the repository's root")


def triangle(step):
    """Every mixture of three domains on a grid."""
    steps = round(1 / step)
    return np.array(
        [(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)]
    ) / float(steps)


@pytest.mark.sample(2)
@pytest.mark.parametrize("family", swarms.FAMILIES)
def test_the_optimum_is_that_of_a_fine_search(family):
    grid = triangle(0.005)
    for seed in range(3):
        swarm = swarms.swarm(family, seed, N=3, K=4)
        for weights in (np.full(4, 0.25), np.eye(4)[1]):
            alpha, value = swarm.optimum(weights)
            on_grid = (swarm.truth(grid) @ weights).min()
            spread = (swarm.truth(swarm.fresh) @ weights).std()
            assert value <= on_grid + 1e-9  # not worse than anything on the grid …
            assert on_grid - value <= 0.02 * spread  # … nor better than what lies between
            assert alpha.min() >= 0 and np.isclose(alpha.sum(), 1.0, atol=1e-12)
            assert swarm.truth(alpha[None])[0] @ weights == pytest.approx(value, abs=1e-12)
            assert swarm.regret(alpha, weights) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("family", swarms.FAMILIES)
def test_no_draw_beats_the_optimum_of_seventeen_domains(family):
    swarm = swarms.swarm(family, 3)
    weights = np.full(swarms.K, 1 / swarms.K)
    _, value = swarm.optimum(weights)
    drawn = np.random.default_rng(0).dirichlet(np.full(swarms.N, 0.3), size=20_000)
    assert value < (swarm.truth(drawn) @ weights).min()


def test_a_design_has_many_exact_zeros_and_rows_that_sum_to_one():
    for seed in range(5):
        alpha = swarms.swarm("saturation", seed).design(512, 0)
        assert 0.35 < (alpha == 0.0).mean() < 0.6
        assert (alpha[alpha > 0] >= swarms.SMALLEST).all()  # nothing is only nearly zero
        assert np.allclose(alpha.sum(1), 1.0, atol=1e-12)


@pytest.mark.parametrize("family", swarms.FAMILIES)
def test_the_noise_is_what_the_swarm_says(family):
    swarm = swarms.swarm(family, 1)
    alpha = swarm.design(4000, 5)
    errors = (swarm.runs(alpha, 5) - swarm.truth(alpha)) / swarm.spread
    assert np.allclose(errors.std(0) / swarm.noise, 1.0, atol=0.05 if not swarm.freedom else 0.5)
    assert np.array_equal(swarm.runs(alpha, 5), swarm.runs(alpha, 5))
    assert np.corrcoef(errors.T)[0, 1] == pytest.approx(swarms.COMMON, abs=0.1)


@pytest.mark.parametrize("family", swarms.FAMILIES)
def test_gradients_of_the_laws_are_those_of_differences(family):
    torch = importlib.import_module("torch")
    law = swarms.swarm(family, 2, N=5, K=3).law
    at = torch.as_tensor(np.random.default_rng(0).dirichlet(np.ones(5), size=4)).requires_grad_()
    assert torch.autograd.gradcheck(law, (at,))


def test_rivals_find_the_log_linear_law_without_noise():
    rivals = importlib.import_module("benchmarks._rivals")
    swarm = swarms.swarm("log-linear", 0)
    alpha, weights = swarm.design(96, 0), np.full(swarms.K, 1 / swarms.K)
    law = rivals.LogLinear(alpha, swarm.truth(alpha), swarm.prior)
    fresh = swarm.fresh[:200]
    assert np.abs(law.predict(fresh)[0] - swarm.truth(fresh)).max() < 1e-3
    assert swarm.regret(law.best(weights), weights) < 1e-3
    process = rivals.GaussianProcess(alpha, swarm.truth(alpha), swarm.prior, steps=60)
    mean, low, high = process.predict(fresh)
    assert (np.abs(mean - swarm.truth(fresh)) / swarm.spread).mean() < 0.1
    assert ((low < mean) & (mean < high)).all()


def test_the_rival_law_survives_runs_below_zero():
    rivals = importlib.import_module("benchmarks._rivals")
    swarm = swarms.swarm("log-linear", 0)
    alpha, metrics = swarm.observed(96)
    metrics[5] -= 100.0
    fresh, truth, _ = swarm.judged()
    mean = rivals.LogLinear(alpha, metrics, swarm.prior).predict(fresh)[0]
    assert np.abs((mean - truth) / swarm.spread).mean() < 0.3
