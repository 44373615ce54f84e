"""Batches of targets side by side on Ray workers give what one call gives."""

from __future__ import annotations

import numpy as np
import pytest

import cuvee
from builders import mlp
from cuvee import Domain, Problem, Ridge
from cuvee.errors import MixtureError, OptionError
from site_builders import domain, problem_of


def many(targets):
    rng, sources = np.random.default_rng(1), problem_of("ridge").sources
    plain = domain("ridge", "t", 40, 0.1, seed=1)
    rows = [rng.choice(40, 6, replace=False) for _ in range(targets)]
    return Problem(
        sources, [Domain(f"t{i}", plain.X[at], plain.y[at]) for i, at in enumerate(rows)]
    )


@pytest.mark.slow
def test_targets_side_by_side_get_the_same_weights_and_models(ray):
    problem, done = many(7), []
    far = cuvee.estimate_on_ray(
        problem, Ridge(), batch=3, adversaries=4, exclude={"t4": ["a"]},
        progress=lambda what, n, total: done.append((n, total)),
    )  # fmt: skip
    near = cuvee.estimate(problem, Ridge(), adversaries=4, exclude={"t4": ["a"]})
    assert far.targets == near.targets
    assert len(done) == 3 and done[-1] == (7, 7)
    np.testing.assert_allclose(far.alpha, near.alpha, atol=1e-8)
    one, other = (
        cuvee.solve_on_ray(problem, Ridge(), far, batch=4),
        cuvee.solve(problem, Ridge(), far),
    )
    np.testing.assert_allclose(one.w, other.w, rtol=1e-8, atol=1e-8)
    assert one.status == other.status
    assert one.certificate.certified.all() and one.targets == near.targets and one.curves is None
    network = cuvee.Network(mlp(problem.sources[0].X.shape[1], 1), loss="squared")
    one = cuvee.solve_on_ray(problem, network, far, batch=4)
    other = cuvee.solve(problem, network, far)
    np.testing.assert_allclose(one.curves, other.curves, rtol=1e-3, atol=1e-4)
    assert one.curve("t6").keys() == {"step", "training", "held out"}
    assert one.module("t6") is not None
    with pytest.raises(MixtureError, match="alpha has 1 rows, but there are 7 targets"):
        cuvee.solve_on_ray(problem, Ridge(), near.alpha[:1])
    with pytest.raises(OptionError, match="steps"):
        cuvee.estimate_on_ray(problem, Ridge(), steps=0)


def test_what_cannot_be_side_by_side_is_said():
    with pytest.raises(OptionError, match="has no targets"):
        cuvee.estimate_on_ray(Problem(problem_of("ridge").sources), Ridge())
    with pytest.raises(OptionError, match="batch must be at least 1"):
        cuvee.estimate_on_ray(many(2), Ridge(), batch=0)
