"""Maps are found by name in one place: a new one is a file and a line, and everything that lists
names knows it.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor

import cuvee
from cuvee import InputError, OptionError
from cuvee.learn import registry
from cuvee.learn.choose import Chosen, untried
from cuvee.learn.method import Map
from cuvee.learn.options import Options
from cuvee.learn.settings import Settings
from cuvee.testing.maps import check_record
from learn_builders import HYPOTHESES, KINDS, make_sources
from rounding import assert_rounded

ROOT = Path(__file__).resolve().parents[2]
HYPOTHESIS = HYPOTHESES["binary"][1]
SMALL = {"n_labels": 12, "n_calibration": 60, "tol": 1e-2}


@dataclass(frozen=True)
class Middle:
    """Says the same model of every mixture."""

    w: Tensor  # (P,)

    def __call__(self, alpha: Tensor) -> Tensor:
        return self.w.expand(len(alpha), -1)


class Unnamed(Middle):
    """A predictor that its map does not name."""


def toy(kind: type[Middle] = Middle) -> Map:
    def fit(material, options):
        w = material.inside.w.mean(0)
        return Chosen(
            kind(w), material.subspace, "the middle of the labels", (untried("the middle", 0.0),)
        )

    return Map(
        "middle",
        fit,
        "The mean of all labels, whatever the mixture.",
        (Middle,),
        options=("steps",),
    )


@pytest.fixture
def middle():
    registry.register(toy())
    yield
    registry.unregister("middle")


@pytest.fixture(scope="module")
def sources():
    return make_sources(2, 3)


def test_a_wrong_name_is_answered_with_all_names(sources, middle):
    names = ", ".join(map(repr, (*get_args(registry.Method), "middle")))
    with pytest.raises(OptionError, match=f"method must be one of {names}; got 'magic'"):
        cuvee.learn(sources, HYPOTHESIS, method="magic")


def test_without_it_nobody_knows_the_name(sources):
    with pytest.raises(OptionError, match=f"{get_args(registry.Method)[-1]!r}; got 'middle'"):
        cuvee.learn(sources, HYPOTHESIS, method="middle")


def test_a_registered_map_is_learnt_asked_and_calibrated(sources, middle):
    atlas = cuvee.learn(sources, HYPOTHESIS, method="middle", steps=3, **SMALL)
    alpha = cuvee.simplex.sample(5, 3)
    np.testing.assert_allclose(
        atlas(alpha, trust="predicted").w, np.tile(atlas.labels.w.mean(0), (5, 1))
    )
    assert atlas.calibration.largest.isfinite().all() and "method='middle'" in atlas.plan.why
    assert all(status.ok for status in atlas(alpha, trust="corrected").status)
    # rows were corrected, not the map
    assert_rounded(atlas.predictor.w, atlas.labels.w.mean(0))
    grown = atlas.drop_source("s2")
    assert grown.settings.method == "middle" and grown.n_sources == 2


def test_a_registered_map_is_saved_and_read_while_it_is_registered(sources, tmp_path):
    path, alpha = tmp_path / "map", cuvee.simplex.sample(5, 3)
    registry.register(toy())
    try:
        atlas = cuvee.learn(sources, HYPOTHESIS, method="middle", **SMALL)
        atlas.save(path)
        again = cuvee.load_map(path, sources, HYPOTHESIS)
        np.testing.assert_array_equal(
            again(alpha, trust="predicted").w, atlas(alpha, trust="predicted").w
        )
    finally:
        registry.unregister("middle")
    with pytest.raises(InputError, match="it holds a 'Middle', which no registered map makes"):
        cuvee.load_map(path, sources, HYPOTHESIS)


def test_a_predictor_that_the_map_does_not_name_is_not_half_written(sources, tmp_path):
    registry.register(toy(Unnamed))
    try:
        atlas = cuvee.learn(sources, HYPOTHESIS, method="middle", **SMALL)
        with pytest.raises(
            OptionError, match=r"'middle' ends with a Unnamed, .* no file can hold it"
        ):
            atlas.save(tmp_path / "map")
    finally:
        registry.unregister("middle")
    assert list(tmp_path.iterdir()) == []


def test_an_option_it_does_not_take_is_refused(sources, middle):
    with pytest.raises(OptionError, match="method='middle' does not use degree, width"):
        cuvee.learn(sources, HYPOTHESIS, method="middle", degree=2, width=4)


def test_a_name_and_a_kind_of_predictor_are_given_once(middle):
    with pytest.raises(OptionError, match="a map named 'middle' is registered already"):
        registry.register(toy())
    other = dataclass(frozen=True)(type("Middle", (), {}))
    with pytest.raises(OptionError, match="another map has a predictor named 'Middle'"):
        registry.register(Map("other", toy().fit, "", (other,)))
    assert "other" not in registry.names()


def test_every_option_of_every_map_is_one_that_learn_takes():
    for each in registry.maps():
        check_record(each)
        assert {options.get("method", "auto") for options in KINDS.values()} == set(
            registry.names()
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "magic"},
        {"level": 2.0},
        {"n_labels": 3},
        {"n_calibration": -1},
        {"concentration": 0.0},
    ],
    ids=repr,
)
def test_settings_check_themselves(wrong):
    good = {
        "method": "auto",
        "n_labels": 4,
        "n_calibration": 0,
        "concentration": None,
        "level": 0.95,
    }
    rest = {"options": Options(1e-3), "device": "cpu", "memory": 2**30}
    assert Settings.restored(Settings(**good, **rest).noted(), "cpu", 2**30) == Settings(
        **good, **rest
    )
    with pytest.raises(OptionError, match=next(iter(wrong))):
        Settings(**{**good, **wrong}, **rest)


def test_the_page_and_the_command_line_list_them(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    page = (ROOT / "docs" / "maps.md").read_text(encoding="utf-8")
    assert importlib.import_module("make_maps").filled(page) == page, "python docs/make_maps.py"
    assert all(f'| `"{name}"` |' in page for name in registry.names())
    assert f"What the map is: {', '.join(registry.names())};" in (
        ROOT / "docs" / "cli.md"
    ).read_text(encoding="utf-8")


def test_whole_numbers_of_numpy_are_plain_in_a_file():
    options = Options(
        np.float32(0.5), degree=np.int64(2), seed=np.int64(3), K=torch.tensor(4).numpy()[()]
    )
    assert [type(x) for x in (options.tol, options.degree, options.seed, options.K)] == [
        float,
        int,
        int,
        int,
    ]
