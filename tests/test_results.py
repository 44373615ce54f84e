"""`Mixtures.concat`: batches of targets, and targets with different sources, as one result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cuvee
from cuvee.data.synthetic import grouped_classes


def parts(method, **options):
    problem = grouped_classes(0, n_targets=5)
    slices = problem.targets[:2], problem.targets[2:]
    whole = cuvee.estimate(problem, cuvee.Logistic(), method=method, **options)
    return whole, [
        cuvee.estimate(problem.with_targets(some), cuvee.Logistic(), method=method, **options)
        for some in slices
    ]


def test_batches_of_targets_are_the_whole():
    whole, batches = parts("path", steps=6)
    joined = cuvee.Mixtures.concat(batches)
    assert (joined.targets, joined.columns, joined.status) == (
        whole.targets,
        whole.columns,
        whole.status,
    )
    np.testing.assert_allclose(joined.alpha, whole.alpha, atol=1e-6)
    assert [c.name for c in joined.candidates] == [c.name for c in whole.candidates]
    for mine, other in zip(joined.candidates, whole.candidates, strict=True):
        np.testing.assert_allclose(mine.share, other.share, atol=1e-6)
    assert joined.trace.objective.shape == (len(joined.trace.step), 5)


def test_a_trace_that_ended_early_is_carried_on():
    _, batches = parts("agp", steps=4)
    short = batches[0].trace
    early = replace(
        short, **{f: getattr(short, f)[:2] for f in ("step", "objective", "gap", "alpha")}
    )
    trace = cuvee.Mixtures.concat([replace(batches[0], trace=early), batches[1]]).trace
    np.testing.assert_array_equal(trace.step, batches[1].trace.step)
    np.testing.assert_array_equal(
        trace.objective[1:, :2], np.repeat(early.objective[1:2], len(trace.step) - 1, 0)
    )
    np.testing.assert_array_equal(trace.objective[:, 2:], batches[1].trace.objective)


def test_other_sources_are_other_columns_and_own_comes_last():
    problem = grouped_classes(0)
    left = cuvee.Problem(problem.sources[:4], problem.targets[:1])
    right = cuvee.Problem(problem.sources[3:6], problem.targets[1:])
    mixtures = [
        cuvee.estimate(p, cuvee.Logistic(), method="agp", own=True, steps=3) for p in (left, right)
    ]
    joined = cuvee.Mixtures.concat(mixtures)
    assert joined.columns == (*(s.name for s in problem.sources[:6]), cuvee.OWN)
    assert np.isnan(joined.alpha[0, 4:6]).all() and np.isnan(joined.alpha[1:, :3]).all()
    np.testing.assert_allclose(np.nansum(joined.alpha, 1), 1.0)
    assert joined.trace is None and joined.candidates == ()
    back = cuvee.Mixtures.concat(mixtures, joined.columns[::-1])
    np.testing.assert_array_equal(back.alpha, joined.alpha[:, ::-1])


def test_one_part_is_itself_unless_other_columns_are_wanted():
    (one, *_) = parts("uniform")[1]
    assert cuvee.Mixtures.concat([one]) is one
    wide = cuvee.Mixtures.concat([one], ("nowhere", *one.columns))
    assert wide.columns[0] == "nowhere" and np.isnan(wide.alpha[:, 0]).all()


def test_nothing_to_join_is_said():
    with pytest.raises(cuvee.OptionError, match="no mixtures to join"):
        cuvee.Mixtures.concat([])
