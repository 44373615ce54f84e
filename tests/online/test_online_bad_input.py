"""What a careless user does to an `OnlineMap`: told what to do instead, and nothing is half
changed.
"""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
import torch

from cuvee import (
    CuveeWarning,
    DomainError,
    InputError,
    Logistic,
    MixtureError,
    OnlineMap,
    OptionError,
    Problem,
    simplex,
)
from learn_builders import make_sources
from online_builders import VARIANTS, N, make, run, sources, state

ALPHA = np.array([0.2, 0.3, 0.5])
ALPHAS = simplex.sample(20, N, 1)

GOOD = {
    "a list": ALPHA.tolist(),
    "a tuple": tuple(ALPHA),
    "float32": ALPHA.astype(np.float32),
    "a tensor": torch.tensor(ALPHA),
    "a float32 tensor": torch.tensor(ALPHA, dtype=torch.float32),
    "a tensor with a gradient": torch.tensor(ALPHA, requires_grad=True),
    "a row of a data frame": pd.DataFrame([ALPHA], columns=["s0", "s1", "s2"]).iloc[0],
    "a column of another's": np.asfortranarray(np.tile(ALPHA, (4, 1)))[0],
    "a read-only array": np.frombuffer(ALPHA.tobytes()),
    "rounded by 1e-7": ALPHA + np.array([1e-7, 0, 0]),
}

BAD = {
    "None": None,
    "a number": 0.5,
    "text": "abc",
    "texts": ["a", "b", "c"],
    "a row of a batch": [ALPHA.tolist()],
    "too few": [0.5, 0.5],
    "too many": [0.25] * 4,
    "none": [],
    "NaN": [np.nan, 0.5, 0.5],
    "infinite": [np.inf, 0.0, 0.0],
    "negative": [-0.1, 0.6, 0.5],
    "a sum of 1.1": [0.2, 0.4, 0.5],
    "zeros": [0.0, 0.0, 0.0],
    "percentages": [20, 30, 50],
    "ragged": [1, [2], 3],
    "ragged arrays": [np.zeros(2), np.zeros(3), 1.0],
    "a None inside": [None, 0.5, 0.5],
    "a dict": {"a": 0.2, "b": 0.3, "c": 0.5},
    "complex": np.array([0.2 + 1j, 0.3, 0.5]),
    "an iterator": iter(ALPHA.tolist()),
    "a batch": ALPHAS,
    "objects": [object()] * 3,
    "a batch of tensors": torch.rand(2, 3),
}


@pytest.fixture(scope="module", params=VARIANTS)
def online(request):
    online = make("ridge", variant=request.param, label_budget=1.0, policy="coin", evaluate=True)
    run(online, ALPHAS)
    return online


@pytest.mark.parametrize("name", list(GOOD))
def test_any_sequence_of_weights_will_do(name):
    online, other = (make("ridge", label_budget=1.0, policy="coin") for _ in range(2))
    same, _, _ = run(other, [ALPHA])
    w, flips, statuses = run(online, [GOOD[name]])
    np.testing.assert_allclose(w, same, atol=1e-5)
    assert (
        flips == [True]
        and statuses[0].ok
        and online.ledger.rounds == 1
        and online.ledger.labels == 2
    )
    np.testing.assert_allclose(online.predict_one(ALPHA), other.predict_one(ALPHA), atol=1e-5)


@pytest.mark.parametrize("name", list(BAD))
def test_what_is_no_mixture_changes_nothing(name, online, tmp_path):
    before, now = state(online, tmp_path), online._round
    for ask in (online.predict_one, online.wants_label, online.learn_one):
        with pytest.raises(MixtureError, match="alpha") as error:
            ask(BAD[name])
        assert "\n" not in str(error.value)
    assert state(online, tmp_path) == before and online._round is now
    assert np.isfinite(online.predict_one(ALPHA)).all()


def test_errors_say_what_is_wrong():
    online = make("ridge")
    for alpha, said in (
        ([0.5, 0.5], "3 weights"),
        ([[0.2, 0.3, 0.5]], "one mixture"),
        ([np.nan, 0.5, 0.5], "not finite"),
        ([-0.1, 0.6, 0.5], "negative"),
        ([0.2, 0.4, 0.5], r"sum.*1\.1"),
        (["a", "b", "c"], "numeric|number"),
    ):
        with pytest.raises(MixtureError, match=said):
            online.predict_one(alpha)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("label_budget", p) for p in (-0.1, 1.1, np.nan, np.inf, True, None, "0.1", [0.1], 1j)],
        *[("tol", tol) for tol in (0.0, -1.0, np.nan, True, None, "small")],
        *[
            ("radius", r)
            for r in (-1.0, np.nan, np.inf, True, None, "circle", [0.1], 1j, 10**400, np.zeros(2))
        ],
        *[
            ("prior", p)
            for p in (
                "uniform",
                None,
                np.zeros(3),
                np.zeros((1, 4)),
                [1, 2, 3, np.nan],
                5.0,
                ["a"] * 4,
            )
        ],
        *[("prior", p) for p in ([1j] * 4, [[1], [2, 3]], torch.ones(5))],
        *[("K", K) for K in (0, -1, 1.5, True, "3", np.nan)],
        *[("seed", seed) for seed in (-1, 1.5, None, True, "x", 2**70)],
        *[("variant", v) for v in ("Paper", None, 3, ["paper"], "")],
        *[("policy", p) for p in ("always", None, 0.1)],
        *[("evaluate", e) for e in ("no", None, 2)],
        *[("device", d) for d in ("nowhere", 3.5)],
        *[("memory", m) for m in (0, "1 GB", 1.5)],
    ],
    ids=str,
)
def test_settings_out_of_range_are_named(name, value):
    with pytest.raises(OptionError, match=name):
        make("ridge", **{name: value})


