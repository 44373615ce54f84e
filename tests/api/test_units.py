"""Weights do not hang on the units of labels and columns, however small or large their numbers."""

from __future__ import annotations

import numpy as np
import pytest

import cuvee
from cuvee import Domain, Problem, Ridge

LABELS = (2.0**-900, 2.0**-565, 2.0**-506, 2.0**506, 2.0**1000)  # exact: nothing is rounded anew


def problem_of(labels=1.0, column=1.0):
    rng = np.random.default_rng(0)

    def domain(name, rows, slope):
        X = rng.normal(size=(rows, 3))
        y = X @ [1.0, -1.0, slope] + 0.3 * rng.normal(size=rows)
        X[:, 2] *= column
        return Domain(name, X, y * labels)

    sources = [domain("a", 40, 0.1), domain("b", 30, 2.0), domain("c", 50, -1.0)]
    return Problem(sources, [domain("t", 12, 0.0), domain("u", 9, 1.0)])


@pytest.mark.parametrize("method", ["path", "cuts", "agp", "konstantinov_lampert"])
def test_weights_do_not_hang_on_the_unit_of_labels(method):
    wanted = cuvee.estimate(problem_of(), Ridge(), method=method)
    for unit in LABELS:
        found = cuvee.estimate(problem_of(unit), Ridge(), method=method)
        np.testing.assert_allclose(found.alpha, wanted.alpha, atol=1e-7, err_msg=f"{unit:g}")
        assert found.status == wanted.status


@pytest.mark.parametrize("method", ["cuts", "agp", "konstantinov_lampert"])
def test_weights_do_not_hang_on_the_unit_of_a_column(method):
    wanted = cuvee.estimate(problem_of(), Ridge(), method=method).alpha
    for unit in (2.0**-900, 2.0**-550, 2.0**520, 2.0**1000):
        found = cuvee.estimate(problem_of(column=unit), Ridge(), method=method).alpha
        np.testing.assert_allclose(found, wanted, atol=1e-7, err_msg=f"{unit:g}")
