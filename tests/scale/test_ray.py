"""Sources on Ray workers: the same α and w as in this process, whoever dies."""

from __future__ import annotations

import numpy as np
import pytest

import cuvee
from site_builders import HYPOTHESES, problem_of

ALPHA = np.array([[0.4, 0.3, 0.1, 0.2], [0.1, 0.2, 0.6, 0.1]])


@pytest.fixture(scope="module")
def far(ray):
    """A function that returns a problem on Ray; two workers per kind."""
    made = {}

    def put(kind):
        if kind not in made:
            made.clear()
            made[kind] = cuvee.on_ray(problem_of(kind), workers=2)
        return made[kind]

    return put


@pytest.mark.parametrize("kind", HYPOTHESES)
def test_weights_and_models_are_those_of_the_local_run(kind, far):
    hypothesis, answers = HYPOTHESES[kind], []
    for problem in (far(kind), problem_of(kind)):
        steps = 4 if kind == "network" else None
        method = "scgda" if kind == "network" else "path"
        mix = cuvee.estimate(problem, hypothesis, method=method, steps=steps, adversaries=4)
        solved = cuvee.solve(problem, hypothesis, ALPHA, steps=4 if kind == "network" else None)
        answers.append((mix.alpha, solved.w))
    for one, other, name in zip(*answers, ("alpha", "w"), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8, err_msg=name)