@pytest.mark.parametrize(
    "options",
    [
        {"label_budget": np.float32(0.5)},
        {"label_budget": 1},
        {"seed": np.int64(3)},
        {"seed": 2**63 - 1},
        {"radius": np.float32(0.1)},
        {"radius": 0},
        {"K": np.int64(2)},
        {"tol": np.float32(1e-3)},
        {"prior": torch.ones(4)},
        {"prior": [1, 2, 3, 4]},
        {"evaluate": np.bool_(True)},
    ],
    ids=str,
)
def test_numbers_of_other_kinds_will_do(options, tmp_path):
    online = make("ridge", **options)
    run(online, ALPHAS[:5])
    online.save(tmp_path / "x")
    assert (
        OnlineMap.load(tmp_path / "x", sources("ridge"), online._bound.hypothesis).settings
        == online.settings
    )


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("prior", ["zero", "centre"])
def test_without_a_budget_it_says_that_it_never_learns(variant, prior):
    with pytest.warns(CuveeWarning, match="never learns") as caught:
        online = make("ridge", variant=variant, label_budget=0.0, prior=prior)
    assert caught[0].filename.endswith("online_builders.py")  # where it was called
    w, flips, _ = run(online, ALPHAS)
    assert not any(flips) and online.ledger.labels == 0
    np.testing.assert_array_equal(w, 0.0)


def test_data_and_hypotheses_that_are_none():
    data = sources()
    with pytest.raises(OptionError, match="N=1"):
        OnlineMap(data[:1], Logistic(0.1))
    with pytest.raises(DomainError, match="list of domains"):
        OnlineMap(data[0], Logistic(0.1))
    for nothing in ([], "x"):
        with pytest.raises(DomainError):
            OnlineMap(nothing, Logistic(0.1))
    for hypothesis in ("logistic", None, Logistic):
        with pytest.raises(OptionError, match="hypothesis"):
            OnlineMap(data, hypothesis)
    with pytest.raises(TypeError):
        OnlineMap(data, Logistic(0.1), "paper")
    problem = Problem(data, make_sources(2, 2, seed=9))
    assert OnlineMap(problem, Logistic(0.1)).predict_one(ALPHA).shape == (4,)


JUNK = {
    "text": "far",
    "None": None,
    "NaN": np.nan,
    "negative": -1.0,
    "an array": np.zeros(2),
    "True": True,
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("junk", list(JUNK))
def test_a_radius_that_is_junk_later_on(junk, variant, tmp_path):
    online = make(
        "ridge", variant=variant, radius=lambda t: 0.1 if t < 4 else JUNK[junk], label_budget=0.5
    )
    run(online, ALPHAS[:3])
    before = state(online, tmp_path)
    for ask in (online.predict_one, online.wants_label, online.learn_one):
        with pytest.raises(OptionError, match=r"radius\(4\)"):
            ask(ALPHA)
    assert state(online, tmp_path) == before and online.ledger.rounds == 3


def test_a_radius_that_raises(tmp_path):
    online = make("ridge", variant="first_order", radius=lambda t: 1 / (4 - t), label_budget=0.5)
    run(online, ALPHAS[:3])
    before = state(online, tmp_path)
    with pytest.raises(ZeroDivisionError):
        online.predict_one(ALPHA)
    assert state(online, tmp_path) == before
    with pytest.raises(TypeError):
        make("ridge", radius=lambda: 0.1)


def test_paths_that_are_no_file(tmp_path, monkeypatch):
    online = make("ridge")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", "folder", "", ".", "not/there", "x" * 300):
        with pytest.raises(InputError, match="cannot be written"):
            online.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_links_and_devices_are_left_alone(tmp_path):
    online = make("ridge")
    (tmp_path / "link").symlink_to(tmp_path / "x")
    online.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "x").is_file()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="cannot be written"):
        online.save(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_mixtures_that_differ_by_rounding_are_other_rounds():
    online = make("ridge", label_budget=1.0, policy="coin", prior="zero")
    online.predict_one(ALPHA)
    near = np.nextafter(ALPHA, 1)
    assert online.learn_one(near).status.ok
    assert online.ledger.rounds == 2
