"""The verdict on peers with made-up numbers; their helpers against slow, obvious computations."""

from __future__ import annotations

import functools
import runpy
import sys
from itertools import pairwise
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from benchmarks import tables as bench
from experiments import _peers_map, _peers_methods, _peers_moon, _peers_tables, peers
from experiments._peers_map import LEARN, MAPS, SOLVE
from experiments._peers_moon import MOON
from experiments._peers_verdict import judge, leads, named
from scipy import stats
from sklearn.linear_model import LogisticRegression, Ridge

import cuvee

SETTING = peers.SETTINGS["tiny"]


def table(name, scores, *, quantity=False, seeds=4, targets=2, levels=False, wobble=0.01):
    """Rows of one table: scores by peer, seeds a little apart, the targets of a seed far."""
    return [
        {
            "seed": seed,
            "table": name,
            "target": f"t{i}",
            "peer": peer,
            "levels": levels,
            "quantity": quantity,
        }
        | {
            "score": score + i * 0.1 + wobble * np.sin(3 * seed + len(peer)),
            "fit_s": 0.5,
            "family": "f",
        }
        for seed in range(seeds)
        for i in range(targets)
        for peer, score in scores.items()
    ]


def maps(excess, fit_s=0.0):
    """Rows of maps: excess by (peer, epochs)."""
    return [
        {
            "seed": seed,
            "table": MAPS,
            "peer": peer,
            "epochs": epochs,
            "excess": value,
            "models_s": 0.1,
        }
        | {"fit_s": epochs * 0.01 if peer == MOON else fit_s}
        for seed in range(2)
        for (peer, epochs), value in excess.items()
    ]


OURS_ALONE = maps({(LEARN, 0): 1e-7, (SOLVE, 0): 1e-12}, 0.15)


def verdict(*parts, wanted=("a", "b")):
    return judge(pd.DataFrame([row for part in parts for row in part]), list(wanted))


def test_held_where_nobody_is_ahead():
    said = verdict(
        table("a", {"cuvee": 0.8, "pooled": 0.6}),
        table("b", {"cuvee": 2.0, "pooled": 3.0}, quantity=True),
        OURS_ALONE,
    )
    assert said.held is True
    assert "Of 2 tables 2 not beaten, 0 too close to call, 0 beaten" in said.sentence
    assert said.numbers["tables"]["a"]["peers"]["pooled"]["is"] == "behind"
    assert said.numbers["tables"]["b"]["ahead"] == []


def test_a_peer_ahead_on_one_table_of_two_is_named():
    good = table("a", {"cuvee": 0.8, "pooled": 0.6})
    said = verdict(
        good, table("b", {"cuvee": 3.0, "pooled": 2.0, "KMM": 9.0}, quantity=True), OURS_ALONE
    )
    assert said.held == "partly"
    assert (
        said.numbers["tables"]["b"]["ahead"]
        == said.numbers["tables"]["b"]["surely_ahead"]
        == ["pooled"]
    )
    assert "best peer pooled" in said.sentence and ", beaten" in said.sentence


def test_beaten_everywhere_is_not_held():
    said = verdict(table("a", {"cuvee": 0.6, "pooled": 0.8}), OURS_ALONE)
    assert said.held is False
    assert (
        said.numbers["missing_tables"] == ["b"]
        and "not measured: b (set CUVEE_DATA)" in said.sentence
    )


def test_a_lead_that_chance_explains_is_none_and_noise_is_no_excuse():
    said = verdict(table("a", {"cuvee": 0.700, "pooled": 0.701}, wobble=0.1), OURS_ALONE)
    assert said.held == "partly" and said.numbers["tables"]["a"]["state"] == "too close to call"
    assert said.numbers["tables"]["a"]["peers"]["pooled"]["is"] == "even"


def test_one_seed_says_nothing_about_chance_and_no_nan():
    said = verdict(table("a", {"cuvee": 0.6, "pooled": 0.8}, seeds=1), OURS_ALONE)
    assert said.held == "partly" and "nan" not in said.sentence
    assert said.numbers["tables"]["a"]["state"] == "too close to call"
    assert said.numbers["tables"]["a"]["peers"]["pooled"]["surely_ahead"] is False


