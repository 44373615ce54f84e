"""Scales are told apart by value, shown as given, and what cannot be ordered is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import cuvee
from cuvee.errors import InputError
from cuvee.mix.runs import read_runs
from cuvee.mix.sizes import named, ordered, place_of, size_of
from mix_builders import mixtures, noisy

ALPHA = mixtures(12, 3)
Y = noisy(ALPHA)
RATIOS = pd.DataFrame(ALPHA, columns=["a", "b", "c"]).assign(run=[f"r{i}" for i in range(12)])
METRICS = pd.DataFrame(Y, columns=["x", "y"]).assign(run=[f"r{i}" for i in range(12)])


def halves(small, large):
    return [small] * 7 + [large] * 5


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ("70M", 7e7), ("0.07B", 7e7), ("70 m", 7e7), ("1.3e9", 1.3e9), ("2k", 2e3), ("1T", 1e12),
        ("1_000", 1e3), (np.int64(7), 7.0), (np.float32(0.5), 0.5), (10**30, 1e30),
        ("7 billion", None), ("M", None), ("nan", None), (float("inf"), None), (True, None),
        ("1e999", None), ("1e99999999999999999999", None), ("", None),
    ],
)  # fmt: skip
def test_the_size_of_a_scale(given, size):
    assert size_of(given) == size


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (1_300_000, "1300000"), (1_300_001.0, "1300001"), (7e9, "7000000000"), (0.5, "0.5"),
        (" 70M ", "70M"), (float("nan"), None), (None, None), (pd.NA, None), ("", None),
    ],
)  # fmt: skip
def test_the_name_of_a_scale(given, name):
    assert named(given) == name


def test_sizes_are_ordered_by_value():
    assert ordered(["1B", "70M", "1B", "900k"]) == ("900k", "70M", "1B")
    surface = cuvee.fit_surface(ALPHA, Y, scale=halves("1B", "70M"), candidates=["law"])
    assert surface.scales == ("70M", "1B")


def test_sizes_that_are_nearly_the_same_stay_apart():
    runs = read_runs(ALPHA, Y, halves(1_300_000, 1_300_001))
    assert set(runs.scale) == {"1300000", "1300001"}


def test_one_size_in_two_spellings_is_one_scale():
    runs = read_runs(ALPHA, Y, halves("1B", "1000M"))
    assert set(runs.scale) == {"1B"}


@pytest.mark.parametrize("scale", [7_000_000_000, 7e9, "7B", "7000000000", np.int64(7 * 10**9)])
def test_a_scale_is_found_by_its_value(scale):
    given = np.array(halves(10**9, 7 * 10**9))
    surface = cuvee.fit_surface(ALPHA, Y, scale=given, candidates=["law"])
    expected = surface.predict(ALPHA).mean
    np.testing.assert_array_equal(surface.predict(ALPHA, scale=scale).mean, expected)


def test_an_exponent_of_a_table_is_found_by_its_value():
    surface = cuvee.fit_surface(
        RATIOS.assign(scale=halves("1e6", "2e6")), METRICS, candidates=["law"]
    )
    assert surface.scales == ("1e6", "2e6")
    one, other = (surface.predict(ALPHA, scale=s).mean for s in (1e6, "1M"))
    np.testing.assert_array_equal(one, other)


def test_a_scale_that_is_not_there_is_refused():
    with pytest.raises(
        InputError, match=r"--scale \(scale=\) must be one of '70M', '1B'; got 7000000000"
    ):
        place_of(np.int64(7 * 10**9), ("70M", "1B"))


def test_text_is_the_scale_of_all_runs_or_of_none():
    assert set(read_runs(ALPHA, Y, ["small"] * 12).scale) == {"small"}
    with pytest.raises(InputError, match="the scale 'large' of run 'run 8' is no size: write a nu"):
        read_runs(ALPHA, Y, halves("70M", "large"))


def test_a_gap_is_an_error():
    scale = halves("70M", "1B")
    scale[3] = ""
    with pytest.raises(InputError, match="run 'r3' has no scale: give one to every run, or leave"):
        read_runs(RATIOS.assign(scale=scale), METRICS)


def test_a_run_that_failed_needs_no_scale():
    scale, failed = halves("70M", "1B"), METRICS.copy()
    scale[3], failed.loc[3, "x"] = None, np.nan
    assert len(read_runs(RATIOS.assign(scale=scale), failed).scale) == 11


def test_two_tables_that_contradict_each_other_are_an_error():
    left, right = RATIOS.assign(scale=halves(60, 190)), METRICS.assign(scale=halves("60", "190"))
    assert set(read_runs(left, right).scale) == {"60", "190"}
    right.loc[2, "scale"] = "190"
    with pytest.raises(
        InputError, match="run 'r2' has the scale '60' in alpha and '190' in metrics: correct"
    ):
        read_runs(left, right)
    with pytest.raises(InputError, match="in scale= and '60' in alpha"):
        read_runs(left, METRICS, halves(61, 190))


def test_scales_are_joined_with_the_rows_of_alpha():
    runs = read_runs(RATIOS, METRICS.iloc[2:], halves(60, 190))
    assert runs.scale == ("60",) * 5 + ("190",) * 5


@pytest.mark.parametrize("scale", ["7B", 7.0, np.float64(7)])
def test_one_scale_for_all_runs_is_refused_in_words(scale):
    with pytest.raises(InputError, match=r"scale must have a value per run, so 12|scale has 1 val"):
        read_runs(ALPHA, Y, scale)


def test_new_runs_keep_the_names_of_scales():
    surface = cuvee.fit_surface(ALPHA, Y, scale=halves("70M", "1B"), candidates=["law"])
    more = surface.with_runs(ALPHA[:1], Y[:1], scale=[10**9])
    assert more.scales == ("70M", "1B") and len(more.runs) == 13
