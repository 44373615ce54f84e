"""A source comes or goes: the map that grows out of another is as good as a new one, and says what
it saved.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

import cuvee
from builders import mlp
from cuvee import (
    Domain,
    DomainError,
    Logistic,
    ModelMap,
    Network,
    OptionError,
    Problem,
    Ridge,
    Status,
    simplex,
)
from learn_builders import HYPOTHESES, KINDS, make_sources

pytestmark = pytest.mark.sample(5)

OPTIONS = {"n_labels": 40, "n_calibration": 100, "tol": 1e-3}
CASES = [
    (name, kind)
    for name in ("ridge", "binary", "softmax")
    for kind in ("auto", "surface", "ntf-own", "meta", "network-shared")
]
cases = pytest.mark.parametrize(("name", "kind"), CASES)


@cache
def learnt(name: str, kind: str, *which: int) -> ModelMap:
    """A map of some of four sources; both tests below begin with one of all four."""
    classes, hypothesis = HYPOTHESES[name]
    sources = make_sources(classes, 4)
    return cuvee.learn([sources[j] for j in which], hypothesis, **OPTIONS, **KINDS[kind])


def gradients(atlas, sources, hypothesis, alpha):
    w = atlas(alpha, trust="predicted").w
    return cuvee.certify(sources, hypothesis, alpha, w).gradient_norm


def share_saved(atlas) -> float:
    """What `plan.saved` ends in."""
    found = re.search(r"\((-?\d+)% saved\)", atlas.plan.saved)
    assert found, atlas.plan.saved
    return int(found[1]) / 100


@cases
def test_one_source_more(name, kind):
    classes, hypothesis = HYPOTHESES[name]
    sources = make_sources(classes, 4)
    old, fresh = learnt(name, kind, 0, 1, 2), learnt(name, kind, 0, 1, 2, 3)
    new = old.add_source(sources[3])
    assert new.n_sources == 4 and [s.name for s in new.bound.problem.sources] == [
        "s0",
        "s1",
        "s2",
        "s3",
    ]
    assert old.n_sources == 3 and not old.plan.saved and not fresh.plan.saved
    alpha = simplex.sample(100, 4, 7)
    grown, afresh = (np.median(gradients(m, sources, hypothesis, alpha)) for m in (new, fresh))
    assert grown <= max(6 * afresh, OPTIONS["tol"])
    best = cuvee.solve(sources, hypothesis, alpha, tol=1e-10)
    for trust in (None, "corrected"):
        sol = new(alpha, trust=trust, tol=1e-5)
        assert all(s.ok for s in sol.status)
        looked = np.array([s is not Status.PREDICTED for s in sol.status])
        away = np.linalg.norm(sol.w - best.w, axis=1)
        assert (away <= sol.certificate.distance + best.certificate.distance)[looked].all()
    assert np.isfinite(new(np.eye(4), trust="predicted").w).all()


@cases
def test_one_source_less(name, kind):
    classes, hypothesis = HYPOTHESES[name]
    sources = make_sources(classes, 4)
    rest = [sources[0], sources[2], sources[3]]
    old, fresh = learnt(name, kind, 0, 1, 2, 3), learnt(name, kind, 0, 2, 3)
    new = old.drop_source("s1")
    assert [s.name for s in new.bound.problem.sources] == [
        "s0",
        "s2",
        "s3",
    ] and new.plan.n_labels == 40
    alpha = simplex.sample(100, 3, 7)
    shrunk, afresh = (np.median(gradients(m, rest, hypothesis, alpha)) for m in (new, fresh))
    assert shrunk <= max(6 * afresh, OPTIONS["tol"])
    sol, best = (
        new(alpha, trust="corrected", tol=1e-5),
        cuvee.solve(rest, hypothesis, alpha, tol=1e-10),
    )
    away = np.linalg.norm(sol.w - best.w, axis=1)
    assert (away <= sol.certificate.distance + best.certificate.distance).all()


@pytest.mark.parametrize("name", ["binary", "softmax"])
def test_what_was_saved_is_stated_and_true(name):
    """The passes that labels took, counted again from the plan of a map with the same
    calibration.
    """
    classes, hypothesis = HYPOTHESES[name]
    sources = make_sources(classes, 4)
    old = cuvee.learn(
        sources[:3], hypothesis, method="surface", n_labels=40, n_calibration=0, tol=1e-3
    )
    fresh = cuvee.learn(
        sources, hypothesis, method="surface", n_labels=40, n_calibration=0, tol=1e-3
    )
    for new, whole in (
        (old.add_source(sources[3]), fresh.plan.passes),
        (fresh.drop_source("s3"), old.plan.passes),
    ):
        share = share_saved(new)
        assert 0 < share < 1
        assert new.plan.passes < whole, (
            "a map that grows out of another takes fewer passes than a new one"
        )
        assert 1 - new.plan.passes / whole == pytest.approx(share, abs=0.15)
        assert new.plan.saved in str(new.plan)


@pytest.mark.parametrize("name", ["ridge", "binary"])
def test_labels_of_the_new_map_are_solved(name):
    classes, hypothesis = HYPOTHESES[name]
    sources = make_sources(classes, 4)
    old = cuvee.learn(sources[:3], hypothesis, **OPTIONS)
    for new, data in ((old.add_source(sources[3]), sources), (old.drop_source("s0"), sources[1:3])):
        alpha = new.labels.alpha.numpy()
        np.testing.assert_allclose(alpha.sum(1), 1.0, atol=1e-9)
        found = cuvee.certify(data, hypothesis, alpha, new.labels.w.numpy())
        assert found.gradient_norm.max() <= 1e-3 * OPTIONS["tol"]


@pytest.mark.parametrize("concentration", [0.5, 1.0, 20.0])
def test_the_law_stays_a_dirichlet(concentration):
    """Mixtures that the new map is calibrated on: mean and spread per column, as if
    drawn afresh.
    """
    sources = make_sources(0, 4, rows=10)
    atlas = cuvee.learn(
        sources[:3],
        Ridge(0.1),
        n_labels=20,
        n_calibration=2_000,
        concentration=concentration,
        tol=1e-3,
    )
    for new, n in ((atlas.add_source(sources[3]), 4), (atlas.drop_source("s0"), 2)):
        alpha = new.calibration.alpha.numpy()[:1_000]  # the others are all over the simplex
        wanted = simplex.sample(20_000, n, 1, concentration)
        np.testing.assert_allclose(alpha.mean(0), 1 / n, atol=0.03)
        np.testing.assert_allclose(alpha.std(0), wanted.std(0), rtol=0.1)


def test_a_sample_stays_the_users():
    sources = make_sources(2, 4)
    given = simplex.sample(300, 3, 1, concentration=50.0)
    atlas = cuvee.learn(sources[:3], Logistic(0.1), mixtures=given, **OPTIONS)
    assert "sample" in atlas.plan.why
    there_and_back = atlas.add_source(sources[3]).drop_source("s3")
    before, after = (
        sum(s is Status.PREDICTED for s in m(given, trust="predicted", tol=3e-3).status)
        for m in (atlas, there_and_back)
    )
    assert before > 200 and after > 0.7 * before
    assert "sample" in there_and_back.plan.why


def test_bounds_of_a_grown_map_hold():
    hypothesis, covered = Logistic(0.1), []
    for seed in range(5):
        sources = make_sources(2, 4, rows=40, seed=seed)
        old = cuvee.learn(
            sources[:3],
            hypothesis,
            n_labels=30,
            n_calibration=200,
            tol=1e-3,
            method="surface",
            seed=seed,
        )
        for new, data in (
            (old.add_source(sources[3]), sources),
            (old.drop_source("s2"), sources[:2]),
        ):
            alpha = simplex.sample(500, len(data), [seed, 99])
            bound = new(alpha, trust="predicted").certificate.gradient_norm
            covered.append((gradients(new, data, hypothesis, alpha) <= bound).mean())
    assert np.mean(covered) > 0.95 and min(covered) > 0.9, covered


def test_a_map_may_change_many_times_and_be_saved(tmp_path):
    sources, hypothesis = make_sources(2, 5), Logistic(0.1)
    atlas = cuvee.learn(sources[:2], hypothesis, **OPTIONS)
    for s in sources[2:]:
        atlas = atlas.add_source(s)
    for s in sources[:2]:
        atlas = atlas.drop_source(s.name)
    atlas.save(tmp_path / "map")
    loaded = cuvee.load_map(tmp_path / "map", sources[2:], hypothesis)
    alpha = simplex.sample(20, 3, 7)
    np.testing.assert_array_equal(loaded(alpha).w, atlas(alpha).w)
    assert loaded.plan.saved == atlas.plan.saved
    again, direct = loaded.add_source(sources[0]), atlas.add_source(sources[0])
    four = simplex.sample(20, 4, 7)
    np.testing.assert_array_equal(
        again(four, trust="predicted").w, direct(four, trust="predicted").w
    )


def test_networks_are_trained_again():
    sources = make_sources(3, 4, rows=20)
    atlas = cuvee.learn(sources[:3], Network(mlp(3, 3)), n_labels=5, n_calibration=2)
    for new, n in ((atlas.add_source(sources[3]), 4), (atlas.drop_source("s0"), 2)):
        sol = new(simplex.sample(3, n))
        assert np.isfinite(sol.w).all() and new.plan.saved


def test_targets_stay():
    sources = make_sources(2, 4)
    problem = Problem(sources[:3], [Domain("t", sources[0].X[:8] + 0.1, [0, 1] * 4)])
    atlas = cuvee.learn(problem, Logistic(0.1), **OPTIONS)
    assert atlas.add_source(sources[3])(np.full((1, 5), 0.2)).status == (Status.CORRECTED,)
    assert atlas.drop_source("s0")(np.full((1, 3), 1 / 3)).status == (Status.CORRECTED,)


# ---- bad input -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def atlas():
    return cuvee.learn(make_sources(2, 3), Logistic(0.1), n_labels=16, n_calibration=0, tol=1e-3)


def test_sources_that_do_not_fit_are_named(atlas):
    X, y = np.zeros((4, 3)), [0, 1, 0, 1]
    for source, message in (
        (Domain("s1", X, y), "two sources are named 's1'"),
        (Domain("x", X[:, :2], y), "2 features"),
        (Domain("x", X[:1], y[:1]), "one row"),
        ("x", "not a cuvee.Domain"),
        ([Domain("x", X, y)], "not a cuvee.Domain"),
        (None, "not a cuvee.Domain"),
        (Domain("x", X, [0.5, 1.5, 2.5, 3.5]), "class"),
    ):
        with pytest.raises(DomainError, match=message):
            atlas.add_source(source)
    with pytest.raises(OptionError, match=r"classes.*learn a new map"):
        atlas.add_source(Domain("x", X, [0, 1, 2, 0]))


def test_a_source_of_one_class_may_come(atlas):
    new = atlas.add_source(
        Domain("one", np.random.default_rng(0).normal(size=(20, 3)), np.ones(20, int))
    )
    sol = new(np.eye(4), trust="corrected")
    assert sol.status[3] is Status.ABSENT_CLASS and all(s.ok for s in sol.status[:3])


def test_sources_that_are_not_there_are_named(atlas):
    for name in ("x", 0, None, ["s0"]):
        with pytest.raises(OptionError, match="no source named"):
            atlas.drop_source(name)


def test_the_last_two_sources_stay(atlas):
    with pytest.raises(OptionError, match="N=1"):
        atlas.drop_source("s0").drop_source("s1")


def test_dropping_the_only_source_with_a_class():
    sources = make_sources(3, 3)
    two = [Domain(s.name, s.X[s.y < 2], s.y[s.y < 2]) for s in sources[:2]]
    atlas = cuvee.learn([*two, sources[2]], Logistic(0.1), n_labels=16, n_calibration=0)
    with pytest.raises(OptionError, match="classes") as said:
        atlas.drop_source("s2")
    assert "new source" not in str(said.value)


def test_too_few_labels_for_the_degree_once_a_source_has_come():
    sources = make_sources(2, 4)
    atlas = cuvee.learn(
        sources[:3], Logistic(0.1), method="surface", degree=8, n_labels=15, n_calibration=0
    )
    with pytest.raises(OptionError, match="degree=8"):
        atlas.add_source(sources[3])