def test_a_lead_is_that_of_seed_means():
    """And not of targets × seeds, which would make targets of one seed independent."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        table("a", {"cuvee": 4.0, "pooled": 3.0}, quantity=True, seeds=5, targets=3)
    )
    rows["score"] += rng.random(len(rows))
    lead = leads(named(rows))["pooled"]
    means = [
        [rows[(rows.seed == s) & (rows.peer == p)].score.mean() for p in ("cuvee", "pooled")]
        for s in range(5)
    ]
    ours, theirs = np.array(means).T
    percent = 100 * (ours - theirs) / ours.mean()
    low, high = stats.t.interval(0.95, 4, percent.mean(), stats.sem(percent))
    assert (lead.mean, lead.low, lead.high) == pytest.approx((percent.mean(), low, high))
    strict = stats.t.interval(1 - 0.05 / 40, 4, percent.mean(), stats.sem(percent))
    assert lead.surely(40) == (strict[0] > 0)
    assert lead.surely(1) == (low > 0)


def test_levels_tell_peers_apart_also_when_a_file_says_them_in_words():
    rows = pd.DataFrame(table("a", {"cuvee": 1.0, "pooled": 1.0}, levels="True", quantity="True"))
    assert set(named(rows)["name"]) == {"cuvee", "pooled, levelled"}
    assert leads(named(rows))["pooled, levelled"].mean == pytest.approx(0.0, abs=2.0)


def test_of_maps_equal_time_is_the_last_checkpoint_within_it():
    moon = {(MOON, 10): 1e-2, (MOON, 30): 1e-3, (MOON, 100): 1e-5}
    said = verdict(
        table("a", {"cuvee": 1.0, "p": 0.0}), maps({(LEARN, 0): 1e-7, (SOLVE, 0): 0.0, **moon}, 0.5)
    )
    assert said.numbers["map"]["LibMOON, equal time"]["excess"] == pytest.approx(1e-3)
    assert said.numbers["map"]["LibMOON, 100 epochs"]["excess"] == pytest.approx(1e-5)
    alone = verdict(table("a", {"cuvee": 1.0, "p": 0.0}), OURS_ALONE)
    assert "LibMOON was not there" in alone.sentence and "build" in alone.numbers["map"][MOON]


@pytest.fixture(scope="module")
def visits():
    return next(_peers_tables.cases("visits", 0, SETTING))


@pytest.fixture(scope="module")
def quantities():
    """A small case of a quantity whose sources differ in level."""
    rng = np.random.default_rng(1)

    def domain(name, n, level):
        X = rng.normal(size=(n, 3))
        return cuvee.Domain(name, X, X @ [1.0, -1.0, 0.5] + level + 0.1 * rng.normal(size=n))

    sources = [domain(f"s{j}", 40, 3.0 * j) for j in range(4)]
    target, test = domain("t", 20, 20.0), domain("t", 50, 20.0)
    return _peers_tables.Case(cuvee.Problem(sources, [target]), [(test.X, test.y)], True, 1e-2)


def test_levels_taken_out_keep_errors_and_help_pooling(quantities):
    levelled = quantities.levelled()
    constant = np.full(50, 3.0)
    offset = quantities.test[0][1] - levelled.test[0][1]
    assert levelled.score(0, constant) == pytest.approx(quantities.score(0, constant + offset))
    plain = quantities.score(0, next(_peers_methods.pooled(quantities))[0])
    assert levelled.score(0, next(_peers_methods.pooled(levelled))[0]) < 0.1 * plain


def test_the_tables_of_benchmarks_are_split_as_before(tmp_path):
    """`splits` of a file is `splits_of` its table, target rows first and then the test rows,
    nobody's row twice.
    """
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "domain": np.repeat(list("abcd"), 30),
            "label": rng.normal(size=120),
            "x": np.arange(120.0),
        }
    )
    frame.to_parquet(tmp_path / "some.parquet")
    ((problem, test),) = bench.splits(tmp_path / "some.parquet", 3, 2)
    assert [t.name for t in problem.targets] == list(
        np.random.default_rng(3).choice(list("abcd"), 2, replace=False)
    )
    seen = np.concatenate(
        [*(d.y for d in (*problem.sources, *problem.targets)), *(y for _, y in test)]
    )
    assert sorted(seen) == sorted(frame.label)
    assert [t.n_rows for t in problem.targets] == [bench.LABELLED] * 2
    assert len(list(bench.splits_of(frame, 0, targets=None))) == 4


def test_fewer_pixels_are_means(monkeypatch):
    X = np.random.default_rng(0).random((3, 784))
    monkeypatch.setattr(_peers_tables.mnist, "load", lambda: (X, np.arange(3)))
    small, y = _peers_tables._images(4)
    picture = X[1].reshape(28, 28)
    slow = [picture[i : i + 7, j : j + 7].mean() for i in range(0, 28, 7) for j in range(0, 28, 7)]
    assert small[1] == pytest.approx(np.array(slow))
    assert y.tolist() == [0, 1, 2]


def test_a_table_that_is_not_there_adds_no_units(monkeypatch, tmp_path):
    monkeypatch.setenv("CUVEE_LIBMOON", str(tmp_path))
    monkeypatch.setenv("CUVEE_DATA", str(tmp_path))
    full = peers.SETTINGS["full"]
    without = peers.units(full)
    assert {u["table"] for u in without} <= {"visits", "mnist", MAPS}
    assert {u["by"] for u in without} == {peers.EVERYBODY}
    (tmp_path / "office_caltech10.parquet").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    units = peers.units(full)
    assert all(unit in units for unit in without)
    assert (
        sum(u["table"] == "office_caltech10" for u in units)
        == full["fewer_seeds"]["office_caltech10"]
    )
    assert {u["table"] for u in units if u["by"] == MOON} == {"visits", MAPS}
    assert all(a["seed"] <= b["seed"] for a, b in pairwise(units))


def test_weights_are_those_of_a_pipeline_of_skadas(visits):
    before = sklearn.get_config()["enable_metadata_routing"]
    _peers_methods.adapters(3, quantity=False)
    assert sklearn.get_config()["enable_metadata_routing"] == before
    from skada import KLIEPReweightAdapter, make_da_pipeline

    (Xs, ys), target = visits.pooled(), visits.problem.targets[0]
    wide = 1 / Xs.shape[1]
    found = _peers_methods.weights("KLIEP", Xs, ys, target.X)
    assert found.mean() == pytest.approx(1.0)
    ours = _peers_methods._fitted(visits, Xs, ys, found, visits.l2)
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_da_pipeline(
            KLIEPReweightAdapter([0.1 * wide, wide, 10 * wide], random_state=0),
            # skada's weights are not 1 in the mean: the same l2 is another C
            LogisticRegression(C=1.0, tol=1e-8, max_iter=2_000).set_fit_request(sample_weight=True),
        )
        X, domain = np.concatenate([Xs, target.X]), np.repeat([1, -2], [len(Xs), len(target.X)])
        raw = (
            pipe[0].base_estimator.fit_transform(X, sample_domain=domain)[1]["sample_weight"].sum()
        )
        pipe[-1].base_estimator.C = 1.0 / (visits.l2 * raw)
        pipe.fit(X, np.concatenate([ys, np.full(len(target.X), -1)]), sample_domain=domain)
        theirs = pipe[-1].base_estimator_.coef_
    assert ours.coef_ == pytest.approx(theirs, abs=1e-3)


def test_nearest_counts_how_often_a_source_row_is_nearest():
    rng = np.random.default_rng(0)
    Xs, Xt = rng.normal(size=(12, 2)), rng.normal(size=(30, 2))
    counts = np.zeros(12)
    for x in Xt:
        counts[np.argmin(((Xs - x) ** 2).sum(1))] += 1
    assert _peers_methods.weights("nearest", Xs, np.zeros(12, dtype=int), Xt) == pytest.approx(
        counts * 12 / 30
    )


def test_a_share_of_weight_is_that_of_the_mixture(quantities):
    """Up-weighting to a share s is the mixture (1 − s)·pooled + s·own, with the same l2."""
    (Xs, ys), target = quantities.pooled(), quantities.problem.targets[0]
    ours = _peers_methods._shared(quantities, Xs, ys, target.X, target.y, 0.3, 0.05)
    both = [cuvee.Domain("pooled", Xs, ys), cuvee.Domain("own", target.X, target.y)]
    w = cuvee.solve(both, cuvee.Ridge(0.05), [[0.7, 0.3]]).w[0]
    assert np.append(ours.coef_, ours.intercept_) == pytest.approx(w)
    alone = _peers_methods._fitted(quantities, target.X, target.y, np.ones(20), 0.05)
    assert alone.coef_ == pytest.approx(Ridge(alpha=1.0).fit(target.X, target.y).coef_)


def test_risk_is_what_solve_minimises():
    sources = _peers_map.shifted_sources(3, 40, 4, seed=0)
    alpha = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    w = cuvee.solve(sources, cuvee.Logistic(0.1, intercept=False), alpha, tol=1e-10).w
    least = _peers_map.risk(sources, 0.1, alpha, w)
    signs = [2.0 * s.y - 1.0 for s in sources]
    slow = [
        sum(
            a * np.log1p(np.exp(-t * (s.X @ v))).mean()
            for a, s, t in zip(row, sources, signs, strict=True)
        )
        + 0.05 * v @ v
        for row, v in zip(alpha, w, strict=True)
    ]
    assert least == pytest.approx(np.array(slow))
    for direction in np.eye(4):
        assert (_peers_map.risk(sources, 0.1, alpha, w + 1e-3 * direction) > least).all()


def test_libmoon_is_asked_for_the_same_problem(monkeypatch, quantities):
    """Its objectives are the sources and every target's own rows, and a row of α has its target's
    own alone.
    """
    asked = {}

    def exact(domains, hypothesis, alpha, epochs, seed):
        asked.update(alpha=alpha, names=[d.name for d in domains])
        return {
            "w": cuvee.solve(domains, hypothesis, alpha).w[None],
            "seconds": np.array([2.0]),
            "predict_s": 0.0,
        }

    monkeypatch.setattr(_peers_moon, "train", exact)
    quick = functools.partial(cuvee.estimate, method="uniform", own=True)
    monkeypatch.setattr(cuvee, "estimate", quick)
    levelled = quantities.levelled()
    ((predicted, seconds),) = _peers_moon.at_our_mixtures(levelled, 1, 0)
    ((ours, _),) = _peers_methods.default(levelled)
    assert asked["names"] == ["s0", "s1", "s2", "s3", "t"] and asked[
        "alpha"
    ].sum() == pytest.approx(1.0)
    assert predicted == pytest.approx(ours, abs=1e-6) and seconds > 2.0


def test_without_its_environment_libmoon_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("CUVEE_LIBMOON", str(tmp_path))
    assert not _peers_moon.there()
    monkeypatch.delenv("CUVEE_LIBMOON")
    monkeypatch.chdir(tmp_path)
    assert not _peers_moon.there()


@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_the_worker_mixes_what_solve_mixes(kind, monkeypatch):
    """With a stand-in for LibMOON: at w*(α) the scalarised loss of its objectives has no slope."""
    for name in ("libmoon.solver.psl.model.simple", "libmoon.util_global.scalarization"):
        parts = name.split(".")
        for k in range(len(parts)):
            monkeypatch.setitem(sys.modules, ".".join(parts[: k + 1]), ModuleType(parts[k]))
    sys.modules["libmoon.solver.psl.model.simple"].SimplePSLModel = None
    sys.modules["libmoon.util_global.scalarization"].ls = None
    worker = runpy.run_path(str(_peers_moon.WORKER))
    rng = np.random.default_rng(0)
    X, domain, alpha = rng.normal(size=(60, 3)), np.repeat([0, 1, 2], 20), np.array([0.2, 0.5, 0.3])
    if kind == "ridge":
        y, hypothesis = X @ [1.0, 2.0, 3.0] + domain, cuvee.Ridge(0.1)
    else:
        y, hypothesis = (X[:, 0] + rng.normal(size=60) > 0).astype(int), cuvee.Logistic(0.1)
    sources = [cuvee.Domain(str(j), X[domain == j], y[domain == j]) for j in range(3)]
    solved = cuvee.solve(sources, hypothesis, [alpha], tol=1e-10).w
    w = torch.tensor(solved, dtype=torch.float32, requires_grad=True)
    task = {"kind": kind, "X": X, "y": y, "domain": domain, "l2": 0.1, "intercept": True}
    (worker["Domains"](task).evaluate(w)[0] * torch.tensor(alpha)).sum().backward()
    assert float(w.grad.abs().max()) < 1e-5
    off = (w + 0.1).detach().requires_grad_()
    (worker["Domains"](task).evaluate(off)[0] * torch.tensor(alpha)).sum().backward()
    assert float(off.grad.abs().max()) > 1e-3
