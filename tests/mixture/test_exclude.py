"""Sources that a target may not learn from get weight 0, as if they were not there."""

from __future__ import annotations

import numpy as np
import pytest

import cuvee
from cuvee.data.synthetic import grouped_classes
from cuvee.errors import OptionError


def quantities(n=6, rows=60):
    """Two groups of domains with a rule each, every domain a source and a target."""
    rng = np.random.default_rng(0)
    rules = rng.normal(size=(2, 3))

    def domain(i, size):
        X = rng.normal(size=(size, 3))
        return cuvee.Domain(f"d{i}", X, X @ rules[i % 2] + 0.3 * rng.normal(size=size))

    return [domain(i, rows) for i in range(n)], [domain(i, 20) for i in range(n)]


@pytest.mark.parametrize("method", ["path", "cuts", "uniform", "pooled", "pooled_own"])
def test_excluded_sources_have_no_weight_and_the_rest_is_on_the_simplex(method):
    sources, targets = quantities()
    problem = cuvee.Problem(sources, targets)
    mix = cuvee.estimate(
        problem, cuvee.Ridge(1e-2), method=method, exclude={t.name: [t.name] for t in targets}
    )
    itself = np.array(mix.targets)[:, None] == np.array(mix.columns)
    assert (mix.alpha[itself] == 0.0).all()
    np.testing.assert_allclose(mix.alpha.sum(1), 1.0, atol=1e-12)
    assert (mix.alpha >= 0).all()
    assert np.isnan(mix.without_self().alpha).sum() == len(targets)


@pytest.mark.parametrize("method", ["path", "cuts"])
def test_excluding_is_like_leaving_the_source_out(method):
    """The radius of W and the units of columns still come from all sources: not the same bits."""
    sources, targets = quantities()
    problem = cuvee.Problem(sources, targets)
    exclude = {t.name: [t.name] for t in targets}
    mix = cuvee.estimate(problem, cuvee.Ridge(1e-2, radius=4.0), method=method, exclude=exclude)
    for i, target in enumerate(targets):
        others = [s for s in sources if s.name != target.name]
        alone = cuvee.estimate(
            cuvee.Problem(others, [target]), cuvee.Ridge(1e-2, radius=4.0), method=method
        )
        kept = [j for j, name in enumerate(mix.columns) if name in alone.columns]
        np.testing.assert_allclose(mix.alpha[i, kept], alone.alpha[0], atol=0.06)


def test_a_target_among_the_sources_has_its_weights_whoever_else_is_asked():
    sources, targets = quantities()
    mix = cuvee.estimate(
        cuvee.Problem(sources, targets),
        cuvee.Ridge(1e-2),
        exclude={t.name: [t.name] for t in targets},
    )
    for i in (0, 3):
        problem = cuvee.Problem(sources, [targets[i]])
        alone = cuvee.estimate(
            problem, cuvee.Ridge(1e-2), exclude={targets[i].name: [targets[i].name]}
        )
        np.testing.assert_allclose(mix.alpha[i], alone.alpha[0], atol=1e-8)


def test_a_lower_bound_holds_without_the_excluded_source():
    """What the cuts prove for the others alone is at least what they prove with it excluded."""
    sources, targets = quantities()
    with_it = cuvee.estimate(
        cuvee.Problem(sources, targets[:1]),
        cuvee.Ridge(1e-2, radius=4.0),
        method="cuts",
        C=1.0,
        exclude={"d0": "d0"},
    )
    without = cuvee.estimate(
        cuvee.Problem(sources[1:], targets[:1]),
        cuvee.Ridge(1e-2, radius=4.0),
        method="cuts",
        C=1.0,
        c=None,
    )
    lower = with_it.objective - with_it.gap
    assert lower[0] <= without.objective[0] * 1.02
    np.testing.assert_allclose(with_it.objective, without.objective, rtol=0.05)


def test_names_that_are_not_there_and_methods_that_cannot_are_said():
    problem = grouped_classes(0, n_targets=2)
    source, target = problem.source_names[0], problem.target_names[0]
    for exclude, method, words in (
        ({"nobody": [source]}, "path", "there is no target 'nobody'"),
        ({target: ["nobody"]}, "path", "there is no source 'nobody'"),
        ({target: [source]}, "scgda", "cannot exclude sources; these can: path, cuts"),
        ({target: problem.source_names}, "path", "without any source"),
    ):
        with pytest.raises(OptionError, match=words):
            cuvee.estimate(problem, cuvee.Logistic(1e-2), method=method, exclude=exclude)
